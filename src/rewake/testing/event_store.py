"""What a store of sessions must do, as small as the conformance suite needs it.

The rule kept here: a store keeps *lines*. It may look at nothing of them but the event id, so that
types and members it has never heard of come back byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from rewake.errors import RewakeError


class StoredEvent(msgspec.Struct, frozen=True):
    """One line without its newline, and the id that stands in it."""

    event_id: str
    line: bytes


class StoredSession(msgspec.Struct, frozen=True):
    """What `load` found: the events in order, and a sentence for each one that can't be read."""

    events: tuple[StoredEvent, ...] = ()
    damage: tuple[str, ...] = ()


class SequenceConflictError(RewakeError):
    """Somebody else has appended meanwhile: what is stored from `expected_seq` on is not this."""


class EventStore(Protocol):
    """An append-only store of sessions. Any number of handles may be open on one place."""

    def append(self, session_id: str, expected_seq: int, events: Sequence[StoredEvent]) -> int:
        """Append `events` as numbers `expected_seq`, … and return the number of the next one.

        On return they are as durable as the store makes anything, and any other handle sees them.
        Idempotent: events that are stored already, from `expected_seq` on and byte for byte, count
        as appended, so a caller that never got its answer may simply ask again. Raises
        SequenceConflictError, changing nothing, when anything else stands there, or when
        `expected_seq` is beyond the end.
        """
        ...

    def load(self, session_id: str, from_seq: int = 0) -> StoredSession:
        """The events from number `from_seq` on; none for a session that isn't there.

        What can't be read costs itself and is reported, and it keeps its number.
        """
        ...

    def sessions(self) -> Sequence[str]:
        """The ids of all sessions that have an event, each once, in no order."""
        ...

    def close(self) -> None:
        """Release the handle; harmless when called twice."""
        ...


def missing(
    stored: Sequence[StoredEvent | None], expected_seq: int, events: Sequence[StoredEvent]
) -> Sequence[StoredEvent]:
    """Which of `events` are still to be appended to `stored`; the rule of `append`, for stores.

    `stored` holds None for what can't be read. Raises SequenceConflictError.
    """
    there = stored[expected_seq : expected_seq + len(events)]
    if expected_seq > len(stored) or list(events[: len(there)]) != list(there):
        raise SequenceConflictError(
            f"The session has {len(stored)} events; what was to be appended as number "
            f"{expected_seq} isn't what stands there.",
            remedy="Load what was appended meanwhile, then append after it.",
        )
    return events[len(there) :]
