"""Keeps the full-text index behind the transcripts: reads each from where it stopped the last time.

The rules kept here:

- A transcript only grows, so only what is new is read. A file that was swapped, shortened or written
  anew (another inode, another beginning) is indexed from its beginning.
- The mark of how far a file is indexed moves in the transaction that writes its words, and only from
  where this reader began: two processes that index one file at once write its words once.
- One transcript that can't be read costs itself; its mark stays where it was.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from rewake.catalogue.database import Catalogue
from rewake.catalogue.files import Found
from rewake.catalogue.listing import read_one, recall, remember
from rewake.catalogue.passages import (
    KINDS,
    Passage,
    may_hold_passages,
    passages_of,
    searchable,
)
from rewake.errors import RewakeError
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk
from rewake.log.scan import Transcript
from rewake.model.codec import decode_line
from rewake.model.events import Event
from rewake.resume.load import inflate
from rewake.state.text import valid_unicode

_CHUNK_CHARS: Final = 4 << 20  # of words in one transaction: about a quarter of a second
_CHUNK_BYTES: Final = 64 << 20  # of transcript in one transaction, words or not
_ROUNDS_MAX: Final = 100  # each one means that another process got further in the same file
_HEAD_BYTES: Final = 4096
_COUNT_BYTES: Final = 4

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes there are to do."""


class CaughtUp(msgspec.Struct):
    """What catching up did. `problems` are the transcripts that couldn't be read, with the reason."""

    bytes_read: int = 0
    passages: int = 0
    problems: list[tuple[str, str]] = msgspec.field(default_factory=list)


class _Known(msgspec.Struct, frozen=True):
    """What the catalogue says of a file: what it was when it was indexed, and how far that went."""

    size: int = -1
    mtime_ns: int = -1
    inode: int = 0
    end: int = 0
    head: bytes | None = None


class _Chunk(msgspec.Struct):
    """Passages of one file between two places, waiting to be written.

    `expected` is how far the catalogue must say that the file is indexed for this to be what comes
    next; with `is_anew` all that it has of the file is wrong. `head` marks the last chunk of a file.
    """

    found: Found
    expected: int
    start: int
    end: int
    is_anew: bool = False
    head: bytes | None = None
    passages: list[tuple[int, int, int, Passage]] = []
    chars: int = 0


def catch_up(
    catalogue: Catalogue, disk: Disk, files: Sequence[Found], progress: Progress | None = None
) -> CaughtUp:
    """Bring summaries and words of these transcripts up to what the files are now.

    Raises sqlite3.Error when the catalogue can't be written; what was written before then stays.
    """
    done = CaughtUp()
    waiting = list(files)
    for _ in range(_ROUNDS_MAX):
        waiting = _catch_up(catalogue, disk, waiting, done, progress)
        if not waiting:
            break
    return done


def _catch_up(
    catalogue: Catalogue,
    disk: Disk,
    files: Sequence[Found],
    done: CaughtUp,
    progress: Progress | None,
) -> list[Found]:
    """One look at each; those that somebody else indexed meanwhile, maybe not to their end."""
    behind = _behind(catalogue, files)
    total = done.bytes_read + sum(max(item.size - known.end, 0) for item, known in behind)
    overtaken: list[Found] = []
    waiting: list[_Chunk] = []
    chars = size = 0
    for item, known in behind:
        for chunk in _chunks(disk, item, known, done):
            waiting.append(chunk)
            chars += chunk.chars
            size += chunk.end - chunk.start
            if chars >= _CHUNK_CHARS or size >= _CHUNK_BYTES:
                overtaken += _write(catalogue, disk, waiting, done)
                waiting, chars, size = [], 0, 0
            if progress is not None:
                progress(done.bytes_read, max(total, done.bytes_read))
    overtaken += _write(catalogue, disk, waiting, done)
    return overtaken


