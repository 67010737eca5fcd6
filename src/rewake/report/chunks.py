"""The rows of a list and their contents: rows as columns, contents in compressed chunks.

The rules kept here:

- A row is a few numbers; its content is read only where it is looked at.
- Memory is bounded: of rows and of contents the newest are kept, and how many are left out is said.
- A chunk never changes. Contents that may still change are *open* and stand in none.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rewake.model import jsontext

CHUNK_BYTES: Final = 1 << 17  # unpacked by the page in a few milliseconds
CONTENT_BYTES_MAX: Final = 40 << 20  # compressed; more makes a file that takes seconds to open
ROWS_MAX: Final = 200_000
_LEVEL: Final = 6
_OPEN_MAX: Final = 1_000
_NOWHERE: Final = -1

ERROR, VERDICT, OPEN, CUT, AGENT, CHANGES = (1 << bit for bit in range(6))
"""Flags of a row."""

Content = Mapping[str, Any]


class Store:
    """One list. Row numbers count from 0 and are never reused; `epoch` rises when a packed row changes."""

    def __init__(
        self, content_bytes_max: int = CONTENT_BYTES_MAX, rows_max: int = ROWS_MAX
    ) -> None:
        self.epoch = 0
        self.count = 0
        self.chunks: list[bytes] = []
        self.base = 0
        self._content_bytes_max = content_bytes_max
        self._rows_max = rows_max
        self._kinds: list[int] = []
        self._segments: list[int] = []
        self._times: list[int] = []
        self._steps: list[int] = []
        self._chunks: list[int] = []
        self._places: list[int] = []
        self._lines: list[int] = []
        self._flags: list[int] = []
        self._filling: list[bytes] = []
        self._in_filling: list[int] = []
        self._filling_bytes = 0
        self._content_bytes = 0
        self._oldest = 0
        self._open: dict[int, Content] = {}

    def add(self, kind: int, segment: int, time_ms: int, step: int) -> int:
        """A new row; its content comes with `put` or `keep_open`."""
        row = self.count
        self.count += 1
        self._kinds.append(kind)
        self._segments.append(segment)
        self._times.append(time_ms)
        self._steps.append(step)
        self._chunks.append(_NOWHERE)
        self._places.append(0)
        self._lines.append(1)
        self._flags.append(0)
        if self.count - self.base > self._rows_max * 5 // 4:
            self._drop_rows(self.count - self.base - self._rows_max)
        return row

    def put(self, row: int, content: Content, lines: int = 1, flags: int = 0) -> None:
        """The content of a row, once for all unless a call that was left open ends much later."""
        self._open.pop(row, None)
        if row < self.base:
            return
        at = row - self.base
        if self._chunks[at] != _NOWHERE:
            self.epoch += 1
        encoded = jsontext.dumps(content)
        self._lines[at], self._flags[at] = lines, flags
        self._chunks[at], self._places[at] = len(self.chunks), len(self._filling)
        self._filling.append(encoded)
        self._in_filling.append(row)
        self._filling_bytes += len(encoded)
        if self._filling_bytes >= CHUNK_BYTES:
            self.seal()

    def keep_open(self, row: int, content: Content, lines: int = 1, flags: int = 0) -> None:
        """The content as it is now. Of too many open ones the oldest are packed as they are."""
        if row < self.base:
            return
        self._lines[row - self.base], self._flags[row - self.base] = lines, flags
        self._open[row] = content
        if len(self._open) > _OPEN_MAX:
            oldest = next(iter(self._open))
            at = oldest - self.base
            self.put(oldest, self._open[oldest], self._lines[at], self._flags[at])

    def seal(self) -> None:
        """Pack what is waiting into a chunk."""
        if not self._filling:
            return
        packed = zlib.compress(b"[" + b",".join(self._filling) + b"]", _LEVEL)
        self.chunks.append(packed)
        self._content_bytes += len(packed)
        self._filling, self._in_filling, self._filling_bytes = [], [], 0
        while self._content_bytes > self._content_bytes_max and self._oldest < len(self.chunks) - 1:
            self._content_bytes -= len(self.chunks[self._oldest])
            self.chunks[self._oldest] = b""
            self._oldest += 1

    def finish(self) -> None:
        """Pack everything, the open ones as they are."""
        for row, content in list(self._open.items()):
            at = row - self.base
            self.put(row, content, self._lines[at], self._flags[at])
        self.seal()

    def _drop_rows(self, count: int) -> None:
        for row in [row for row in self._open if row < self.base + count]:
            del self._open[row]
        self.base += count
        self.epoch += 1
        for column in self._columns().values():
            del column[:count]

    def _columns(self) -> dict[str, list[int]]:
        return {
            "kind": self._kinds,
            "seg": self._segments,
            "time": self._times,
            "step": self._steps,
            "chunk": self._chunks,
            "place": self._places,
            "lines": self._lines,
            "flags": self._flags,
        }

    @property
    def rows_left_out(self) -> int:
        """Rows that are kept, but whose contents are not."""
        return sum(0 <= chunk < self._oldest for chunk in self._chunks)

    # --- for the page ----------------------------------------------------------------------

    @property
    def settled(self) -> int:
        """Rows before this one are packed and won't change in this epoch."""
        return min((self.count, *self._open, *self._in_filling))

    def rows(self, start: int = 0) -> dict[str, Any]:
        """The rows from `start` on (or from the first that is kept), as columns."""
        first = min(max(start, self.base), self.count)
        at = first - self.base
        columns: dict[str, Any] = {name: column[at:] for name, column in self._columns().items()}
        chunk_count = len(self.chunks)
        # What waits for its chunk is told as open, too.
        columns["chunk"] = [
            _NOWHERE if chunk >= chunk_count else chunk for chunk in columns["chunk"]
        ]
        return {
            "from": first,
            "base": self.base,
            "count": self.count,
            "settled": self.settled,
            "epoch": self.epoch,
            "leftOut": self._oldest,
            **columns,
        }

    def open_contents(self) -> Iterator[tuple[int, bytes]]:
        """Those that stand in no chunk yet, as JSON."""
        yield from zip(self._in_filling, self._filling, strict=True)
        for row, content in self._open.items():
            yield row, jsontext.dumps(content)
