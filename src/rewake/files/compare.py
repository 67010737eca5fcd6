"""Two scans of a project against each other: which paths differ, and how each side is recorded.

The rule kept here: a side whose content can't be brought back is no side of a change; the path is
reported instead. What git had and a command changed is a blob before it is named.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from rewake.files.git import GitUnusableError
from rewake.files.git_scan import GitScanner, parents_of
from rewake.files.look import ABSENT, Entry, Limits, link_state
from rewake.files.names import change, same
from rewake.files.table import Clean, Table
from rewake.model.events import Change, FileState

# More new contents than this in one scan are made durable together, which is faster than each alone.
_BULK_MIN: Final = 32
_NO_FILE: Final = frozenset({"directory", "absent"})


class Store(Protocol):
    """The project's blobs."""

    def put(self, data: bytes) -> str: ...

    def get(self, sha256: str) -> bytes: ...

    def has(self, sha256: str) -> bool: ...

    def batch(self) -> Batch: ...


class Batch(Protocol):
    """Contents that become durable together."""

    def put(self, data: bytes) -> str: ...

    def finish(self) -> None: ...


Bulk = tuple[Store, Callable[[], None]]
"""The same blobs without syncs, and what makes all of them durable."""


class Keeper:
    """Keeps the contents of one scan; many at once are made durable together at its end."""

    def __init__(self, store: Store, bulk: Bulk | None) -> None:
        self._batch = store.batch()
        self._bulk = bulk
        self._count = 0

    def put(self, data: bytes) -> None:
        """Keep `data`; as durable as the store makes it after `finish`."""
        self._count += 1
        if self._bulk is not None and self._count > _BULK_MIN:
            self._bulk[0].put(data)
        else:
            self._batch.put(data)

    def finish(self) -> None:
        """On return everything is as durable as the store makes it."""
        self._batch.finish()
        if self._bulk is not None and self._count > _BULK_MIN:
            self._bulk[1]()


@dataclass(frozen=True, slots=True)
class Comparer:
    """Compares tables of one project. `git` is where contents are that no blob holds."""

    root: bytes
    store: Store
    bulk: Bulk | None
    limits: Limits
    git: GitScanner | None

    def differing(self, before: Table, after: Table) -> list[bytes]:
        """The paths that changed between two scans, in order."""
        known = before.entries
        paths = [path for path, entry in after.entries.items() if known.get(path) is not entry]
        paths.extend(known.keys() - after.entries.keys())
        candidates = [path for path in sorted(paths) if self._may_differ(path, before, after)]
        return _certain(candidates, before, after)

    def changes(
        self, paths: Iterable[bytes], before: Table, after: Table
    ) -> tuple[list[Change], list[bytes]]:
        """The changes of these paths, their contents kept, and those whose content wasn't kept."""
        candidates = [path for path in sorted(paths) if self._may_differ(path, before, after)]
        objects = self.keep_objects(candidates, before)
        changes: list[Change] = []
        missing: list[bytes] = []
        for path in candidates:
            old, new = self.state(path, before, objects), self.state(path, after, objects)
            if old is None or new is None:
                missing.append(path)
            elif not same(old, new):
                changes.append(change(self.absolute(path), old, new))
        return changes, missing

    def absolute(self, path: bytes) -> bytes:
        """A path of a table as the system takes it."""
        return path if path.startswith(b"/") else self.root + b"/" + path

    def _may_differ(self, path: bytes, before: Table, after: Table) -> bool:
        old, new = before.entries.get(path), after.entries.get(path)
        if old is None and path in before.clean:
            clean = before.clean[path]
            if new is None:
                return False
            return not (new.oid == clean.oid and new.stat[0] == clean.mode)
        old, new = old or ABSENT, new or ABSENT
        if old.kind != new.kind:
            return not (new.kind == "directory" and self._is_opaque(path, after))
        if old.kind == "directory":
            return stat.S_IMODE(old.stat[0]) != stat.S_IMODE(new.stat[0])
        if not old.covered or not new.covered:
            return old.stat != new.stat
        return (old.sha256, old.target) != (new.sha256, new.target) or (
            old.kind == "file" and old.stat[0] != new.stat[0]
        )

    def _is_opaque(self, path: bytes, after: Table) -> bool:
        """Whether a new directory holds only what git ignores: nothing of it is covered."""
        if after.kind == "plain":
            return False
        prefix = path + b"/"
        if any(other.startswith(prefix) for other in after.entries):
            return False
        try:
            with os.scandir(self.root + b"/" + path) as listing:
                return next(listing, None) is not None
        except OSError:
            return False

    def keep_objects(self, paths: Sequence[bytes], before: Table) -> dict[str, bytes]:
        """The git objects that paths had before, kept as blobs now: git may prune them any time."""
        if self.git is None:
            return {}
        wanted = set()
        for path in paths:
            entry = before.entries.get(path)
            if entry is None and path in before.clean:
                wanted.add(before.clean[path].oid)
            elif entry is not None and entry.oid:
                wanted.add(entry.oid)
        try:
            objects = self.git.git.objects(wanted, self.limits.file_bytes_max)
        except GitUnusableError:
            return {}  # each of them is then reported as not kept
        keeper = Keeper(self.store, self.bulk)
        for data in objects.values():
            keeper.put(data)
        keeper.finish()
        return objects

    def state(self, path: bytes, table: Table, objects: Mapping[str, bytes]) -> FileState | None:
        """The state in a table; None where its content can't be brought back."""
        entry = table.entries.get(path)
        if entry is None:
            clean = table.clean.get(path)
            return FileState() if clean is None else _clean_state(clean, objects)
        if entry.kind == "directory":
            return FileState("directory", mode=stat.S_IMODE(entry.stat[0]))
        if not entry.covered:
            return None
        if entry.oid and not self._is_kept(entry, objects):
            return None
        return entry.state()

    def _is_kept(self, entry: Entry, objects: Mapping[str, bytes]) -> bool:
        """Whether a content that only git had is a blob; the file itself has it if it is unchanged."""
        if entry.oid in objects or self.store.has(entry.sha256 or ""):
            return True
        if self.git is None:
            return False
        try:
            found = self.git.git.objects([entry.oid], self.limits.file_bytes_max)
        except GitUnusableError:
            return False  # which is reported, as any content that isn't kept
        for data in found.values():
            self.store.put(data)
        return bool(found)


def _certain(paths: list[bytes], before: Table, after: Table) -> list[bytes]:
    """Without new directories in places that the scan before hadn't listed: they may be old."""
    if after.kind == "plain":
        return paths
    new = {
        path
        for path in paths
        if after.entry(path).kind == "directory" and before.entry(path).kind == "absent"
    }
    if not new:
        return paths
    there = [path for path, entry in before.entries.items() if entry.kind not in _NO_FILE]
    listed = parents_of([*before.clean, *there]) | {b""}
    unsure: set[bytes] = set()
    for path in sorted(new):
        parent = path.rpartition(b"/")[0]
        if parent in unsure or (parent not in new and parent not in listed):
            unsure.add(path)
    return [path for path in paths if path not in unsure]


def _clean_state(clean: Clean, objects: Mapping[str, bytes]) -> FileState | None:
    data = objects.get(clean.oid)
    # Another size means that git had converted the file after all: the object isn't what was there.
    if data is None or len(data) != clean.size:
        return None
    if stat.S_ISLNK(clean.mode):
        return link_state(data)
    return FileState("file", hashlib.sha256(data).hexdigest(), len(data), stat.S_IMODE(clean.mode))
