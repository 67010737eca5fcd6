"""The lines of a transcript as `check` and `repair` see them: the same ones, judged the same way.

The rules kept here: memory is bounded by the longest line and by 44 bytes an event (ids that don't
rise cost more); whose transcript it is, and whether an event stands twice, is decided here alone.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from rewake.doctor.pieces import Piece, take_apart
from rewake.log.scan import Transcript
from rewake.model.codec import CorruptLine, decode_line
from rewake.model.events import Event

_ID_CHARS: Final = 36
_BRACE: Final = 0x7B
_CLOSING_BRACE: Final = 0x7D
Standing = Literal["new", "repeated", "conflicting"]


class Line(NamedTuple):
    """One line: as the reader takes it (`event`), else in `pieces` with the reader's `reason`.

    `number` counts from 1. A tail without newline is `complete` False, whatever it holds.
    """

    offset: int
    number: int
    data: bytes
    complete: bool
    event: Event | None
    pieces: tuple[Piece, ...]
    reason: str


def lines(reader: Transcript, end: int) -> Iterator[Line]:
    """The lines of the first `end` bytes in order, a torn tail last."""
    number = 0
    for offset, data in reader.lines_forward(0, end):
        number += 1
        decoded = decode_line(data, offset)
        if isinstance(decoded, Event) and not _has_padding(data):
            yield Line(offset, number, data, True, decoded, (), "")
        else:
            yield _broken(offset, number, data, decoded, complete=True)
    tail = next(reader.lines_backward(end), None)
    if tail is not None and not tail[2]:
        offset, data, _ = tail
        yield _broken(offset, number + 1, data, decode_line(data, offset), complete=False)


def _broken(
    offset: int, number: int, data: bytes, decoded: Event | CorruptLine, *, complete: bool
) -> Line:
    if isinstance(decoded, Event) and not _has_padding(data):
        pieces: tuple[Piece, ...] = (Piece(offset, data, decoded),)
    else:
        pieces = tuple(take_apart(data, offset))
    reason = decoded.reason if isinstance(decoded, CorruptLine) else ""
    return Line(offset, number, data, complete, None, pieces, reason)


def _has_padding(data: bytes) -> bool:
    """Whether NULs stand before or after the record, which a reader ignores."""
    if data[0] == _BRACE and data[-1] == _CLOSING_BRACE:
        return False
    text = data.removesuffix(b"\r")
    return text.startswith(b"\x00") or text.endswith(b"\x00")


# --- whose transcript it is ------------------------------------------------------------------


class _Whose(msgspec.Struct):
    session_id: str


_decode_whose: Final = msgspec.json.Decoder(_Whose).decode


class Owner(NamedTuple):
    """The session that the file belongs to; `certain` if no line of another one is worth keeping."""

    session_id: str
    certain: bool


def owner(reader: Transcript, end: int, expected: str | None) -> Owner:
    """The session that the first event names if the directory does too, else the most frequent one.

    A file whose lines are mostly of another session than its directory may be a renamed copy with
    a few lines of its own: nobody but the user can tell which are the strange ones.
    """
    for _, data in reader.lines_forward(0, end):
        event = decode_line(data)
        if isinstance(event, Event):
            if event.session_id == expected:
                return Owner(expected, certain=True)
            break
    found: Counter[str] = Counter()
    for _, data in reader.lines_forward(0, end):
        try:
            found[_decode_whose(data).session_id] += 1
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue
    if not found:
        return Owner(expected or "", certain=expected is not None)
    most = found.most_common(1)[0][0]
    return Owner(most, certain=expected in {None, most})


# --- which events there are ------------------------------------------------------------------


class Ids:
    """The ids seen so far with the offsets of their records; 44 bytes for each one that rises."""

    def __init__(self) -> None:
        self._rising = bytearray()
        self._offsets = array("Q")
        self._odd: dict[str, int] = {}
        self.highest = ""

    def add(self, event_id: str, offset: int) -> bool:
        """Remember an id that isn't here yet; whether it is larger than all before it."""
        if event_id > self.highest and len(event_id) == _ID_CHARS and event_id.isascii():
            self._rising += event_id.encode("ascii")
            self._offsets.append(offset)
            self.highest = event_id
            return True
        self._odd[event_id] = offset
        return False

    def __contains__(self, event_id: str) -> bool:
        return self.offset(event_id) is not None

    def offset(self, event_id: str) -> int | None:
        """Where the record with this id starts, or None."""
        if event_id > self.highest:  # what a file in order asks for most
            return self._odd.get(event_id)
        if event_id == self.highest and self._offsets:
            return self._offsets[-1]
        at = bisect_left(range(len(self._offsets)), event_id, key=self._id_at)
        if at < len(self._offsets) and self._id_at(at) == event_id:
            return self._offsets[at]
        return self._odd.get(event_id)

    def _id_at(self, index: int) -> str:
        start = index * _ID_CHARS
        return self._rising[start : start + _ID_CHARS].decode("ascii")


def standing(event: Event, ids: Ids, path: Path) -> Standing:
    """Whether an event is new, or stands in the file already: the same bytes or other ones."""
    first = ids.offset(event.event_id)
    if first is None:
        return "new"
    record = event.line.removesuffix(b"\r")
    with path.open("rb") as file:
        file.seek(first)
        same = file.read(len(record)) == record
    return "repeated" if same else "conflicting"
