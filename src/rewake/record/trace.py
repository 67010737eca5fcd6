"""`trace.jsonl`: when each event was written and what else helps to debug a run.

The rule kept here: it is cheap and best effort. Lines are buffered and never synced; a crash loses
at most the last half second of them and nothing of the transcript.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rewake.log.disk import Disk, short_write_error, storage_error
from rewake.log.forking import give_up_in_forked_children
from rewake.model.content import JsonObject
from rewake.model.events import Event
from rewake.record.lines import Timestamps

_BUFFER_CHARS: Final = 1 << 15  # about two hundred events per write
_FLUSH_DELAY_NS_MAX: Final = 500_000_000
_NS_PER_US: Final = 1_000


class TraceSink:
    """Appends to one trace file. Raises StorageError; after a failure it drops what it buffers."""

    def __init__(
        self,
        path: Path,
        disk: Disk,
        clock_ns: Callable[[], int] = time.time_ns,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.path = path
        self._disk = disk
        self._timestamp = Timestamps(clock_ns)
        self._monotonic_ns = monotonic_ns
        self._mutex = threading.Lock()
        self._buffer: list[str] = []
        self._chars = 0
        self._previous_ns = self._flushed_ns = monotonic_ns()
        try:
            self._descriptor = disk.open_append(path)
        except OSError as error:
            raise storage_error(error, path, "open") from error
        give_up_in_forked_children(self)

    def record(self, event: Event, line: bytes) -> None:
        now_ns = self._monotonic_ns()
        since_us = (now_ns - self._previous_ns) // _NS_PER_US
        self._previous_ns = now_ns
        self._add(
            f'{{"time":"{event.timestamp}","event_id":"{event.event_id}"'
            f',"event_type":"{event.event_type}","step":{event.step},"bytes":{len(line)}'
            f',"since_previous_us":{since_us}}}\n',
            now_ns,
        )

    def note(self, kind: str, data: JsonObject) -> None:
        """Something that is no event: a request, raw model output, a timing."""
        text = json.dumps({"time": self._timestamp(), "note": kind, "data": data}, default=repr)
        self._add(text + "\n", self._monotonic_ns())

    def flush(self) -> None:
        """Hand what is buffered to the operating system."""
        with self._mutex:
            lines, self._buffer, self._chars = self._buffer, [], 0
            self._flushed_ns = self._monotonic_ns()
            if lines and self._descriptor >= 0:
                self._write("".join(lines).encode("utf-8", "backslashreplace"))

    def close(self) -> None:
        """Flush and release; harmless when called twice."""
        try:
            self.flush()
        finally:
            descriptor, self._descriptor = self._descriptor, -1
            if descriptor >= 0:
                self._disk.close(descriptor)

    def abandon_after_fork(self) -> None:
        """What is buffered is the parent's to write."""
        self._mutex = threading.Lock()
        self._buffer = []
        self.close()

    def _add(self, line: str, now_ns: int) -> None:
        self._buffer.append(line)
        self._chars += len(line)
        if self._chars >= _BUFFER_CHARS or now_ns - self._flushed_ns >= _FLUSH_DELAY_NS_MAX:
            self.flush()

    def _write(self, data: bytes) -> None:
        try:
            written = self._disk.write(self._descriptor, data)
        except OSError as error:
            raise storage_error(error, self.path, "write to") from error
        if written != len(data):
            raise short_write_error(self.path, written, len(data))
