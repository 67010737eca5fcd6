"""`rewake config edit | check | migrate | trust`: whole files rather than single keys.

The rule kept here: what a user has typed into an editor is never lost, and never put in place broken
unless they say so.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from rewake.agent.hooks import hooks_in
from rewake.agent.mcp.config import server_configs
from rewake.agent.rules import parse_rule
from rewake.cli.editor import chosen_editor, is_edited
from rewake.cli.jsonout import print_json
from rewake.cli.settled import ask_yes_or_no, show_untrusted
from rewake.cli.terminal import clean, note, one_line, say, style_for
from rewake.compose.place import Place
from rewake.compose.settings import answer, edit_settings, places_of
from rewake.errors import ExitCode, RewakeError, SettingsError, StorageError, UsageError
from rewake.settings.check import lookup, shown
from rewake.settings.examine import Finding, examine, of_error, trust_findings
from rewake.settings.keys import KEYS
from rewake.settings.load import FileSource, Loaded, load
from rewake.settings.schema import Settings
from rewake.settings.source import Source, is_toml, text_in
from rewake.settings.spots import dotted
from rewake.settings.write import migrate_file

if TYPE_CHECKING:
    from rewake.cli.config import ConfigChoices

_LEVEL_COLUMNS: Final = 8


# --- check -----------------------------------------------------------------------------------


def check(at: Place, *, as_json: bool) -> int:
    """Everything that is wrong with any file; status 9 if something can't be used."""
    places = places_of(at)
    findings, sources = examine(places)
    for source in sources:
        findings += [*_rules(source), *_hooks(source), *_servers(source, at.environ)]
    known = {(item.file, item.line, item.key) for item in findings}
    findings += [
        item for item in trust_findings(places) if (item.file, item.line, item.key) not in known
    ]
    is_broken = any(item.level == "error" for item in findings)
    if as_json:
        print_json(
            {
                "status": "error" if is_broken else "done",
                "files": [str(source.file) for source in sources],
                "findings": [asdict(item) for item in findings],
            }
        )
    else:
        style = style_for(sys.stdout)
        paint = {"error": style.red, "warning": style.yellow, "note": style.dim}
        for item in findings:
            level = paint[item.level](f"{item.level:<{_LEVEL_COLUMNS}}")
            say(f"{level} {clean(item.message)} {clean(item.remedy)}".rstrip())
        if not findings:
            say(f"{len(sources)} settings files, nothing wrong.")
    return int(ExitCode.SETTINGS if is_broken else ExitCode.DONE)


def _rules(source: Source) -> list[Finding]:
    found: list[Finding] = []
    for name in ("permissions.allow", "permissions.deny"):
        path = KEYS[name].path
        for number, rule in enumerate(lookup(source.data, path) or ()):
            try:
                parse_rule(rule)
            except SettingsError:
                error = source.error((*path, number), "Tool or Tool(what)", shown(rule))
                found.append(of_error(error))
    return found


def _hooks(source: Source) -> Iterator[Finding]:
    given = msgspec.convert(source.data, Settings).hooks
    for event, matchers in given.items():
        path = ("hooks", event)
        for problem in hooks_in({event: matchers}, source.where(path))[1]:
            yield _warning(source, path, problem)


def _servers(source: Source, environ: Mapping[str, str]) -> Iterator[Finding]:
    given = msgspec.convert(source.data, Settings).mcp_servers
    for name, server in given.items():
        path = ("mcp_servers", name)
        for problem in server_configs({name: server}, environ)[1]:
            yield _warning(source, path, f"{source.where(path)}: {problem}")


def _warning(source: Source, path: tuple[str, ...], message: str) -> Finding:
    line, column = source.place(path)
    return Finding("warning", source.label, line, column, dotted(path), message)


# --- migrate ---------------------------------------------------------------------------------


