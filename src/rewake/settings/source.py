"""One source of settings: a file, what it says, and where in it each thing is said.

The rules kept here:

- Reading gives a source or a SettingsError with file, line and column; it never writes, and never
  waits for a pipe or a device that somebody has put in the file's place.
- Old names are brought up to date in memory; a newer version's file is read as far as it is
  understood, and what isn't is left out and told.
- Two formats in one place are refused: nobody could tell which counts.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from rewake.errors import SettingsError
from rewake.settings import check
from rewake.settings.jsonc import JsonReader
from rewake.settings.migrations import CURRENT, migrate, version_of
from rewake.settings.schema import Permissions
from rewake.settings.spots import Path as KeyPath
from rewake.settings.spots import Spot, TextError, dotted, line_and_column, nearest

SourceName = Literal["user", "mcp", "project", "local", "flags", "managed"]
RISING: Final[tuple[SourceName, ...]] = ("user", "mcp", "project", "local", "flags", "managed")
FORMATS: Final = (".json", ".toml")
FILE_BYTES_MAX: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"
_GUARDS: Final = frozenset({(), ("permissions",), ("hooks",)})
_RULES: Final = frozenset(Permissions.__struct_fields__)


@dataclass(slots=True)
class Source:
    """What one source says, brought up to date. `label` is the file's path or tells what it is.

    `is_foreign`: it comes with the project. `changes` are the sentences of migrations; `left_out`
    the keys of a newer version whose values this one doesn't understand; it `hides_guards` if
    rules or hooks may be among them. `told` are sentences on what can't be used. The source `mcp` is
    the project's `.mcp.json`.
    """

    name: SourceName
    label: str
    data: dict[str, Any] = field(default_factory=dict)
    file: Path | None = None
    text: str = ""
    spots: dict[KeyPath, Spot] = field(default_factory=dict)
    version: int = 0
    is_foreign: bool = False
    changes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    hides_guards: bool = False
    told: tuple[str, ...] = ()

    def unknown_rules(self) -> tuple[KeyPath, ...]:
        """Keys among the permissions that no version up to this one has: whoever wrote them relies on them."""
        given = self.data.get("permissions")
        names = given if isinstance(given, dict) else ()
        return tuple(("permissions", name) for name in names if name not in _RULES)

    def place(self, path: KeyPath) -> tuple[int, int]:
        """Line and column of a key, from 1; 0, 0 where there is no file."""
        if self.file is None:
            return 0, 0
        return line_and_column(self.text, nearest(self.spots, path).key)

    def where(self, path: KeyPath) -> str:
        """For people: FILE:LINE, or what the source is called."""
        line, _ = self.place(path)
        return f"{self.label}:{line}" if line else self.label

    def error(self, path: KeyPath, expected: str, found: str) -> SettingsError:
        """What to raise where a value can't be used."""
        spot = nearest(self.spots, path)
        offset = spot.start if path in self.spots else spot.key
        line, column = line_and_column(self.text, offset) if self.file is not None else (0, 0)
        place = f"{self.label}:{line}:{column}" if line else self.label
        return SettingsError(
            f"{place}: {dotted(path)} can't be used: expected {expected}, found {found}.",
            remedy="Correct the value or remove the key.",
            file=str(self.file or ""),
            line=line,
            column=column,
            key=dotted(path),
            expected=expected,
            found=found,
        )


def given(name: SourceName, label: str, data: Mapping[str, Any]) -> Source:
    """A source without a file, such as the command line. Raises SettingsError."""
    source = Source(name, label, dict(data), version=CURRENT)
    for problem in check.problems(source.data):
        raise source.error(*problem)
    return source


def parsed(name: SourceName, label: str, text: str, file: Path | None = None) -> Source:
    """A source from a text in the format that the file's name says (JSON without a file)."""
    source = Source(name, label, file=file, text=text)
    source.data, source.spots = _read_text(source, text)
    source.version = version_of(source.data)
    if source.version > CURRENT:
        _read_newer(source)
        return source
    source.changes = migrate(source.data, source.spots)
    for problem in check.problems(source.data):
        raise source.error(*problem)
    return source


def read_source(name: SourceName, directory: Path, stem: str) -> Source | None:
    """The source `stem`.json or `stem`.toml in `directory`, None where there is neither."""
    file = find_file(directory, stem)
    if file is None:
        return None
    return parsed(name, str(file), text_in(file), file)


