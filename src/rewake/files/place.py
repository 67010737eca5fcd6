"""Brings one path to a wanted state: all of it or nothing, and never through a link.

The rules kept here:

- Directories are entered one by one without following links, so a path never leads out of where it
  was recorded.
- A file has its old bytes or its new ones (a rename). Only a file with several names, or one that a
  rename would give to another owner, is written in place, over the old bytes and cut afterwards.
- The temporary file is named after the operation, so whoever finishes it can remove what is left.
"""

# Descriptors and the order of system calls are the point here, and paths are bytes.

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rewake.files.names import link_target
from rewake.log.disk import crash_point
from rewake.model.events import FileState
from rewake.resume.chain import temporary_name

_NEW_DIRECTORY_MODE = 0o777
_NO_ATTRIBUTE = frozenset({errno.ENOTSUP, errno.EPERM, errno.ENODATA, errno.EINVAL})


class Placer:
    """Puts states in their places for one operation; use it with `with`."""

    def __init__(self, operation_id: str, read_blob: Callable[[str], bytes]) -> None:
        self._temporary = os.fsencode(temporary_name(operation_id))
        self._read_blob = read_blob
        self._touched: set[bytes] = set()
        # Entering a directory costs an open for each part of its path; files come in order.
        self._entered: tuple[bytes, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    def _enter(self, path: bytes) -> int:
        if self._entered is None or self._entered[0] != path:
            self._leave()
            self._entered = (path, _open_directory(path))
        return self._entered[1]

    def _leave(self) -> None:
        entered, self._entered = self._entered, None
        if entered is not None:
            os.close(entered[1])

    def put(self, path: bytes, wanted: FileState) -> None:
        """Make `path` what is wanted. Contents are durable on return, entries after `sync`.

        Raises OSError, then the path is as it was, and StorageError for a content that is gone.
        """
        data = self._read_blob(wanted.sha256) if wanted.sha256 is not None else b""
        parent, _, name = path.rpartition(b"/")
        if wanted.kind != "absent":
            self._make_parents(parent)
        self._put(self._enter(parent), name, wanted, data)
        self._touched.add(parent)

    def sync(self) -> None:
        """When this returns, the directories' entries are durable too."""
        for path in sorted(self._touched):
            try:
                os.fsync(self._enter(path))
            except (FileNotFoundError, NotADirectoryError):
                continue  # removed or replaced by a later step
        self._touched.clear()

    def _make_parents(self, parent: bytes) -> None:
        """Directories that are missing above a file that comes back."""
        if os.path.isdir(parent):  # noqa: PTH112  # bytes
            return
        above, _, name = parent.rpartition(b"/")
        self._make_parents(above or b"/")
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, _NEW_DIRECTORY_MODE, dir_fd=self._enter(above))
        self._touched.add(above)

    def _put(self, directory: int, name: bytes, wanted: FileState, data: bytes) -> None:
        there = _stat(directory, name)
        is_directory = there is not None and stat.S_ISDIR(there.st_mode)
        if wanted.kind == "directory":
            _put_directory(directory, name, there, wanted.mode)
        elif wanted.kind == "absent":
            if is_directory:
                os.rmdir(name, dir_fd=directory)
            elif there is not None:
                os.unlink(name, dir_fd=directory)
        else:
            if is_directory:
                os.rmdir(name, dir_fd=directory)
                there = None
            if wanted.kind == "symlink":
                self._put_link(directory, name, wanted)
            else:
                self._put_file(directory, name, wanted, data, there)

    def _put_link(self, directory: int, name: bytes, wanted: FileState) -> None:
        _remove(directory, self._temporary)
        os.symlink(link_target(wanted), self._temporary, dir_fd=directory)
        self._rename(directory, name)

    def _put_file(
        self,
        directory: int,
        name: bytes,
        wanted: FileState,
        data: bytes,
        there: os.stat_result | None,
    ) -> None:
        is_file = there is not None and stat.S_ISREG(there.st_mode)
        if there is not None and is_file and _needs_writing_in_place(there):
            _write_in_place(directory, name, data, wanted.mode)
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self._temporary, flags, 0o600, dir_fd=directory)
        except FileExistsError:  # of a start that died while it was finishing this
            _remove(directory, self._temporary)
            descriptor = os.open(self._temporary, flags, 0o600, dir_fd=directory)
        try:
            _write_all(descriptor, data)
            if there is not None and is_file:
                _keep_attributes(directory, name, there, descriptor)
            mode = wanted.mode
            if mode is None:
                mode = stat.S_IMODE(there.st_mode) if there is not None and is_file else 0o644
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        except BaseException:
            _remove(directory, self._temporary)
            raise
        finally:
            os.close(descriptor)
        self._rename(directory, name)

    def _rename(self, directory: int, name: bytes) -> None:
        crash_point("before_rewind_rename")
        try:
            os.rename(self._temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError:
            _remove(directory, self._temporary)
            raise
        crash_point("after_rewind_rename")


def _open_directory(path: bytes) -> int:
    """A descriptor of a directory, reached without following a link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(b"/", flags)
    try:
        for part in path.split(b"/"):
            if part:
                below = os.open(part, flags, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = below
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _stat(directory: int, name: bytes) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _remove(directory: int, name: bytes) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def _put_directory(
    directory: int, name: bytes, there: os.stat_result | None, mode: int | None
) -> None:
    if there is not None and not stat.S_ISDIR(there.st_mode):
        os.unlink(name, dir_fd=directory)
        there = None
    if there is None:
        os.mkdir(name, _NEW_DIRECTORY_MODE, dir_fd=directory)
    if mode is not None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
        below = os.open(name, flags, dir_fd=directory)
        try:
            if mode != stat.S_IMODE(os.fstat(below).st_mode):
                os.fchmod(below, mode)
        finally:
            os.close(below)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _needs_writing_in_place(there: os.stat_result) -> bool:
    """Whether a rename would break a hard link or give the file to another owner."""
    if there.st_nlink > 1:
        return True
    if os.geteuid() == 0:
        return False  # may give a new file to anybody
    return there.st_uid != os.geteuid() or there.st_gid not in {os.getegid(), *os.getgroups()}


def _write_in_place(directory: int, name: bytes, data: bytes, mode: int | None) -> None:
    flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(name, flags, dir_fd=directory)
    try:
        crash_point("before_rewind_rename")
        # Over the old bytes and cut afterwards: at every moment a beginning of the new content is
        # followed by the rest of the old one, which recovery can recognise.
        _write_all(descriptor, data)
        os.ftruncate(descriptor, len(data))
        # Only the owner may set a mode, also the one that it has.
        if mode is not None and mode != stat.S_IMODE(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, mode)
        crash_point("after_rewind_rename")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _keep_attributes(directory: int, name: bytes, there: os.stat_result, descriptor: int) -> None:
    mine = os.fstat(descriptor)
    if (there.st_uid, there.st_gid) != (mine.st_uid, mine.st_gid):
        os.fchown(descriptor, there.st_uid, there.st_gid)
    if not hasattr(os, "listxattr"):
        return  # macOS: the standard library can't
    try:
        old = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return  # not ours to read: nothing to copy
    try:
        for attribute in os.listxattr(old):
            try:
                os.setxattr(descriptor, attribute, os.getxattr(old, attribute))
            except OSError as error:
                if error.errno not in _NO_ATTRIBUTE:
                    raise
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTE:
            raise
    finally:
        os.close(old)