def migrate(at: Place, choices: ConfigChoices) -> int:
    """Bring files up to date, each with a backup; the project's, too, since it was asked for."""
    from rewake.cli.config import named_sources

    places = places_of(at)
    done = [
        (name, found)
        for name in named_sources(choices)
        if (found := migrate_file(places, name, at.disk, dry_run=choices.dry_run)) is not None
    ]
    if choices.as_json:
        files = [
            {
                "source": name,
                "file": str(found.file),
                "changes": list(found.changes),
                "backup": None if choices.dry_run else str(found.backup),
            }
            for name, found in done
        ]
        print_json({"dry_run": choices.dry_run, "files": files})
        return 0
    for _, found in done:
        would = "would be" if choices.dry_run else "was"
        say(f"{clean(str(found.file))} {would} brought up to date:")
        for change in found.changes:
            say(f"  {clean(change)}")
        if not choices.dry_run:
            say(f"  before: {clean(str(found.backup))}")
    if not done:
        say("All files are up to date.")
    return 0


# --- trust -----------------------------------------------------------------------------------


def trust(at: Place, choices: ConfigChoices) -> int:
    """Show what the project's own settings would allow, and take the user's word on it."""
    loaded = load(places_of(at))
    if choices.yes and choices.no:
        raise UsageError("--yes and --no exclude each other.", remedy="Give one of them.")
    decision = True if choices.yes else False if choices.no else None
    if not loaded.content:
        return _trust_shown(loaded, choices, "There is nothing here that needs trust.")
    if choices.show:
        if not choices.as_json:
            _show(loaded, at)
        return _trust_shown(loaded, choices, _STATES[loaded.answer])
    if decision is None:
        _show(loaded, at)
        decision = ask_yes_or_no(
            "Trust these settings of the project? [y]es, [n]o: ",
            remedy="Decide with --yes or --no; --show only shows them.",
        )
    answer(at, loaded, trusted=decision)
    after = load(places_of(at))
    return _trust_shown(after, choices, _STATES[after.answer])


_STATES: Final[Mapping[bool | None, str]] = {
    True: "This project's own settings count.",
    False: "This project's own settings don't count, except for what they forbid.",
    None: "This project's own settings don't count yet, except for what they forbid.",
}


def _show(loaded: Loaded, at: Place) -> None:
    if loaded.untrusted:
        show_untrusted(loaded, at)


def _trust_shown(loaded: Loaded, choices: ConfigChoices, sentence: str) -> int:
    if choices.as_json:
        print_json(
            {
                "trusted": loaded.answer,
                "content": loaded.content or None,
                "left_out": [item._asdict() for item in loaded.untrusted],
            }
        )
    else:
        say(sentence)
    return 0


# --- edit ------------------------------------------------------------------------------------


def edit(at: Place, name: FileSource) -> int:
    """Open a copy in the user's editor and put it in place when it can be used."""
    if not (sys.stdin is not None and sys.stdin.isatty()) and not chosen_editor():
        raise UsageError(
            "There is no editor to open.", remedy="Set EDITOR, or use `rewake config set`."
        )
    directory = Path(tempfile.mkdtemp(prefix="rewake-"))
    given = ""

    def edited(file: Path, text: str) -> str:
        nonlocal given
        given = text or ("" if is_toml(file) else "{\n}\n")
        copy = directory / file.name
        copy.write_text(given, "utf-8")
        if not is_edited(copy):
            raise UsageError(
                "The editor failed, so nothing was changed.",
                remedy="Try again, or set EDITOR to another one.",
            )
        return text_in(copy)

    is_needed = False
    try:
        written = edit_settings(at, name, edited, _goes_on)
    except RewakeError:
        is_needed = not _rescued(directory, given, at)
        raise
    finally:
        if not is_needed:
            shutil.rmtree(directory)
    say(f"{clean(str(written.file))} {'is changed' if written.is_changed else 'stays as it is'}.")
    return 0


def _goes_on(error: SettingsError) -> bool:
    """Whether the user wants to correct what they typed."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    say(one_line(str(error)), stream=sys.stderr)
    return ask_yes_or_no("Go back to the editor? [y]es, [n]o: ", remedy="Correct the file.")


def _rescued(directory: Path, given: str, at: Place) -> bool:
    """Keep what was typed, which can't be used and isn't lost; False if it must stay where it is."""
    for copy in directory.iterdir():
        typed = copy.read_bytes()
        if typed == given.encode():
            continue
        kept = at.home / f"{copy.name}.rejected"
        try:
            at.disk.make_directory(at.home)
            at.disk.write_atomic(kept, typed)
        except (OSError, StorageError):  # the disk is full, which may be why we are here
            note(f"What you typed is in {copy}.")
            return False
        note(f"What you typed is in {kept}.")
    return True