def find_file(directory: Path, stem: str) -> Path | None:
    """The one file of that stem. Raises SettingsError where there are two."""
    found = [directory / f"{stem}{suffix}" for suffix in FORMATS]
    found = [file for file in found if os.path.lexists(file)]
    if len(found) > 1:
        raise SettingsError(
            f"{found[1]}:1:1: there is {found[0].name} beside it, and only one of the two can count.",
            remedy="Put what they say into one of them and remove the other.",
            file=str(found[1]),
            line=1,
            column=1,
            expected="one file",
            found="two",
        )
    return found[0] if found else None


def read_bytes(file: Path) -> bytes:
    """The file's bytes; none where it is a link to nothing. Raises SettingsError."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as opened:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _unreadable(file, "it is no file")
            data = opened.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise _unreadable(file, error.strerror or str(error)) from error
    if len(data) > FILE_BYTES_MAX:
        raise SettingsError(
            f"{file}:1:1: the settings file is larger than {FILE_BYTES_MAX:,} bytes.",
            remedy="Move it away and write a new one.",
            file=str(file),
            line=1,
            column=1,
            expected=f"at most {FILE_BYTES_MAX} bytes",
        )
    return data


def text_in(file: Path) -> str:
    """The file's text; empty where there is none. Raises SettingsError."""
    return decoded(file, read_bytes(file))


def decoded(file: Path, data: bytes) -> str:
    """The text without a byte order mark. Raises SettingsError."""
    data = data.removeprefix(_BOM)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        raise broken(
            file, before, TextError("a byte that isn't UTF-8", len(before), expected="UTF-8")
        ) from error


def broken(file: Path | None, text: str, error: TextError, label: str = "") -> SettingsError:
    """What to raise where a text can't be read."""
    line, column = line_and_column(text, error.offset)
    return SettingsError(
        f"{file or label}:{line}:{column}: {error.message}.",
        remedy="Correct the file; `rewake config edit` opens it and checks it afterwards.",
        file=str(file or ""),
        line=line,
        column=column,
        expected=error.expected,
        found=error.found,
    )


def _unreadable(file: Path, why: str) -> SettingsError:
    return SettingsError(
        f"{file}:1:1: the settings file can't be read: {why}.",
        remedy="Make it readable or move it away.",
        file=str(file),
        line=1,
        column=1,
        expected="a file that can be read",
        found=why,
    )


def _read_text(source: Source, text: str) -> tuple[dict[str, Any], dict[KeyPath, Spot]]:
    try:
        return read_text(text, is_toml=is_toml(source.file))
    except TextError as error:
        raise broken(source.file, text, error, source.label) from error


def is_toml(file: Path | None) -> bool:
    """Whether the file's name says so."""
    return file is not None and file.suffix == FORMATS[1]


def read_text(text: str, *, is_toml: bool) -> tuple[dict[str, Any], dict[KeyPath, Spot]]:
    """Values and places of a settings text; one without any value sets nothing. Raises TextError."""
    if is_toml:
        from rewake.settings.toml import read_toml

        return read_toml(text)
    reader = JsonReader(text)
    data = reader.read()
    if data is None and reader.spots[()].start == reader.spots[()].end:
        return {}, reader.spots
    if not isinstance(data, dict):
        raise TextError(
            f"expected an object in braces, found {check.shown(data)}",
            reader.spots[()].start,
            expected="an object in braces",
            found=check.shown(data),
        )
    return data, reader.spots


def _read_newer(source: Source) -> None:
    """Leave out what isn't understood, until the rest is."""
    told: list[str] = []
    while True:
        found: Sequence[check.Problem] = check.problems(source.data)
        if not found:
            break
        for problem in found:
            told.append(dotted(problem.path))
            source.hides_guards |= problem.path[:1] in _GUARDS
            _without(source.data, problem.path)
    source.left_out = tuple(dict.fromkeys(told))
    source.hides_guards |= bool(source.unknown_rules())  # a newer kind of rule may forbid something


def _without(data: dict[str, Any], path: KeyPath) -> None:
    """Remove the member at `path`, or the whole of what holds it where that is a list."""
    holder: Any = data
    names = [part for part in path if isinstance(part, str)]
    cut = next((at for at, part in enumerate(path) if isinstance(part, int)), len(path))
    names = [str(part) for part in path[:cut]]
    if not names:
        data.clear()
        return
    for name in names[:-1]:
        if not isinstance(holder.get(name), dict):
            break
        holder = holder[name]
    else:
        if names[-1] in holder:
            del holder[names[-1]]
            return
    data.pop(names[0], None)  # something that should be there isn't
