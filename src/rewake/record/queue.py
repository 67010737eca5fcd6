"""Events that are recorded but not yet written, in the order in which they will be.

The rule kept here: the queue is bounded, in events and in bytes. There is no waiting for room:
whoever finds it full writes it out. Not thread-safe by itself: the recorder's mutex guards it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from rewake.model.events import Event

EVENTS_MAX: Final = 1024  # a busy 100 ms; more only adds latency to the write that drains it
BYTES_MAX: Final = 1 << 20  # one write of this size costs about as much per byte as a larger one


class Entry(msgspec.Struct):
    """One event and the bytes of its payload. `open` while a late usage may still change them."""

    event: Event
    payload: bytes
    open: bool = False


class WriteQueue:
    """First in, first out. `oldest_ns` is when the first entry came (monotonic nanoseconds)."""

    def __init__(self) -> None:
        self.oldest_ns = 0
        self.has_open = False
        self._entries: list[Entry] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def is_full(self) -> bool:
        """Whether whoever adds next has to drain first."""
        return len(self._entries) >= EVENTS_MAX or self._bytes >= BYTES_MAX

    @property
    def entries(self) -> Sequence[Entry]:
        """What waits, oldest first."""
        return self._entries

    def push(self, entry: Entry, now_ns: int) -> None:
        """Add at the end."""
        if not self._entries:
            self.oldest_ns = now_ns
        self._entries.append(entry)
        self._bytes += len(entry.payload)
        if entry.open:
            self.has_open = True

    def open_entry(self, event_id: str) -> Entry | None:
        """The entry of this event if it can still change."""
        if not self.has_open:
            return None
        for entry in self._entries:
            if entry.open and entry.event.event_id == event_id:
                return entry
        return None

    def settle(self, entry: Entry, event: Event, payload: bytes) -> None:
        """Give an open entry its final event and bytes."""
        self._bytes += len(payload) - len(entry.payload)
        entry.event = event
        entry.payload = payload
        entry.open = False
        self.has_open = any(other.open for other in self._entries)

    def clear(self) -> None:
        """Forget what was written."""
        self._entries = []
        self._bytes = 0
        self.has_open = False