def forget_missing(catalogue: Catalogue, files: Iterable[Found], project: Path) -> None:
    """Drop what is remembered of sessions of a project's directory that are gone."""
    there = {item.key for item in files}
    beginning = os.fsencode(f"{project.name}/")
    known = catalogue.connection.execute("SELECT id, key FROM sessions").fetchall()
    gone = [row for row, key in known if key not in there and key.startswith(beginning)]
    with catalogue.transaction() as connection:
        for row in gone:
            _drop_words(connection, row)
            connection.execute("DELETE FROM sessions WHERE id = ?", (row,))


def forget_all(catalogue: Catalogue) -> None:
    """Drop everything, in a file that others have open."""
    with catalogue.transaction() as connection:
        for table in ("sessions", "passages", "files"):
            connection.execute(f"DELETE FROM {table}")  # noqa: S608  # one of three constants
        if catalogue.can_search:
            connection.execute("INSERT INTO words (words) VALUES ('delete-all')")


def forget(catalogue: Catalogue, files: Iterable[Found]) -> None:
    """Drop everything remembered of these sessions, to be read anew."""
    with catalogue.transaction() as connection:
        for item in files:
            row = connection.execute(
                "SELECT id FROM sessions WHERE key = ?", (item.key,)
            ).fetchone()
            if row is not None:
                _drop_words(connection, row[0])
                connection.execute("DELETE FROM sessions WHERE id = ?", row)


def _drop_words(connection: sqlite3.Connection, row: int) -> None:
    # Words without a passage are found by nobody; they leave when the index is made anew.
    connection.execute("DELETE FROM passages WHERE session = ?", (row,))
    connection.execute("DELETE FROM files WHERE session = ?", (row,))


# --- reading ---------------------------------------------------------------------------------


def _behind(catalogue: Catalogue, files: Sequence[Found]) -> list[tuple[Found, _Known]]:
    """The files that changed since they were indexed, and what is known of them."""
    known = {
        key: values
        for key, *values in catalogue.connection.execute(
            "SELECT key, text_size, text_mtime_ns, text_inode, text_end, head FROM sessions"
        )
    }
    behind = []
    for item in files:
        values = known.get(item.key)
        if values is None or values[:3] != [item.size, item.mtime_ns, item.inode]:
            behind.append((item, _Known(*values) if values is not None else _Known()))
    return behind


def _chunks(disk: Disk, item: Found, known: _Known, done: CaughtUp) -> Iterator[_Chunk]:
    paths = item.paths
    try:
        with Transcript(paths.transcript) as reader:
            blobs = BlobStore(paths.blobs, disk, durable=False)
            is_anew = known.end > 0 and not _is_continued(item, known)
            yield from _read(reader, item, known, blobs, is_anew=is_anew, done=done)
    except (OSError, RewakeError) as error:
        done.problems.append((str(paths.transcript), str(error)))


def _is_continued(item: Found, known: _Known) -> bool:
    """Whether the file is the one that was indexed, and at most longer than it was."""
    if item.size < known.end or item.inode != known.inode or known.head is None:
        return False
    count = int.from_bytes(known.head[:_COUNT_BYTES], "big")
    return _head(item, count) == known.head


def _head(item: Found, count: int) -> bytes:
    """How many bytes of the beginning were looked at, and their hash."""
    with item.paths.transcript.open("rb") as file:
        beginning = file.read(count)
    return len(beginning).to_bytes(_COUNT_BYTES, "big") + hashlib.sha256(beginning).digest()


