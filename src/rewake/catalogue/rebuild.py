"""Making the catalogue anew from the transcripts, all of it or one project's part."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

import msgspec

from rewake.catalogue.database import (
    Catalogue,
    discard,
    home_is_there,
    open_catalogue,
)
from rewake.catalogue.files import find_files
from rewake.catalogue.indexing import Progress, catch_up, forget, forget_all, forget_missing
from rewake.errors import CatalogueUnusableError
from rewake.log.disk import Disk
from rewake.log.layout import Layout

_WAIT_MS: Final = 10_000


class Rebuilt(msgspec.Struct, frozen=True):
    """What was read. `problems` say in a sentence each what could not be."""

    sessions: int
    bytes_read: int
    passages: int
    problems: tuple[str, ...]


def reindex(
    home: Path, disk: Disk, root: Path | None = None, *, progress: Progress | None = None
) -> Rebuilt:
    """Forget what is remembered of the project at `root`, or all of it, and read everything again.

    Interrupted anywhere, what was read so far is kept and the rest is read when it is needed. Raises
    CatalogueUnusableError.
    """
    if not home_is_there(home):
        return Rebuilt(0, 0, 0, ())
    problems: list[str] = []

    def note(path: Path, error: OSError) -> None:
        problems.append(f"{path} can't be read: {error.strerror or error}")

    files = find_files(Layout(home), root, note)
    try:
        with _emptied(home, disk) if root is None else _opened(home, disk) as catalogue:
            if root is not None:
                forget(catalogue, files)
                for directory in Layout(home).project_directories(root):
                    forget_missing(catalogue, files, directory)
            done = catch_up(catalogue, disk, files, progress)
    except sqlite3.Error as error:
        raise CatalogueUnusableError(
            f"The catalogue in {home} can't be written: {error}.",
            remedy="Free some space or end what uses it, then try again; no session is affected.",
        ) from error
    problems.extend(f"{path}: {why}" for path, why in done.problems)
    return Rebuilt(len(files), done.bytes_read, done.passages, tuple(problems))


def _opened(home: Path, disk: Disk) -> Catalogue:
    return open_catalogue(home, disk, wait_ms=_WAIT_MS)


def _emptied(home: Path, disk: Disk) -> Catalogue:
    """A new file where nobody uses the old one, else the old one with nothing in it."""
    try:
        discard(home, disk)
    except CatalogueUnusableError:
        catalogue = _opened(home, disk)
        try:
            forget_all(catalogue)
        except BaseException:
            catalogue.close()
            raise
        return catalogue
    return _opened(home, disk)
