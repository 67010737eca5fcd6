r"""Reading a transcript: backwards, forwards, and one event by its id.

The rules kept here:

- Only positioned reads, so any number of readers share a descriptor; memory is bounded by the
  longest line plus one block, whatever the size of the file.
- Reading takes no lock and changes nothing. Bytes after the last newline are a `TornTail`: either a
  write that was cut short or one that is happening right now.
- Ids rise strictly in file order, so an id is found by bisection. What bisection misses (damage,
  lines of another origin) is looked for once from beginning to end, and that is reported.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from rewake.errors import DamagedError
from rewake.log.disk import storage_error
from rewake.model.codec import CorruptLine, Decoder, TornTail, decode_header, decode_line
from rewake.model.events import Event

# Not blocking: a pipe in the place of the file must make nobody wait.
_READING: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_BACKWARD_BLOCK_BYTES: Final = 1 << 16  # a hundred events of usual size
_FORWARD_BLOCK_BYTES: Final = 1 << 18  # the page cache's read-ahead makes more useless
_PROBE_BYTES: Final = 1 << 11  # holds the end of one usual line and the id of the next
_WINDOW_BYTES: Final = 1 << 14  # one read of this costs about as much as two probes, and saves four
_ID_KEY: Final = b'{"event_id":"'
_ID_CHARS: Final = 36
_ID_START: Final = len(_ID_KEY)
_ID_END: Final = _ID_START + _ID_CHARS


class Lookup(msgspec.Struct, frozen=True):
    """`found` by id; `scanned` names the ids that bisection missed and a linear scan found.

    `missing` ids stand in no readable line.
    """

    found: dict[str, Event]
    scanned: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class Transcript:
    """A reader over one descriptor of a transcript; it sees what is written while it is open.

    Raises StorageError when the file can't be opened and DamagedError when it is no file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, _READING)
        except OSError as error:
            raise storage_error(error, path, "open") from error
        mode = os.fstat(self._descriptor).st_mode
        if not stat.S_ISREG(mode):
            self.close()
            what = "a directory" if stat.S_ISDIR(mode) else "a pipe or a device"
            raise DamagedError(
                f"{path} is {what}, not a transcript.", remedy="Move it away, then try again."
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Harmless when called twice."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def size(self) -> int:
        """Bytes in the file now."""
        return os.fstat(self._descriptor).st_size

    def backward(
        self, end: int | None = None, block_bytes: int = _BACKWARD_BLOCK_BYTES
    ) -> Iterator[Event | CorruptLine | TornTail]:
        """From `end` (the file's end) to the beginning; `end` must be where a line starts.

        A torn tail comes first.
        """
        for offset, line, complete in self.lines_backward(end, block_bytes):
            yield decode_line(line, offset) if complete else TornTail(offset, line)

    def lines_backward(
        self, end: int | None = None, block_bytes: int = _BACKWARD_BLOCK_BYTES
    ) -> Iterator[tuple[int, bytes, bool]]:
        """The same undecoded: offset, bytes without the newline, whether there was one."""
        position = self.size() if end is None else end
        pieces: list[bytes] = []  # of the line that began before `position`, last piece first
        complete = False
        while position > 0:
            count = min(block_bytes, position)
            position -= count
            block = self._read(position, count)
            right = len(block)
            newline = block.rfind(b"\n", 0, right)
            while newline >= 0:
                pieces.append(block[newline + 1 : right])
                line = b"".join(reversed(pieces))
                if complete or line:
                    yield position + newline + 1, line, complete
                pieces = []
                complete = True
                right = newline
                newline = block.rfind(b"\n", 0, right)
            pieces.append(block[:right])
        line = b"".join(reversed(pieces))
        if complete or line:
            yield 0, line, complete

    def forward(
        self, start: int = 0, end: int | None = None, block_bytes: int = _FORWARD_BLOCK_BYTES
    ) -> Iterator[Event | CorruptLine | TornTail]:
        """From `start`, where a line must start, to `end` (the file's end); a torn tail comes last."""
        decoder = Decoder(start)
        for block in self._blocks(start, end, block_bytes):
            yield from decoder.feed(block)
        tail = decoder.finish()
        if tail is not None:
            yield tail

    def lines_forward(
        self, start: int = 0, end: int | None = None, block_bytes: int = _FORWARD_BLOCK_BYTES
    ) -> Iterator[tuple[int, bytes]]:
        """The complete lines undecoded: offset and bytes without the newline."""
        pieces: list[bytes] = []
        for block in self._blocks(start, end, block_bytes):
            *complete, rest = block.split(b"\n")
            for piece in complete:
                pieces.append(piece)
                line = b"".join(pieces)
                pieces = []
                yield start, line
                start += len(line) + 1
            if rest:
                pieces.append(rest)

    def find(self, event_id: str) -> Event | None:
        """The event with this id, or None where no readable line has it."""
        return self.find_many((event_id,)).found.get(event_id)

    def find_many(self, event_ids: Iterable[str]) -> Lookup:
        """The events with these ids; probes are shared, so many cost less than each alone.

        Ids that bisection misses cost one pass over the whole file together.
        """
        wanted = sorted(set(event_ids))
        found: dict[str, Event] = {}
        for event_id, offset, line in _Bisection(self._read, self.size()).search(wanted):
            event = decode_line(line, offset)
            if isinstance(event, Event) and event.event_id == event_id:
                found[event_id] = event
        missed = {event_id for event_id in wanted if event_id not in found}
        scanned = self._scan_for(missed) if missed else {}
        found.update(scanned)
        missing = tuple(event_id for event_id in wanted if event_id not in found)
        return Lookup(found, tuple(sorted(scanned)), missing)

    def _scan_for(self, wanted: set[str]) -> dict[str, Event]:
        found: dict[str, Event] = {}
        for offset, line in self.lines_forward():
            event_id = line_id(line)
            if event_id in wanted and event_id not in found:
                event = decode_line(line, offset)
                if isinstance(event, Event):
                    found[event_id] = event
        return found

    def _read(self, offset: int, count: int) -> bytes:
        data = os.pread(self._descriptor, count, offset)
        if len(data) == count:
            return data
        return data + self._read_rest(offset + len(data), count - len(data))

    def _read_rest(self, offset: int, count: int) -> bytes:
        """Short reads go on; a file that became shorter meanwhile ends where it ends now."""
        pieces: list[bytes] = []
        while count > 0:
            data = os.pread(self._descriptor, count, offset)
            if not data:
                break
            pieces.append(data)
            offset += len(data)
            count -= len(data)
        return b"".join(pieces)

    def _blocks(self, start: int, end: int | None, block_bytes: int) -> Iterator[bytes]:
        stop = self.size() if end is None else end
        while start < stop:
            block = self._read(start, min(block_bytes, stop - start))
            if not block:
                return
            yield block
            start += len(block)


def line_id(line: bytes) -> str | None:
    """The id of a line: by position in the order that Rewake writes, else by decoding its header."""
    if line.startswith(_ID_KEY) and line[_ID_END : _ID_END + 1] == b'"':
        try:
            return line[_ID_START:_ID_END].decode("ascii")
        except UnicodeDecodeError:
            return None
    header = decode_header(line)
    return header.event_id if header is not None else None


class _Bisection:
    """One search for many ids. A range is divided at the first line that starts after its middle."""

    def __init__(self, read: Callable[[int, int], bytes], end: int) -> None:
        self._read = read
        self._end = end

    def search(self, wanted: list[str]) -> Iterator[tuple[str, int, bytes]]:
        """Id, offset and line for each id that bisection finds; `wanted` is sorted."""
        ranges = [(0, self._end, 0, len(wanted))]
        while ranges:
            low, high, first, last = ranges.pop()
            if first == last or low >= high:
                continue
            if high - low <= _WINDOW_BYTES:
                yield from self._search_window(low, high, wanted[first:last])
                continue
            middle = (low + high) // 2
            start, event_id = self._first_line(middle, high)
            if event_id is None:
                ranges.append((low, middle, first, last))
                continue
            split = bisect_left(wanted, event_id, first, last)
            ranges.append((low, middle, first, split))
            ranges.append((start, high, split, last))

    def _first_line(self, middle: int, high: int) -> tuple[int, str | None]:
        """Where the first line with an id starts in [middle, high), and its id; None if none does."""
        position = middle - 1  # a newline right before the middle makes it a line's start
        while True:
            start, head = self._next_line(position, high)
            if start >= high:
                return high, None
            if head.startswith(_ID_KEY) and head[_ID_END : _ID_END + 1] == b'"':
                try:
                    return start, head[_ID_START:_ID_END].decode("ascii")
                except UnicodeDecodeError:
                    event_id = None
            else:
                line = self._line_at(start)
                event_id = line_id(line) if line is not None else None
            if event_id is not None:
                return start, event_id
            position = start

    def _next_line(self, position: int, high: int) -> tuple[int, bytes]:
        """The first line start after a newline at or after `position`, and the line's first bytes."""
        count = _PROBE_BYTES
        while position < high:
            block = self._read(position, count)
            newline = block.find(b"\n")
            if newline >= 0:
                head = block[newline + 1 : newline + 2 + _ID_END]
                if len(head) <= _ID_END:
                    head = self._read(position + newline + 1, _ID_END + 1)
                return position + newline + 1, head
            if not block:
                break
            position += len(block)
            count = min(count * 2, _FORWARD_BLOCK_BYTES)
        return high, b""

    def _search_window(
        self, low: int, high: int, wanted: list[str]
    ) -> Iterator[tuple[str, int, bytes]]:
        """`low` is where a line starts; lines that start below `high` are looked at."""
        start = max(low - 1, 0)
        block = self._read(start, high - start + _ID_END + 1)
        for event_id in wanted:
            key = b'%b%b"' % (_ID_KEY, event_id.encode("utf-8", "surrogatepass"))
            if low == 0 and block.startswith(key):
                at = 0
            else:
                newline = block.find(b"\n" + key)
                if newline < 0:
                    continue
                at = newline + 1
            end = block.find(b"\n", at)
            line = block[at:end] if end >= 0 else self._line_at(start + at)
            if line is not None:
                yield event_id, start + at, line

    def _line_at(self, offset: int) -> bytes | None:
        """The line that starts here without its newline, or None where it has none."""
        pieces: list[bytes] = []
        count = _WINDOW_BYTES
        while True:
            block = self._read(offset, count)
            if not block:
                return None
            newline = block.find(b"\n")
            if newline >= 0:
                pieces.append(block[:newline])
                return b"".join(pieces)
            pieces.append(block)
            offset += len(block)
            count = min(count * 2, _FORWARD_BLOCK_BYTES)