def _read(
    reader: Transcript,
    item: Found,
    known: _Known,
    blobs: BlobStore,
    *,
    is_anew: bool,
    done: CaughtUp,
) -> Iterator[_Chunk]:
    start = 0 if is_anew else known.end
    chunk = _Chunk(item, known.end, start, start, is_anew)
    for offset, line in reader.lines_forward(start):
        end = offset + len(line) + 1
        done.bytes_read += end - chunk.end
        chunk.end = end
        if may_hold_passages(line):
            event = decode_line(line, offset)
            if isinstance(event, Event):
                _gather(inflate(event, blobs)[0], chunk)
        if chunk.chars >= _CHUNK_CHARS or end - chunk.start >= _CHUNK_BYTES:
            yield chunk
            chunk = _Chunk(item, end, end, end)
    chunk.head = _head(item, min(chunk.end, _HEAD_BYTES))
    yield chunk


def _gather(event: Event, chunk: _Chunk) -> None:
    passages = passages_of(event)
    if passages:
        time_ms = _unix_ms(event.timestamp)
        for part, passage in enumerate(passages):
            chunk.passages.append((event.offset, part, time_ms, passage))
            chunk.chars += len(passage.text)


def _unix_ms(timestamp: str) -> int:
    try:
        return int(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0


# --- writing ---------------------------------------------------------------------------------


def _write(
    catalogue: Catalogue, disk: Disk, chunks: Sequence[_Chunk], done: CaughtUp
) -> list[Found]:
    """Write what comes next in each file; the files of which somebody else has written it."""
    if not chunks:
        return []
    overtaken: dict[bytes, Found] = {}
    with catalogue.transaction() as connection:
        for chunk in chunks:
            row = _advance(connection, chunk)
            if row is None:
                overtaken[chunk.found.key] = chunk.found
            else:
                _insert(connection, row, chunk, can_search=catalogue.can_search)
                done.passages += len(chunk.passages)
    ended = [chunk.found for chunk in chunks if chunk.head is not None]
    current = recall(catalogue, ended)
    missing = [item for item in ended if item.key not in current]
    read = [(item, read_one(item, disk)) for item in missing]
    remember(catalogue, [(item, summary) for item, summary in read if summary.problem is None])
    return list(overtaken.values())


def _advance(connection: sqlite3.Connection, chunk: _Chunk) -> int | None:
    """Move the mark over this chunk; the file's row, or None where somebody else has moved it."""
    item = chunk.found
    connection.execute("INSERT OR IGNORE INTO sessions (key) VALUES (?)", (item.key,))
    row, end = connection.execute(
        "SELECT id, text_end FROM sessions WHERE key = ?", (item.key,)
    ).fetchone()
    if end != chunk.expected:
        return None
    if chunk.is_anew:
        _drop_words(connection, row)
    connection.execute(
        "UPDATE sessions SET text_end = ?, text_inode = ? WHERE id = ?",
        (chunk.end, item.inode, row),
    )
    if chunk.head is not None:
        connection.execute(
            "UPDATE sessions SET text_size = ?, text_mtime_ns = ?, head = ? WHERE id = ?",
            (item.size, item.mtime_ns, chunk.head, row),
        )
    return int(row)


def _insert(connection: sqlite3.Connection, row: int, chunk: _Chunk, *, can_search: bool) -> None:
    if not can_search or not chunk.passages:
        return
    newest = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'passages'")
    first = (newest.fetchone() or (0,))[0] + 1
    numbered = list(enumerate(chunk.passages, start=first))
    connection.executemany(
        "INSERT INTO passages (id, session, line, part, kind, tool, time_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (number, row, line, part, passage.kind, valid_unicode(passage.tool), time_ms)
            for number, (line, part, time_ms, passage) in numbered
        ],
    )
    for kind in KINDS:
        connection.executemany(
            f"INSERT INTO words (rowid, {kind}) VALUES (?, ?)",  # noqa: S608  # one of five constants
            [
                (number, searchable(passage.text))
                for number, (_, _, _, passage) in numbered
                if passage.kind == kind
            ],
        )
    paths = {path for _, _, _, passage in chunk.passages for path in passage.files}
    connection.executemany(
        "INSERT OR IGNORE INTO files (session, path) VALUES (?, ?)",
        [(row, valid_unicode(path)) for path in paths],
    )
