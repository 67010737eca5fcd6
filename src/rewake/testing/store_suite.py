"""The conformance suite for stores of sessions: subclass it, say how yours is opened, run pytest.

    class TestMyStore(EventStoreSuite):
        @pytest.fixture(autouse=True)
        def _place(self, tmp_path):
            self.path = tmp_path

        def make_store(self):
            return MyStore(self.path)

The rule kept here: every check speaks to the store only as a program would. docs/guide/testing.md
tells what each one is for. Nothing here needs pytest itself.
"""

from __future__ import annotations

import contextlib
import threading
import unittest
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from rewake.model.codec import seal_line
from rewake.model.ids import join_id
from rewake.testing.event_store import EventStore, SequenceConflictError, StoredEvent, StoredSession

_WRITERS: Final = 4
_EVENTS_A_WRITER: Final = 10
_TRIES_MAX: Final = 10_000  # far beyond what turns can cost; a store that never lets one in fails
_LARGE_BYTES: Final = 5 << 20
_SHOWN_CHARS_MAX: Final = 500
SESSION: Final = "session-a"
OTHER_SESSION: Final = "session-b"

_REQUIRED: Final = '"seq":%d,"timestamp":"","session_id":"session-a"'
UNUSUAL_LINES: Final = (
    # An unknown type, unknown members, spaces, and an order and spelling of numbers of its own.
    '{ "event_type" : "hologram", "payload": {"z":1,"a":[1.50,2e3]}, "event_id": "%s" , @ }',
    # Half a character, escaped.
    '{"event_id":"%s",@,"event_type":"message","payload":{"role":"user","content":[],"x":"\\ud800"}}',
    # Separators of lines that are none, and characters beyond ASCII as they are.
    '{"event_id":"%s",@,"payload":{"text":"a\u2028b\u0085c \U0001f642"},"event_type":"é"}',
)
"""Lines of types that nobody knows: `%s` is the id, `@` what every line has."""


def make_event(session_id: str, seq: int, text: str = "x", writer: int = 0) -> StoredEvent:
    """A line as Rewake writes it. Ids rise with `seq`, and differ between writers."""
    event_id = join_id(1_000 + seq, writer)
    head = (
        f'{{"event_id":"{event_id}","parent_id":null,"seq":{seq}'
        f',"timestamp":"2026-01-01T00:00:00.000000Z","session_id":"{session_id}","run_id":"r"'
        ',"step":0,"event_type":"message","schema_version":1,"payload":'
        f'{{"role":"user","content":[{{"type":"text","text":"{text}"}}]}}'
    )
    return StoredEvent(event_id, seal_line(head.encode())[:-1])


def make_events(session_id: str, start: int, count: int) -> tuple[StoredEvent, ...]:
    """Consecutive lines, numbered from `start`."""
    return tuple(make_event(session_id, start + at) for at in range(count))


