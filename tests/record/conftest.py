"""Recorders over real files for the tests of the record floor."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rewake.errors import RewakeError
from rewake.log.appender import Appender
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk, set_crash_hook
from rewake.log.scan import Transcript
from rewake.model.codec import CorruptLine, TornTail
from rewake.model.events import Event
from rewake.model.ids import IdGenerator
from rewake.record.recorder import Recorder


class FaultyDisk(Disk):
    """Fails once at the named operation, and remembers what was asked of it."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failures: dict[str, int] = {}

    def fail(self, operation: str, number: int = errno.EIO) -> None:
        self.failures[operation] = number

    def _note(self, operation: str) -> None:
        self.calls.append(operation)
        number = self.failures.pop(operation, None)
        if number is not None:
            raise OSError(number, os.strerror(number))

    def write(self, descriptor: int, data: bytes) -> int:
        self._note("write")
        return super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self._note("sync")
        super().sync(descriptor)

    def sync_directory(self, path: Path) -> None:
        self._note("sync_directory")
        super().sync_directory(path)

    def rename(self, source: Path, target: Path) -> None:
        self._note("rename")
        super().rename(source, target)


class World:
    """A directory with one session: what was folded, what was published, and the clocks."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "transcript.jsonl"
        self.disk = FaultyDisk()
        self.folded: list[Event] = []
        self.now_ns = 1_700_000_000_000_000_000
        self.monotonic_ns = 0
        self.recorders: list[Recorder] = []

    def ids(self) -> IdGenerator:
        return IdGenerator(lambda: self.now_ns // 1_000_000, lambda _bits: 0)

    def recorder(self, durability: Any = "process", **changes: Any) -> Recorder:
        """A recorder; the clocks stand still unless the test moves them."""
        settings: dict[str, Any] = {
            "session_id": "session",
            "run_id": "run",
            "durability": durability,
            "ids": self.ids(),
            "fold": self.folded.append,
            "clock_ns": lambda: self.now_ns,
            "monotonic_ns": lambda: self.monotonic_ns,
        }
        if durability != "memory":
            settings["transcript"] = Appender(self.path, self.disk, sync=durability == "disk")
            settings["blobs"] = BlobStore(
                self.directory / "blobs", self.disk, durable=durability == "disk"
            )
        recorder = Recorder(**{**settings, **changes})
        self.recorders.append(recorder)
        self.disk.calls.clear()
        return recorder

    def read(self) -> list[Event | CorruptLine | TornTail]:
        with Transcript(self.path) as transcript:
            return list(transcript.forward())

    def events(self) -> list[Event]:
        items = self.read()
        assert all(isinstance(item, Event) for item in items), items
        return [item for item in items if isinstance(item, Event)]

    def check_chain(self) -> list[Event]:
        """Every line is an event, once, and names the line before it as its parent."""
        events = self.events()
        assert [event.seq for event in events] == list(range(len(events)))
        for before, event in itertools.pairwise(events):
            assert event.parent_id == before.event_id
            assert event.event_id > before.event_id
        assert not events or events[0].parent_id is None
        return events


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    set_crash_hook(None)
    for recorder in made.recorders:
        with contextlib.suppress(RewakeError):  # the test has looked at the error already
            recorder.close()


@pytest.fixture
def make_world() -> Callable[[Path], World]:
    return World
