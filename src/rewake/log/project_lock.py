"""Who may remove blobs of a project, and who may move its sessions: two `flock`s in its directory.

The rules kept here:

- `lock` is held *shared* by everything that may store a blob or move a session (a session that is
  open for writing, an import, a delete, a restore) and *exclusively* by whoever removes blobs. So no
  blob goes between the moment it is stored and the moment the line that names it is written.
- `forks.lock` is held for a moment by whoever makes a fork and by whoever deletes a session, so that
  no fork is made of a session between the look for its forks and its move.
- The kernel's lock decides, a forked child closes its copy, and there is no weaker fallback.
"""

from __future__ import annotations

import fcntl
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from rewake.errors import LockUnsupportedError, SessionBusyError
from rewake.log.disk import Disk, storage_error
from rewake.log.forking import give_up_in_forked_children
from rewake.log.layout import SessionPaths
from rewake.log.lock import Holder, SessionLock

_NAME: Final = "lock"
_FORKS_NAME: Final = "forks.lock"
# Removing blobs holds the lock for well under a second (everything was looked at before); whoever
# opens a session meanwhile waits this long rather than failing.
_WAIT_S: Final = 10.0
_PAUSE_S: Final = 0.02

Kind = Literal["shared", "exclusive"]


class ProjectLock:
    """Held from construction to `release` or to the end of the process; the project's directory exists.

    `shared` waits up to ten seconds for whoever removes blobs, `exclusive` waits for nobody. Raises
    SessionBusyError, LockUnsupportedError, StorageError.
    """

    def __init__(self, project: Path, disk: Disk, kind: Kind) -> None:
        self._disk = disk
        self._descriptor = _open(project / _NAME, disk)
        give_up_in_forked_children(self)
        operation = fcntl.LOCK_SH if kind == "shared" else fcntl.LOCK_EX
        try:
            _lock(project / _NAME, self._descriptor, disk, operation, kind)
        except BaseException:
            self.abandon_after_fork()  # nothing is locked yet
            raise

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
        """Harmless when called twice."""
        try:
            if self._descriptor >= 0:
                # A child that was just forked may still have a copy that it is about to close.
                self._disk.lock(self._descriptor, fcntl.LOCK_UN)
        finally:
            self.abandon_after_fork()

    def abandon_after_fork(self) -> None:
        """Close this process's copy; a parent keeps its lock."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._disk.close(descriptor)


class ForksLock(ProjectLock):
    """Held for the moment in which a fork is made or a session is moved away; waits for the others."""

    def __init__(self, project: Path, disk: Disk) -> None:
        self._disk = disk
        self._descriptor = _open(project / _FORKS_NAME, disk)
        give_up_in_forked_children(self)
        try:
            _lock(project / _FORKS_NAME, self._descriptor, disk, fcntl.LOCK_EX, "shared")
        except BaseException:
            self.abandon_after_fork()  # nothing is locked yet
            raise


def _open(path: Path, disk: Disk) -> int:
    try:
        return disk.open_lock(path)
    except OSError as error:
        raise storage_error(error, path, "open") from error


def _lock(path: Path, descriptor: int, disk: Disk, operation: int, kind: Kind) -> None:
    deadline = time.monotonic() + (_WAIT_S if kind == "shared" else 0.0)
    while True:
        try:
            disk.lock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise _busy(path, kind) from error
        except OSError as error:
            raise LockUnsupportedError(
                f"{path} can't be locked ({error.strerror}).",
                remedy="Set REWAKE_HOME to a directory on a local disk.",
            ) from error
        else:
            return
        time.sleep(_PAUSE_S)


def _busy(path: Path, kind: Kind) -> SessionBusyError:
    if kind == "shared":
        what, who = "Something is being removed from", "a process that removes what nobody needs"
    else:
        what, who = "A session is being written in", "a process that writes one of its sessions"
    return SessionBusyError(
        f"{what} the project {path.parent}.", holder=who, remedy="Try again when it has ended."
    )


class WriterLocks:
    """A session's own lock and the project's, shared: what whoever writes a session holds for its life."""

    def __init__(self, project: ProjectLock, session: SessionLock) -> None:
        self._project = project
        self._session = session

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
        """Let others write, and let what nobody needs be removed; harmless when called twice."""
        try:
            self._session.release()
        finally:
            self._project.release()


def lock_for_writing(paths: SessionPaths, disk: Disk, holder: Holder) -> WriterLocks:
    """Raises what `ProjectLock` and `SessionLock` raise."""
    project = ProjectLock(paths.project, disk, "shared")
    try:
        return WriterLocks(project, SessionLock(paths.lock, disk, holder))
    except BaseException:
        project.release()
        raise
