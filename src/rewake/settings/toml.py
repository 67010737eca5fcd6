"""Reads TOML with the standard library, and finds where each key stands.

The rule kept here: the library alone decides what the text means. The scan for places trusts that it
has accepted the text, and a place that it doesn't find costs nothing but precision.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

from rewake.settings.jsonc import DEPTH_MAX
from rewake.settings.spots import Path, Spot, TextError

_SPACE: Final = re.compile(r"(?:[ \t\r\n]++|#[^\n]*+)*")
_BLANK: Final = re.compile(r"[ \t]*+")
_KEY: Final = re.compile(r"""[A-Za-z0-9_-]++|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"|'[^'\n]*+'""")
_TEXT: Final = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*"{3,5}'
    r"|'''(?:[^']++|'(?!''))*'{3,5}"
    r'|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*"'
    r"|'[^'\n]*+'",
    re.DOTALL,
)
_SCALAR: Final = re.compile(r"[^,\]}#\r\n]*+")
_PLACE: Final = re.compile(r" ?\(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_toml(text: str) -> tuple[dict[str, Any], dict[Path, Spot]]:
    """The values and their places. Raises TextError."""
    import tomllib

    try:
        data = tomllib.loads(text)
    except RecursionError as error:
        raise TextError("it is nested too deeply", 0) from error
    except ValueError as error:  # its own errors and those of numbers with thousands of digits
        raise _error(str(error), text) from error
    _refuse_odd(data, 0)
    scan = _Scan(text)
    scan.run()
    return data, scan.spots


def _error(message: str, text: str) -> TextError:
    found = _PLACE.search(message)
    what = _PLACE.sub("", message)
    what = what[:1].lower() + what[1:]
    if found is None:
        return TextError(what, 0)
    if found[1] is None:
        return TextError(f"{what} (the file ends there)", len(text))
    lines = text.split("\n")
    offset = sum(len(line) + 1 for line in lines[: int(found[1]) - 1]) + int(found[2]) - 1
    return TextError(what, min(offset, len(text)))


def _refuse_odd(value: Any, depth: int) -> None:
    """What JSON can't say, and what nobody writes by hand."""
    if depth > DEPTH_MAX:
        raise TextError(f"it is nested more than {DEPTH_MAX} levels deep", 0)
    if isinstance(value, float) and not math.isfinite(value):
        raise TextError("a number that isn't finite", 0)
    if isinstance(value, dict):
        for one in value.values():
            _refuse_odd(one, depth + 1)
    elif isinstance(value, list):
        for one in value:
            _refuse_odd(one, depth + 1)


class _Scan:
    """Walks over a text that is TOML."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.spots: dict[Path, Spot] = {(): Spot(0, 0, len(text))}
        self._at = 0
        self._counts: dict[Path, int] = {}

    def run(self) -> None:
        table: Path = ()
        while self._space() < len(self.text):
            began = self._at
            if self._take("[["):
                path = self._resolved(self._key())
                self._counts[path] = self._counts.get(path, 0) + 1
                table = (*path, self._counts[path] - 1)
                self._take("]]")
                self.spots.setdefault(path, Spot(began, began, self._at))
                self.spots[table] = Spot(began, began, self._at)
            elif self._take("["):
                table = self._resolved(self._key())
                self._take("]")
                self.spots.setdefault(table, Spot(began, began, self._at))
            else:
                self._pair(table)
            if self._at == began:
                return  # not what the library read; the places found so far have to do

    def _pair(self, table: Path) -> None:
        key = self._at
        names = self._key()
        _skip(self, _BLANK)
        self._take("=")
        _skip(self, _BLANK)
        for length in range(1, len(names)):
            self.spots.setdefault((*table, *names[:length]), Spot(key, key, self._at))
        self._value((*table, *names), key)

    def _value(self, path: Path, key: int) -> None:
        start = self._at
        if self._take("["):
            self._items(path)
        elif self._take("{"):
            self._members(path)
        else:
            found = _TEXT.match(self.text, start) or _SCALAR.match(self.text, start)
            self._at = found.end() if found else start
        self.spots[path] = Spot(key, start, self._at)

    def _items(self, path: Path) -> None:
        number = 0
        while self._space() < len(self.text) and not self._take("]"):
            began = self._at
            self._value((*path, number), began)
            number += 1
            self._space()
            if not self._take(",") and self._at == began:
                return

    def _members(self, path: Path) -> None:
        while self._space() < len(self.text) and not self._take("}"):
            began = self._at
            self._pair(path)
            self._space()
            if not self._take(",") and self._at == began:
                return

    def _key(self) -> tuple[str, ...]:
        names: list[str] = []
        while True:
            _skip(self, _BLANK)
            found = _KEY.match(self.text, self._at)
            if found is None:
                return tuple(names)
            self._at = found.end()
            names.append(_unquoted(found[0]))
            _skip(self, _BLANK)
            if not self._take("."):
                return tuple(names)

    def _resolved(self, names: tuple[str, ...]) -> Path:
        """The path of a table's name: through the newest item of each array of tables."""
        path: Path = ()
        for position, name in enumerate(names):
            path = (*path, name)
            if path in self._counts and position < len(names) - 1:
                path = (*path, self._counts[path] - 1)
        return path

    def _space(self) -> int:
        _skip(self, _SPACE)
        return self._at

    def _take(self, text: str) -> bool:
        if not self.text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True


def _skip(scan: _Scan, pattern: re.Pattern[str]) -> None:
    found = pattern.match(scan.text, scan._at)  # noqa: SLF001  # a part of the scan
    if found:
        scan._at = found.end()  # noqa: SLF001


def _unquoted(name: str) -> str:
    if name.startswith("'"):
        return name[1:-1]
    if not name.startswith('"'):
        return name
    import tomllib

    return str(tomllib.loads(f"x = {name}")["x"])
