"""`rewake config`: what is set, where, and why it counts; changes of it.

The rules kept here: looking changes nothing; a change says what it was and what it is, and whether it
counts at all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from rewake.cli.jsonout import print_json
from rewake.cli.terminal import clean, fit, note, one_line, say
from rewake.compose.place import Place, place
from rewake.compose.settings import change_settings, places_of
from rewake.errors import ExitCode, SettingsError, UsageError
from rewake.model.content import JsonObject
from rewake.settings.check import lookup
from rewake.settings.edit import Edit
from rewake.settings.keypath import Names, is_group, parse_key, value_of
from rewake.settings.keys import KEYS, MERGE_WORDS, Key, key_of, keys_under
from rewake.settings.load import FILE_SOURCES, FileSource, Loaded, Said, load
from rewake.settings.spots import dotted

_VALUE_COLUMNS: Final = 60
_SOURCE_COLUMNS: Final = 8


@dataclass(frozen=True, slots=True)
class ConfigChoices:
    """The options of the command. `sources` are those that were named."""

    sources: tuple[str, ...] = ()
    add: bool = False
    remove: bool = False
    everything: bool = False
    show: bool = False
    yes: bool = False
    no: bool = False
    dry_run: bool = False
    as_json: bool = False

    def source(self) -> FileSource:
        """The one that a change is for. Raises UsageError for more than one."""
        if len(self.sources) > 1:
            raise UsageError(
                "A change is made in one place.", remedy="Give one of --user, --project, --local."
            )
        return cast("FileSource", self.sources[0]) if self.sources else "user"


def config(action: str, words: Sequence[str], cwd: Path | None, choices: ConfigChoices) -> int:
    """Do it; returns the exit status. Raises UsageError, SettingsError, StorageError."""
    from rewake.cli import config_files

    at = place(cwd or ".")
    named: dict[str, tuple[int, int | None, Callable[[], int]]] = {
        "list": (0, 0, lambda: _list(at, choices)),
        "get": (1, 1, lambda: _get(at, words[0], choices)),
        "set": (2, None, lambda: _set(at, words[0], words[1:], choices)),
        "unset": (1, 1, lambda: _unset(at, words[0], choices)),
        "explain": (0, 1, lambda: _explain(at, words[0] if words else "", choices)),
        "edit": (0, 0, lambda: config_files.edit(at, choices.source())),
        "check": (0, 0, lambda: config_files.check(at, as_json=choices.as_json)),
        "migrate": (0, 0, lambda: config_files.migrate(at, choices)),
        "schema": (0, 0, _schema),
        "trust": (0, 0, lambda: config_files.trust(at, choices)),
    }
    least, most, act = named[action]
    if len(words) < least or (most is not None and len(words) > most):
        wanted = {"get": " KEY", "unset": " KEY", "set": " KEY VALUE", "explain": " [KEY]"}
        raise UsageError(
            f"`rewake config {action}` doesn't take {len(words)} words.",
            remedy=f"Write it as: rewake config {action}{wanted.get(action, '')}",
        )
    return act()


def _loaded(at: Place) -> Loaded:
    return load(places_of(at))


def _tell(loaded: Loaded) -> None:
    for sentence in loaded.notices():
        note(sentence)


def text_of(value: Any) -> str:
    """A value as one types it: a text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


# --- looking ---------------------------------------------------------------------------------


def _list(at: Place, choices: ConfigChoices) -> int:
    loaded = _loaded(at)
    keys = [key for key in KEYS.values() if choices.everything or loaded.said(key.name)]
    if choices.as_json:
        print_json({key.name: _said_object(loaded, key) for key in keys})
        return 0
    columns = max((len(key.name) for key in keys), default=0)
    for key in keys:
        value = in_force(loaded, key)
        shown = "" if value is None else fit(one_line(text_of(value)), _VALUE_COLUMNS)
        counting = [said.where for said in loaded.said(key.name) if said.status == "counts"]
        where = ", ".join(counting) or f"(default: {key.default.replace('`', '')})"
        say(f"{key.name:<{columns}}  {shown}  {one_line(where)}".rstrip())
    if not keys:
        say("Nothing is set. `rewake config list --all` shows what can be.")
    _tell(loaded)
    return 0


def in_force(loaded: Loaded, key: Key) -> Any:
    """The value that counts, None where nobody has set one."""
    return lookup(loaded.values, key.path)


def _said_object(loaded: Loaded, key: Key) -> JsonObject:
    return {
        "value": in_force(loaded, key),
        "default": key.default.replace("`", ""),
        "merge": key.merge,
        "needs_trust": key.needs_trust,
        "sources": [said._asdict() for said in loaded.said(key.name)],
    }


