"""One look at a path: what is there, its content kept as a blob unless that is known already.

The rules kept here:

- A content is read again only when the file's stat changed since the last look, or when it was so
  young then that a later write could have left the same stat.
- What can't be kept (too large, unreadable, over the limits) is an entry without a content, never an
  error: a change of it is then reported as not covered.
"""

# Paths are bytes here, because they may be no text.
# ruff: noqa: PTH115

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import msgspec

from rewake.model.events import FileKind, FileState

# FAT keeps times to 2 s; every other file system is finer.
YOUNG_NS: Final = 2_000_000_000
_READ_BYTES: Final = 1 << 20


class Limits(msgspec.Struct, frozen=True):
    """What is covered at most: files, bytes of one, bytes newly kept in one scan, seconds of it."""

    files_max: int = 100_000
    file_bytes_max: int = 32 << 20
    kept_bytes_max: int = 2 << 30
    seconds_max: float = 60.0


class Entry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a path was at the last look. `sha256` of None on a file means: its content isn't kept.

    `stat` is mode, size, mtime_ns, ctime_ns and inode; `settled` says whether the same stat later
    proves the same content. `oid` names the git object with the same
    bytes where the content is kept there and not in a blob.
    """

    kind: FileKind
    stat: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    settled: bool = False
    sha256: str | None = None
    target: bytes = b""
    oid: str = ""

    @property
    def covered(self) -> bool:
        """Whether what was there can be brought back."""
        return self.kind != "file" or self.sha256 is not None

    def state(self) -> FileState:
        """The state as events hold it."""
        mode = stat.S_IMODE(self.stat[0])
        if self.kind == "file":
            return FileState("file", self.sha256, self.stat[1], mode)
        if self.kind == "symlink":
            return link_state(self.target)
        return FileState("directory", mode=mode) if self.kind == "directory" else FileState()


ABSENT: Final = Entry("absent")


def link_state(target: bytes) -> FileState:
    """The state of a symlink to `target`."""
    import base64

    try:
        return FileState("symlink", target=target.decode())
    except UnicodeDecodeError:
        return FileState("symlink", target_base64=base64.b64encode(target).decode())


def signature(status: os.stat_result) -> tuple[int, int, int, int, int]:
    """What changes when a file is written, replaced or its mode is set."""
    return (
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
    )


def is_settled(found: tuple[int, int, int, int, int], looked_ns: int) -> bool:
    """Whether a file was old enough when it was looked at: a later write gives it another stat."""
    return max(found[2], found[3]) + YOUNG_NS < looked_ns


class Blobs(Protocol):
    """Where contents are kept; durable when `put` returns, if the store is."""

    def put(self, data: bytes) -> str: ...

    def get(self, sha256: str) -> bytes: ...


@dataclass(slots=True)
class Looker:
    """Looks at paths during one scan. `problems` names what it couldn't cover, and why."""

    keep: Callable[[bytes], object]
    limits: Limits
    clock_ns: Callable[[], int] = time.time_ns
    problems: dict[str, list[bytes]] = field(default_factory=dict)
    _kept_bytes: int = 0
    _deadline: float = 0.0

    def look(
        self,
        path: bytes,
        known: Entry | None = None,
        *,
        status: os.stat_result | None = None,
        oid: str = "",
        hash_name: str = "sha1",
    ) -> Entry:
        """What is at `path`; `oid` is a git object that may have the same bytes. Never raises OSError."""
        if status is None:
            try:
                status = os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                return ABSENT
            except OSError:
                self._problem("unreadable", path)
                return ABSENT
        found = signature(status)
        if known is not None and known.stat == found and known.covered and known.settled:
            return known
        return self._new(path, found, oid, hash_name)

    def _new(
        self, path: bytes, found: tuple[int, int, int, int, int], oid: str, hash_name: str
    ) -> Entry:
        mode = found[0]
        if stat.S_ISDIR(mode):
            return Entry("directory", found)
        if stat.S_ISLNK(mode):
            return self._link(path, found)
        if stat.S_ISREG(mode):
            return self._file(path, found, oid, hash_name)
        return ABSENT  # devices, pipes and sockets have no content to bring back

    def _link(self, path: bytes, found: tuple[int, int, int, int, int]) -> Entry:
        try:
            target = os.readlink(path)
            return Entry("symlink", found, is_settled(found, self.clock_ns()), None, target)
        except OSError:
            return ABSENT  # gone between two system calls

    def _file(
        self, path: bytes, found: tuple[int, int, int, int, int], oid: str, hash_name: str
    ) -> Entry:
        now = self.clock_ns()
        reason = self._over(found[1])
        if reason:
            self._problem(reason, path)
            return Entry("file", found)
        try:
            data, found = _read(path)
        except OSError:
            self._problem("unreadable", path)
            return Entry("file", found)
        sha256 = hashlib.sha256(data).hexdigest()
        if oid and git_oid(data, hash_name) == oid:
            return Entry("file", found, is_settled(found, now), sha256, b"", oid)
        self._kept_bytes += len(data)
        self.keep(data)
        return Entry("file", found, is_settled(found, now), sha256)

    def _over(self, size: int) -> str:
        if size > self.limits.file_bytes_max:
            return "too large"
        if self._kept_bytes + size > self.limits.kept_bytes_max:
            return "too much to keep"
        if not self._deadline:
            self._deadline = time.monotonic() + self.limits.seconds_max
        return "took too long" if time.monotonic() > self._deadline else ""

    def _problem(self, reason: str, path: bytes) -> None:
        self.problems.setdefault(reason, []).append(path)


def git_oid(data: bytes, hash_name: str) -> str:
    """The name that git gives to these bytes."""
    digest = hashlib.new(hash_name, b"blob %d\0" % len(data), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def _read(path: bytes) -> tuple[bytes, tuple[int, int, int, int, int]]:
    # Not blocking and not following, in case the path becomes a pipe or a link just now.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        pieces = []
        while piece := os.read(descriptor, _READ_BYTES):
            pieces.append(piece)
    finally:
        os.close(descriptor)
    return b"".join(pieces), signature(status)


def project_bytes(root: Path) -> bytes:
    """A project's root as bytes, without a slash at its end."""
    return os.fsencode(root).rstrip(b"/") or b"/"
