"""Every store that Rewake has, through the public conformance suite."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from rewake.errors import SessionBusyError
from rewake.testing.event_store import EventStore
from rewake.testing.event_store_local import LocalStore
from rewake.testing.memory_store import MemoryPlace, MemoryStore
from rewake.testing.store_suite import EventStoreSuite


class TestMemoryStore(EventStoreSuite):
    @pytest.fixture(autouse=True)
    def _place(self) -> None:
        self.place = MemoryPlace()

    def make_store(self) -> EventStore:
        return MemoryStore(self.place)

    def damage(self, store: EventStore, session_id: str, seq: int) -> None:
        self.place.sessions[session_id][seq] = None


class TestLocalStore(EventStoreSuite):
    busy: ClassVar[tuple[type[Exception], ...]] = (SessionBusyError,)

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path

    def make_store(self) -> EventStore:
        return LocalStore(self.path)

    def damage(self, store: EventStore, session_id: str, seq: int) -> None:
        path = LocalStore(self.path).transcript(session_id)
        lines = path.read_bytes().split(b"\n")
        lines[seq] = lines[seq][:40] + b"!" + lines[seq][41:]
        path.write_bytes(b"\n".join(lines))
