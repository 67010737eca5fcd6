"""A transcript read into its story, as far as it is written now and further with each call.

The rules kept here: only complete lines count, so a line that is being written is read the next time;
the writer is never disturbed, since no lock is taken; and a file that isn't the same one any more (a
repair put another in its place) is told anew from its beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from rewake.log.scan import Transcript
from rewake.model.codec import CorruptLine, TornTail, decode_payload
from rewake.model.events import Checkpoint, Event, SessionStart, Spilled, Unknown
from rewake.report.clean import Cleaner
from rewake.report.story import Story
from rewake.resume.lineage import Lineage, OpenTranscript
from rewake.resume.load import BlobReader, Damage, refuse_newer

_TOGETHER_BYTES: Final = 1 << 18


class Reading:
    """One transcript and those that it was forked from. `generation` rises when it is told anew."""

    def __init__(
        self,
        transcript: Path,
        open_transcript: OpenTranscript,
        blobs: BlobReader,
        cleaner: Cleaner,
        tell: Callable[[], Story],
    ) -> None:
        self.story = tell()
        self.generation = 0
        self._transcript = transcript
        self._open = open_transcript
        self._blobs = blobs
        self._cleaner = cleaner
        self._tell = tell
        self._offset = 0
        self._session_id: str | None = None
        self._identity: tuple[int, int] | None = None
        self._waiting: list[tuple[Event, str | None, bool]] = []
        self._waiting_bytes = 0

    @property
    def offset(self) -> int:
        """How far the transcript is told, in bytes."""
        return self._offset

    def catch_up(self, bytes_max: int | None = None) -> bool:
        """Read what is new, about `bytes_max` of it at most; whether there was something.

        Raises StorageError, DamagedError, UnreadableVersionError.
        """
        with Lineage(Transcript(self._transcript), self._open) as reader:
            found = self._transcript.stat()
            if self._identity != (found.st_dev, found.st_ino) or found.st_size < self._offset:
                self._begin_anew((found.st_dev, found.st_ino))
            if reader.size() <= self._offset:
                return False
            if self._offset == 0:
                self._read_ancestors(reader)
            has_news = self._read(reader.transcript, reader, bytes_max)
            self._tell_waiting()
            return has_news

    def _begin_anew(self, identity: tuple[int, int]) -> None:
        if self._identity is not None:
            self.story = self._tell()
            self.generation += 1
        self._identity, self._offset, self._session_id = identity, 0, None
        self._waiting, self._waiting_bytes = [], 0

    def _read(self, transcript: Transcript, reader: Lineage, bytes_max: int | None) -> bool:
        start = self._offset
        for item in transcript.forward(start):
            if isinstance(item, TornTail):
                break
            if bytes_max is not None and item.offset - start > bytes_max:
                break
            self._offset = item.offset + len(item.line) + 1
            if isinstance(item, CorruptLine):
                self._damaged(Damage("corrupt_line", item.offset, item.reason))
                continue
            self._session_id = self._session_id or item.session_id
            if item.session_id != self._session_id:
                detail = "a line of another session"
                self._damaged(Damage("foreign_session", item.offset, detail))
                continue
            self._take(item, reader, inherited=False)
        return self._offset > start

    def _read_ancestors(self, reader: Lineage) -> None:
        """Those of the origins first, each as far as the next one goes on from it."""
        above = reader.ancestor()
        if above is None or reader.origin is None:
            return
        self._read_ancestors(above)
        for item in above.forward():
            if isinstance(item, Event):
                if item.event_id > reader.origin.event_id:
                    return
                self._take(item, above, inherited=True)

    def _take(self, event: Event, reader: Lineage, *, inherited: bool) -> None:
        refuse_newer(event)
        parent = event.parent_id
        if isinstance(event.payload, SessionStart) and reader.ancestor() is not None:
            parent = reader.origin.event_id if reader.origin is not None else parent
        self._waiting.append((_small(event), parent, inherited))
        self._waiting_bytes += len(event.line)
        if self._waiting_bytes > _TOGETHER_BYTES:
            self._tell_waiting()

    def _damaged(self, damage: Damage) -> None:
        self._tell_waiting()
        self.story.damage(damage)

    def _tell_waiting(self) -> None:
        """Tell the events that wait, cleaned together."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        shown = [event for event, _, _ in waiting if not _is_state(event)]
        cleaned = iter(self._cleaner.events(shown, self._blobs))
        for event, parent, inherited in waiting:
            told = event if _is_state(event) else next(cleaned)
            if not self.story.place(told, parent, inherited=inherited):
                continue
            if isinstance(told.payload, Unknown) and told.payload.problem is not None:
                detail = self._cleaner.text(told.payload.problem)
                self.story.damage(Damage("unreadable_payload", told.offset, detail))
            self.story.apply(told)


def _is_state(event: Event) -> bool:
    """Of a state checkpoint nothing but what it cost is shown."""
    return isinstance(event.payload, Checkpoint) and event.payload.kind == "state"


def _small(event: Event) -> Event:
    """A state checkpoint without its state, which nobody looks at here."""
    if event.event_type != "checkpoint" or not isinstance(event.payload, Spilled):
        return event
    raw = bytes(event.payload.preview)
    payload = decode_payload(event.event_type, event.schema_version, raw)
    if isinstance(payload, Checkpoint) and payload.kind == "state":
        return msgspec.structs.replace(event, payload=payload)
    return event
