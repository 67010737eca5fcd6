"""One writer per session: an advisory `flock` on the session's `lock` file, held for life.

The rules kept here:

- The kernel's lock decides, never the file's content: what a dead process left in it blocks nobody.
- After locking, the inode is compared with the one at the path, so that a lock on a file that was
  replaced or deleted meanwhile protects nothing by mistake.
- A forked child closes the descriptor, so a killed agent's lock is free at once, whatever its
  children do.
- A file system without `flock` is refused; there is no weaker fallback.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from rewake.errors import BusyError, LockUnsupportedError, SessionBusyError
from rewake.log.disk import Disk, storage_error
from rewake.log.forking import give_up_in_forked_children

_UNSUPPORTED: Final = frozenset(
    {errno.EBADF, errno.EISDIR, errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP}
)
_BOOT_ID_PATH: Final = Path("/proc/sys/kernel/random/boot_id")
# Someone who only asks who holds the lock takes it for microseconds; don't mistake them for a writer.
_BUSY_ATTEMPTS: Final = 5
_BUSY_PAUSE_S: Final = 0.01
# A directory is held for one write with its syncs; on a slow disk under load that is a second or two.
_WAITING_ATTEMPTS: Final = 3_000
_WAITING_PAUSE_S: Final = 0.005
BUSY_REMEDY: Final = "End that process, fork the session, or only look at it."


class Holder(msgspec.Struct, frozen=True):
    """Who writes a session. `started_at` is RFC 3339 UTC; unknown fields are empty or 0."""

    pid: int = 0
    host: str = ""
    boot_id: str = ""
    started_at: str = ""
    command: str = ""

    def describe(self) -> str:
        """For people: what tells the user which terminal to look for."""
        if not self.pid:
            return "another process that has not said yet who it is"
        where = f" on {self.host}" if self.host else ""
        since = f" since {_local(self.started_at)}" if self.started_at else ""
        command = f" ({self.command})" if self.command else ""
        return f"process {self.pid}{where}{since}{command}"


def _local(timestamp: str) -> str:
    """As the clock on the user's wall had it, to the second."""
    try:
        return datetime.fromisoformat(timestamp).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return timestamp  # another program's; better than nothing


_decode_holder = msgspec.json.Decoder(Holder).decode


def boot_id() -> str:
    """Names the time since this machine's last boot; empty where the system doesn't tell."""
    try:
        return _BOOT_ID_PATH.read_text("ascii").strip()
    except OSError:
        return ""


def this_process(started_at: str, command: str) -> Holder:
    """The holder that this process is."""
    return Holder(os.getpid(), os.uname().nodename, boot_id(), started_at, command)


class SessionLock:
    """Held from construction to `release` or to the end of the process.

    Raises SessionBusyError when another process (or another open session of this one) holds it,
    LockUnsupportedError where the file system can't lock, StorageError where the file can't be made.
    """

    def __init__(self, path: Path, disk: Disk, holder: Holder) -> None:
        self.path = path
        self._disk = disk
        self._descriptor = self._acquire()
        give_up_in_forked_children(self)
        try:
            disk.replace_content(self._descriptor, msgspec.json.encode(holder) + b"\n")
        except OSError as error:
            self._close()
            raise storage_error(error, path, "write") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        """Let others write; harmless when called twice."""
        if self._descriptor < 0:
            return
        try:
            # For people only: what stays there blocks nobody.
            with contextlib.suppress(OSError):
                self._disk.replace_content(self._descriptor, b"")
        finally:
            self._close()

    def abandon_after_fork(self) -> None:
        """Close the child's copy; the parent keeps its lock."""
        self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._disk.close(descriptor)

    def _acquire(self) -> int:
        while True:
            try:
                descriptor = self._disk.open_lock(self.path)
            except OSError as error:
                raise storage_error(error, self.path, "open") from error
            try:
                self._lock(descriptor)
                if _is_still_at(self.path, descriptor):
                    return descriptor
            except BaseException:
                self._disk.close(descriptor)
                raise
            self._disk.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        for attempt in range(_BUSY_ATTEMPTS):
            if attempt:
                time.sleep(_BUSY_PAUSE_S)
            if _try_lock(self._disk, self.path, descriptor, fcntl.LOCK_EX):
                return
        found = _read_holder(descriptor).describe()
        raise SessionBusyError(
            f"The session in {self.path.parent} is being written by {found}.",
            holder=found,
            remedy=BUSY_REMEDY,
        )


class DirectoryLock:
    """Held while something in a directory is changed; waits for others, who hold it for moments.

    Raises BusyError when that takes too long, LockUnsupportedError where the file system can't lock a directory, StorageError where it can't be opened.
    """

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk
        self._descriptor = -1

    def __enter__(self) -> Self:
        for _ in range(_WAITING_ATTEMPTS):
            self._descriptor = self._open()
            if self._try() and _is_still_at(self._directory, self._descriptor):
                return self
            self._close()
            time.sleep(_WAITING_PAUSE_S)
        raise BusyError(
            f"Another process has been changing something in {self._directory} for long.",
            remedy="Try again; if that goes on, look for a process that hangs.",
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def _open(self) -> int:
        try:
            return self._disk.open_directory(self._directory)
        except OSError as error:
            raise storage_error(error, self._directory, "open") from error

    def _try(self) -> bool:
        try:
            return _try_lock(self._disk, self._directory, self._descriptor, fcntl.LOCK_EX)
        except BaseException:
            self._close()
            raise

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._disk.close(descriptor)


def holder(path: Path, disk: Disk) -> Holder | None:
    """Who holds the lock right now, or None. Never waits, creates nothing.

    Raises LockUnsupportedError and StorageError like `SessionLock`.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, path, "open") from error
    try:
        if _try_lock(disk, path, descriptor, fcntl.LOCK_SH):
            return None
        return _read_holder(descriptor)
    finally:
        os.close(descriptor)


def _try_lock(disk: Disk, path: Path, descriptor: int, kind: int) -> bool:
    try:
        disk.lock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            raise LockUnsupportedError(
                f"The file system of {path} can't lock files ({error.strerror}), so two processes"
                " could write the same thing at once.",
                remedy="Use a directory on a local disk; REWAKE_HOME says where sessions are kept.",
            ) from error
        raise storage_error(error, path, "lock") from error
    return True


def _read_holder(descriptor: int) -> Holder:
    try:
        return _decode_holder(os.pread(descriptor, 1 << 16, 0))
    except msgspec.MsgspecError:
        return Holder()  # it has the lock and is about to write who it is


def _is_still_at(path: Path, descriptor: int) -> bool:
    mine = os.fstat(descriptor)
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)
