"""What changed, for people: statistics and unified diffs.

The rule kept here: contents are decoded only where they are text; everything else is named with its
size, and nothing of it is printed.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from rewake.errors import StorageError
from rewake.files.names import text_of
from rewake.model.events import FileState

# difflib is quadratic; a longer difference is only counted.
_COMPARED_LINES_MAX: Final = 5_000
_ESCAPES: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}

Read = Callable[[str], bytes]


class FileDiff(msgspec.Struct, frozen=True):
    """One path: what happened to it, lines added and removed, and the difference in full.

    `shown` is the path as the difference names it, relative where it is in the project. `binary`: the content is no text on either side. `problem`: why there is no difference to show.
    """

    path: str
    kind: str
    added: int
    removed: int
    text: str
    shown: str
    binary: bool = False
    problem: str = ""


def diff_states(
    path: bytes, shown: str, before: FileState, after: FileState, read: Read
) -> FileDiff:
    """The difference of two states of a path; `shown` is its name in the diff."""
    exact = text_of(path)[0]
    kind = _kind(before, after)
    try:
        old, new = _content(before, read), _content(after, read)
    except StorageError as error:
        return FileDiff(
            exact, kind, 0, 0, f"{shown}: {error.message}", shown, problem=error.message
        )
    head = _head(_quoted(shown), before, after)
    old_text, new_text = _text(old), _text(new)
    if old_text is None or new_text is None:
        sizes = f"Binary file {shown}: {len(old)} bytes before, {len(new)} after."
        text = "\n".join([*head, *([sizes] if old != new else [])])
        return FileDiff(exact, kind, 0, 0, text, shown, binary=True)
    lines, added, removed = _unified(shown, before, after, old_text, new_text)
    return FileDiff(exact, kind, added, removed, "\n".join([*head, *lines]), shown)


def totals(diffs: Iterable[FileDiff]) -> tuple[int, int, int]:
    """Files, lines added, lines removed."""
    listed = list(diffs)
    return len(listed), sum(one.added for one in listed), sum(one.removed for one in listed)


def _kind(before: FileState, after: FileState) -> str:
    if before.kind == "absent":
        return "created"
    if after.kind == "absent":
        return "deleted"
    if before.kind != after.kind:
        return "replaced"
    same = (before.sha256, before.target, before.target_base64) == (
        after.sha256,
        after.target,
        after.target_base64,
    )
    return "mode" if same else "changed"


def _content(state: FileState, read: Read) -> bytes:
    if state.kind == "file" and state.sha256 is not None:
        return read(state.sha256)
    if state.kind == "symlink":
        return (state.target or state.target_base64 or "").encode("utf-8", "surrogateescape")
    return b""


def _text(data: bytes) -> str | None:
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _quoted(name: str) -> str:
    """A name as git writes it: one with a line's end in it would break the difference."""
    if name.isprintable() and not {'"', "\\"} & set(name):
        return name
    return '"' + "".join(_ESCAPES.get(char) or _escaped(char) for char in name) + '"'


def _escaped(char: str) -> str:
    if char.isprintable():
        return char
    return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogateescape"))


def _head(shown: str, before: FileState, after: FileState) -> list[str]:
    lines = []
    if before.kind != after.kind or before.kind in {"directory", "symlink"}:
        lines.append(f"{shown}: {before.kind} -> {after.kind}")
    if before.mode is not None and after.mode is not None and before.mode != after.mode:
        lines.append(f"{shown}: mode {before.mode:04o} -> {after.mode:04o}")
    return lines


def _unified(
    shown: str, before: FileState, after: FileState, old_text: str, new_text: str
) -> tuple[list[str], int, int]:
    if old_text == new_text:
        return [], 0, 0
    old, new = old_text.split("\n"), new_text.split("\n")
    if old[-1] == "":
        old.pop()
    if new[-1] == "":
        new.pop()
    head, tail = _common(old, new)
    left_out = max(len(old), len(new)) - head - tail
    if left_out > _COMPARED_LINES_MAX:
        count_new, count_old = len(new) - head - tail, len(old) - head - tail
        line = f"{shown}: {count_old} lines replaced by {count_new} others."
        return [line], count_new, count_old
    # Lines that agree at both ends are left out of the comparison, except for the context shown.
    start, end = max(head - 3, 0), max(tail - 3, 0)
    lines = list(
        difflib.unified_diff(
            old[start : len(old) - end],
            new[start : len(new) - end],
            _quoted(f"a/{shown}") if before.kind != "absent" else "/dev/null",
            _quoted(f"b/{shown}") if after.kind != "absent" else "/dev/null",
            lineterm="",
        )
    )
    lines = [_shifted(line, start) if line.startswith("@@") else line for line in lines]
    body = lines[2:]
    added = sum(line.startswith("+") for line in body)
    removed = sum(line.startswith("-") for line in body)
    return lines, added, removed


def _common(old: list[str], new: list[str]) -> tuple[int, int]:
    shorter = min(len(old), len(new))
    head = 0
    while head < shorter and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shorter - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail


def _shifted(line: str, start: int) -> str:
    """A hunk's header with the line numbers of the whole file."""
    parts = line.split(" ")
    for at in (1, 2):
        sign, numbers = parts[at][0], parts[at][1:].split(",")
        numbers[0] = str(int(numbers[0]) + start)
        parts[at] = sign + ",".join(numbers)
    return " ".join(parts)
