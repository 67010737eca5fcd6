"""Where something stands in a text, in the way that editors count: lines and columns from 1.

The rule kept here: whatever is wrong with a settings file is told with its place in that file.
"""

from __future__ import annotations

from typing import Final, NamedTuple

Path = tuple[str | int, ...]
"""The way to a value: names of members, numbers of items."""

NAMELESS: Final = "the file"


class Spot(NamedTuple):
    """Offsets in characters: of the key (of the value, for an item), and of the value itself."""

    key: int
    start: int
    end: int


class TextError(Exception):
    """The text can't be read from `offset` on; `message` says why, in half a sentence."""

    def __init__(self, message: str, offset: int, *, expected: str = "", found: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.expected = expected
        self.found = found


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Both from 1. A line ends with a line feed, as in every editor."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def nearest(spots: dict[Path, Spot], path: Path) -> Spot:
    """The spot of `path`, or of the nearest thing around it that has one."""
    for length in range(len(path), -1, -1):
        spot = spots.get(path[:length])
        if spot is not None:
            return spot
    return Spot(0, 0, 0)


def dotted(path: Path) -> str:
    """A path as people write it: `permissions.allow[2]`, names with dots in quotes."""
    found = ""
    for part in path:
        if isinstance(part, int):
            found += f"[{part}]"
            continue
        plain = part.replace("_", "").replace("-", "").replace("$", "")
        name = part if plain.isalnum() else f'"{part}"'
        found = f"{found}.{name}" if found else name
    return found or NAMELESS
