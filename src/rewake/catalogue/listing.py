"""The list of sessions: what the catalogue remembers where it is still true, else the files.

The rules kept here: the files decide which sessions there are and whether a remembered row still
holds (size and time of change); whatever is wrong with the catalogue, the list is complete; and what
had to be read is remembered for the next time, if that can be done at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from rewake.catalogue.database import (
    Catalogue,
    discard,
    home_is_there,
    is_corrupt,
    open_catalogue,
)
from rewake.catalogue.files import Found, find_files
from rewake.catalogue.notes import drop_notes, read_notes
from rewake.errors import CatalogueUnusableError
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk
from rewake.log.layout import Layout, Problem
from rewake.resume.listing import SessionInfo, Summary, read_summary, row

_LIST_WAIT_MS: Final = 50  # who lists doesn't wait for an indexer; it can do without
_KEYS_MAX: Final = 500  # in one statement; SQLite takes 999 in its oldest builds
_ROWS_PER_COMMIT: Final = 200

Progress = Callable[[int, int], None]
"""Called with the sessions done and the sessions there are."""

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Summary).decode


class Listed(msgspec.Struct, frozen=True):
    """A page of rows, newest first, and how many sessions there are."""

    rows: list[SessionInfo]
    total: int


def list_sessions(
    home: Path,
    disk: Disk,
    root: Path | None = None,
    *,
    limit: int | None = None,
    on_problem: Problem,
    progress: Progress | None = None,
) -> Listed:
    """The sessions of the project at `root` or of all, newest first; `limit` None or 0 for all.

    A session that can't be read is a row with a problem; a directory that can't be goes to
    `on_problem`. Never raises for what is wrong with the catalogue.
    """
    found = find_files(Layout(home), root, on_problem)
    found.sort(reverse=True)
    page = found[:limit] if limit else found
    summaries = _summaries(home, disk, page, progress)
    rows = [
        row(item.paths, summary, item.size, item.mtime_ns / 1e9, disk)
        for item, summary in zip(page, summaries, strict=True)
    ]
    return Listed(rows, len(found))


def remember(catalogue: Catalogue, read: Iterable[tuple[Found, Summary]]) -> None:
    """Write summaries, in one transaction. Raises sqlite3.Error."""
    with catalogue.transaction() as connection:
        connection.executemany(
            "INSERT INTO sessions (key, size, mtime_ns, summary) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (key) DO UPDATE SET size = excluded.size,"
            " mtime_ns = excluded.mtime_ns, summary = excluded.summary",
            [
                (item.key, item.size, item.mtime_ns, encoded)
                for item, summary in read
                if (encoded := _encoded(summary)) is not None
            ],
        )


def _encoded(summary: Summary) -> bytes | None:
    """None where a text has a lone surrogate: such a session is read each time it is listed."""
    try:
        return _encode(summary)
    except UnicodeEncodeError:
        return None


def take_notes(catalogue: Catalogue, home: Path) -> None:
    """Move what sessions noted at their end into the catalogue, if that can be done at once."""
    notes = read_notes(home)
    if notes and _remember_if_possible(catalogue, notes):
        # A note that was written meanwhile goes too; its session is read when it is listed.
        drop_notes(home)


def recall(catalogue: Catalogue, page: Sequence[Found]) -> dict[bytes, Summary]:
    """The remembered summaries that still hold, by key. Raises sqlite3.Error."""
    known: dict[bytes, Summary] = {}
    for start in range(0, len(page), _KEYS_MAX):
        part = {item.key: item for item in page[start : start + _KEYS_MAX]}
        marks = ",".join("?" * len(part))
        cursor = catalogue.connection.execute(
            f"SELECT key, size, mtime_ns, summary FROM sessions WHERE key IN ({marks})",  # noqa: S608  # only question marks
            list(part),
        )
        for key, size, mtime_ns, summary in cursor:
            item = part[key]
            if (item.size, item.mtime_ns) == (size, mtime_ns):
                try:
                    known[key] = _decode(summary)
                except msgspec.MsgspecError:
                    continue  # not by this version; it is read and written anew
    return known


def _summaries(
    home: Path, disk: Disk, page: Sequence[Found], progress: Progress | None
) -> list[Summary]:
    """The summary of each, from the catalogue where that is current; what is read is remembered."""
    if not page or not home_is_there(home):
        return _read(page, {}, disk, None, progress)
    try:
        with open_catalogue(home, disk, wait_ms=_LIST_WAIT_MS) as catalogue:
            take_notes(catalogue, home)
            return _read(page, recall(catalogue, page), disk, catalogue, progress)
    except CatalogueUnusableError:
        return _read(page, {}, disk, None, progress)
    except sqlite3.Error as error:
        _discard_if_corrupt(home, disk, error)
        return _read(page, {}, disk, None, progress)


def _read(
    page: Sequence[Found],
    known: dict[bytes, Summary],
    disk: Disk,
    catalogue: Catalogue | None,
    progress: Progress | None,
) -> list[Summary]:
    summaries: list[Summary] = []
    read: list[tuple[Found, Summary]] = []
    for done, item in enumerate(page):
        summary = known.get(item.key)
        if summary is None:
            summary = read_one(item, disk)
            if progress is not None:
                progress(done, len(page))
            if summary.problem is None:  # what is wrong may be put right without changing the file
                read.append((item, summary))
        summaries.append(summary)
        if len(read) >= _ROWS_PER_COMMIT:
            _remember_if_possible(catalogue, read)
            read = []
    _remember_if_possible(catalogue, read)
    return summaries


def _remember_if_possible(catalogue: Catalogue | None, read: list[tuple[Found, Summary]]) -> bool:
    if catalogue is None or not read:
        return False
    try:
        remember(catalogue, read)
    except sqlite3.OperationalError:
        return False  # busy, full or read-only now: these rows are read again the next time
    return True


def read_one(item: Found, disk: Disk) -> Summary:
    """The summary as the transcript gives it now."""
    paths = item.paths
    return read_summary(paths, BlobStore(paths.blobs, disk, durable=False))


def _discard_if_corrupt(home: Path, disk: Disk, error: sqlite3.Error) -> None:
    if is_corrupt(error):
        try:
            discard(home, disk)
        except CatalogueUnusableError:
            return  # somebody has it open; who comes later will see to it
