"""The one way a fact gets into a session: it is folded, queued and written, in order of submission.

The rules kept here:

- Under one mutex an event gets its id, is folded and is queued, so the order of the fold, of the
  file and of the ids is the same from any number of threads.
- The fold sees what the file says: a payload is encoded at once and decoded back before it is
  folded, so nothing can change it afterwards.
- Whoever commits writes out everything queued, in one write and one sync. There is no writer
  thread; a timer only bounds how long an event may wait.
- What is interrupted between its beginning and its book-keeping (an error of the disk, of the fold,
  or a KeyboardInterrupt) leaves `_trouble` set: nothing is recorded any more, nothing twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Final, Literal, NoReturn, TypeGuard

import msgspec

from rewake.errors import InvalidValueError, PoisonedError, StorageError, UsageError
from rewake.log.disk import crash_point
from rewake.log.forking import give_up_in_forked_children
from rewake.model.codec import decode_payload, encode_payload, preview_of
from rewake.model.content import Usage
from rewake.model.events import (
    EVENT_TYPES,
    SCHEMA_VERSIONS,
    Event,
    KnownPayload,
    Message,
    MessageAmendment,
    Rewind,
    Spilled,
    SpilledBlob,
    StopReason,
)
from rewake.model.ids import IdGenerator
from rewake.record.lines import LineFormat, Timestamps
from rewake.record.queue import Entry, WriteQueue
from rewake.record.sinks import BestEffort, BlobSink, CallbackSink, LineSink, Sink, SinkProblem
from rewake.record.timer import FlushTimer
from rewake.state.conversation import amended

Durability = Literal["memory", "process", "disk"]

LINE_PAYLOAD_BYTES_MAX: Final = 1 << 16
"""Larger payloads go to a blob: reading backwards and bisecting read past lines of this size."""

WAIT_MS_MAX: Final = 100
"""How long an event may wait in memory: long enough for a late usage, short enough for people."""

_NS_PER_S: Final = 1_000_000_000
_WAIT_NS_MAX: Final = WAIT_MS_MAX * 1_000_000

# What a session needs to be found again and nobody types: its project, its checkpoint, its process.
_NEVER_REDACTED: Final = frozenset({"session", "run"})
_RECORDING: Final = "an event was interrupted while it was being recorded."
_WRITING: Final = "a write was interrupted before it was accounted for."
_SYNCING: Final = "a sync was interrupted before its result was known."
_FORKED: Final = "this process is a forked child of the one that writes the session."


class Recorder:
    """Records the events of one run of one session. Safe for threads.

    What a returned call guarantees depends on `durability`: `memory` writes nothing at all;
    `process` survives the death of this process (events are written when they are submitted,
    unless one waits for its usage); `disk` survives a power loss after `commit` or a barrier, and
    anything else is written within WAIT_MS_MAX. `transcript` and `blobs` are None exactly at
    `memory`. `ids` is seeded with what the transcript holds.

    `fold` is called with each event under the mutex, in order; it must not record events.
    `sinks` and `on_recorded` are best effort and hear of an event once it is written; what fails
    there is in `problems`. `on_synced` is told how long each sync took, in nanoseconds; it must not
    raise. `redact` takes the secrets out of a payload's JSON before it is folded or written.

    Every method raises StorageError when something can't be written, and PoisonedError, a kind of
    it, ever after: what was submitted since the last commit may be lost then, nothing before is.
    """

    def __init__(
        self,
        *,
        session_id: str,
        run_id: str,
        durability: Durability,
        ids: IdGenerator,
        fold: Callable[[Event], None],
        transcript: LineSink | None = None,
        blobs: BlobSink | None = None,
        sinks: Sequence[Sink] = (),
        on_recorded: Callable[[Event], None] | None = None,
        on_problem: Callable[[SinkProblem], None] | None = None,
        on_synced: Callable[[int], None] | None = None,
        redact: Callable[[bytes], bytes] | None = None,
        agent_id: str | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        if (durability == "memory") != (transcript is None):
            raise UsageError(
                f"A recorder at level {durability} was given {'no' if transcript is None else 'a'}"
                " transcript.",
                remedy="Pass a transcript for process and disk, and none for memory.",
            )
        self.durability = durability
        self._writes_through = durability != "disk"
        self._session_id = session_id
        self._run_id = run_id
        self._agent_id = agent_id
        self._ids = ids
        self._fold = fold
        self._transcript = transcript
        self._blobs = blobs
        self._monotonic_ns = monotonic_ns
        self._on_synced = on_synced
        self._redact = redact
        self._timestamp = Timestamps(clock_ns)
        self._format = LineFormat(session_id, run_id, agent_id)
        callback = () if on_recorded is None else (CallbackSink(on_recorded),)
        self._has_sinks = bool(sinks or callback)
        self._sinks = BestEffort((*sinks, *callback), on_problem)
        self._mutex = threading.RLock()
        self._queue = WriteQueue()
        self._timer = FlushTimer(self._tick)
        self._trouble: str | None = None
        self._untold: StorageError | None = None
        self._is_publishing = False
        self._is_closed = False
        self._previous_id = transcript.last_event_id if transcript is not None else None
        self._next_seq = transcript.next_seq if transcript is not None else 0
        if self._previous_id is not None:
            ids.seed(self._previous_id)
        give_up_in_forked_children(self)

    # --- recording ---------------------------------------------------------------------------

    def submit(
        self, payload: KnownPayload, *, step: int = 0, defer: bool = False, barrier: bool = False
    ) -> Event:
        """Record one fact; returns its event as it was folded (without `line` and `offset`).

        With `barrier`, everything submitted so far is committed on return, in one write. With
        `defer`, a message without usage waits up to WAIT_MS_MAX for `amend` before it becomes
        bytes. Raises InvalidValueError for values that no line can hold; nothing is recorded then.
        """
        event_type, settled, encoded = self._settle(payload)
        may_wait = defer
        if self._blobs is not None and _is_too_large(event_type, encoded):
            encoded = _spill(encoded, self._blobs)
            may_wait = False  # the blob is written already
        with self._mutex:
            self._check()
            event = self._accept(event_type, settled, step)
            if (barrier or self._writes_through) and not (may_wait or self._queue):
                self._write_at_once(event, encoded, sync=barrier)
                return event
            self._queue.push(
                Entry(event, encoded, _waiting(settled) if may_wait else None), self._monotonic_ns()
            )
            self._trouble = None
            if barrier:
                self._commit()
            else:
                self._write_or_wait()
        return event

    def amend(
        self,
        message_id: str,
        *,
        usage: Usage | None = None,
        stop_reason: StopReason | None = None,
        model: str | None = None,
        step: int = 0,
    ) -> Event:
        """Add what was not known yet when the message was submitted; None leaves a field alone.

        It lands on the message's own line if that still waits; otherwise it is a line of its own.
        The event returned (and folded) is the same amendment in both cases; in the first it has
        the id of the message, since no line of the file has another.
        """
        amendment = MessageAmendment(message_id, usage, stop_reason, model)
        with self._mutex:
            self._check()
            waiting = self._queue.open_message(message_id)
            if waiting is None:
                return self.submit(amendment, step=step)
            entry, message = waiting
            event_type, settled, _ = self._settle(amendment)
            _, whole, encoded = self._settle(amended(message, amendment))
            self._trouble = _RECORDING
            event = msgspec.structs.replace(entry.event, event_type=event_type, payload=settled)
            self._fold(event)
            whole_event = msgspec.structs.replace(entry.event, payload=whole)
            self._queue.settle(entry, whole_event, encoded)
            self._trouble = None
            self._write_or_wait()
        return event

    def flush(self) -> None:
        """On return everything submitted so far survives the death of this process."""
        with self._mutex:
            self._check()
            self._publish(*self._write())
            self._sinks.flush()

    def commit(self) -> None:
        """On return everything submitted so far is as durable as the recorder's level says."""
        with self._mutex:
            self._check()
            self._commit()

    def held(self) -> AbstractContextManager[object]:
        """While it is held nothing is recorded or folded: for reading the fold from any thread."""
        return self._mutex

    @property
    def problems(self) -> tuple[SinkProblem, ...]:
        """What best-effort sinks failed with, one per sink."""
        return tuple(self._sinks.problems.values())

    def close(self) -> None:
        """Commit, end the timer and release the files; harmless when called twice.

        After an error that a caller has seen already, it only releases. An error that nobody has
        seen (the timer's) is raised here.
        """
        # Whatever fails, the rest is released too, and all of it without the mutex: the timer's
        # thread, which is waited for, may want it.
        with ExitStack() as releasing, self._mutex:
            if self._is_closed:
                return
            self._is_closed = True
            self._timer.awake = False
            releasing.callback(self._sinks.close)
            if self._transcript is not None:
                releasing.callback(self._transcript.close)
            releasing.callback(self._timer.stop)
            if self._trouble is None:
                self._commit()
        if self._untold is not None:
            raise self._untold

    def abandon_after_fork(self) -> None:
        """Refuse everything in a forked child; the mutex may be held by a thread it doesn't have."""
        self._mutex = threading.RLock()
        self._trouble = _FORKED
        self._is_closed = True

    def _settle(self, payload: KnownPayload) -> tuple[str, KnownPayload, bytes]:
        """The type, the value that a reader of the file will get, and its bytes."""
        event_type = EVENT_TYPES[type(payload)]
        encoded = encode_payload(payload)
        if self._redact is not None and event_type not in _NEVER_REDACTED:
            encoded = self._redact(encoded)
        return _decoded(event_type, payload, encoded)

    # --- under the mutex ---------------------------------------------------------------------

    def _check(self) -> None:
        if self._trouble is not None or self._is_publishing or self._is_closed:
            self._refuse()

    def _refuse(self) -> NoReturn:
        if self._trouble is not None:
            self._untold = None
            raise PoisonedError(
                f"Nothing more is recorded in session {self._session_id}: {self._trouble}",
                path=str(getattr(self._transcript, "path", "")),
                remedy="Resume the session: what was acknowledged before is kept.",
            )
        if self._is_closed:
            raise UsageError(
                f"Session {self._session_id} is closed.", remedy="Open it again to go on."
            )
        raise UsageError(
            "A callback that is told of an event can't record one.",
            remedy="Record it after the call that recorded the first has returned.",
        )

    def _accept(self, event_type: str, payload: KnownPayload, step: int) -> Event:
        """Give the event its place and fold it.

        Nothing may fail from here on without ending the recording, until the caller has queued or
        written the event and clears `_trouble`.
        """
        self._trouble = _RECORDING
        event_id = self._ids()
        event = Event(
            event_id,
            payload.target_id if _goes_back(payload) else self._previous_id,
            self._next_seq,
            self._timestamp(),
            self._session_id,
            self._run_id,
            event_type,
            SCHEMA_VERSIONS[event_type],
            payload,
            step,
            self._agent_id,
        )
        self._fold(event)
        self._previous_id = event_id
        self._next_seq += 1
        return event

    def _write_at_once(self, event: Event, encoded: bytes, *, sync: bool) -> None:
        """What nothing waits before needs no queue, which would cost a sixth of its time."""
        line = b""
        if self._transcript is not None:
            line = self._format.line(event, encoded)
            self._append(self._transcript, line)
        self._trouble = None
        if sync:
            self._sync()
        self._tell(event, line)

    def _write_or_wait(self) -> None:
        queue = self._queue
        if queue.is_full or (self._writes_through and not queue.has_open):
            self._publish(*self._write())
        elif not self._timer.awake:
            self._timer.start()

    def _commit(self) -> None:
        events, lines = self._write()
        self._sync()
        self._publish(events, lines)

    def _sync(self) -> None:
        if self.durability != "disk" or self._transcript is None:
            return
        self._trouble = _SYNCING
        began_ns = self._monotonic_ns()
        try:
            self._transcript.sync()
        except StorageError as error:
            self._trouble = error.message
            raise
        self._trouble = None
        if self._on_synced is not None:
            self._on_synced(self._monotonic_ns() - began_ns)

    def _write(self) -> tuple[Sequence[Event], Sequence[bytes]]:
        """Write out the queue; returns what was in it, for the sinks."""
        entries = self._queue.entries
        if not entries:
            return (), ()
        events = [entry.event for entry in entries]
        lines = [b""] * len(entries)
        if self._transcript is not None:
            self._trouble = _WRITING
            lines = [self._format.line(entry.event, entry.payload) for entry in entries]
            self._append(self._transcript, b"".join(lines))
        self._queue.clear()
        self._trouble = None
        return events, lines

    def _append(self, transcript: LineSink, data: bytes) -> None:
        """Leaves `_trouble` set: the caller's book-keeping is part of the write."""
        self._trouble = _WRITING
        try:
            transcript.append(data)
        except StorageError as error:
            self._trouble = error.message
            raise

    def _publish(self, events: Sequence[Event], lines: Sequence[bytes]) -> None:
        for event, line in zip(events, lines, strict=True):
            self._tell(event, line)

    def _tell(self, event: Event, line: bytes) -> None:
        if not self._has_sinks:
            return
        self._is_publishing = True
        try:
            self._sinks.record(event, line)
        finally:
            self._is_publishing = False

    def _tick(self) -> float | None:
        """The timer's work: write out what has waited its time; how long to sleep until the next."""
        with self._mutex:
            if self._trouble is not None or self._is_closed or not self._queue:
                self._timer.awake = False
                return None
            waited_ns = self._monotonic_ns() - self._queue.oldest_ns
            if waited_ns < _WAIT_NS_MAX:
                return (_WAIT_NS_MAX - waited_ns) / _NS_PER_S
            crash_point("before_timer_flush")
            try:
                self._publish(*self._write())
            except StorageError as error:
                self._untold = error
                self._timer.awake = False
                return None
            return WAIT_MS_MAX / 1000


