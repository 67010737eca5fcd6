"""The conformance suite can fail: for each check there is a broken store that it catches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

import pytest

from rewake.testing.event_store import (
    EventStore,
    SequenceConflictError,
    StoredEvent,
    StoredSession,
    missing,
)
from rewake.testing.memory_store import MemoryPlace, MemoryStore
from rewake.testing.store_suite import EventStoreSuite


class NewestFirst(MemoryStore):
    def load(self, session_id: str, from_seq: int = 0) -> StoredSession:
        found = super().load(session_id, from_seq)
        return StoredSession(found.events[::-1], found.damage)


class FromTheBeginning(MemoryStore):
    def load(self, session_id: str, from_seq: int = 0) -> StoredSession:
        return super().load(session_id)


class Rewriting(MemoryStore):
    """Keeps what the JSON means, not what it was."""

    def append(self, session_id: str, expected_seq: int, events: Sequence[StoredEvent]) -> int:
        rewritten = [
            StoredEvent(event.event_id, json.dumps(json.loads(event.line)).encode())
            for event in events
        ]
        return super().append(session_id, expected_seq, rewritten)


class Cutting(MemoryStore):
    def append(self, session_id: str, expected_seq: int, events: Sequence[StoredEvent]) -> int:
        cut = [StoredEvent(event.event_id, event.line[: 1 << 20]) for event in events]
        return super().append(session_id, expected_seq, cut)


class ListingNothing(MemoryStore):
    """Makes a session of an append of nothing, and finds everything not there to be something."""

    def append(self, session_id: str, expected_seq: int, events: Sequence[StoredEvent]) -> int:
        self.place.sessions.setdefault(session_id, [])
        return super().append(session_id, expected_seq, events)

    def load(self, session_id: str, from_seq: int = 0) -> StoredSession:
        if session_id not in self.place.sessions:
            raise KeyError(session_id)
        return super().load(session_id, from_seq)


class OneForAll(MemoryStore):
    """All sessions in one heap."""

    def append(self, session_id: str, expected_seq: int, events: Sequence[StoredEvent]) -> int:
        self.place.sessions.setdefault("heap", []).extend(events)
        return expected_seq + len(events)

    def load(self, session_id: str, from_seq: int = 0) -> StoredSession:
        return super().load("heap", from_seq)


class Forgetful(MemoryStore):
    """Keeps what it has in the handle."""

    def __init__(self, place: MemoryPlace) -> None:
        super().__init__(MemoryPlace())


class Trusting(MemoryStore):
    """Appends whatever comes, as often as it comes."""

    def append(self, session_id: str, expected_seq: int, events: Sequence[StoredEvent]) -> int:
        stored = self.place.sessions.setdefault(session_id, [])
        stored.extend(events)
        return len(stored)


class Strict(MemoryStore):
    """Knows no repetition: whatever isn't at the end is a conflict."""

    def append(self, session_id: str, expected_seq: int, events: Sequence[StoredEvent]) -> int:
        stored = self.place.sessions.get(session_id, [])
        missing(stored, expected_seq if len(stored) == expected_seq else len(stored) + 1, ())
        return super().append(session_id, expected_seq, events)


class ByIdOnly(MemoryStore):
    """Takes an id that it knows for the event that it knows."""

    def append(self, session_id: str, expected_seq: int, events: Sequence[StoredEvent]) -> int:
        known = {event.event_id for event in self.place.sessions.get(session_id, []) if event}
        new = [event for event in events if event.event_id not in known]
        if new:
            super().append(session_id, expected_seq + len(events) - len(new), new)
        return expected_seq + len(events)


class Hiding(MemoryStore):
    """Skips damage in silence."""

    def load(self, session_id: str, from_seq: int = 0) -> StoredSession:
        return StoredSession(super().load(session_id, from_seq).events)


class Racing(MemoryStore):
    """Looks where the session ends, and appends a moment later."""

    def append(self, session_id: str, expected_seq: int, events: Sequence[StoredEvent]) -> int:
        stored = self.place.sessions.setdefault(session_id, [])
        length = len(stored)
        missing(list(stored), expected_seq, events)
        self.place.sessions[session_id] = [*stored[: length // 2], *stored[length // 2 + 1 :]]
        self.place.sessions[session_id].extend(events)
        return expected_seq + len(events)


class Suite(EventStoreSuite):
    store: ClassVar[type[MemoryStore]] = MemoryStore

    def __init__(self) -> None:
        self.place = MemoryPlace()

    def make_store(self) -> EventStore:
        return self.store(self.place)

    def damage(self, store: EventStore, session_id: str, seq: int) -> None:
        self.place.sessions[session_id][seq] = None


CAUGHT: dict[str, type[MemoryStore]] = {
    "test_events_come_back_in_the_order_in_which_they_were_appended": NewestFirst,
    "test_loading_can_begin_in_the_middle": FromTheBeginning,
    "test_what_it_does_not_know_comes_back_byte_for_byte": Rewriting,
    "test_a_large_line_comes_back_whole": Cutting,
    "test_appending_nothing_changes_nothing": ListingNothing,
    "test_a_session_that_is_not_there_is_empty": ListingNothing,
    "test_sessions_do_not_see_each_other": OneForAll,
    "test_every_session_is_listed_once": OneForAll,
    "test_everything_is_there_after_reopening": Forgetful,
    "test_another_handle_sees_an_append_at_once": Forgetful,
    "test_appending_the_same_again_stores_it_once": Trusting,
    "test_appending_the_same_again_after_reopening_stores_it_once": Trusting,
    "test_a_batch_of_which_the_beginning_is_stored_is_completed": Strict,
    "test_a_number_that_is_taken_by_another_event_is_a_conflict": Trusting,
    "test_a_number_beyond_the_end_is_a_conflict": Trusting,
    "test_an_event_id_with_other_bytes_is_a_conflict": ByIdOnly,
    "test_of_many_concurrent_writers_each_event_is_stored_once_and_in_turn": Racing,
    "test_a_damaged_event_costs_itself_and_is_reported": Hiding,
}


def test_every_check_has_a_store_that_it_catches() -> None:
    assert set(CAUGHT) == {name for name in dir(EventStoreSuite) if name.startswith("test_")}


@pytest.mark.parametrize("check", CAUGHT)
def test_a_broken_store_is_caught(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewake.testing.store_suite._TRIES_MAX", 100)
    monkeypatch.setattr(Suite, "store", CAUGHT[check])
    with pytest.raises((AssertionError, KeyError, SequenceConflictError)):
        getattr(Suite(), check)()


def test_a_suite_that_does_not_say_how_to_open_the_store_fails_with_a_hint() -> None:
    with pytest.raises(NotImplementedError, match="make_store"):
        EventStoreSuite().test_a_session_that_is_not_there_is_empty()
