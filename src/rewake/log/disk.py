"""The only place that opens for writing, syncs or renames a file of Rewake's own data.

The rules kept here:

- Files are 0600 and directories 0700 from the moment they exist.
- A write is one `write(2)`. Fewer bytes than asked for is an error, never retried.
- A file that is replaced is written beside its place, synced, renamed over it, and its directory
  is synced; a reader sees the old bytes or the new ones, and no temporary file is left behind.

Everything goes through a `Disk`, so a test can hand in one that fails. `crash_point(name)` marks
the places where a harness kills the process (docs/format.md, "Writing").
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NoReturn

from rewake.errors import StorageError, UsageError

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
_TEMPORARY_SUFFIX: Final = ".tmp"
_F_FULLFSYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_DENIED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})

CRASH_POINT_VARIABLE: Final = "REWAKE_CRASH_POINT"
CRASH_MARKER_VARIABLE: Final = "REWAKE_CRASH_MARKER"

# --- crash points ----------------------------------------------------------------------------

_at_crash_point: Callable[[str], None] | None = None


def crash_point(name: str) -> None:
    """Does nothing, unless a harness has asked to be called at the named places."""
    if _at_crash_point is not None:
        _at_crash_point(name)


def set_crash_hook(hook: Callable[[str], None] | None) -> None:
    """Call `hook(name)` at every crash point of this process from now on; None ends it."""
    global _at_crash_point  # noqa: PLW0603  # one hook per process is the point
    _at_crash_point = hook


def arm_crash_point(environ: Mapping[str, str]) -> None:
    """Arm the crash point that REWAKE_CRASH_POINT names, as `name:count`; without it do nothing.

    At the count-th time the point is reached, the line "crash point NAME" is appended to the file
    that REWAKE_CRASH_MARKER names and the process waits there to be killed; without a marker it
    sends itself SIGKILL.
    """
    wanted = environ.get(CRASH_POINT_VARIABLE)
    if not wanted:
        return
    name, _, count = wanted.partition(":")
    if not count.isascii() or not count.isdigit():
        raise UsageError(
            f"{CRASH_POINT_VARIABLE}={wanted} is no crash point.",
            remedy="Write it as NAME:COUNT, for example before_sync_event:3.",
        )
    left = int(count)
    marker = environ.get(CRASH_MARKER_VARIABLE)

    def count_down(reached: str) -> None:
        nonlocal left
        if reached == name:
            left -= 1
            if left == 0:
                _crash(name, marker)

    set_crash_hook(count_down)


def _crash(name: str, marker: str | None) -> NoReturn:
    if marker is None:
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        descriptor = os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE)
        os.write(descriptor, b"crash point %b\n" % name.encode())
        os.close(descriptor)
    while True:
        signal.pause()


# --- errors ----------------------------------------------------------------------------------


def storage_error(error: OSError, path: Path, doing: str) -> StorageError:
    """What the user is told when `doing` (such as "write to") failed at `path`."""
    return StorageError(
        f"Could not {doing} {path}: {error.strerror or error}.",
        path=str(path),
        remedy=_remedy(error.errno),
    )


def short_write_error(path: Path, written: int, wanted: int) -> StorageError:
    """A write that ended early, which is how a disk that fills up shows itself first."""
    return StorageError(
        f"Could not write to {path}: only {written} of {wanted} bytes were taken.",
        path=str(path),
        remedy=_remedy(errno.ENOSPC),
    )


def removed_error(path: Path) -> StorageError:
    """A file that somebody removed while it was written: the system goes on taking its bytes."""
    return StorageError(
        f"Could not write to {path}: it was removed while the session was at work.",
        path=str(path),
        remedy="Put it back from a copy and resume it, or start a new session.",
    )


def _remedy(number: int | None) -> str:
    if number in _FULL:
        return "The disk or the quota is full: free some space, then resume the session."
    if number == errno.EFBIG:
        return "The file-size limit is reached: raise it (ulimit -f), then resume the session."
    if number in _DENIED:
        return "Make the directory writable or set REWAKE_HOME to another one, then try again."
    return "Check the disk; what was acknowledged before is kept, and the session can be resumed."


def _sync_file_system(descriptor: int) -> bool:
    """Linux's `syncfs`, which the standard library lacks; False where there is none."""
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None:
        return False
    if call(descriptor) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return True


def _make_like(descriptor: int, like: os.stat_result) -> None:
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (like.st_uid, like.st_gid):
        os.fchown(descriptor, like.st_uid, like.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(like.st_mode))  # after it: a new owner takes bits away


