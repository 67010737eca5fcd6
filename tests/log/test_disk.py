"""The disk: atomic replacement, private modes, durable directories, crash points."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rewake.errors import StorageError, UsageError
from rewake.log.disk import Disk, arm_crash_point, crash_point, set_crash_hook


@pytest.fixture(autouse=True)
def no_crash_hook() -> Iterator[None]:
    yield
    set_crash_hook(None)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def test_a_replaced_file_is_private_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    Disk().write_atomic(path, b"one")
    Disk().write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert mode(path) == 0o600
    assert names(tmp_path) == ["settings.json"]


def test_a_replaced_file_can_have_another_mode(tmp_path: Path) -> None:
    Disk().write_atomic(tmp_path / "run.sh", b"", 0o700)
    assert mode(tmp_path / "run.sh") == 0o700


def test_the_file_is_synced_before_the_rename_and_the_directory_after(
    tmp_path: Path, disk: Any
) -> None:
    disk.write_atomic(tmp_path / "a", b"x")
    assert disk.calls == ["write", "sync", "rename", "sync_directory"]


def test_without_sync_nothing_is_synced(tmp_path: Path, disk: Any) -> None:
    disk.write_atomic(tmp_path / "a", b"x", sync=False)
    disk.make_directory(tmp_path / "b" / "c", sync=False)
    assert disk.calls == ["write", "rename"]


@pytest.mark.parametrize("operation", ["write", "sync", "rename"])
def test_a_failed_replacement_leaves_the_old_bytes_and_no_litter(
    tmp_path: Path, disk: Any, operation: str
) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b"old")
    disk.fail(operation, errno.ENOSPC)
    with pytest.raises(StorageError, match="free some space"):
        disk.write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["settings.json"]


def test_a_short_replacement_is_a_storage_error(tmp_path: Path, disk: Any) -> None:
    disk.write_bytes_max = 1
    with pytest.raises(StorageError, match="only 1 of 3 bytes"):
        disk.write_atomic(tmp_path / "a", b"new")
    assert names(tmp_path) == []


def test_where_nothing_can_be_made_the_error_is_still_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="Not a directory"):
        Disk().write_atomic(tmp_path / "file" / "a", b"new")


def test_an_interrupted_replacement_leaves_no_litter(tmp_path: Path) -> None:
    def interrupt(_name: str) -> None:
        raise KeyboardInterrupt

    set_crash_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        Disk().write_atomic(tmp_path / "a", b"x")
    assert names(tmp_path) == []


def test_directories_are_private_and_each_new_entry_is_synced(tmp_path: Path, disk: Any) -> None:
    disk.make_directory(tmp_path / "a" / "b" / "c")
    assert [mode(tmp_path / part) for part in ("a", "a/b", "a/b/c")] == [0o700] * 3
    assert disk.calls == ["sync_directory"] * 3
    disk.make_directory(tmp_path / "a" / "b" / "c")
    assert disk.calls == ["sync_directory"] * 3


def test_descriptors_are_not_inherited_by_commands(tmp_path: Path) -> None:
    descriptors = [Disk().open_append(tmp_path / "a"), Disk().open_lock(tmp_path / "b")]
    for descriptor in descriptors:
        assert not os.get_inheritable(descriptor)
        os.close(descriptor)


def test_a_crash_point_does_nothing_unless_armed() -> None:
    arm_crash_point({})
    crash_point("before_write_event")


@pytest.mark.parametrize("text", ["name", "name:", "name:x", "name:-1"])
def test_a_crash_point_without_a_count_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="NAME:COUNT"):
        arm_crash_point({"REWAKE_CRASH_POINT": text})


_REACH = """
import os
from rewake.log.disk import arm_crash_point, crash_point
arm_crash_point(os.environ)
for number in range(9):
    crash_point("other")
    print(number, flush=True)
    crash_point("here")
"""


def test_an_armed_crash_point_kills_at_the_count() -> None:
    environment = {**os.environ, "REWAKE_CRASH_POINT": "here:3"}
    done = subprocess.run(
        [sys.executable, "-c", _REACH], env=environment, capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == b"0\n1\n2\n"


def test_with_a_marker_it_says_so_and_waits_to_be_killed(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    os.mkfifo(marker)  # opening it waits until the process has opened it too
    environment = {
        **os.environ,
        "REWAKE_CRASH_POINT": "here:2",
        "REWAKE_CRASH_MARKER": str(marker),
    }
    command = [sys.executable, "-c", _REACH]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert marker.read_text() == "crash point here\n"
        assert process.poll() is None
        process.kill()
        assert process.stdout is not None
        assert process.stdout.read() == b"0\n1\n"