# --- payloads --------------------------------------------------------------------------------


def _waiting(payload: KnownPayload) -> Message | None:
    """The message if its usage may still come."""
    return payload if isinstance(payload, Message) and payload.usage is None else None


def _decoded(
    event_type: str, payload: KnownPayload, encoded: bytes
) -> tuple[str, KnownPayload, bytes]:
    settled = decode_payload(event_type, SCHEMA_VERSIONS[event_type], encoded)
    if type(settled) is not type(payload):
        problem = getattr(settled, "problem", None) or "it would be read as something else"
        raise InvalidValueError(
            f"This {event_type} can't be recorded: {problem}.",
            remedy="Pass values of the types that the payload's fields declare.",
        )
    return event_type, settled, encoded


def _is_too_large(event_type: str, encoded: bytes) -> bool:
    """The first line stays whole: what a fork comes from must be readable without any blob."""
    return len(encoded) > LINE_PAYLOAD_BYTES_MAX and event_type != "session"


def _spill(encoded: bytes, blobs: BlobSink) -> bytes:
    sha256 = blobs.put(encoded)
    preview = msgspec.Raw(preview_of(encoded))
    return encode_payload(Spilled(SpilledBlob(sha256, len(encoded)), preview))


def _goes_back(payload: object) -> TypeGuard[Rewind]:
    """Whether the conversation goes on from the target; a rewind of files alone leaves it as it is."""
    return isinstance(payload, Rewind) and payload.scope != "files"