# --- the disk --------------------------------------------------------------------------------


class Disk:
    """The real disk. Methods raise OSError as the system gives it, unless they say otherwise."""

    def open_append(self, path: Path) -> int:
        """A descriptor that only appends, not inherited by commands. Creates the file."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.open(path, flags, FILE_MODE)

    def open_lock(self, path: Path) -> int:
        """A descriptor for `flock` and for a few bytes about the holder. Creates the file."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)

    def open_directory(self, path: Path) -> int:
        """A descriptor for `flock` on a directory, which leaves nothing behind in it."""
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def write(self, descriptor: int, data: bytes) -> int:
        """One `write(2)`; the count of bytes taken, which the caller must compare."""
        return os.write(descriptor, data)

    def replace_content(self, descriptor: int, data: bytes) -> None:
        """Overwrite a small file in place. Only for content that is a hint, such as a lock's."""
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, data, 0)

    def sync(self, descriptor: int) -> None:
        """When this returns, the file's bytes and size survive a power loss."""
        if _F_FULLFSYNC is not None:
            fcntl.fcntl(descriptor, _F_FULLFSYNC)
        elif sys.platform == "darwin":
            os.fsync(descriptor)
        else:
            os.fdatasync(descriptor)

    def is_removed(self, descriptor: int) -> bool:
        """Whether no directory names the open file any more, so that its bytes go with it."""
        return os.fstat(descriptor).st_nlink == 0

    def sync_file(self, path: Path) -> None:
        """The same for a file that isn't open."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.sync(descriptor)
        finally:
            os.close(descriptor)

    def sync_directory(self, path: Path) -> None:
        """When this returns, the directory's entries survive a power loss."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_file_system(self, path: Path) -> None:
        """When this returns, everything on the file system of `path` survives a power loss."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not _sync_file_system(descriptor):
                os.sync()
        finally:
            os.close(descriptor)

    def close(self, descriptor: int) -> None:
        """Close what this disk opened."""
        os.close(descriptor)

    def lock(self, descriptor: int, operation: int) -> None:
        """`flock`, so that a test can stand in for a file system without it."""
        fcntl.flock(descriptor, operation)

    def remove(self, path: Path) -> None:
        """Remove a file; one that isn't there is fine."""
        path.unlink(missing_ok=True)

    def rename(self, source: Path, target: Path) -> None:
        """Put `source` in the place of `target`, atomically."""
        source.replace(target)

    def link(self, source: Path, target: Path) -> None:
        """Give `source` a second name, which nothing has yet."""
        target.hardlink_to(source)

    def make_directory(self, path: Path, *, sync: bool = True) -> None:
        """Create `path` and what is missing above it; existing directories stay as they are.

        With `sync`, the new entries are durable when this returns.
        """
        if path.is_dir():
            return
        self.make_directory(path.parent, sync=sync)
        try:
            path.mkdir(mode=DIRECTORY_MODE)
        except FileExistsError:
            if not path.is_dir():
                raise
        if sync:
            self.sync_directory(path.parent)

    def write_atomic(
        self,
        path: Path,
        data: bytes,
        mode: int = FILE_MODE,
        *,
        sync: bool = True,
        like: os.stat_result | None = None,
        entry_later: bool = False,
    ) -> None:
        """Put `data` at `path`: all of it or, if anything fails, what was there before.

        With `sync`, the file and its directory entry are durable when this returns; with
        `entry_later` the entry only once the caller has synced the directory. With `like`, it has
        that owner, group and mode. Raises StorageError.
        """
        temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}{_TEMPORARY_SUFFIX}")
        try:
            self._write_new(temporary, data, mode, sync=sync, like=like)
            crash_point("before_rename")
            self.rename(temporary, path)
            crash_point("after_rename")
            if sync and not entry_later:
                self.sync_directory(path.parent)
        except BaseException as error:
            # A read-only file system refuses this of a file that could not even be made.
            with contextlib.suppress(OSError):
                temporary.unlink()
            if isinstance(error, OSError):
                raise storage_error(error, path, "write") from error
            raise

    def _write_new(
        self, path: Path, data: bytes, mode: int, *, sync: bool, like: os.stat_result | None
    ) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            if like is not None:
                _make_like(descriptor, like)
            written = self.write(descriptor, data) if data else 0
            if written != len(data):
                raise short_write_error(path, written, len(data))
            if sync:
                self.sync(descriptor)
        finally:
            os.close(descriptor)
