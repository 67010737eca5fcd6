"""Settings as they are on this machine: read for a run, changed, brought up to date, trusted.

The rules kept here: the administrator's file is always read; files of the user and the local one are
brought up to date where old names are found, the project's shared file only when asked for, since it
is under version control; and a user's own change of a trusted project's file needs no second question.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rewake.compose.place import Place, place
from rewake.errors import RewakeError, SettingsError, UsageError
from rewake.log.disk import storage_error
from rewake.log.lock import DirectoryLock
from rewake.settings.load import FILE_SOURCES, FileSource, Loaded, Places, load
from rewake.settings.source import parsed, text_in
from rewake.settings.trust import Answer, read_answers, with_answer, write_answers

if TYPE_CHECKING:  # most runs change nothing
    from rewake.settings.edit import Edit
    from rewake.settings.write import Written

_OWN: Final[tuple[FileSource, ...]] = ("user", "local")


def places_of(
    at: Place,
    *,
    sources: str | None = None,
    extra: str | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Places:
    """Where the settings of a run come from.

    `sources` is what `--setting-sources` says, `extra` what `--settings` says (a file, relative to
    where the process is, or JSON), `flags` other options in the settings' own shape. Raises UsageError, SettingsError.
    """
    return Places(
        at.home,
        at.root,
        managed=at.managed,
        only=FILE_SOURCES if sources is None else _sources(sources),
        flags=flags or {},
        extra=None if extra is None else _extra(extra),
    )


def _sources(text: str) -> tuple[FileSource, ...]:
    wanted = {word.strip() for word in text.split(",") if word.strip()}
    unknown = wanted - set(FILE_SOURCES)
    if unknown:
        raise UsageError(
            f"--setting-sources knows no {', '.join(sorted(unknown))}.",
            remedy=f"Name some of {','.join(FILE_SOURCES)}, or none with an empty text.",
        )
    return tuple(name for name in FILE_SOURCES if name in wanted)


def _extra(text: str) -> tuple[str, Path | None, str]:
    if text.lstrip().startswith("{"):
        return "--settings", None, text
    file = Path(text).expanduser()
    if not os.path.exists(file):  # noqa: PTH110  # the other one raises for a text that is no path
        raise UsageError(
            f"There is no file {file} for --settings.",
            remedy='Give an existing file, or JSON such as {"max_steps": 5}.',
        )
    return str(file), file, text_in(file)


def load_for(
    at: Place,
    *,
    sources: str | None = None,
    extra: str | None = None,
    flags: Mapping[str, Any] | None = None,
    may_leave_out: bool = False,
) -> Loaded:
    """The settings for work at this place. Raises SettingsError, UsageError."""
    where = places_of(at, sources=sources, extra=extra, flags=flags)
    return load(where, may_leave_out=may_leave_out)


def redacts(at: Place) -> bool:
    """Whether what is recorded in sessions of this project is freed of secrets first.

    Settings that can't be read may ask for it.
    """
    try:
        return load_for(at).settings.redact_transcript is True
    except RewakeError:
        return True


def load_settings(
    project: str | Path = ".",
    *,
    home: str | Path | None = None,
    sources: str | None = None,
    settings: str | None = None,
) -> Loaded:
    """What counts in a project, who says it, and what is left out for want of trust.

    `sources` is such as "user,local", `settings` a file or JSON that comes before all files but the
    administrator's. Nothing is written. Raises SettingsError for what can't be used.
    """
    return load_for(place(project, home), sources=sources, extra=settings)


def set_setting(
    key: str,
    value: object,
    *,
    source: FileSource = "user",
    project: str | Path = ".",
    home: str | Path | None = None,
) -> Path:
    """Set a key such as "permissions.allow", None to unset it; returns the file.

    Durable on return, and nothing else in the file is changed, however many processes do so at once.
    Raises UsageError for a key that isn't known, SettingsError for a value that it can't have, and
    StorageError, after which the file is as it was.
    """
    from rewake.settings.edit import Edit
    from rewake.settings.keypath import parse_key

    names = parse_key(key)
    edit = Edit("remove", names) if value is None else Edit("put", names, value)
    return change_settings(place(project, home), source, [edit]).file


def bring_up_to_date(at: Place, loaded: Loaded) -> list[str]:
    """Write back what migrations changed in the user's own files; what to tell, a sentence each.

    What can't be written is told and costs nothing: the new names hold for this run all the same.
    """
    told: list[str] = []
    if not any(source.changes for source in loaded.sources):
        return told
    from rewake.settings.write import migrate_file

    for source in loaded.sources:
        if not source.changes or source.file is None:
            continue
        changes = "; ".join(source.changes)
        name = next((one for one in _OWN if one == source.name), None)
        if name is None or source.is_foreign:
            how = " (`rewake config migrate` writes it)" if source.name == "project" else ""
            told.append(f"{source.label} uses old names{how}: {changes}.")
            continue
        try:
            done = migrate_file(Places(at.home, at.root), name, at.disk)
        except RewakeError as error:
            told.append(f"{source.label} uses old names ({changes}) and stays so: {error}")
            continue
        if done is not None:
            told.append(
                f"{source.label} was brought up to date ({changes}; before: {done.backup})."
            )
    return told


def change_settings(
    at: Place, name: FileSource, edits: Sequence[Edit], *, dry_run: bool = False
) -> Written:
    """Change one source; durable on return. Raises SettingsError, StorageError, BusyError.

    A project that was trusted stays so.
    """
    from rewake.settings.write import change

    where = Places(at.home, at.root)
    if dry_run:
        return change(where, name, edits, at.disk, dry_run=True)
    return _keeping_trust(at, name, lambda: change(where, name, edits, at.disk))


def edit_settings(
    at: Place,
    name: FileSource,
    edited: Callable[[Path, str], str],
    goes_on: Callable[[SettingsError], bool],
) -> Written:
    """Put what `edited` makes of a source's text in its place, once it can be used.

    `goes_on` is asked whether to edit again what can't be. Raises the error otherwise, and as
    `change_settings` does; then the file is as it was.
    """
    from rewake.settings.write import file_of, replace

    where = Places(at.home, at.root)
    file = file_of(where, name)
    before = after = text_in(file)
    while True:
        after = edited(file, after)
        try:
            parsed(name, str(file), after, file)
            break
        except SettingsError as error:
            if not goes_on(error):
                raise
    made = after

    def put() -> Written:
        return replace(where, name, file, at.disk, before=before, after=made)

    return _keeping_trust(at, name, put)


def _keeping_trust(at: Place, name: FileSource, write: Callable[[], Written]) -> Written:
    where = Places(at.home, at.root)
    before = None if name == "user" else load(where, may_leave_out=True)
    written = write()
    if before is not None and written.is_changed and _stands(before):
        after = load(where, may_leave_out=True)
        if after.content and not after.problems and _is_only(name, written, before, after):
            answer(at, after, trusted=True)
    return written


def _stands(before: Loaded) -> bool:
    """Whether nothing in the project waits for trust."""
    return not before.problems and (not before.content or before.answer is True)


def _is_only(name: FileSource, written: Written, before: Loaded, after: Loaded) -> bool:
    """Whether that change is all that happened, so that nothing is trusted that came meanwhile."""
    texts = {source.name: source.text for source in before.sources}
    return texts | {name: written.after} == {source.name: source.text for source in after.sources}


def keep_rule(at: Place, rule: str, *, deny: bool = False) -> Path:
    """Keep a permission rule in the project's local settings, as "always" at a question means it.

    Durable on return; the file that it is in. Raises as `change_settings` does.
    """
    from rewake.settings.edit import Edit

    path = ("permissions", "deny" if deny else "allow")
    return change_settings(at, "local", [Edit("add", path, rule)]).file


def answer(at: Place, loaded: Loaded, *, trusted: bool) -> None:
    """Keep what the user said to the content that needs trust. Durable; raises StorageError."""
    now = datetime.fromtimestamp(at.clock_ns() / 1e9, UTC).isoformat(timespec="seconds")
    try:
        at.disk.make_directory(at.home)
    except OSError as error:
        raise storage_error(error, at.home, "make") from error
    with DirectoryLock(at.home, at.disk):
        said = Answer(loaded.content, trusted, now)
        write_answers(at.home, with_answer(read_answers(at.home), at.root, said), at.disk)
