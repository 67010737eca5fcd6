"""Exact replacements in a file's bytes, all matched against the original content.

The rule kept here: only the bytes that a replacement really changes are written anew. Models see
and write plain newlines; a file with CRLF is matched line by line all the same, and what both the
old and the new text have in common at their ends is left as it stands in the file.
"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from rewake.agent.ports import ToolInputError
from rewake.agent.tools import text as text_files

_COMPARED_LINES_MAX: Final = 4_000
_COMPARED_CHARS_MAX: Final = 400
_SHOWN_LINES_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `old` by `new`: its only occurrence, or all of them."""

    old: str
    new: str
    replace_all: bool = False


@dataclass(frozen=True, slots=True)
class _Span:
    """One replacement, in characters of the text with plain newlines."""

    start: int
    end: int
    new: str
    number: int


class _Original:
    """A file's text with plain newlines, and the way from its characters back to bytes."""

    def __init__(self, decoded: text_files.Decoded) -> None:
        self._decoded = decoded
        self._raw = decoded.text
        self.text = decoded.text.replace("\r\n", "\n")
        # Positions in `text` of the newlines that are CRLF in the file.
        self._crlf = [
            match.start() - at for at, match in enumerate(re.finditer("\r\n", decoded.text))
        ]
        plain_newlines = self.text.count("\n") - len(self._crlf)
        self.newline = "\r\n" if len(self._crlf) > plain_newlines else "\n"

    def raw(self, start: int, end: int) -> bytes:
        """The file's bytes between two positions in `text`."""
        first = start + bisect_left(self._crlf, start)
        last = end + bisect_left(self._crlf, end)
        return self._decoded.encode(self._raw[first:last])

    def encode(self, text: str) -> bytes:
        """New text as this file writes it."""
        try:
            return self._decoded.encode(text.replace("\n", self.newline))
        except UnicodeEncodeError as error:
            raise ToolInputError(
                f"The file is encoded as {self._decoded.encoding}, which has no "
                f"{error.object[error.start]!r}. Use other characters, or convert the file first."
            ) from error

    @property
    def bom(self) -> bytes:
        return self._decoded.bom


def replace(decoded: text_files.Decoded, edits: list[Edit]) -> tuple[bytes, int]:
    """The new content and the count of replacements. Raises ToolInputError."""
    original = _Original(decoded)
    spans: list[_Span] = []
    for number, edit in enumerate(edits, 1):
        spans.extend(_find(original.text, _normal(edit), number, len(edits)))
    spans.sort(key=lambda span: (span.start, span.end))
    for one, other in pairwise(spans):
        if other.start < one.end:
            raise ToolInputError(
                f"Edits {one.number} and {other.number} overlap: join them into one edit."
            )
    return _splice(original, spans), len(spans)


def _normal(edit: Edit) -> Edit:
    old, new = (text.replace("\r\n", "\n").removeprefix("\ufeff") for text in (edit.old, edit.new))
    return Edit(old, new, edit.replace_all)


def _find(text: str, edit: Edit, number: int, count: int) -> list[_Span]:
    which = f"Edit {number}: " if count > 1 else ""
    if not edit.old:
        raise ToolInputError(f"{which}old_string is empty. Use Write to create or fill a file.")
    if edit.old == edit.new:
        raise ToolInputError(f"{which}old_string and new_string are the same: nothing to change.")
    starts = _occurrences(text, edit.old, overlapping=not edit.replace_all)
    if not starts:
        raise ToolInputError(f"{which}old_string was not found in the file.{_nearest(text, edit)}")
    if len(starts) > 1 and not edit.replace_all:
        lines = ", ".join(str(text.count("\n", 0, at) + 1) for at in starts[:10])
        raise ToolInputError(
            f"{which}old_string occurs {len(starts)} times (lines {lines}). Give more of the text "
            "around the place you mean, or set replace_all."
        )
    return [_Span(start, start + len(edit.old), edit.new, number) for start in starts]


def _occurrences(text: str, old: str, *, overlapping: bool) -> list[int]:
    starts = []
    at = text.find(old)
    while at >= 0:
        starts.append(at)
        at = text.find(old, at + (1 if overlapping else len(old)))
    return starts


def _splice(original: _Original, spans: list[_Span]) -> bytes:
    pieces = [original.bom]
    at = 0
    for span in spans:
        old = original.text[span.start : span.end]
        head = _common(old, span.new)
        tail = _common(old[head:][::-1], span.new[head:][::-1])
        start, end = span.start + head, span.end - tail
        pieces.append(original.raw(at, start))
        pieces.append(original.encode(span.new[head : len(span.new) - tail]))
        at = end
    pieces.append(original.raw(at, len(original.text)))
    return b"".join(pieces)


def _common(one: str, other: str) -> int:
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


# --- help for what was not found -------------------------------------------------------------


def _nearest(text: str, edit: Edit) -> str:
    """What the model may have meant: a wrong copy, wrong white space, or similar lines."""
    if re.match(r"\s*\d+\t", edit.old):
        return " Leave out the line numbers that Read shows before each line."
    lines = text.split("\n")
    wanted = [line for line in edit.old.split("\n") if line.strip()]
    if not wanted:
        return ""
    at = _similar_line(lines, wanted[0])
    if at is None:
        return " Nothing in the file is similar; read it again."
    shown = lines[at : at + min(max(edit.old.count("\n") + 1, 1), _SHOWN_LINES_MAX)]
    same = " ".join(edit.old.split()) == " ".join(
        " ".join(lines[at : at + edit.old.count("\n") + 1]).split()
    )
    why = "Only the white space differs from" if same else "The most similar lines are"
    listed = "\n".join(
        f"{at + i + 1:>6}\t{line[:_COMPARED_CHARS_MAX]}" for i, line in enumerate(shown)
    )
    return f" {why}:\n{listed}"


def _similar_line(lines: list[str], wanted: str) -> int | None:
    stripped = wanted.strip()
    for at, line in enumerate(lines):
        if line.strip() == stripped:
            return at
    shortened = [line.strip()[:_COMPARED_CHARS_MAX] for line in lines[:_COMPARED_LINES_MAX]]
    near = difflib.get_close_matches(stripped[:_COMPARED_CHARS_MAX], shortened, 1, cutoff=0.5)
    return shortened.index(near[0]) if near else None
