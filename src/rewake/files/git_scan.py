"""Scans of a git work tree: git says what may have changed, and only that is looked at.

The rule kept here: a path is called clean only when its file's stat is the index's to the nanosecond,
is old enough to prove something, and its object is in HEAD and unconverted. Everything else is looked
at by ourselves, every time.
"""

# Paths are bytes here, because they may be no text.
# ruff: noqa: PTH120

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from typing import Final

from rewake.files.git import SUBMODULE, Git, GitUnusableError, parts, raw_paths
from rewake.files.git_index import IndexEntry
from rewake.files.look import ABSENT, YOUNG_NS, Entry, Looker, git_oid, project_bytes
from rewake.files.names import is_below
from rewake.files.table import Clean, Table
from rewake.files.walk import CACHES

# Above this many files with another stat than the index says, git is asked to compare contents once.
_STALE_MAX: Final = 200
_YOUNG_MAX: Final = 50
# A command can unpack any number of directories that git ignores; they aren't covered anyway.
_NEW_DIRECTORIES_MAX: Final = 1000
_SECOND_NS: Final = 1_000_000_000


class GitScanner:
    """Scans one work tree. `number` counts how often the index was taken anew."""

    def __init__(self, git: Git, own: bytes | None) -> None:
        self.git = git
        self.nested: set[bytes] = set()
        self.number = time.time_ns()
        self._root = project_bytes(git.root)
        self._prefix = self._root.rstrip(b"/") + b"/"
        self._own = own
        self._stamp: tuple[int, int, int] | None = None
        self._clean: dict[bytes, Clean] = {}
        self._watched: dict[bytes, str] = {}
        self._clean_directories: set[bytes] = set()
        self._submodules: set[bytes] = set()
        self._listed: dict[bytes, tuple[int, list[bytes]]] = {}
        self._seen: dict[bytes, Entry] = {}
        self._verified: dict[bytes, tuple[tuple[int, ...], str]] = {}
        self._classify_again_ns = 0

    # --- which files are what git has --------------------------------------------------------

    def take_index(self) -> None:
        """Before a command: take the user's index as it is now, if it has changed."""
        stamp = self.git.index_stamp()
        again = self._classify_again_ns and time.time_ns() > self._classify_again_ns
        if stamp == self._stamp and not again:
            return
        entries = self.git.copy_index()
        stats = self._stats(entries)
        if sum(not _agrees(entry, stats.get(entry.path)) for entry in entries) > _STALE_MAX:
            self.git.refresh()
            entries = self.git.entries()
        self._classify(entries, stats)
        self._stamp = stamp
        self.number += 1

    def go_on(self, before: Table) -> None:
        """Take over what a process that died had found; its copy of the index is still there."""
        self.git.configure()
        self.number = before.clean_number
        self._clean = before.clean
        self._clean_directories = parents_of(self._clean)
        entries = self.git.entries()
        self._submodules = {entry.path for entry in entries if entry.mode == SUBMODULE}
        clean = self._clean
        self._watched = {entry.path: "" for entry in entries if entry.path not in clean}

    def _stats(self, entries: Iterable[IndexEntry]) -> dict[bytes, os.stat_result]:
        stats: dict[bytes, os.stat_result] = {}
        prefix = self._root + b"/"
        for entry in entries:
            try:
                stats[entry.path] = os.lstat(prefix + entry.path)
            except OSError:
                continue  # deleted; git says so too
        return stats

    def _classify(self, entries: list[IndexEntry], stats: dict[bytes, os.stat_result]) -> None:
        now = time.time_ns()
        staged = self.git.staged()
        converted = self.git.converted(entry.path for entry in entries)
        index_second = self.git.index_mtime_ns // _SECOND_NS
        self._clean, self._watched, young = {}, {}, 0
        self._submodules = {entry.path for entry in entries if entry.mode == SUBMODULE}
        for entry in entries:
            path = entry.path
            if entry.mode == SUBMODULE:
                continue
            status = stats.get(path)
            is_young = max(entry.mtime_ns, entry.ctime_ns) + YOUNG_NS > now
            young += is_young
            usable = "" if path in staged or entry.special else entry.oid
            if (
                status is None
                or not usable
                or is_young
                or entry.mtime_ns // _SECOND_NS >= index_second
                or not _agrees(entry, status)
                or (path in converted and not self._is_verified(entry, status))
            ):
                self._watched[path] = usable
            else:
                self._clean[path] = Clean(entry.oid, status.st_mode, status.st_size)
        self._classify_again_ns = now + YOUNG_NS if young > _YOUNG_MAX else 0
        self._clean_directories = parents_of(self._clean)

    def _is_verified(self, entry: IndexEntry, status: os.stat_result) -> bool:
        """Whether the file's bytes were once found to be those of the object."""
        found = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        if self._verified.get(entry.path) == (found, entry.oid):
            return True
        if not stat.S_ISREG(status.st_mode):
            return True  # the target of a link is never converted
        try:
            descriptor = os.open(self._root + b"/" + entry.path, os.O_RDONLY | os.O_NOFOLLOW)
            with open(descriptor, "rb") as file:  # noqa: PTH123  # a descriptor, not a path
                data = file.read()
        except OSError:
            return False
        if git_oid(data, self.git.hash_name) != entry.oid:
            return False
        self._verified[entry.path] = (found, entry.oid)
        return True

    # --- scanning ------------------------------------------------------------------------------

    def scan(
        self, looker: Looker, known: Table, extra: Iterable[bytes], *, after: bool = False
    ) -> Table:
        """The tree as it is now, relative to the index that was taken. Raises GitUnusableError.

        `after` a command everything that was known before it is looked at, also what git would now
        ignore.
        """
        dirty, untracked = self.git.start_dirty(), self.git.start_untracked()
        listed = self._directories(self._clean_directories)
        try:
            changed = set(raw_paths(dirty.output()))
            unknown = parts(untracked.output())
        except GitUnusableError as error:
            untracked.stop()
            if not after:
                raise
            # The command broke the repository: every file that was clean is read.
            changed, unknown = set(self._clean), []
            looker.problems[f"new files: {error}"] = [b"."]
        again = [path for path, entry in known.entries.items() if entry.kind != "directory"]
        again = again if after else []
        entries = self._look(looker, known, self._notable(changed, unknown, [*extra, *again]))
        below = parents_of([*entries, *again]).difference(self._clean_directories)
        listed.update(self._directories(below))
        for path, entry in listed.items():
            entries.setdefault(path, entry)
        if after:
            self._look_again(entries, known)
        return Table("git", entries, self._clean, self.number)

    def _notable(
        self, changed: set[bytes], unknown: list[bytes], more: Iterable[bytes]
    ) -> set[bytes]:
        """Every path that has to be looked at; nested repositories are noted and left out."""
        self.nested = {path.rstrip(b"/") for path in unknown if path.endswith(b"/")}
        self.nested |= self._submodules
        files = [path for path in unknown if not path.endswith(b"/")]
        return changed.difference(self._submodules).union(files, self._watched, more)

    def _look(self, looker: Looker, known: Table, notable: set[bytes]) -> dict[bytes, Entry]:
        real = _RealDirectories(self._root)
        entries: dict[bytes, Entry] = {}
        for path in notable:
            if self._is_own(path):
                continue
            clean = self._clean.get(path)
            oid = clean.oid if clean is not None else self._watched.get(path, "")
            found = ABSENT
            if real.has(os.path.dirname(path)):
                found = looker.look(
                    self._absolute(path),
                    known.entries.get(path),
                    oid=oid,
                    hash_name=self.git.hash_name,
                )
            if found is not ABSENT or clean is not None:
                entries[path] = found
        return entries

    def _look_again(self, entries: dict[bytes, Entry], known: Table) -> None:
        """After a command: the directories from before it, and what is in those that it made."""
        for path, entry in known.entries.items():
            if entry.kind == "directory" and path not in entries:
                self._directory(path, entries)
        self._descend(entries, known)

    def _descend(self, entries: dict[bytes, Entry], known: Table) -> None:
        """Directories in new directories: git doesn't list empty ones."""
        waiting = [
            path
            for path, entry in entries.items()
            if entry.kind == "directory" and path not in known.entries
        ]
        count = 0
        while waiting and count < _NEW_DIRECTORIES_MAX:
            path = waiting.pop()
            count += 1
            entry = entries[path]
            if path in self.nested or path.rpartition(b"/")[2] in CACHES:
                continue
            for below in self._subdirectories(path, entry):
                if below in entries or self._directory(below, entries) is None:
                    continue
                waiting.append(below)

    def _absolute(self, path: bytes) -> bytes:
        return path if path.startswith(b"/") else self._root + b"/" + path

    def _is_own(self, path: bytes) -> bool:
        return self._own is not None and is_below(self._absolute(path), self._own)

    def _directories(self, known: Iterable[bytes]) -> dict[bytes, Entry]:
        """Directories that hold files, and those directly in them; nothing is descended into."""
        found: dict[bytes, Entry] = {}
        for path in [*known, b""]:
            entry = found.get(path) or self._directory(path, found)
            if entry is None:
                continue
            listed = self._listed.get(path)
            # Written out, since this loop is most of a scan in which nothing has changed.
            names = listed[1] if listed and listed[0] == entry.stat[2] else self._list(path, entry)
            for name in names:
                if name not in found and not self._is_own(name):
                    self._directory(name, found)
        found.pop(b"", None)
        return found

    def _directory(self, path: bytes, found: dict[bytes, Entry]) -> Entry | None:
        """Looks at one directory. The entry is the one of before where it is the same."""
        try:
            status = os.lstat(path if path[:1] == b"/" else self._prefix + path)
        except OSError:
            return None
        if not stat.S_ISDIR(status.st_mode):
            return None
        # Only the permissions are compared; the times are for the list of what is in it.
        now = (status.st_mode, 0, status.st_mtime_ns, 0, status.st_ino)
        entry = self._seen.get(path)
        if entry is None or entry.stat != now:
            entry = self._seen[path] = Entry("directory", now)
        found[path] = entry
        return entry

    def _subdirectories(self, path: bytes, entry: Entry) -> list[bytes]:
        listed = self._listed.get(path)
        return listed[1] if listed and listed[0] == entry.stat[2] else self._list(path, entry)

    def _list(self, path: bytes, entry: Entry) -> list[bytes]:
        mtime_ns = entry.stat[2]
        prefix = path + b"/" if path else b""
        looked_ns = time.time_ns()
        try:
            with os.scandir(self._prefix + path) as listing:
                names = [
                    prefix + item.name
                    for item in listing
                    if item.is_dir(follow_symlinks=False) and item.name != b".git"
                ]
        except OSError:
            return []
        if mtime_ns + YOUNG_NS < looked_ns:
            self._listed[path] = (mtime_ns, names)
        return names


