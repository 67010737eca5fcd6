"""Events that are recorded but not yet written, in the order in which they will be.

The rule kept here: the queue is bounded, in events and in bytes. There is no waiting for room:
whoever finds it full writes it out. Not thread-safe by itself: the recorder's mutex guards it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from rewake.model.events import Event, Message

EVENTS_MAX: Final = 1024  # a busy 100 ms; more only adds latency to the write that drains it
BYTES_MAX: Final = 1 << 20  # one write of this size costs about as much per byte as a larger one


class Entry(msgspec.Struct, gc=False):
    """One event and the bytes of its payload. `message` is set while late usage may change both."""

    event: Event
    payload: bytes
    message: Message | None = None


class WriteQueue:
    """First in, first out. `oldest_ns` is when the first entry came (monotonic nanoseconds).

    `has_open`: some entry still waits for its usage. `is_full`: whoever added it has to drain.
    """

    def __init__(self) -> None:
        self.oldest_ns = 0
        self.has_open = False
        self.is_full = False
        self._entries: list[Entry] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

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
        self.is_full = self._bytes >= BYTES_MAX or len(self._entries) >= EVENTS_MAX
        if entry.message is not None:
            self.has_open = True

    def open_message(self, event_id: str) -> tuple[Entry, Message] | None:
        """The entry of this message, and the message, if it can still change."""
        if not self.has_open:
            return None
        for entry in self._entries:
            if entry.message is not None and entry.event.event_id == event_id:
                return entry, entry.message
        return None

    def settle(self, entry: Entry, event: Event, payload: bytes) -> None:
        """Give an open entry its final event and bytes."""
        self._bytes += len(payload) - len(entry.payload)
        entry.event = event
        entry.payload = payload
        entry.message = None
        self.has_open = any(other.message is not None for other in self._entries)

    def clear(self) -> None:
        """Forget what was written."""
        self._entries = []
        self._bytes = 0
        self.has_open = False
        self.is_full = False
