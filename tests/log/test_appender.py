"""Appending: what a tail becomes, and when an appender refuses to go on."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rewake.errors import PoisonedError, StorageError
from rewake.log.appender import Appender
from rewake.log.disk import Disk, set_crash_hook
from rewake.log.scan import Transcript
from rewake.model.codec import CorruptLine, TornTail
from rewake.model.events import Event
from rewake.model.ids import join_id

Line = Callable[..., bytes]


@pytest.fixture(autouse=True)
def no_crash_hook() -> Iterator[None]:
    yield
    set_crash_hook(None)


def read(path: Path) -> list[Event | CorruptLine | TornTail]:
    with Transcript(path) as transcript:
        return list(transcript.forward())


def test_a_new_file_is_private_and_starts_at_nothing(path: Path, disk: Any) -> None:
    appender = Appender(path, disk, sync=True)
    assert (appender.last_event_id, appender.next_seq, appender.size) == (None, 0, 0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert disk.calls == ["sync_directory"]
    appender.close()


def test_each_append_is_one_write_and_no_read(path: Path, disk: Any, line: Line) -> None:
    appender = Appender(path, disk, sync=False)
    disk.calls.clear()
    assert appender.append(line(0) + b"\n") == 0
    assert appender.append(line(1) + b"\n" + line(2) + b"\n") == len(line(0)) + 1
    assert disk.calls == ["write", "write"]
    appender.close()
    assert [event.seq for event in read(path) if isinstance(event, Event)] == [0, 1, 2]


def test_it_goes_on_after_the_newest_event(path: Path, line: Line) -> None:
    path.write_bytes(line(6) + b"\n" + line(7) + b"\n")
    appender = Appender(path, Disk(), sync=False)
    assert (appender.last_event_id, appender.next_seq) == (join_id(1_000, 7), 8)
    assert appender.sealed is None
    assert appender.size == path.stat().st_size
    appender.close()


def test_a_tail_torn_at_any_byte_is_sealed_and_costs_only_itself(path: Path, line: Line) -> None:
    record = line(1, "Größe 🙂 ñ \u2028")
    for cut in range(len(record) + 1):
        path.write_bytes(line(0) + b"\n" + record[:cut])
        appender = Appender(path, Disk(), sync=False)
        whole = cut == len(record)
        if cut == 0:
            assert appender.sealed is None
        else:
            assert appender.sealed is not None
            assert appender.sealed.recovered is whole
            assert (appender.sealed.offset, appender.sealed.size) == (len(line(0)) + 1, cut)
        expected = 1 if whole else 0
        assert appender.last_event_id == join_id(1_000, expected)
        assert appender.next_seq == (1 if cut == 0 else 2)
        appender.append(line(9) + b"\n")
        appender.close()
        seen = [item.seq if isinstance(item, Event) else "bad" for item in read(path)]
        assert seen == ([0, 9] if cut == 0 else [0, 1, 9] if whole else [0, "bad", 9])


def test_sealing_writes_a_newline_and_nothing_else(path: Path, line: Line) -> None:
    before = line(0) + b"\n" + b'{"event_id":"half'
    path.write_bytes(before)
    Appender(path, Disk(), sync=False).close()
    assert path.read_bytes() == before + b"\n"


@pytest.mark.parametrize("garbage", [b"null", b"17", b"[]", b"\0" * 9000, b"", b"\xff\xfe", b"{}"])
def test_corrupt_last_lines_are_read_past_and_counted(
    path: Path, line: Line, garbage: bytes
) -> None:
    path.write_bytes(line(4) + b"\n" + garbage + b"\n" + garbage + b"\n")
    appender = Appender(path, Disk(), sync=False)
    assert (appender.last_event_id, appender.next_seq) == (join_id(1_000, 4), 7)
    appender.close()


def test_a_file_of_only_garbage_can_be_appended_to(path: Path) -> None:
    path.write_bytes(b"\0" * 100_000)
    appender = Appender(path, Disk(), sync=False)
    assert (appender.last_event_id, appender.next_seq) == (None, 1)
    appender.close()


def test_a_short_write_stops_everything(path: Path, disk: Any, line: Line) -> None:
    appender = Appender(path, disk, sync=False)
    disk.write_bytes_max = 10
    with pytest.raises(StorageError, match=r"only 10 of \d+ bytes.*full: free some space") as found:
        appender.append(line(0) + b"\n")
    assert found.value.path == str(path)
    disk.write_bytes_max = None
    with pytest.raises(PoisonedError, match="only 10 of"):
        appender.append(line(1) + b"\n")
    with pytest.raises(PoisonedError):
        appender.sync()
    appender.close()
    assert path.stat().st_size == 10


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "free some space"),
        (errno.EFBIG, "ulimit -f"),
        (errno.EROFS, "REWAKE_HOME"),
        (errno.EIO, "Check the disk"),
    ],
)
def test_a_failed_write_says_what_to_do(
    path: Path, disk: Any, line: Line, number: int, remedy: str
) -> None:
    appender = Appender(path, disk, sync=False)
    disk.fail("write", number)
    with pytest.raises(StorageError, match=remedy):
        appender.append(line(0) + b"\n")
    with pytest.raises(PoisonedError):
        appender.append(line(0) + b"\n")
    appender.close()
    assert path.read_bytes() == b""


def test_after_a_failed_sync_nothing_is_written_or_synced(
    path: Path, disk: Any, line: Line
) -> None:
    appender = Appender(path, disk, sync=False)
    appender.append(line(0) + b"\n")
    disk.fail("sync")
    with pytest.raises(StorageError, match="Could not sync"):
        appender.sync()
    disk.calls.clear()
    with pytest.raises(PoisonedError):
        appender.sync()
    with pytest.raises(PoisonedError):
        appender.append(line(1) + b"\n")
    assert disk.calls == []
    appender.close()


def test_a_sync_without_news_costs_nothing(path: Path, disk: Any, line: Line) -> None:
    appender = Appender(path, disk, sync=False)
    appender.append(line(0) + b"\n")
    appender.sync()
    disk.calls.clear()
    appender.sync()
    assert disk.calls == []
    appender.close()


@pytest.mark.parametrize(
    "point", ["before_write_event", "after_write_event", "before_sync_event", "after_sync_event"]
)
def test_an_interruption_before_the_book_keeping_poisons(
    path: Path, line: Line, point: str
) -> None:
    def interrupt(name: str) -> None:
        if name == point:
            raise KeyboardInterrupt

    appender = Appender(path, Disk(), sync=False)
    set_crash_hook(interrupt)

    def append_and_sync() -> None:
        appender.append(line(0) + b"\n")
        appender.sync()

    with pytest.raises(KeyboardInterrupt):
        append_and_sync()
    set_crash_hook(None)
    with pytest.raises(PoisonedError, match="interrupted"):
        appender.append(line(1) + b"\n")
    appender.close()


def test_the_limit_on_file_size_is_a_storage_error(path: Path, line: Line) -> None:
    appender = Appender(path, Disk(), sync=False)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(StorageError, match="only 100 of"):
            appender.append(line(0) + b"\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    with pytest.raises(PoisonedError):
        appender.append(line(1) + b"\n")
    appender.close()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting a tiny file system needs root")
    mount = tmp_path / "tiny"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine doesn't allow mounting a tmpfs")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def test_a_full_disk_loses_nothing_that_was_acknowledged(tiny_disk: Path, line: Line) -> None:
    path = tiny_disk / "transcript.jsonl"
    appender = Appender(path, Disk(), sync=True)
    acknowledged = 0

    def append_until_full() -> None:
        nonlocal acknowledged
        while True:
            appender.append(line(acknowledged, "x" * 1000) + b"\n")
            appender.sync()
            acknowledged += 1

    with pytest.raises(StorageError, match="free some space"):
        append_until_full()
    with pytest.raises(PoisonedError):
        appender.append(line(acknowledged) + b"\n")
    appender.close()
    assert acknowledged > 40
    kept = [item.seq for item in read(path) if isinstance(item, Event)]
    assert kept == list(range(acknowledged))


def test_a_forked_child_can_not_write(path: Path, line: Line) -> None:
    appender = Appender(path, Disk(), sync=False)
    child = os.fork()
    if child == 0:  # pragma: no cover  # in the child
        try:
            appender.append(line(0) + b"\n")
        except PoisonedError:
            os._exit(7)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    appender.append(line(1) + b"\n")
    appender.close()
    assert path.read_bytes() == line(1) + b"\n"


def test_an_error_told_at_close_is_a_storage_error(path: Path, disk: Any) -> None:
    appender = Appender(path, disk, sync=False)
    disk.fail("close")
    with pytest.raises(StorageError, match="Could not close"):
        appender.close()
    appender.close()


def test_a_directory_that_is_missing_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Could not open"):
        Appender(tmp_path / "none" / "transcript.jsonl", Disk(), sync=False)
