"""The tree of a project without git: every file by its stat, directories with them.

The rules kept here: links are never followed; Rewake's own home, repositories inside the tree and
caches that programs make by themselves are not descended into; the loop over files does as little as
it can, because it runs twice around each command.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Final

from rewake.files.look import Entry, Looker, signature

# What can be made again by a program, has many files, and no person edits.
CACHES: Final = frozenset(
    {
        *(b"node_modules", b"__pycache__", b".venv", b"venv", b".tox", b".nox"),
        *(
            b".mypy_cache",
            b".pytest_cache",
            b".ruff_cache",
            b".hypothesis",
            b".git",
            b".hg",
            b".svn",
        ),
    }
)


class Walk:
    """One pass over a tree. `entries` by path relative to the root; what was left out is named."""

    def __init__(
        self, root: bytes, looker: Looker, known: Mapping[bytes, Entry], own: bytes | None
    ) -> None:
        self.entries: dict[bytes, Entry] = {}
        self.nested: list[bytes] = []
        self.caches: list[bytes] = []
        self.cut_off = False
        self._root = root
        self._looker = looker
        self._known = known
        self._own = own

    def run(self) -> None:
        """Walk. What can't be read is skipped and named by the looker."""
        waiting = [b""]
        files_max = self._looker.limits.files_max
        while waiting:
            directory = waiting.pop()
            if len(self.entries) > files_max:
                self.cut_off = True
                return
            self._directory(directory, waiting)

    def _directory(self, directory: bytes, waiting: list[bytes]) -> None:  # noqa: C901  # one loop: calls would cost a third of it
        absolute = self._root + b"/" + directory if directory else self._root
        try:
            with os.scandir(absolute) as found:
                listed = list(found)
        except OSError:
            if directory:
                self._looker.problems.setdefault("unreadable", []).append(directory)
            return
        if directory and any(entry.name == b".git" for entry in listed):
            self.nested.append(directory)
            return
        prefix = directory + b"/" if directory else b""
        entries, known = self.entries, self._known
        for entry in listed:
            path = prefix + entry.name
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # gone meanwhile
            before = known.get(path)
            if before is not None and before.stat == (
                status.st_mode,
                status.st_size,
                status.st_mtime_ns,
                status.st_ctime_ns,
                status.st_ino,
            ):
                if before.kind == "directory":
                    entries[path] = before
                    waiting.append(path)
                    continue
                if before.settled and before.covered:
                    entries[path] = before
                    continue
            if stat.S_ISDIR(status.st_mode):
                self._found_directory(path, entry, status, waiting)
            elif stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                entries[path] = self._looker.look(self._root + b"/" + path, before, status=status)

    def _found_directory(
        self,
        path: bytes,
        entry: os.DirEntry[bytes],
        status: os.stat_result,
        waiting: list[bytes],
    ) -> None:
        if entry.name in CACHES:
            if entry.name not in {b".git", b".hg", b".svn"}:
                self.caches.append(path)
            return
        if self._own is not None and self._root + b"/" + path == self._own:
            return
        # A directory's own times change with what is in it, which has entries of its own.
        self.entries[path] = Entry(
            "directory",
            signature(status),
        )
        waiting.append(path)