def _agrees(entry: IndexEntry, status: os.stat_result | None) -> bool:
    """Whether the file has the very stat of the index (git itself compares whole seconds)."""
    return status is not None and (
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_size & 0xFFFFFFFF,
        status.st_ino & 0xFFFFFFFF,
    ) == (entry.mtime_ns, entry.ctime_ns, entry.size, entry.inode)


def parents_of(paths: Iterable[bytes]) -> set[bytes]:
    """All directories above relative paths, the root left out."""
    found: set[bytes] = set()
    for path in paths:
        if path.startswith(b"/"):
            continue
        parent = path.rpartition(b"/")[0]
        while parent and parent not in found:
            found.add(parent)
            parent = parent.rpartition(b"/")[0]
    return found


class _RealDirectories:
    """Which directories are reached without a link, looked up once each."""

    def __init__(self, root: bytes) -> None:
        self._root = root
        self._known: dict[bytes, bool] = {b"": True}

    def has(self, directory: bytes) -> bool:
        if directory.startswith(b"/"):
            return os.path.realpath(directory) == directory
        known = self._known.get(directory)
        if known is None:
            known = self.has(directory.rpartition(b"/")[0]) and not os.path.islink(  # noqa: PTH114  # bytes
                self._root + b"/" + directory
            )
            self._known[directory] = known
        return known
