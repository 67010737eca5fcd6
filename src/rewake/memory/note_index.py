"""The index of notes: which word stands in which note, in an SQLite file that may be deleted at any time.

The rules kept here:

- It is derived from the files, and catches up with them before it answers.
- It is used by one process at a time, under a lock; whoever can't have it makes one in memory, so a
  search never fails for it.
- FTS5 finds the words and their forms; what they weigh is `ranking`'s.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rewake.errors import SearchUnavailableError, StorageError
from rewake.log.disk import Disk
from rewake.memory.directory import MemoryDirectory, Stored
from rewake.memory.reading import UnreadableError
from rewake.memory.words import indexed

NAME: Final = "memory.sqlite"
_LOCK_NAME: Final = "memory.sqlite.lock"
_VERSION: Final = 2
_TABLE_NAMES: Final = frozenset({"notes", "words", "places", "totals"})
_LOCK_WAIT_S: Final = 0.02  # beyond this, reading the notes anew is as fast
_LOCK_PAUSE_S: Final = 0.002

_TOKENIZER: Final = "tokenize='porter unicode61 remove_diacritics 2'"
_TABLES: Final = (
    """CREATE TABLE notes (
      id INTEGER PRIMARY KEY,
      directory BLOB NOT NULL, -- as the system has it, because a path may be no text
      name BLOB NOT NULL,
      size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
      name_words INTEGER NOT NULL, description_words INTEGER NOT NULL, body_words INTEGER NOT NULL,
      UNIQUE (directory, name)
    )""",
    f"CREATE VIRTUAL TABLE words USING fts5(name, description, body, {_TOKENIZER})",
    "CREATE VIRTUAL TABLE places USING fts5vocab(words, instance)",
    "CREATE VIRTUAL TABLE totals USING fts5vocab(words, row)",
)
FIELDS: Final = ("name", "description", "body")
TERMS_MAX: Final = 24  # the rarest ones decide; the others cost time
# Words of so many notes in all are looked at, the rarest first: what is in every second note decides
# nothing and is most of the work.
_PLACES_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class Indexed:
    """A note as it was indexed; `lengths` count the words of its parts."""

    directory: str
    name: str
    lengths: Mapping[str, int]


@dataclass(slots=True)
class Found:
    """In how many notes a term stands, and how often in which part of those that were looked at."""

    frequency: int = 0
    notes: dict[int, dict[str, int]] = field(default_factory=dict)


class NoteIndex:
    """One connection, used by nobody else meanwhile."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    # --- keeping up --------------------------------------------------------------------------

    def catch_up(self, directories: Sequence[MemoryDirectory]) -> None:
        """Take in what was written, changed or removed since; one transaction."""
        self._connection.execute("BEGIN")
        for directory in directories:
            self._catch_up(directory)
        self._connection.execute("COMMIT")

    def _catch_up(self, directory: MemoryDirectory) -> None:
        place = os.fsencode(directory.path)
        known = {
            os.fsdecode(name): (number, (size, mtime_ns, inode))
            for number, name, size, mtime_ns, inode in self._connection.execute(
                "SELECT id, name, size, mtime_ns, inode FROM notes WHERE directory = ?", (place,)
            )
        }
        files = directory.files()
        for name, (number, _) in known.items():
            if name not in files:
                self._remove(number)
        for name, status in files.items():
            state = (status.st_size, status.st_mtime_ns, status.st_ino)
            if name in known and known[name][1] == state:
                continue
            if name in known:
                self._remove(known[name][0])
            with suppress(FileNotFoundError, UnreadableError):
                self._add(place, directory.current(name), state)

    def _remove(self, number: int) -> None:
        self._connection.execute("DELETE FROM notes WHERE id = ?", (number,))
        self._connection.execute("DELETE FROM words WHERE rowid = ?", (number,))

    def _add(self, place: bytes, stored: Stored, state: tuple[int, int, int]) -> None:
        note = stored.note
        texts = [indexed(part) for part in (note.name, note.description, note.body)]
        lengths = [len(part.split()) for part in texts]
        number = self._connection.execute(
            "INSERT INTO notes VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
            (place, os.fsencode(note.name), *state, *lengths),
        ).lastrowid
        self._connection.execute(
            "INSERT INTO words (rowid, name, description, body) VALUES (?, ?, ?, ?)",
            (number, *texts),
        )

    # --- asking ------------------------------------------------------------------------------

    def size(self, places: Sequence[str]) -> tuple[int, dict[str, float]]:
        """How many notes are in the places, and how long their parts are on average (at least 1)."""
        marks = ", ".join("?" * len(places))
        count, *averages = self._connection.execute(
            "SELECT count(*), avg(name_words), avg(description_words), avg(body_words) FROM notes "  # noqa: S608  # only marks
            f"WHERE directory IN ({marks})",
            [os.fsencode(place) for place in places],
        ).fetchone()
        if not count:
            return 0, dict.fromkeys(FIELDS, 1.0)
        return count, {part: max(one, 1.0) for part, one in zip(FIELDS, averages, strict=True)}

    def notes(self, places: Sequence[str], numbers: Container[int]) -> dict[int, Indexed]:
        """Those of the notes that are in the places."""
        marks = ", ".join("?" * len(places))
        return {
            number: Indexed(
                os.fsdecode(directory),
                os.fsdecode(name),
                {"name": in_name, "description": in_description, "body": in_body},
            )
            for number, directory, name, in_name, in_description, in_body in self._connection.execute(
                "SELECT id, directory, name, name_words, description_words, body_words FROM notes "  # noqa: S608  # only marks
                f"WHERE directory IN ({marks})",
                [os.fsencode(place) for place in places],
            )
            if number in numbers
        }

    def counts(self, terms: Sequence[str]) -> dict[str, Found]:
        """Where each term stands that stands anywhere; of many terms only the rarest are looked at."""
        canonical = {form: term for term in terms for form in forms(term)}
        marks = ", ".join("?" * len(canonical))
        totals = dict(
            self._connection.execute(
                f"SELECT term, doc FROM totals WHERE term IN ({marks})",  # noqa: S608  # only marks
                list(canonical),
            ).fetchall()
        )
        found: dict[str, Found] = {}
        for form, frequency in totals.items():
            found.setdefault(canonical[form], Found()).frequency += frequency
        rarest: list[str] = []
        left = _PLACES_MAX
        for form in sorted(totals, key=lambda form: (totals[form], form))[:TERMS_MAX]:
            if rarest and totals[form] > left:
                break
            rarest.append(form)
            left -= totals[form]
        marks = ", ".join("?" * len(rarest))
        for form, number, part, count in self._connection.execute(
            "SELECT term, doc, col, count(*) FROM places "  # noqa: S608  # only marks
            f"WHERE term IN ({marks}) GROUP BY term, doc, col",
            rarest,
        ):
            fields = found[canonical[form]].notes.setdefault(number, {})
            fields[part] = fields.get(part, 0) + count
        return found


