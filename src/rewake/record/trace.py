"""`trace.jsonl`: when each event was written and what else helps to debug a run.

The rules kept here:

- It is cheap and best effort. Lines are buffered and never synced; a crash loses at most the last half
  second of them and nothing of the transcript; what fails here disturbs no run.
- What a note tells (a request, an answer) is cut to a bound and freed of secrets before it is written,
  in a thread of its own, so that no request waits for it. Under pressure notes are dropped and counted.

Lines of events have an `event_id`; all others are notes: `{"time", "note": KIND, "data"}`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from rewake.log.disk import Disk
from rewake.log.forking import give_up_in_forked_children
from rewake.model.content import JsonObject
from rewake.model.events import Checkpoint, Event
from rewake.record.lines import Timestamps
from rewake.record.tally import Tally
from rewake.record.trace_file import FILE_BYTES_MAX, FILES_MAX, TraceFile

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_BUFFER_CHARS: Final = 1 << 15  # about two hundred events per write
_FLUSH_DELAY_NS_MAX: Final = 500_000_000
_NS_PER_US: Final = 1_000
# A line that a person can still look at; a text of a screen or ten; notes that wait for the disk.
_NOTE_CHARS_MAX: Final = 1 << 18
_TEXT_CHARS_MAX: Final = 1 << 14
_WAITING_MAX: Final = 256

Redact = Callable[[object], object]
"""JSON without its secrets."""


class Notes(Protocol):
    """Where a program tells what is no event."""

    def note(self, kind: str, data: JsonObject) -> None:
        """Something that helps to debug: a request, a timing. Never raises, never waits."""
        ...


class NoTrace:
    """Of a session without a trace."""

    def note(self, kind: str, data: JsonObject) -> None:
        """Nobody reads it."""


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """How much of a trace is kept. `content` lets requests and answers in, not only their sizes.

    `make_redact` is called once, in the trace's own thread, since detectors are slow to load.
    """

    file_bytes_max: int = FILE_BYTES_MAX
    files_max: int = FILES_MAX
    content: bool = True
    make_redact: Callable[[], Redact] | None = None


class TraceSink:
    """Appends to one trace. Safe for threads, and for several recorders of one session.

    Raises StorageError when the file can't be opened; a later failure is raised once, by whoever
    writes next, and drops what was buffered.
    """

    def __init__(
        self,
        path: Path,
        disk: Disk,
        clock_ns: Callable[[], int] = time.time_ns,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        options: TraceOptions | None = None,
    ) -> None:
        self.path = path
        self.options = options or TraceOptions()
        self._timestamp = Timestamps(clock_ns)
        self._monotonic_ns = monotonic_ns
        self._mutex = threading.Lock()
        self._buffer: list[str] = []
        self._chars = 0
        self._previous_ns = self._flushed_ns = monotonic_ns()
        self._tallies: dict[str | None, Tally] = {}
        self._redact: Redact | None = None
        self._worker: ThreadPoolExecutor | None = None
        self._waiting = self._dropped = 0
        self._failure: Exception | None = None
        self._is_closed = False
        limits = self.options
        self._file = TraceFile(
            path, disk, file_bytes_max=limits.file_bytes_max, files_max=limits.files_max
        )
        give_up_in_forked_children(self)

    # --- events --------------------------------------------------------------------------

    def record(self, event: Event, line: bytes) -> None:
        with self._mutex:
            now_ns = self._monotonic_ns()
            since_us = (now_ns - self._previous_ns) // _NS_PER_US
            self._previous_ns = now_ns
            ended = self._tally(event.agent_id).event(event, len(line))
            if ended is not None:
                self._add(self._line("step", _of_agent(event.agent_id, ended)))
            more = _more(event) if event.agent_id or event.event_type == "checkpoint" else ""
            told = (
                f'{{"time":"{event.timestamp}","event_id":"{event.event_id}"'
                f',"event_type":"{event.event_type}","step":{event.step},"bytes":{len(line)}'
                f',"since_previous_us":{since_us}{more}}}\n'
            )
            self._buffer.append(told)
            self._chars += len(told)
            if self._chars >= _BUFFER_CHARS or now_ns - self._flushed_ns >= _FLUSH_DELAY_NS_MAX:
                self._flush()
            if self._failure is not None:
                self._raise_failure()

    def committed(self, duration_ns: int) -> None:
        """A sync of the transcript took this long."""
        with self._mutex:
            self._tally(None).committed(duration_ns)

    def _tally(self, agent_id: str | None) -> Tally:
        tally = self._tallies.get(agent_id)
        if tally is None:  # made only then: this runs for every event
            tally = self._tallies[agent_id] = Tally()
        return tally

    # --- notes ---------------------------------------------------------------------------

    def note(self, kind: str, data: JsonObject) -> None:
        """See `Notes`. `data` (JSON, frozen structs) must not change any more; its `agent_id` says
        whose it is.
        """
        agent_id = data.get("agent_id")
        with self._mutex:
            if self._is_closed:
                return
            whose = agent_id if isinstance(agent_id, str) else None
            self._tally(whose).note(kind, data)
            if self._waiting >= _WAITING_MAX:
                self._dropped += 1
                return
            if self._worker is None:
                from concurrent.futures import ThreadPoolExecutor  # not every session has notes

                self._worker = ThreadPoolExecutor(1, "rewake-trace")
            try:
                self._worker.submit(self._write_note, self._timestamp(), kind, data)
                self._waiting += 1
            except RuntimeError:
                self._dropped += 1  # the interpreter is ending and starts no threads any more

    def _write_note(self, timestamp: str, kind: str, data: JsonObject) -> None:
        """In the trace's own thread."""
        try:
            text = self._note_line(timestamp, kind, data)
            with self._mutex:
                self._add(text)
                self._flush_if_due(self._monotonic_ns())
        except Exception as error:  # noqa: BLE001  # nobody waits for this thread: `record` raises it
            self._failure = error
        finally:
            with self._mutex:
                self._waiting -= 1

    def _note_line(self, timestamp: str, kind: str, data: JsonObject) -> str:
        if self.options.make_redact is not None and self._redact is None:
            self._redact = self.options.make_redact()
        told = _cut(msgspec.to_builtins(data, enc_hook=repr), 2 * _TEXT_CHARS_MAX)
        if self._redact is not None:
            told = self._redact(told)
        text = json.dumps(_cut(told, _TEXT_CHARS_MAX), default=repr)
        if len(text) > _NOTE_CHARS_MAX:
            text = json.dumps(
                {"cut": f"{len(text)} characters", "beginning": text[:_TEXT_CHARS_MAX]}
            )
        return f'{{"time":"{timestamp}","note":{json.dumps(kind)},"data":{text}}}\n'

    def _line(self, kind: str, data: JsonObject) -> str:
        told = {"time": self._timestamp(), "note": kind, "data": data}
        return json.dumps(told, separators=(",", ":")) + "\n"

    # --- writing -------------------------------------------------------------------------

    def flush(self) -> None:
        """Hand what is buffered to the operating system."""
        with self._mutex:
            self._flush()
            self._raise_failure()

    def close(self) -> None:
        """Write what waits and what the run came to, and release; harmless when called twice."""
        with self._mutex:
            was_closed, self._is_closed = self._is_closed, True
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.shutdown()  # without the mutex, which its work needs
        if was_closed:
            return
        try:
            with self._mutex:
                self._sum_up()
                self._flush()
                self._raise_failure()
        finally:
            self._file.close()

    def _sum_up(self) -> None:
        for agent_id, tally in self._tallies.items():
            ended = tally.end_of_step()
            if ended is not None:
                self._add(self._line("step", _of_agent(agent_id, ended)))
            if tally.events:
                self._add(self._line("summary", _of_agent(agent_id, tally.summary())))
        if self._dropped:
            self._add(self._line("dropped", {"notes": self._dropped}))

    def abandon_after_fork(self) -> None:
        """What is buffered is the parent's to write."""
        self._mutex = threading.Lock()
        self._buffer = []
        self._worker = None
        self._is_closed = True
        self._file.close()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _add(self, line: str) -> None:
        self._buffer.append(line)
        self._chars += len(line)

    def _flush_if_due(self, now_ns: int) -> None:
        if self._chars >= _BUFFER_CHARS or now_ns - self._flushed_ns >= _FLUSH_DELAY_NS_MAX:
            self._flush()

    def _flush(self) -> None:
        lines, self._buffer, self._chars = self._buffer, [], 0
        self._flushed_ns = self._monotonic_ns()
        if lines:
            self._file.write("".join(lines).encode("utf-8", "backslashreplace"))


def _of_agent(agent_id: str | None, data: JsonObject) -> JsonObject:
    return data if agent_id is None else {"agent_id": agent_id, **data}


def _more(event: Event) -> str:
    """What a line tells besides: whose it is, and what a compaction made of the conversation."""
    more = "" if event.agent_id is None else f',"agent_id":{json.dumps(event.agent_id)}'
    payload = event.payload
    if isinstance(payload, Checkpoint) and payload.kind == "compaction":
        more += (
            f',"trigger":{json.dumps(payload.trigger)},"tokens_before":{payload.tokens_before}'
            f',"tokens_after":{payload.tokens_after}'
        )
    return more


def _cut(value: object, chars_max: int) -> object:
    """JSON with its long texts cut."""
    if isinstance(value, str) and len(value) > chars_max:
        return f"{value[:chars_max]}… [{len(value) - chars_max} more characters]"
    if isinstance(value, dict):
        return {key: _cut(item, chars_max) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cut(item, chars_max) for item in value]
    return value
