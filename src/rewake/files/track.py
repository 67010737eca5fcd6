"""Finds what a command changed: one scan before it, one after it, and the difference.

The rules kept here:

- The scan from before is on disk, and the contents with it, before the command may begin; the
  contents from after are blobs before they are named.
- Everything that isn't covered is said: what, and why. Nothing is followed, descended into or kept
  silently in part.
- The tracker writes only into the session's own directory and the blobs.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from rewake.files.git import Git, GitUnusableError
from rewake.files.git_scan import GitScanner, parents_of
from rewake.files.look import ABSENT, Entry, Limits, Looker, link_state, project_bytes
from rewake.files.names import change, same
from rewake.files.table import Clean, Table, TableFile
from rewake.files.walk import Walk
from rewake.log.disk import Disk
from rewake.model.content import JsonObject
from rewake.model.events import Change, FileState

# More new contents than this in one scan are made durable together, which is faster than each alone.
_BULK_MIN: Final = 32
_SHOWN_MAX: Final = 20
_NO_FILE: Final = frozenset({"directory", "absent"})


class Store(Protocol):
    """The project's blobs."""

    def put(self, data: bytes) -> str: ...

    def get(self, sha256: str) -> bytes: ...

    def has(self, sha256: str) -> bool: ...


class NotCovered(msgspec.Struct, frozen=True):
    """Paths (the first few) that can't be brought back, and why."""

    reason: str
    paths: tuple[str, ...]
    count: int

    def sentence(self) -> str:
        """For the user."""
        more = f" and {self.count - len(self.paths)} more" if self.count > len(self.paths) else ""
        return f"Not covered by file history ({self.reason}): {', '.join(self.paths)}{more}."


class Tracked(msgspec.Struct, frozen=True):
    """What a command changed. `not_covered` names what may have changed besides."""

    changes: tuple[Change, ...] = ()
    not_covered: tuple[NotCovered, ...] = ()

    def details(self) -> JsonObject:
        """The part for `Outcome.details`."""
        if not self.not_covered:
            return {}
        return {"not_covered": msgspec.to_builtins(self.not_covered)}


