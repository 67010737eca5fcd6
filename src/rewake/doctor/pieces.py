r"""A line that is no event, taken apart into the records that are still in it and the rest.

The rules kept here:

- A record found inside a line is one that every reader accepts as a line of its own, byte for byte.
  Nothing is completed, decoded anew or guessed.
- Among other bytes a record counts only if its checksum proves it. One without a checksum counts
  where it starts the line, or follows another record, without a gap.
- The cost is linear in the line's length, whatever it holds.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import msgspec

from rewake.model.codec import decode_line
from rewake.model.events import Event

# Where a record may start (the writer's first key, or after NULs) and where one ends.
_MARK: Final = re.compile(rb'\x00+|\{"event_id":"|,"crc32":"([0-9a-f]{8})"\}')
# Places that may yet turn out to be a record's start. A payload holds another record's text only as
# a nested object, so a few are enough; each costs one pass over the line.
_STARTS_MAX: Final = 8
_json: Final = json.JSONDecoder()


class Piece(msgspec.Struct, frozen=True):
    """Bytes of a line: a record with its event, or what is left between records (`event` None)."""

    offset: int
    data: bytes
    event: Event | None = None

    @property
    def is_nul(self) -> bool:
        """Whether there is nothing in it but NULs (and the carriage return of a line end)."""
        return not self.data.strip(b"\x00\r")


class _Start:
    """A possible start of a record, with the checksum of the bytes from it up to `position`."""

    __slots__ = ("crc", "position", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.position = start
        self.crc = 0

    def advance(self, text: memoryview, position: int) -> None:
        self.crc = zlib.crc32(text[self.position : position], self.crc)
        self.position = position


def take_apart(line: bytes, offset: int) -> list[Piece]:
    """The pieces of a line (without its newline) that starts at `offset`, without gaps, in order."""
    spans = list(_proven(line))
    pieces: list[Piece] = []
    end = 0
    for start, stop in [*spans, (len(line), len(line))]:
        if end < start:
            pieces.extend(_rest(line[end:start], offset + end))
        if start < stop:
            record = line[start:stop]
            pieces.append(_record(record, offset + start))
        end = stop
    return pieces


def _record(record: bytes, offset: int) -> Piece:
    event = decode_line(record, offset)
    return Piece(offset, record, event if isinstance(event, Event) else None)


def _proven(line: bytes) -> Iterator[tuple[int, int]]:
    """Where the records stand whose checksums prove them."""
    text = memoryview(line)
    starts = [_Start(0)]
    for mark in _MARK.finditer(line):
        if mark[1] is None:
            start = mark.end() if mark[0][0] == 0 else mark.start()
            if not starts or starts[-1].start != start:
                if len(starts) == _STARTS_MAX:
                    del starts[1]  # the first may be the whole line's, the newest are the likeliest
                starts.append(_Start(start))
            continue
        span = _closed(line, text, starts, mark)
        if span is not None:
            yield span
            starts = [_Start(mark.end())]


def _closed(
    line: bytes, text: memoryview, starts: list[_Start], mark: re.Match[bytes]
) -> tuple[int, int] | None:
    stated = int(mark[1], 16)
    for start in starts:
        start.advance(text, mark.start())
        if start.crc == stated and _is_event(line[start.start : mark.end()]):
            return start.start, mark.end()
    return None


def _is_event(record: bytes) -> bool:
    return isinstance(decode_line(record), Event)


def _rest(text: bytes, offset: int) -> Iterator[Piece]:
    """What no checksum proves: first the records without one that follow each other, if any."""
    ends = [0, *_unproven_ends(text)]
    for start, end in pairwise(ends):
        yield _record(text[start:end], offset + start)
    if ends[-1] < len(text):
        yield Piece(offset + ends[-1], text[ends[-1] :])


def _unproven_ends(text: bytes) -> Iterator[int]:
    if not text.startswith(b"{") or b"\x00" in text:
        return
    try:
        string = text.decode("utf-8")
    except UnicodeDecodeError:
        return
    at = position = 0
    while at < len(string):
        try:
            _, end = _json.raw_decode(string, at)
        except (ValueError, RecursionError):
            return
        record = string[at:end].encode("utf-8")
        if not _is_event(record):
            return
        at = end
        position += len(record)
        yield position
