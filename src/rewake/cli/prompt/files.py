"""The project's files, to be found by a few letters of their path.

The rules kept here: what git ignores isn't offered; listing and finding happen in a worker thread, so
that typing never waits for them; and a list that is some seconds old is good enough to choose from.
"""

from __future__ import annotations

import heapq
import re
import threading
import time
from pathlib import Path
from typing import Final

from rewake.log.git import listed_files

_FRESH_S: Final = 5.0
_WALK_S: Final = 5.0
_FILES_MAX: Final = 200_000
_SHOWN_MAX: Final = 20


class FileIndex:
    """The files below `root`. Safe for threads."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._mutex = threading.Lock()
        self._paths: list[tuple[str, str]] = []
        self._listed_s = float("-inf")

    def find(self, letters: str) -> list[str]:
        """The best paths for these letters, best first; directories end with `/`. May take a while."""
        wanted = letters.lower()
        with self._mutex:
            if time.monotonic() - self._listed_s > _FRESH_S:
                self._paths = [(path, path.lower()) for path in _with_directories(self._list())]
                self._listed_s = time.monotonic()
            paths = self._paths
        if not wanted:
            return heapq.nsmallest(_SHOWN_MAX, (path for path, _ in paths), key=_depth)
        pattern = re.compile(".*?".join(map(re.escape, wanted)), re.DOTALL)
        found = (
            (_rank(lowered, wanted, match), path)
            for path, lowered in paths
            if (match := pattern.search(lowered)) is not None
        )
        return [path for _, path in heapq.nsmallest(_SHOWN_MAX, found)]

    def _list(self) -> list[str]:
        listed = listed_files(self._root)
        return (listed if listed is not None else self._walked())[:_FILES_MAX]

    def _walked(self) -> list[str]:
        from rewake.agent.tools.walk import Walk

        skip = len(str(self._root)) + 1
        walk = Walk(self._root, time.monotonic() + _WALK_S)
        return [path[skip:] for path in walk.files()]


def _depth(path: str) -> tuple[int, str]:
    return path.rstrip("/").count("/"), path


def _rank(path: str, wanted: str, match: re.Match[str]) -> tuple[int, int, int]:
    """Lower is better: the name itself, its beginning, in the name, in the path, letters apart."""
    name = path.rstrip("/").rpartition("/")[2]
    if name == wanted or path.rstrip("/") == wanted:
        kind = 0
    elif name.startswith(wanted) or path.startswith(wanted):
        kind = 1
    elif wanted in name:
        kind = 2
    elif wanted in path:
        kind = 3
    else:
        kind = 4
    return kind, match.end() - match.start(), len(path)


def _with_directories(files: list[str]) -> list[str]:
    directories: set[str] = set()
    for file in files:
        parent = file.rpartition("/")[0]
        while parent and parent not in directories:
            directories.add(parent)
            parent = parent.rpartition("/")[0]
    return files + [f"{directory}/" for directory in directories]
