"""A unified diff for people to look at before they allow a change; bounded in size and time."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Final

from rewake.agent.tools import text as text_files

_CONTEXT_LINES: Final = 3
_LINES_SHOWN_MAX: Final = 400
# difflib is quadratic; a longer difference is only counted.
_COMPARED_LINES_MAX: Final = 4_000

_LINE: Final = re.compile(rb"[^\n]*\n|[^\n]+")  # with its newline, so that adding one is a change
_UNENDED: Final = "\n\\ No newline at end of file"

_Opcode = tuple[str, int, int, int, int]


def unified_diff(name: str, before: bytes | None, after: bytes) -> str:
    """The difference of two contents of `name`; `before` is None for a new file."""
    old, new = _lines(before or b""), _lines(after)
    if old is None or new is None:
        return f"Binary file {name}: {len(before or b'')} bytes before, {len(after)} after."
    start, old_end, new_end = _differing(old, new)
    if max(old_end, new_end) - start > _COMPARED_LINES_MAX:
        return f"{name}: {old_end - start} lines replaced by {new_end - start} others."
    head = [f"--- {name if before is not None else '/dev/null'}", f"+++ {name}"]
    lines = [*head, *_hunks(old, new, _groups(old, new, start, old_end, new_end))]
    left_out = len(lines) - _LINES_SHOWN_MAX
    if left_out > 0:
        lines[_LINES_SHOWN_MAX:] = [f"… {left_out} more lines"]
    return "\n".join(lines)


def line_counts(before: bytes, after: bytes) -> tuple[int, int]:
    """How many lines were added and how many removed, as far as counting is cheap."""
    old, new = _LINE.findall(before), _LINE.findall(after)
    start = _common_head(old, new)
    tail = _common_head(old[start:][::-1], new[start:][::-1])
    old, new = old[start : len(old) - tail], new[start : len(new) - tail]
    if max(len(old), len(new)) > _COMPARED_LINES_MAX:
        return len(new), len(old)
    added = removed = 0
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if tag != "equal":
            removed += i2 - i1
            added += j2 - j1
    return added, removed


def _lines(data: bytes) -> list[str] | None:
    decoded = text_files.decode(data)
    if decoded is None:
        return None
    *whole, rest = decoded.text.split("\n")
    return [*whole, rest + _UNENDED] if rest else whole


def _common_head(old: list[bytes] | list[str], new: list[bytes] | list[str]) -> int:
    count = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        count += 1
    return count


def _differing(old: list[str], new: list[str]) -> tuple[int, int, int]:
    """Where the difference starts, and where it ends in each; the rest is the same."""
    start = _common_head(old, new)
    tail = _common_head(old[start:][::-1], new[start:][::-1])
    return start, len(old) - tail, len(new) - tail


def _groups(
    old: list[str], new: list[str], start: int, old_end: int, new_end: int
) -> Iterator[list[_Opcode]]:
    """The groups of changes as difflib forms them, compared only where the contents differ."""
    begin = max(start - _CONTEXT_LINES, 0)
    old_stop = min(old_end + _CONTEXT_LINES, len(old))
    new_stop = min(new_end + _CONTEXT_LINES, len(new))
    matcher = difflib.SequenceMatcher(None, old[begin:old_stop], new[begin:new_stop], False)
    for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
        yield [(t, i1 + begin, i2 + begin, j1 + begin, j2 + begin) for t, i1, i2, j1, j2 in group]


def _range(start: int, end: int) -> str:
    return f"{start + 1 if end > start else start},{end - start}"


def _hunks(old: list[str], new: list[str], groups: Iterator[list[_Opcode]]) -> Iterator[str]:
    for group in groups:
        first, last = group[0], group[-1]
        yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[i1:i2])
            else:
                yield from (f"-{line}" for line in old[i1:i2])
                yield from (f"+{line}" for line in new[j1:j2])
