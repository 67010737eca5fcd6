"""Lines, files and disks for the tests of the log floor."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rewake.log.disk import Disk
from rewake.model.codec import seal_line
from rewake.model.ids import join_id


def make_line(number: int, text: str = "x", *, parent: int | None = None) -> bytes:
    """A valid message line without its newline; ids rise with the number."""
    parent_id = "null" if parent is None else f'"{join_id(1_000, parent)}"'
    head = (
        f'{{"event_id":"{join_id(1_000, number)}","parent_id":{parent_id},"seq":{number}'
        ',"timestamp":"2026-01-01T00:00:00.000000Z","session_id":"s","run_id":"r","step":0'
        ',"event_type":"message","schema_version":1,"payload":'
        f'{{"role":"user","content":[{{"type":"text","text":"{text}"}}]}}'
    )
    return seal_line(head.encode())[:-1]


class FaultyDisk(Disk):
    """Fails at the named operation as often as told, and remembers what was asked of it."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failures: dict[str, int] = {}
        self.write_bytes_max: int | None = None

    def fail(self, operation: str, number: int = errno.EIO) -> None:
        self.failures[operation] = number

    def _note(self, operation: str) -> None:
        self.calls.append(operation)
        number = self.failures.pop(operation, None)
        if number is not None:
            raise OSError(number, os.strerror(number))

    def write(self, descriptor: int, data: bytes) -> int:
        self._note("write")
        return super().write(descriptor, data[: self.write_bytes_max])

    def sync(self, descriptor: int) -> None:
        self._note("sync")
        super().sync(descriptor)

    def sync_directory(self, path: Path) -> None:
        self._note("sync_directory")
        super().sync_directory(path)

    def rename(self, source: Path, target: Path) -> None:
        self._note("rename")
        super().rename(source, target)

    def close(self, descriptor: int) -> None:
        super().close(descriptor)
        self._note("close")

    def lock(self, descriptor: int, operation: int) -> None:
        self._note("lock")
        super().lock(descriptor, operation)


@pytest.fixture
def line() -> Callable[..., bytes]:
    return make_line


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "transcript.jsonl"
