"""Which transcripts there are, with what the file system says of each; the catalogue's measure.

The rule kept here: a directory that can't be read is told and hides no other; and ten thousand
sessions take no longer than ten thousand calls of `stat`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from rewake.log.layout import Layout, Problem, SessionPaths


class Found(NamedTuple):
    """One transcript. `key` is what the catalogue knows it by."""

    mtime_ns: int
    session_id: str
    project: str
    size: int
    inode: int

    @property
    def paths(self) -> SessionPaths:
        """Its files."""
        return SessionPaths(Path(self.project), self.session_id)

    @property
    def key(self) -> bytes:
        """Project directory and session id as they are on disk, in any encoding."""
        return os.fsencode(f"{self.project.rpartition('/')[2]}/{self.session_id}")


def found_of(paths: SessionPaths) -> Found:
    """One transcript as it is now. Raises OSError."""
    stat = paths.transcript.stat()
    return Found(stat.st_mtime_ns, paths.session_id, str(paths.project), stat.st_size, stat.st_ino)


def find_files(layout: Layout, root: Path | None, on_problem: Problem) -> list[Found]:
    """Every transcript of the project at `root`, or of all, in no order."""
    projects = (
        layout.project_directories(root)
        if root is not None
        else [layout.projects / name for name in _names(layout.projects, on_problem)]
    )
    return [found for project in projects for found in _in_project(project, on_problem)]


def _in_project(project: Path, on_problem: Problem) -> Iterator[Found]:
    where = str(project)
    sessions = project / "sessions"
    beginning = f"{sessions}/"
    for name in _names(sessions, on_problem):
        path = f"{beginning}{name}/transcript.jsonl"
        try:
            stat = os.stat(path)  # noqa: PTH116  # pathlib takes as long again as the call itself
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            on_problem(Path(path), error)
            continue
        if S_ISREG(stat.st_mode):
            yield Found(stat.st_mtime_ns, name, where, stat.st_size, stat.st_ino)


def _names(directory: Path, on_problem: Problem) -> list[str]:
    try:
        return os.listdir(directory)  # noqa: PTH208  # names are all that is needed
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        on_problem(directory, error)
        return []
