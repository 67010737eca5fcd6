"""Bytes named by their SHA-256, compressed, written once: `blobs/<sha256>`.

The rules kept here:

- A durable store returns from `put` only when the file and its directory entry survive a power
  loss, so the line that names a blob can be written next. All blobs are in one directory, so that
  several at once need one sync of it, and a new one never waits for a new directory.
- A file that is already there is trusted only after its content was compared once in this process
  (a crash may have left it empty), and is made durable before it counts.
- `get` gives the exact bytes or an error that names the file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Final

from rewake.errors import InvalidValueError, StorageError
from rewake.log.disk import Disk, crash_point, storage_error

_LEVEL: Final = 1  # measured: 436 MB/s at ratio 4.7 on source code; higher levels gain little
_SHA256_CHARS: Final = 64
_HEX: Final = frozenset("0123456789abcdef")


def _zstd() -> ModuleType:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


class BlobStore:
    """The blobs of one project, shared by its sessions. Safe for threads and for processes."""

    def __init__(self, directory: Path, disk: Disk, *, durable: bool) -> None:
        self.directory = directory
        self.disk = disk
        self.durable = durable
        self._settled: set[str] = set()

    def path(self, sha256: str) -> Path:
        """Where the blob is or would be. Raises InvalidValueError for anything but a SHA-256."""
        if len(sha256) != _SHA256_CHARS or not _HEX.issuperset(sha256):
            raise InvalidValueError(
                f"{sha256!r} names no blob.", remedy="Pass 64 lower-case hexadecimal digits."
            )
        return self.directory / sha256

    def put(self, data: bytes) -> str:
        """Keep `data` under the name returned. Raises StorageError. Idempotent."""
        return self.put_all((data,))[0]

    def put_all(self, contents: Iterable[bytes]) -> list[str]:
        """Keep several contents at the cost of one sync each and one for all. Raises StorageError."""
        batch = self.batch()
        names = [batch.put(data) for data in contents]
        batch.finish()
        return names

    def batch(self) -> Batch:
        """Contents that become durable together."""
        return Batch(self)

    def get(self, sha256: str) -> bytes:
        """The bytes. Raises StorageError when they are missing or damaged."""
        path = self.path(sha256)
        try:
            stored = _read(path)
        except OSError as error:
            raise storage_error(error, path, "read") from error
        data = _decompressed(stored)
        if data is None or hashlib.sha256(data).hexdigest() != sha256:
            raise StorageError(
                f"The blob {path} is damaged: its bytes don't have the SHA-256 of its name.",
                path=str(path),
                remedy="Restore it from a backup; what refers to it can't be shown in full.",
            )
        return data

    def has(self, sha256: str) -> bool:
        """Whether a file is there and isn't empty; its content is not checked."""
        try:
            return self.path(sha256).stat().st_size > 0
        except FileNotFoundError:
            return False

    def _holds(self, path: Path, sha256: str) -> bool:
        try:
            data = _decompressed(_read(path))
        except FileNotFoundError:
            return False
        return data is not None and hashlib.sha256(data).hexdigest() == sha256

    def keep(self, data: bytes) -> tuple[str, bool]:
        """Keep `data`; its name, and whether the directory must be synced for it to be durable."""
        sha256 = hashlib.sha256(data).hexdigest()
        if sha256 in self._settled:
            return sha256, False
        path = self.path(sha256)
        try:
            if not self._holds(path, sha256):
                self._write(path, data)
            elif self.durable:
                self.disk.sync_file(path)  # who wrote it may have been told not to
        except OSError as error:
            raise storage_error(error, path, "write") from error
        return sha256, True

    def settle(self, names: Iterable[str]) -> None:
        """Make the entries of blobs durable that were kept. Raises StorageError."""
        try:
            if self.durable:
                self.disk.sync_directory(self.directory)
        except OSError as error:
            raise storage_error(error, self.directory, "sync") from error
        self._settled.update(names)

    def _write(self, path: Path, data: bytes) -> None:
        self.disk.make_directory(path.parent, sync=self.durable)
        compressed: bytes = _zstd().compress(data, _LEVEL)
        crash_point("before_write_blob")
        self.disk.write_atomic(path, compressed, sync=self.durable, entry_later=True)
        crash_point("after_write_blob")


class Batch:
    """Contents on their way into a store, which are as durable as it makes them after `finish`."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._kept: list[str] = []

    def put(self, data: bytes) -> str:
        """Keep `data` under the name returned. Raises StorageError."""
        sha256, is_new = self._store.keep(data)
        if is_new:
            self._kept.append(sha256)
        return sha256

    def finish(self) -> None:
        """On return everything put is durable, if the store is. Raises StorageError."""
        if self._kept:
            self._store.settle(self._kept)
            self._kept = []


def _read(path: Path) -> bytes:
    # Not blocking: a pipe in the place of the file must make nobody wait.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        return file.read()


def _decompressed(stored: bytes) -> bytes | None:
    zstd = _zstd()
    try:
        data: bytes = zstd.decompress(stored)
    except zstd.ZstdError:
        return None
    return data
