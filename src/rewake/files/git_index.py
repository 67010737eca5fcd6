"""Reads git's index: which files git knows, with the stat that each had when git last saw it clean.

Format: gitformat-index(5), versions 2 to 4. The rule kept here: what isn't understood (a split or a
sparse index, a truncated file) raises ValueError, and the caller does without git.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_HEADER: Final = struct.Struct(">4sII")
_STAT: Final = struct.Struct(">10I")
_ASSUME_VALID: Final = 0x8000
_EXTENDED: Final = 0x4000
_STAGE: Final = 0x3000
_NAME_LENGTH: Final = 0x0FFF
_SKIP_WORKTREE: Final = 0x4000
_INTENT_TO_ADD: Final = 0x2000
_SPARSE_DIRECTORY: Final = 0o040000


class IndexEntry(NamedTuple):
    """One path. `special`: git doesn't look at its file, or it has no plain entry (conflict, `add -N`)."""

    path: bytes
    mode: int
    oid: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    special: bool


def parse_index(data: bytes, oid_bytes: int = 20) -> list[IndexEntry]:
    """The entries in the index's order. Raises ValueError for what can't be read."""
    try:
        magic, version, count = _HEADER.unpack_from(data)
        if magic != b"DIRC" or version not in {2, 3, 4}:
            raise ValueError(f"no index of version 2 to 4 ({magic!r}, {version})")
        entries, at = _entries(data, version, count, oid_bytes)
        _refuse_split(data, at, oid_bytes)
    except (struct.error, IndexError) as error:
        raise ValueError(f"the index ends too early: {error}") from error
    return entries


def _entries(data: bytes, version: int, count: int, oid_bytes: int) -> tuple[list[IndexEntry], int]:
    entries: list[IndexEntry] = []
    at, previous = _HEADER.size, b""
    for _ in range(count):
        start = at
        cs, cns, ms, mns, _dev, inode, mode, _uid, _gid, size = _STAT.unpack_from(data, at)
        at += _STAT.size
        oid = data[at : at + oid_bytes].hex()
        at += oid_bytes
        flags = data[at] << 8 | data[at + 1]
        at += 2
        extended = 0
        if flags & _EXTENDED:
            extended = data[at] << 8 | data[at + 1]
            at += 2
        if mode == _SPARSE_DIRECTORY:
            raise ValueError("a sparse index")
        if version == 4:  # noqa: PLR2004  # the version that compresses names
            strip, at = _varint(data, at)
            end = data.index(b"\0", at)
            path = previous[: len(previous) - strip] + data[at:end]
            at = end + 1
        else:
            end = data.index(b"\0", at) if flags & _NAME_LENGTH == _NAME_LENGTH else -1
            end = end if end >= 0 else at + (flags & _NAME_LENGTH)
            path = data[at:end]
            at = start + ((end - start) // 8 + 1) * 8  # one to eight NULs
        previous = path
        special = bool(
            flags & (_ASSUME_VALID | _STAGE) or extended & (_SKIP_WORKTREE | _INTENT_TO_ADD)
        )
        entries.append(
            IndexEntry(
                *(path, mode, oid, size, ms * 1_000_000_000 + mns, cs * 1_000_000_000 + cns),
                *(inode, special),
            )
        )
    return entries, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    value = byte & 0x7F
    while byte & 0x80:
        byte = data[at]
        at += 1
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at


def _refuse_split(data: bytes, at: int, oid_bytes: int) -> None:
    end = len(data) - oid_bytes
    while at + 8 <= end:
        name = data[at : at + 4]
        (size,) = struct.unpack_from(">I", data, at + 4)
        if name == b"link":
            raise ValueError("a split index")
        at += 8 + size
