"""A transcript together with those it was forked from, read as one.

The rule kept here: a fork shares its origin's events by reference. An id below the fork's first one
is the origin's (ids rise across a fork, since its generator is seeded by the event it starts from),
so looking it up never reads the wrong file, and an origin is opened only when it is needed.

A session may hold transcripts of its origins in its own directory (`origins/<session_id>.jsonl`):
when an origin is deleted or a session comes from another machine, that is where its history stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rewake.errors import SessionNotFoundError, StorageError, UsageError
from rewake.log.layout import SessionPaths, checked_name
from rewake.log.scan import Lookup, Transcript
from rewake.model.codec import CorruptLine, TornTail
from rewake.model.events import Event, ForkOrigin, SessionStart

OpenTranscript = Callable[[str], Transcript]
"""Opens the transcript of a session id. Raises SessionNotFoundError or StorageError."""

ORIGINS: Final = "origins"


def origin_path(session_directory: Path, origin_id: str) -> Path:
    """Where a session holds the transcript of an origin of its own. Raises UsageError for a bad id."""
    return session_directory / ORIGINS / f"{checked_name(origin_id)}.jsonl"


class Ancestors:
    """Finds the transcripts that a session was forked from, one after the other; an `OpenTranscript`.

    What a session on the way holds itself comes first, then a session beside it (a fork lives in its
    origin's project), then whatever `find` knows.
    """

    def __init__(
        self, session: SessionPaths, find: Callable[[str], SessionPaths] | None = None
    ) -> None:
        self._holders = [session]
        self._find = find

    def __call__(self, session_id: str) -> Transcript:
        """Raises SessionNotFoundError or StorageError."""
        return Transcript(self.path(session_id))

    def path(self, session_id: str) -> Path:
        """The file. Raises SessionNotFoundError."""
        try:
            for holder in self._holders:
                held = origin_path(holder.directory, session_id)
                if held.exists():
                    return held
        except UsageError as error:
            raise SessionNotFoundError(
                error.message, remedy="The first line is damaged."
            ) from error
        found = self._session(session_id)
        self._holders.append(found)
        return found.transcript

    def _session(self, session_id: str) -> SessionPaths:
        beside = SessionPaths(self._holders[0].project, session_id)
        if beside.transcript.exists():
            return beside
        if self._find is None:
            raise SessionNotFoundError(
                f"There is no session {session_id!r} here.",
                remedy="A fork needs its origin in the same project's directory.",
            )
        return self._find(session_id)


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
