"""A store of sessions in memory: for tests of programs, and the model of what a store does."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from rewake.testing.event_store import StoredEvent, StoredSession, missing


class MemoryPlace:
    """What all handles of one store share, as processes share a disk."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sessions: dict[str, list[StoredEvent | None]] = {}


class MemoryStore:
    """A handle on a place. Safe for threads; keeps what it is given as long as the place lives."""

    def __init__(self, place: MemoryPlace | None = None) -> None:
        self.place = place or MemoryPlace()

    def append(self, session_id: str, expected_seq: int, events: Sequence[StoredEvent]) -> int:
        with self.place.lock:
            stored = self.place.sessions.get(session_id, [])
            new = missing(stored, expected_seq, events)
            if new:
                stored = self.place.sessions.setdefault(session_id, stored)
                stored.extend(new)
            return expected_seq + len(events)

    def load(self, session_id: str, from_seq: int = 0) -> StoredSession:
        with self.place.lock:
            stored = list(self.place.sessions.get(session_id, ()))[from_seq:]
        damage = [f"event {from_seq + at} is gone" for at, one in enumerate(stored) if one is None]
        return StoredSession(tuple(one for one in stored if one is not None), tuple(damage))

    def sessions(self) -> Sequence[str]:
        with self.place.lock:
            return list(self.place.sessions)

    def close(self) -> None:
        """There is nothing to release."""
