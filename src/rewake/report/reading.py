"""A transcript read into its story, as far as it is written now and further with each call.

The rules kept here: only complete lines count, so a line that is being written is read the next time;
the writer is never disturbed, since no lock is taken; and a file that isn't the same one any more (a
repair put another in its place) is told anew from its beginning.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from rewake.log.scan import Transcript
from rewake.model.codec import CorruptLine, TornTail, decode_payload
from rewake.model.events import Checkpoint, Event, SessionStart, Spilled
from rewake.report.clean import Cleaner
from rewake.report.story import Story
from rewake.resume.lineage import Lineage, OpenTranscript
from rewake.resume.load import BlobReader, Damage, refuse_newer

_UNTOLD: Final = frozenset({"checkpoint"})


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

    def catch_up(self) -> bool:
        """Read what is new; whether there was something.

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
            return self._read(reader.transcript, reader)

    def _begin_anew(self, identity: tuple[int, int]) -> None:
        if self._identity is not None:
            self.story = self._tell()
            self.generation += 1
        self._identity, self._offset, self._session_id = identity, 0, None

    def _read(self, transcript: Transcript, reader: Lineage) -> bool:
        start = self._offset
        for item in transcript.forward(start):
            if isinstance(item, TornTail):
                break
            self._offset = item.offset + len(item.line) + 1
            if isinstance(item, CorruptLine):
                self.story.damage(Damage("corrupt_line", item.offset, item.reason))
                continue
            self._session_id = self._session_id or item.session_id
            if item.session_id != self._session_id:
                detail = "a line of another session"
                self.story.damage(Damage("foreign_session", item.offset, detail))
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
        if not self.story.place(event, parent, inherited=inherited):
            return
        if event.event_type in _UNTOLD:
            event = _small(event)
            if isinstance(event.payload, Checkpoint) and event.payload.kind == "state":
                self.story.apply(event)
                return
        self.story.apply(self._cleaner.event(event, self._blobs))


def _small(event: Event) -> Event:
    """A state checkpoint without its state, which nobody looks at here."""
    if not isinstance(event.payload, Spilled):
        return event
    raw = bytes(event.payload.preview)
    payload = decode_payload(event.event_type, event.schema_version, raw)
    if isinstance(payload, Checkpoint) and payload.kind == "state":
        return msgspec.structs.replace(event, payload=payload)
    return event


def same_file(path: Path) -> tuple[int, int, int] | None:
    """What tells whether a transcript has changed: device, inode, size; None where it is gone."""
    try:
        found = os.stat(path)  # noqa: PTH116  # called often
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size