def _get(at: Place, name: str, choices: ConfigChoices) -> int:
    names = parse_key(name)
    loaded = _loaded(at)
    value = _value_at(loaded, names)
    if choices.as_json:
        print_json({"key": dotted(names), "value": value})
    elif value is not None:
        say(clean(text_of(value)))
    _tell(loaded)
    return int(ExitCode.FAILED if value is None else ExitCode.DONE)


def _value_at(loaded: Loaded, names: Names) -> Any:
    """The value in force of a key, a part of one, or a group of keys."""
    if is_group(names):
        found = {key.path[-1]: in_force(loaded, key) for key in keys_under(names)}
        return {name: value for name, value in found.items() if value is not None} or None
    key = key_of(names)
    if key is None:
        said = [source.data.get(names[0]) for source in loaded.sources]
        return next((value for value in reversed(said) if value is not None), None)
    value = in_force(loaded, key)
    for part in names[len(key.path) :]:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _explain(at: Place, name: str, choices: ConfigChoices) -> int:
    names = parse_key(name) if name else ()
    key = key_of(names)
    keys = (key,) if key is not None else keys_under(names)
    loaded = _loaded(at)
    if not name:
        keys = tuple(key for key in keys if loaded.said(key.name))
    if choices.as_json:
        print_json({key.name: _said_object(loaded, key) for key in keys})
        return 0
    for one in keys:
        value = in_force(loaded, one)
        say(f"{one.name} = {'(not set)' if value is None else clean(text_of(value))}")
        say(f"  {one.meaning}".replace("`", ""))
        say(f"  Default: {one.default}; {MERGE_WORDS[one.merge]}.".replace("`", ""))
        for said in loaded.said(one.name):
            shown = fit(one_line(text_of(said.value)), _VALUE_COLUMNS)
            say(f"  {_marked(said):<{_SOURCE_COLUMNS + 14}} {one_line(said.where)}  {shown}")
    if not keys:
        say("Nothing is set.")
    _tell(loaded)
    return 0


def _marked(said: Said) -> str:
    return f"{said.source:<{_SOURCE_COLUMNS}} {said.status}"


def _schema() -> int:
    from rewake.settings.jsonschema import json_schema

    say(json.dumps(json_schema(), indent=2))
    return 0


# --- changing --------------------------------------------------------------------------------


def _set(at: Place, name: str, words: Sequence[str], choices: ConfigChoices) -> int:
    names = parse_key(name)
    if is_group(names):
        raise UsageError(
            f"{dotted(names)} is a group of keys.",
            remedy=f"Set one of {', '.join(key.name for key in keys_under(names))}.",
        )
    if choices.add and choices.remove:
        raise UsageError("--add and --remove exclude each other.", remedy="Give one of them.")
    value = value_of(names, words)
    if not (choices.add or choices.remove):
        return _changed(at, names, [Edit("put", names, value)], choices)
    items = value if isinstance(value, list) else [value]
    kind = "add" if choices.add else "take"
    edits = [Edit(kind, names, item) for item in items]  # type: ignore[arg-type]  # one of two literals
    return _changed(at, names, edits, choices)


def _unset(at: Place, name: str, choices: ConfigChoices) -> int:
    names = parse_key(name)
    return _changed(at, names, [Edit("remove", names)], choices)


def _changed(at: Place, names: Names, edits: Sequence[Edit], choices: ConfigChoices) -> int:
    source = choices.source()
    written = change_settings(at, source, edits, dry_run=choices.dry_run)
    before, after = (written.value(text, names) for text in (written.before, written.after))
    if choices.as_json:
        print_json(
            {
                "key": dotted(names),
                "source": source,
                "file": str(written.file),
                "before": before,
                "after": after,
                "changed": written.is_changed,
                "dry_run": choices.dry_run,
            }
        )
    else:
        would = "would be" if choices.dry_run else "is"
        now = "not set" if after is None else text_of(after)
        was = "was not set" if before is None else f"was {text_of(before)}"
        told = f"{dotted(names)} {would} {now} ({was})" if written.is_changed else "Nothing changes"
        say(f"{clean(told)} in {clean(str(written.file))}.")
    if not choices.dry_run:
        _tell_if_it_does_not_count(at, names, source)
    return 0


def _tell_if_it_does_not_count(at: Place, names: Names, source: FileSource) -> None:
    try:
        loaded = _loaded(at)
    except SettingsError as error:
        note(f"Another settings file can't be used: {error}")
        return
    key = key_of(names)
    if key is None:
        return
    said = loaded.said(key.name)
    mine = next((item for item in said if item.source == source), None)
    if mine is None or mine.status == "counts":
        return
    if mine.status == "not trusted":
        note("It doesn't count until you trust this project: rewake config trust")
        return
    winner = next(item for item in said if item.status == "counts")
    note(f"It doesn't count here: {winner.where} comes before it.")


def named_sources(choices: ConfigChoices) -> tuple[FileSource, ...]:
    """Those that were named, all three if none was."""
    return tuple(name for name in FILE_SOURCES if not choices.sources or name in choices.sources)