class EventStoreSuite:
    """The checks. `make_store` opens another handle on the same place each time within one test.

    `conflicts` are the errors that mean a conflict of sequence, `busy` those that mean "another
    writes just now, try again".
    """

    conflicts: ClassVar[tuple[type[Exception], ...]] = (SequenceConflictError,)
    busy: ClassVar[tuple[type[Exception], ...]] = ()

    def make_store(self) -> EventStore:
        """Open the store under test. Each test must find an empty place."""
        raise NotImplementedError("say in make_store how your store is opened")

    def damage(self, store: EventStore, session_id: str, seq: int) -> None:
        """Damage the stored bytes of one event. Leave it out where that can't be done."""
        raise unittest.SkipTest(
            f"event {seq} of {session_id} in {store} can't be damaged from here"
        )

    # --- order and bytes ---------------------------------------------------------------------

    def test_events_come_back_in_the_order_in_which_they_were_appended(self) -> None:
        events = make_events(SESSION, 0, 7)
        with self._open() as store:
            _equal(store.append(SESSION, 0, events[:3]), 3, "the number after three events")
            _equal(store.append(SESSION, 3, events[3:4]), 4, "the number after four events")
            _equal(store.append(SESSION, 4, events[4:]), 7, "the number after seven events")
            _equal(store.load(SESSION), StoredSession(events), "what was loaded")

    def test_loading_can_begin_in_the_middle(self) -> None:
        events = make_events(SESSION, 0, 5)
        with self._open() as store:
            store.append(SESSION, 0, events)
            _equal(store.load(SESSION, 3).events, events[3:], "what was loaded from number 3 on")
            _equal(store.load(SESSION, 5).events, (), "what was loaded from the end on")

    def test_what_it_does_not_know_comes_back_byte_for_byte(self) -> None:
        events = []
        for seq, pattern in enumerate(UNUSUAL_LINES):
            event_id = join_id(1_000 + seq, 0)
            line = pattern.replace("%s", event_id).replace("@", _REQUIRED % seq)
            events.append(StoredEvent(event_id, line.encode()))
        with self._open() as store:
            store.append(SESSION, 0, events)
            _equal(store.load(SESSION).events, tuple(events), "lines of unknown types")

    def test_a_large_line_comes_back_whole(self) -> None:
        event = make_event(SESSION, 0, "x" * _LARGE_BYTES)
        with self._open() as store:
            store.append(SESSION, 0, [event])
            loaded = store.load(SESSION).events
            _true(loaded == (event,), "a line of 5 MB is not what was appended")

    def test_appending_nothing_changes_nothing(self) -> None:
        with self._open() as store:
            _equal(store.append(SESSION, 0, ()), 0, "the number after nothing")
            _equal(list(store.sessions()), [], "the sessions")

    # --- sessions ----------------------------------------------------------------------------

    def test_a_session_that_is_not_there_is_empty(self) -> None:
        with self._open() as store:
            _equal(store.load(SESSION), StoredSession(), "what was loaded")

    def test_sessions_do_not_see_each_other(self) -> None:
        mine, others = make_events(SESSION, 0, 3), make_events(OTHER_SESSION, 0, 2)
        with self._open() as store:
            store.append(SESSION, 0, mine[:2])
            store.append(OTHER_SESSION, 0, others)
            store.append(SESSION, 2, mine[2:])
            _equal(store.load(SESSION).events, mine, "one session's events")
            _equal(store.load(OTHER_SESSION).events, others, "the other session's events")

    def test_every_session_is_listed_once(self) -> None:
        with self._open() as store:
            for session_id in (SESSION, OTHER_SESSION):
                store.append(session_id, 0, make_events(session_id, 0, 2))
                store.append(session_id, 2, make_events(session_id, 2, 1))
            _equal(sorted(store.sessions()), [SESSION, OTHER_SESSION], "the sessions")

    # --- several handles ---------------------------------------------------------------------

    def test_everything_is_there_after_reopening(self) -> None:
        events = make_events(SESSION, 0, 4)
        with self._open() as store:
            store.append(SESSION, 0, events[:2])
        with self._open() as store:
            store.append(SESSION, 2, events[2:])
        with self._open() as store:
            _equal(store.load(SESSION).events, events, "what was loaded after reopening")
            _equal(list(store.sessions()), [SESSION], "the sessions after reopening")

    def test_another_handle_sees_an_append_at_once(self) -> None:
        event = make_event(SESSION, 0)
        with self._open() as writer, self._open() as reader:
            _equal(reader.load(SESSION).events, (), "what was there before")
            writer.append(SESSION, 0, [event])
            _equal(reader.load(SESSION).events, (event,), "what the other handle sees")

    # --- appending again ---------------------------------------------------------------------

    def test_appending_the_same_again_stores_it_once(self) -> None:
        events = make_events(SESSION, 0, 3)
        with self._open() as store:
            store.append(SESSION, 0, events)
            _equal(store.append(SESSION, 0, events), 3, "the answer to the same append")
            _equal(store.append(SESSION, 1, events[1:2]), 2, "the answer to a part of it")
            _equal(store.load(SESSION).events, events, "what was loaded")

    def test_appending_the_same_again_after_reopening_stores_it_once(self) -> None:
        events = make_events(SESSION, 0, 3)
        with self._open() as store:
            store.append(SESSION, 0, events)
        with self._open() as store:
            store.append(SESSION, 0, events)
            _equal(store.load(SESSION).events, events, "what was loaded")

    def test_a_batch_of_which_the_beginning_is_stored_is_completed(self) -> None:
        events = make_events(SESSION, 0, 4)
        with self._open() as store:
            store.append(SESSION, 0, events[:2])
            _equal(store.append(SESSION, 0, events), 4, "the number after the whole batch")
            _equal(store.load(SESSION).events, events, "what was loaded")

    # --- conflicts ---------------------------------------------------------------------------

    def test_a_number_that_is_taken_by_another_event_is_a_conflict(self) -> None:
        events = make_events(SESSION, 0, 2)
        with self._open() as store:
            store.append(SESSION, 0, events)
            self._conflicts(store, 1, [make_event(SESSION, 1, writer=1)])
            self._conflicts(store, 0, [make_event(SESSION, 0, writer=1), events[1]])
            _equal(store.load(SESSION).events, events, "what was loaded")

    def test_a_number_beyond_the_end_is_a_conflict(self) -> None:
        events = make_events(SESSION, 0, 1)
        with self._open() as store:
            store.append(SESSION, 0, events)
            self._conflicts(store, 2, [make_event(SESSION, 2)])
            _equal(store.load(SESSION).events, events, "what was loaded")

    def test_an_event_id_with_other_bytes_is_a_conflict(self) -> None:
        events = make_events(SESSION, 0, 1)
        with self._open() as store:
            store.append(SESSION, 0, events)
            self._conflicts(store, 0, [make_event(SESSION, 0, "not the same")])
            _equal(store.load(SESSION).events, events, "what was loaded")

    def test_of_many_concurrent_writers_each_event_is_stored_once_and_in_turn(self) -> None:
        promised: list[list[StoredEvent]] = [[] for _ in range(_WRITERS)]
        errors: list[Exception] = []

        def write(writer: int) -> None:
            try:
                with self._open() as store:
                    for number in range(_EVENTS_A_WRITER):
                        text = f"{writer}.{number}"
                        promised[writer].append(self._append_in_turn(store, writer, text))
            except Exception as error:  # noqa: BLE001  # of a thread; told to the test below
                errors.append(error)

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(_WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        with self._open() as store:
            loaded = store.load(SESSION)
        _equal(loaded.damage, (), "the damage that writers did to each other")
        _equal(len(loaded.events), _WRITERS * _EVENTS_A_WRITER, "the count of events")
        for writer in range(_WRITERS):
            mine = [event for event in loaded.events if event in promised[writer]]
            _equal(mine, promised[writer], f"the events of writer {writer}")

    # --- damage ------------------------------------------------------------------------------

    def test_a_damaged_event_costs_itself_and_is_reported(self) -> None:
        events = make_events(SESSION, 0, 4)
        other = make_events(OTHER_SESSION, 0, 2)
        with self._open() as store:
            store.append(SESSION, 0, events)
            store.append(OTHER_SESSION, 0, other)
            self.damage(store, SESSION, 1)
        with self._open() as store:
            loaded = store.load(SESSION)
            _equal(loaded.events, (events[0], *events[2:]), "the undamaged events")
            _equal(len(loaded.damage), 1, "the count of damaged places reported")
            _equal(store.load(OTHER_SESSION), StoredSession(other), "the other session")
            added = make_event(SESSION, 4)
            store.append(SESSION, 4, [added])
            _equal(store.load(SESSION).events[-1], added, "the event appended after the damage")

    # --- helpers -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _open(self) -> Iterator[EventStore]:
        store = self.make_store()
        try:
            yield store
        finally:
            store.close()

    def _conflicts(
        self, store: EventStore, expected_seq: int, events: Sequence[StoredEvent]
    ) -> None:
        try:
            store.append(SESSION, expected_seq, events)
        except self.conflicts:
            return
        raise AssertionError(f"appending as number {expected_seq} was accepted; it is a conflict")

    def _append_in_turn(self, store: EventStore, writer: int, text: str) -> StoredEvent:
        """As a writer does that shares a session: look where it ends, append, try again."""
        for _ in range(_TRIES_MAX):
            seq = len(store.load(SESSION).events)
            event = make_event(SESSION, seq, text, writer)
            try:
                store.append(SESSION, seq, [event])
            except (*self.conflicts, *self.busy):
                continue
            return event
        raise AssertionError(f"writer {writer} never had its turn in {_TRIES_MAX} tries")


def _equal(actual: object, expected: object, what: str) -> None:
    if actual != expected:
        raise AssertionError(f"{what}: expected {_short(expected)}, got {_short(actual)}")


def _true(condition: object, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN_CHARS_MAX else f"{shown[:_SHOWN_CHARS_MAX]}…"
