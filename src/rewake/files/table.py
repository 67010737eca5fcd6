"""What a scan found, and where it is kept so that a crash in the middle of a command loses nothing.

The rule kept here: the table from before a command is on disk before the command's intent is, so that
whoever settles an interrupted command can tell what it changed. It is written only when it differs
from what is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

from rewake.files.look import ABSENT, Entry
from rewake.log.disk import Disk

_VERSION: Final = 1
_BEFORE: Final = "before"


class Clean(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A file that equals its git object: the object, the file's whole mode and its size."""

    oid: str
    mode: int
    size: int


class Table(msgspec.Struct):
    """One scan. Paths are relative to the root; those outside of it are absolute.

    `clean` paths equal their git objects unless `entries` has them; a path in neither isn't there.
    """

    kind: Literal["git", "plain"] = "plain"
    entries: dict[bytes, Entry] = {}
    clean: dict[bytes, Clean] = {}
    clean_number: int = 0

    def entry(self, path: bytes) -> Entry:
        """The entry of a path that isn't clean."""
        return self.entries.get(path, ABSENT)


class _Before(msgspec.Struct):
    version: int
    root: bytes
    kind: Literal["git", "plain"]
    clean_number: int
    entries: dict[bytes, Entry]
    extra: list[bytes] = []


class TableFile:
    """The newest table of a session, in the session's own directory."""

    def __init__(self, directory: Path, root: bytes, disk: Disk, *, sync: bool) -> None:
        self.directory = directory
        self._root = root
        self._disk = disk
        self._sync = sync
        self._written: tuple[int, dict[bytes, Entry], frozenset[bytes]] | None = None

    def write(self, table: Table, extra: frozenset[bytes]) -> None:
        """Keep the table; durable on return. Raises StorageError."""
        now = (table.clean_number, table.entries, extra)
        if self._written == now:
            return
        self._disk.make_directory(self.directory, sync=self._sync)
        clean = self._clean(table.clean_number)
        if table.kind == "git" and not clean.exists():
            data = msgspec.msgpack.encode(table.clean)
            self._disk.write_atomic(clean, data, sync=self._sync)
        before = _Before(
            *(_VERSION, self._root, table.kind, table.clean_number, table.entries, sorted(extra))
        )
        data = msgspec.msgpack.encode(before)
        self._disk.write_atomic(self.directory / _BEFORE, data, sync=self._sync)
        for old in self.directory.glob("clean-*"):
            if old != clean:
                old.unlink(missing_ok=True)
        self._written = now

    def read(self) -> tuple[Table, frozenset[bytes]] | None:
        """The table, and the extra paths that it watches; None where there is none for this root."""
        try:
            data = (self.directory / _BEFORE).read_bytes()
            before = msgspec.msgpack.decode(data, type=_Before)
            clean: dict[bytes, Clean] = {}
            if before.kind == "git":
                data = self._clean(before.clean_number).read_bytes()
                clean = msgspec.msgpack.decode(data, type=dict[bytes, Clean])
        except (OSError, msgspec.DecodeError):
            return None  # a cache of what a scan finds: without it there is one scan more
        if before.version != _VERSION or before.root != self._root:
            return None
        table = Table(before.kind, before.entries, clean, before.clean_number)
        return table, frozenset(before.extra)

    def _clean(self, number: int) -> Path:
        return self.directory / f"clean-{number}"