def forms(term: str) -> tuple[str, ...]:
    """Porter's stemmer makes `deploi` of deploy and `deploy` of deployment: they are one word."""
    if term.endswith(("i", "y")):
        return f"{term[:-1]}i", f"{term[:-1]}y"
    return (term,)


def stemmed(words: Sequence[str]) -> dict[str, str]:
    """The words as the index has them (stemmed), each with the word of the prompt."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE asked USING fts5(word, {_TOKENIZER})")
        connection.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(asked, instance)")
        connection.executemany("INSERT INTO asked VALUES (?)", [(word,) for word in words])
        terms: dict[str, str] = {}
        for term, number in connection.execute("SELECT term, doc FROM terms ORDER BY doc, offset"):
            canonical = forms(term)[0]
            terms.setdefault(canonical, words[number - 1])
    return terms


# --- the file --------------------------------------------------------------------------------


@contextmanager
def open_index(cache: Path | None, disk: Disk) -> Iterator[NoteIndex]:
    """The index in `cache`, else one in memory. Raises SearchUnavailableError."""
    with ExitStack() as stack:
        connection = _in_file(cache, disk, stack) if cache is not None else None
        if connection is None:
            connection = stack.enter_context(closing(_connect(":memory:")))
            _make_tables(connection)
        yield NoteIndex(connection)


def _in_file(cache: Path, disk: Disk, stack: ExitStack) -> sqlite3.Connection | None:
    """The file, made if it isn't there and anew if it is damaged; None where it can't be had now."""
    try:
        lock = disk.open_lock(cache / _LOCK_NAME)
    except OSError:
        return None  # a home that can't be written to is no reason to find nothing
    stack.callback(disk.close, lock)
    if not _take(disk, lock):
        return None
    path = cache / NAME
    for _attempt in range(2):
        try:
            if not path.exists():  # SQLite itself would make a file that others can read
                disk.write_atomic(path, b"", sync=False)
            connection = _connect(path)
        except (sqlite3.Error, StorageError):
            return None
        try:
            _prepare(connection)
        except (sqlite3.DatabaseError, _OutdatedError):
            # With the lock held nobody else has it open, so it can be replaced.
            connection.close()
            _discard(path)
            continue
        except BaseException:
            connection.close()
            raise
        stack.enter_context(closing(connection))
        return connection
    return None


def _take(disk: Disk, lock: int) -> bool:
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            disk.lock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOCK_PAUSE_S)
        else:
            return True


class _OutdatedError(Exception):
    """Made by another version."""


def _connect(path: Path | str) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, timeout=_LOCK_WAIT_S)


def _prepare(connection: sqlite3.Connection) -> None:
    # What a power loss takes is made again; a process that dies leaves a journal, which is enough.
    connection.execute("PRAGMA synchronous = OFF")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:
        connection.execute("BEGIN")
        _make_tables(connection)
        connection.execute(f"PRAGMA user_version = {_VERSION}")
        connection.execute("COMMIT")
    elif version != _VERSION or not _TABLE_NAMES.issubset(
        name for (name,) in connection.execute("SELECT name FROM sqlite_master")
    ):
        raise _OutdatedError


def _make_tables(connection: sqlite3.Connection) -> None:
    try:
        for statement in _TABLES:
            connection.execute(statement)
    except sqlite3.OperationalError as error:
        if "fts5" not in str(error):
            raise
        raise SearchUnavailableError(
            "This Python's SQLite has no full-text search (FTS5), so notes can't be searched.",
            remedy="Use a Python whose SQLite has it.",
        ) from error


def discard_index(cache: Path, disk: Disk) -> None:
    """Delete the file, unless another process is at work with it."""
    with ExitStack() as stack, suppress(OSError):
        lock = disk.open_lock(cache / _LOCK_NAME)
        stack.callback(disk.close, lock)
        if _take(disk, lock):
            _discard(cache / NAME)


def _discard(path: Path) -> None:
    for suffix in ("-journal", "-wal", "-shm", ""):
        with suppress(OSError):
            path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)
