"""The local log as an `EventStore`: one transcript a session, written by the code that writes them.

The rule kept here: the lock of a session is held for each append only, so that many handles can take
turns; a running agent holds it for life.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rewake.log.appender import Appender
from rewake.log.disk import Disk
from rewake.log.layout import checked_name
from rewake.log.lock import SessionLock, this_process
from rewake.log.scan import Transcript
from rewake.model.codec import CorruptLine
from rewake.model.events import Event
from rewake.testing.event_store import StoredEvent, StoredSession, missing

_TRANSCRIPT = "transcript.jsonl"


class LocalStore:
    """Sessions below `directory`. Raises SessionBusyError while another handle appends to one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._disk = Disk()

    def append(self, session_id: str, expected_seq: int, events: Sequence[StoredEvent]) -> int:
        directory = self._directory / checked_name(session_id)
        if not events and not directory.exists():
            missing((), expected_seq, events)
            return expected_seq
        self._disk.make_directory(directory)
        with SessionLock(directory / "lock", self._disk, this_process("", "rewake.testing")):
            appender = Appender(directory / _TRANSCRIPT, self._disk, sync=True)
            try:
                new = missing(self._read(session_id), expected_seq, events)
                if new:
                    appender.append(b"".join(event.line + b"\n" for event in new))
                    appender.sync()
            finally:
                appender.close()
        return expected_seq + len(events)

    def load(self, session_id: str, from_seq: int = 0) -> StoredSession:
        stored = self._read(session_id)[from_seq:]
        damage = [
            f"line {from_seq + at} is corrupt" for at, one in enumerate(stored) if one is None
        ]
        return StoredSession(tuple(one for one in stored if one is not None), tuple(damage))

    def sessions(self) -> Sequence[str]:
        return [path.parent.name for path in self._directory.glob(f"*/{_TRANSCRIPT}")]

    def close(self) -> None:
        """Nothing is held between appends."""

    def transcript(self, session_id: str) -> Path:
        """Where a session's lines are, for tests that damage them."""
        return self._directory / checked_name(session_id) / _TRANSCRIPT

    def _read(self, session_id: str) -> list[StoredEvent | None]:
        """Every line; None for a corrupt one. A torn tail is no line."""
        path = self.transcript(session_id)
        if not path.exists():
            return []
        stored: list[StoredEvent | None] = []
        with Transcript(path) as reader:
            for item in reader.forward():
                if isinstance(item, Event):
                    stored.append(StoredEvent(item.event_id, item.line))
                elif isinstance(item, CorruptLine):
                    stored.append(None)
        return stored
