"""A transcript together with those it was forked from, read as one.

The rule kept here: a fork shares its origin's events by reference. An id below the fork's first one
is the origin's (ids rise across a fork, since its generator is seeded by the event it starts from),
so looking it up never reads the wrong file, and an origin is opened only when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from rewake.errors import SessionNotFoundError, StorageError
from rewake.log.scan import Lookup, Transcript
from rewake.model.codec import CorruptLine, TornTail
from rewake.model.events import Event, ForkOrigin, SessionStart

OpenTranscript = Callable[[str], Transcript]
"""Opens the transcript of a session id. Raises SessionNotFoundError or StorageError."""


class Lineage:
    """A reader over one transcript and its ancestors. Close it, or use it with `with`."""

    def __init__(self, transcript: Transcript, open_transcript: OpenTranscript) -> None:
        self.transcript = transcript
        self.origin: ForkOrigin | None = None
        self._open_transcript = open_transcript
        self._first_id: str | None = None
        self._ancestor: Lineage | None = None
        self._closing = ExitStack()
        self._closing.callback(transcript.close)
        for item in transcript.forward():
            if isinstance(item, Event):
                self._first_id = item.event_id
                if isinstance(item.payload, SessionStart):
                    self.origin = item.payload.forked_from
            break

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every transcript that was opened; harmless when called twice."""
        self._closing.close()

    def ancestor(self) -> Lineage | None:
        """The origin's lineage; None where this is no fork or the origin is gone."""
        if self.origin is None or self._ancestor is not None:
            return self._ancestor
        try:
            opened = self._open_transcript(self.origin.session_id)
        except (SessionNotFoundError, StorageError):
            # What that costs is reported by whoever misses an event of it.
            return None
        self._ancestor = Lineage(opened, self._open_transcript)
        self._closing.callback(self._ancestor.close)
        return self._ancestor

    # --- reading -----------------------------------------------------------------------------

    def size(self) -> int:
        """Bytes of the youngest transcript."""
        return self.transcript.size()

    def backward(self, end: int | None = None) -> Iterator[Event | CorruptLine | TornTail]:
        """The youngest transcript's lines, newest first."""
        return self.transcript.backward(end)

    def forward(self) -> Iterator[Event | CorruptLine | TornTail]:
        """The youngest transcript's lines, oldest first."""
        return self.transcript.forward()

    def find_many(self, event_ids: Iterable[str]) -> Lookup:
        """The events with these ids, each from the transcript that has it."""
        wanted = list(event_ids)
        inherited = [event_id for event_id in wanted if self.is_inherited(event_id)]
        own = self.transcript.find_many(set(wanted).difference(inherited))
        if not inherited:
            return own
        above = self.ancestor()
        if above is None:
            return Lookup(own.found, own.scanned, (*own.missing, *inherited))
        older = above.find_many(inherited)
        return Lookup(
            {**older.found, **own.found},
            (*older.scanned, *own.scanned),
            (*older.missing, *own.missing),
        )

    def is_inherited(self, event_id: str) -> bool:
        """Whether an event of this id, if there is one, is an ancestor's."""
        return self.origin is not None and self._first_id is not None and event_id < self._first_id

    def locate_in_ancestors(self, event_id: str) -> tuple[Lineage, Event] | None:
        """The inherited event and the lineage whose own transcript has it."""
        above = self.ancestor()
        return above.locate(event_id) if above is not None else None

    def locate(self, event_id: str) -> tuple[Lineage, Event] | None:
        """The event and the lineage whose own transcript has it."""
        if self.is_inherited(event_id):
            return self.locate_in_ancestors(event_id)
        event = self.transcript.find(event_id)
        return (self, event) if event is not None else None
