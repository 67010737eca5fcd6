"""Exporting, importing, deleting and counting sessions from a program; the command line uses it too."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from rewake.archive.container import NewFile
from rewake.archive.export import Exported, export_session
from rewake.archive.gc import Collected, Collection, Collector, Progress, projects
from rewake.archive.importing import Imported, check_archive, import_session
from rewake.archive.stats import ModelCounter, Statistics, count
from rewake.archive.trash import Deleted, Trash, Trashed
from rewake.catalogue.listing import list_sessions
from rewake.compose.place import Place, find_session, place
from rewake.errors import UsageError
from rewake.log.layout import SessionPaths
from rewake.log.lock import Holder, this_process
from rewake.record.lines import Timestamps
from rewake.redaction.redactor import Redactor
from rewake.resume.lineage import Ancestors
from rewake.resume.listing import describe
from rewake.version import VERSION

Form = Literal["archive", "markdown", "atif"]


# --- export, import --------------------------------------------------------------------------


def export(
    session: str,
    output: str | Path,
    *,
    form: Form = "archive",
    redact: bool = True,
    project: str | Path = ".",
    home: str | Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Exported:
    """Write a session to a file that replaces what is there. Durable on return.

    `archive` holds everything and can be imported; `markdown` and `atif` are for people and for
    other programs. With `redact` secrets are taken out, also the values of those variables of
    `environ` that look like keys. A session at work is exported as far as its last whole line.

    Raises SessionNotFoundError, StorageError (`output` is then what it was).
    """
    at = place(project, home)
    paths = find_session(at, session)
    redactor = Redactor(environ) if redact else None
    target = Path(output).expanduser().absolute()
    if target.is_dir():
        raise UsageError(f"{target} is a directory.", remedy="Give the name of a file in it.")
    if form == "archive":
        return export_session(paths, Ancestors(paths, at.layout.find), target, at.disk, redactor)
    data = rendered(at, paths, form, redactor).encode("utf-8", "backslashreplace")
    with NewFile(target, at.disk) as file:
        file.write(data)
        file.commit()
    kinds = dict(sorted(redactor.counts.items())) if redactor is not None else {}
    return Exported(paths.session_id, str(target), len(data), 1, kinds, ())


def rendered(at: Place, paths: SessionPaths, form: Form, redactor: Redactor | None) -> str:
    """The text of a Markdown or ATIF export."""
    from rewake.archive.talk import read_agents, read_talk

    blobs = at.blobs(paths)
    talk = read_talk(paths, Ancestors(paths, at.layout.find), blobs)
    if form == "markdown":
        from rewake.archive.markdown import to_markdown

        text = to_markdown(talk, describe(paths, blobs, at.disk), blobs)
        return redactor.text(text) if redactor is not None else text
    from rewake.archive.atif import to_atif

    value: object = to_atif(talk, read_agents(paths, blobs), VERSION)
    if redactor is not None:
        value = redactor.value(value)
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def import_(
    file: str | Path,
    *,
    project: str | Path = ".",
    home: str | Path | None = None,
    new_id: str | None = None,
) -> Imported:
    """Take a session out of an archive and put it under `project`, resumable there. Durable on return.

    Every name, size and hash is checked before anything is written, and a session that is here is
    never changed: the same content is `already_here`. Paths in the conversation stay what they were.

    Raises ArchiveError for an archive that isn't in order, UsageError where another session has the
    id (`new_id` chooses one), StorageError.
    """
    at = place(project, home)
    checked = check_archive(Path(file).expanduser().absolute())
    return import_session(checked, at.home, at.root, at.disk, new_id=new_id)


# --- trash -----------------------------------------------------------------------------------


def delete(session: str, *, project: str | Path = ".", home: str | Path | None = None) -> Deleted:
    """Move a session to the trash; forks of it keep their whole history. Durable on return.

    Raises SessionBusyError while a process writes it, SessionNotFoundError, StorageError.
    """
    at = place(project, home)
    return delete_session(at, find_session(at, session))


def delete_session(at: Place, paths: SessionPaths) -> Deleted:
    """The same for one that was found already."""
    title = describe(paths, at.blobs(paths), at.disk).title
    return Trash(at.home, at.disk).delete(paths, _me(at), title=title)


def trash(*, home: str | Path | None = None) -> list[Trashed]:
    """What is in the trash, the newest first."""
    at = place(".", home)
    return Trash(at.home, at.disk).entries()


def restore(wanted: str, *, home: str | Path | None = None) -> SessionPaths:
    """Put a session back: by id, a unique beginning of one, or the name of its entry.

    Raises SessionNotFoundError, UsageError where its id is taken again, StorageError.
    """
    at = place(".", home)
    bin_ = Trash(at.home, at.disk)
    return bin_.restore(bin_.find(wanted))


def empty_trash(entries: list[Trashed], *, home: str | Path | None = None) -> int:
    """Remove these entries for good; returns the bytes. Their blobs go with the next `gc`."""
    at = place(".", home)
    bin_ = Trash(at.home, at.disk)
    for entry in entries:
        bin_.remove(entry)
    return sum(entry.size for entry in entries)


# --- what nobody needs -----------------------------------------------------------------------


def collectors(
    project: str | Path = ".", *, home: str | Path | None = None, everywhere: bool = False
) -> list[Collector]:
    """One for each directory of a project, or of all; see `Collector.plan` and `Collector.collect`."""
    at = place(project, home)
    found = projects(at.home) if everywhere else at.layout.project_directories(at.root)
    return [Collector(path, at.home, at.disk) for path in found if path.is_dir()]


def gc(
    project: str | Path = ".",
    *,
    home: str | Path | None = None,
    everywhere: bool = False,
    announce: Callable[[Collection], bool] = lambda _plan: True,
    progress: Progress | None = None,
) -> list[Collected]:
    """Remove blobs that no session names, and leftovers of interrupted writes.

    `announce` is called with what would go from each project before anything does; where it returns
    False nothing goes. Raises SessionBusyError while a session of the project is being written.
    """
    collected = []
    for collector in collectors(project, home=home, everywhere=everywhere):
        plan = collector.plan(progress)
        if announce(plan) and plan.useless:
            collected.append(collector.collect(plan))
    return collected


# --- counting --------------------------------------------------------------------------------


def stats(
    project: str | Path = ".",
    *,
    home: str | Path | None = None,
    everywhere: bool = False,
    models: bool = True,
    progress: Progress | None = None,
) -> Statistics:
    """Counts, tokens and cost by project and day, from the catalogue where it is current.

    With `models` also by model, for which every transcript is read. A session that can't be read
    counts with what is known of it.
    """
    at = place(project, home)
    root = None if everywhere else at.root
    listed = list_sessions(at.home, at.disk, root, on_problem=lambda _path, _error: None)
    counter = ModelCounter()
    for done, row in enumerate(listed.rows if models else (), 1):
        try:
            counter.add(Path(row.path))
        except OSError:
            continue  # its row in the list says why
        if progress is not None:
            progress(done, len(listed.rows))
    return count(listed.rows, counter.counts())


def _me(at: Place) -> Holder:
    return this_process(Timestamps(at.clock_ns)(), "rewake delete")
