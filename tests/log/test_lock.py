"""One writer per session, decided by the kernel."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from rewake.errors import LockUnsupportedError, SessionBusyError, StorageError
from rewake.log.disk import Disk
from rewake.log.lock import Holder, SessionLock, boot_id, holder, this_process

ME = Holder(pid=42, host="here", started_at="2026-01-01T00:00:00Z", command="rewake -c")

_HOLD = """
import os, sys
from pathlib import Path
from rewake.log.disk import Disk
from rewake.log.lock import SessionLock, this_process
lock = SessionLock(Path(sys.argv[1]), Disk(), this_process("2026-01-01T00:00:00Z", "rewake"))
if sys.argv[2] == "fork":
    # The child lives on after its parent is killed; closing its stdin ends it.
    if os.fork() == 0:
        os.write(1, b"forked\\n")
        os.read(0, 1)
        os._exit(0)
else:
    os.write(1, b"locked\\n")
os.read(0, 1)
"""


@contextmanager
def other_process(path: Path, kind: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", _HOLD, str(path), kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
        process.kill()
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def test_the_lock_names_its_holder_and_is_private(path: Path) -> None:
    with SessionLock(path, Disk(), ME):
        assert holder(path, Disk()) == ME
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert holder(path, Disk()) is None


def test_asking_creates_nothing(path: Path) -> None:
    assert holder(path, Disk()) is None
    assert not path.exists()


def test_a_second_opener_is_told_who_and_what_to_do(path: Path) -> None:
    with SessionLock(path, Disk(), ME):
        with pytest.raises(SessionBusyError) as found:
            SessionLock(path, Disk(), ME)
        since = datetime.fromisoformat(ME.started_at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        assert found.value.holder == f"process 42 on here since {since} (rewake -c)"
        assert "fork the session" in found.value.remedy
        assert "--" not in found.value.remedy  # a program has no options


def test_another_process_keeps_us_out_and_its_death_lets_us_in(path: Path) -> None:
    with other_process(path, "hold") as process:
        with pytest.raises(SessionBusyError, match=f"process {process.pid} "):
            SessionLock(path, Disk(), ME)
        found = holder(path, Disk())
        assert found is not None
        assert found.boot_id == boot_id()
        process.kill()
        process.wait()
        assert holder(path, Disk()) is None
        SessionLock(path, Disk(), ME).release()


def test_a_forked_child_of_a_killed_holder_blocks_nobody(path: Path) -> None:
    with other_process(path, "fork") as process:
        process.kill()
        process.wait()
        SessionLock(path, Disk(), ME).release()


def test_content_of_a_dead_holder_blocks_nobody(path: Path) -> None:
    path.write_text('{"pid":1,"host":"here"}')
    SessionLock(path, Disk(), ME).release()
    assert path.read_bytes() == b""


def test_a_holder_that_has_not_written_its_name_yet_is_said_to_be_unknown(path: Path) -> None:
    with SessionLock(path, Disk(), ME):
        path.write_bytes(b'{"pid":4')
        with pytest.raises(SessionBusyError, match="has not said yet who it is"):
            SessionLock(path, Disk(), ME)


def test_a_lock_file_replaced_while_locking_is_locked_anew(path: Path) -> None:
    class Replacing(Disk):
        times = 0

        def lock(self, descriptor: int, operation: int) -> None:
            super().lock(descriptor, operation)
            if self.times == 0:
                path.unlink()
            self.times += 1

    disk = Replacing()
    with SessionLock(path, disk, ME), pytest.raises(SessionBusyError):
        SessionLock(path, Disk(), ME)
    assert disk.times == 2


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_refused(path: Path, disk: Any, number: int) -> None:
    disk.fail("lock", number)
    with pytest.raises(LockUnsupportedError, match="local disk"):
        SessionLock(path, disk, ME)


def test_a_lock_that_can_not_be_made_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Could not open"):
        SessionLock(tmp_path / "none" / "lock", Disk(), ME)


def test_someone_who_only_asks_does_not_look_like_a_writer(path: Path) -> None:
    class Asked(Disk):
        """The first attempt meets a reader that holds the lock for a moment."""

        met = False

        def lock(self, descriptor: int, operation: int) -> None:
            if not self.met:
                self.met = True
                raise BlockingIOError
            super().lock(descriptor, operation)

    SessionLock(path, Asked(), ME).release()


def test_this_process_says_who_it_is() -> None:
    me = this_process("2026-01-01T00:00:00Z", "rewake -p")
    assert me.pid == os.getpid()
    assert me.host
    assert me.command == "rewake -p"


def test_releasing_twice_is_harmless(path: Path) -> None:
    lock = SessionLock(path, Disk(), ME)
    lock.release()
    lock.release()