class Tracker:
    """Tracks one project for one session. Not safe for threads; calls come one after the other.

    `directory` is the session's place for this; `own` is never tracked (Rewake's home); `extra` gives
    paths to watch although a scan would leave them out, because a tool has edited them.
    """

    def __init__(
        self,
        root: Path,
        directory: Path,
        store: Store,
        *,
        disk: Disk,
        own: Path | None = None,
        extra: Callable[[], Iterable[bytes]] = tuple,
        bulk: tuple[Store, Callable[[], None]] | None = None,
        limits: Limits | None = None,
        sync: bool = True,
    ) -> None:
        self._root = project_bytes(root)
        self._root_path = root
        self._own = os.fsencode(own) if own is not None else None
        self._store = store
        self._bulk = bulk
        self._limits = limits or Limits()
        self.disk = disk
        self._file = TableFile(directory, self._root, disk, sync=sync)
        self._find_extra = extra
        self._extra: frozenset[bytes] | None = None
        self._table: Table | None = None
        self._git: GitScanner | None = None
        self._git_problem = ""
        self._ignored_told = False
        self._said: set[tuple[str, tuple[str, ...]]] = set()
        self._problems: dict[str, list[bytes]] = {}

    # --- around a command ----------------------------------------------------------------------

    def before(self) -> None:
        """Scan and keep what is there now; durable on return. Raises StorageError."""
        known = self._table
        if known is None:
            known, self._extra = self._remembered()
        self._problems = {}
        self._table = self._scan(known, take_index=True)
        self._file.write(self._table, self._extra or frozenset())

    def after(self, *, keep: bool = False) -> Tracked:
        """What has changed since `before`, be it of this process or of one that died.

        The contents are blobs on return. With `keep`, what is there now is what the next `after`
        compares with, also in another process. Raises StorageError.
        """
        before = self._table
        if before is None:
            found = self._file.read()
            if found is None:
                return Tracked()
            before, self._extra = found
            if not self._prepare_git(before):
                why = f"git can't be used: {self._git_problem}"
                return Tracked((), (NotCovered(why, (".",), 1),))
        after = self._scan(before, take_index=False)
        self._table = after
        changes, missing = self._compare(before, after)
        if keep:
            self._file.write(after, self._extra or frozenset())
        for reason, paths in missing.items():
            self._problems.setdefault(reason, []).extend(paths)
        return Tracked(tuple(changes), self._not_covered())

    def watch(self, paths: Iterable[bytes]) -> None:
        """Watch these absolute paths from now on, whatever git ignores."""
        if self._extra is not None:
            self._extra = self._extra.union(self._relative(path) for path in paths)

    def _remembered(self) -> tuple[Table, frozenset[bytes]]:
        """What an earlier process of this session knew, as far as its contents are still kept."""
        found = self._file.read()
        if found is None:
            extra = frozenset(self._relative(path) for path in self._find_extra())
            return Table(), extra
        table, extra = found
        entries = {
            path: entry
            for path, entry in table.entries.items()
            if entry.sha256 is None or entry.oid or self._store.has(entry.sha256)
        }
        return msgspec.structs.replace(table, entries=entries), extra

    def _relative(self, path: bytes) -> bytes:
        prefix = self._root + b"/"
        return path.removeprefix(prefix)

    # --- scanning ------------------------------------------------------------------------------

    def _scan(self, known: Table, *, take_index: bool) -> Table:
        keeper = _Keeper(self._store, self._bulk)
        looker = Looker(keeper.put, self._limits)
        table = self._scan_git(looker, known, take_index=take_index)
        if table is None:
            table = self._scan_tree(looker, known)
        keeper.finish()
        for reason, paths in looker.problems.items():
            self._problems.setdefault(reason, []).extend(paths)
        return table

    def _scan_git(self, looker: Looker, known: Table, *, take_index: bool) -> Table | None:
        if self._git_problem or not os.path.lexists(self._root_path / ".git"):
            return None
        if not take_index and known.kind != "git":
            return None  # both scans of one command must be of the same kind
        try:
            if self._git is None:
                git = Git(self._root_path, self._file.directory / "git", self.disk)
                self._git = GitScanner(git, self._own)
            if take_index:
                self._git.take_index()
            table = self._git.scan(looker, known, self._extra or (), after=not take_index)
        except GitUnusableError as error:
            self._git_problem = str(error)
            return None
        if not take_index:
            self._tell_ignored(self._git.git)
        if self._git.nested:
            self._problems["another repository"] = sorted(self._git.nested)
        return table

    def _tell_ignored(self, git: Git) -> None:
        """Once: what git ignores can have changed without a trace here."""
        if self._ignored_told:
            return
        self._ignored_told = True
        with contextlib.suppress(GitUnusableError):
            ignored = [path for path in git.ignored() if path not in (self._extra or ())]
            if ignored:
                self._problems["ignored by git"] = sorted(ignored)

    def _prepare_git(self, before: Table) -> bool:
        """Go on with the index that a process which died had taken; False where that can't be."""
        if before.kind == "git":
            try:
                git = Git(self._root_path, self._file.directory / "git", self.disk)
                self._git = GitScanner(git, self._own)
                self._git.go_on(before)
            except GitUnusableError as error:
                self._git_problem = str(error)
                return False
        return True

    def _scan_tree(self, looker: Looker, known: Table) -> Table:
        walk = Walk(self._root, looker, known.entries, self._own)
        walk.run()
        for path in self._extra or ():
            if path not in walk.entries:
                absolute = path if path.startswith(b"/") else self._root + b"/" + path
                if os.path.realpath(os.path.dirname(absolute)) == os.path.dirname(absolute):  # noqa: PTH120  # bytes
                    walk.entries[path] = looker.look(absolute, known.entries.get(path))
        for reason, paths in (("another repository", walk.nested), ("a cache", walk.caches)):
            if paths:
                self._problems[reason] = sorted(paths)
        if walk.cut_off:
            self._problems[f"more than {self._limits.files_max} files"] = [b"."]
        return Table("plain", walk.entries)

    # --- comparing -----------------------------------------------------------------------------

    def _compare(self, before: Table, after: Table) -> tuple[list[Change], dict[str, list[bytes]]]:
        known = before.entries
        paths = [path for path, entry in after.entries.items() if known.get(path) is not entry]
        paths.extend(known.keys() - after.entries.keys())
        candidates = [path for path in sorted(paths) if self._may_differ(path, before, after)]
        candidates = _certain(candidates, before, after)
        objects = self._objects(candidates, before)
        changes: list[Change] = []
        missing: dict[str, list[bytes]] = {}
        for path in candidates:
            old = self._state(path, before, objects)
            new = self._state(path, after, objects)
            if old is None or new is None:
                missing.setdefault("its content was not kept", []).append(path)
            elif not same(old, new):
                absolute = path if path.startswith(b"/") else self._root + b"/" + path
                changes.append(change(absolute, old, new))
        return changes, missing

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
            with os.scandir(self._root + b"/" + path) as listing:
                return next(listing, None) is not None
        except OSError:
            return False

    def _objects(self, paths: Sequence[bytes], before: Table) -> dict[str, bytes]:
        """The git objects that paths had before, kept as blobs now: git may prune them any time."""
        if self._git is None:
            return {}
        wanted = set()
        for path in paths:
            entry = before.entries.get(path)
            if entry is None and path in before.clean:
                wanted.add(before.clean[path].oid)
            elif entry is not None and entry.oid:
                wanted.add(entry.oid)
        try:
            objects = self._git.git.objects(wanted, self._limits.file_bytes_max)
        except GitUnusableError:
            return {}  # each of them is then reported as not kept
        keeper = _Keeper(self._store, self._bulk)
        for data in objects.values():
            keeper.put(data)
        keeper.finish()
        return objects

    def _state(self, path: bytes, table: Table, objects: dict[str, bytes]) -> FileState | None:
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

    def _is_kept(self, entry: Entry, objects: dict[str, bytes]) -> bool:
        """Whether a content that only git had is a blob; the file itself has it if it is unchanged."""
        if entry.oid in objects or self._store.has(entry.sha256 or ""):
            return True
        if self._git is None:
            return False
        found = self._git.git.objects([entry.oid], self._limits.file_bytes_max)
        for data in found.values():
            self._store.put(data)
        return bool(found)

    def _not_covered(self) -> tuple[NotCovered, ...]:
        """What hasn't been said before in this session."""
        told = []
        for reason, paths in self._problems.items():
            shown = tuple(
                self._relative(path).decode("utf-8", "replace") for path in paths[:_SHOWN_MAX]
            )
            if (reason, shown) not in self._said:
                self._said.add((reason, shown))
                told.append(NotCovered(reason, shown, len(paths)))
        return tuple(told)


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


def _clean_state(clean: Clean, objects: dict[str, bytes]) -> FileState | None:
    import hashlib

    data = objects.get(clean.oid)
    # Another size means that git had converted the file after all: the object isn't what was there.
    if data is None or len(data) != clean.size:
        return None
    if stat.S_ISLNK(clean.mode):
        return link_state(data)
    return FileState("file", hashlib.sha256(data).hexdigest(), len(data), stat.S_IMODE(clean.mode))


class _Keeper:
    """Keeps the contents of one scan; many at once are made durable together at its end."""

    def __init__(self, store: Store, bulk: tuple[Store, Callable[[], None]] | None) -> None:
        self._store = store
        self._bulk = bulk
        self._count = 0

    def put(self, data: bytes) -> None:
        self._count += 1
        if self._bulk is not None and self._count > _BULK_MIN:
            self._bulk[0].put(data)
        else:
            self._store.put(data)

    def finish(self) -> None:
        """On return everything is as durable as the store makes it."""
        if self._bulk is not None and self._count > _BULK_MIN:
            self._bulk[1]()
