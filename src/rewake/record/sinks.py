"""Who else is told of each event: the trace, callbacks, telemetry.

The rule kept here: the transcript must succeed and everything else is best effort. A sink that
fails is counted and reported once, and never stops the session or another sink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from rewake.model.events import Event


class LineSink(Protocol):
    """The transcript as the recorder needs it (`rewake.log.appender.Appender`).

    Any exception from `append` or `sync` means that nothing more may be written.
    """

    last_event_id: str | None
    next_seq: int

    def append(self, data: bytes) -> int:
        """Hand complete lines to the operating system in one write; returns their offset."""
        ...

    def sync(self) -> None:
        """Make everything appended survive a power loss."""
        ...

    def close(self) -> None:
        """Release the file without syncing."""
        ...


class BlobSink(Protocol):
    """Where payloads go that are too large for a line; durable as the recorder's level asks."""

    def put(self, data: bytes) -> str:
        """Keep `data` under the SHA-256 returned."""
        ...


class Sink(Protocol):
    """Told of each event once, in the order of the file, after its line was written.

    It must not record events itself. `line` is the line with its newline; empty where the session
    is kept in memory only.
    """

    def record(self, event: Event, line: bytes) -> None:
        """One more event."""
        ...

    def flush(self) -> None:
        """Hand to the operating system what is buffered."""
        ...

    def close(self) -> None:
        """Flush and release."""
        ...


class CallbackSink:
    """A plain function as a sink."""

    def __init__(self, on_recorded: Callable[[Event], None]) -> None:
        self._on_recorded = on_recorded

    def record(self, event: Event, line: bytes) -> None:  # noqa: ARG002  # the port's signature
        self._on_recorded(event)

    def flush(self) -> None:
        """A function has nothing to flush."""

    def close(self) -> None:
        """A function has nothing to release."""


class SinkProblem(msgspec.Struct):
    """What a sink failed with first, and how often it has failed."""

    sink: str
    message: str
    count: int = 1


class BestEffort:
    """Several sinks as one. `problems` has one entry per sink that ever failed.

    `on_problem` hears of each sink's first failure only.
    """

    def __init__(
        self, sinks: Sequence[Sink], on_problem: Callable[[SinkProblem], None] | None = None
    ) -> None:
        self.problems: dict[str, SinkProblem] = {}
        self._sinks = tuple(sinks)
        self._on_problem = on_problem

    def record(self, event: Event, line: bytes) -> None:
        for sink in self._sinks:
            try:
                sink.record(event, line)
            except Exception as error:  # noqa: BLE001  # any failure of a side sink, kept as a problem
                self._note(sink, error)

    def flush(self) -> None:
        for sink in self._sinks:
            try:
                sink.flush()
            except Exception as error:  # noqa: BLE001  # any failure of a side sink, kept as a problem
                self._note(sink, error)

    def close(self) -> None:
        for sink in self._sinks:
            try:
                sink.close()
            except Exception as error:  # noqa: BLE001  # any failure of a side sink, kept as a problem
                self._note(sink, error)

    def _note(self, sink: Sink, error: Exception) -> None:
        name = type(sink.sink if isinstance(sink, KeptOpen) else sink).__name__
        known = self.problems.get(name)
        if known is not None:
            known.count += 1
            return
        problem = SinkProblem(name, f"{type(error).__name__}: {error}")
        self.problems[name] = problem
        if self._on_problem is not None:
            self._on_problem(problem)


class KeptOpen:
    """A sink that somebody else closes: it is told of the events of another recorder as well."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def record(self, event: Event, line: bytes) -> None:
        """One more event."""
        self.sink.record(event, line)

    def flush(self) -> None:
        """Hand to the operating system what is buffered."""
        self.sink.flush()

    def close(self) -> None:
        """Nothing: see above."""
