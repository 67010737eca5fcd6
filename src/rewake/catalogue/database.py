"""The catalogue's file: `catalogue.sqlite` in the home, one connection, and what replaces it.

The rules kept here:

- Everything in it is derived. Deleting it loses nothing; one that is corrupt or of an older version
  is deleted and made anew, and one that can't be used is left alone and done without.
- It is deleted only by a process that holds `catalogue.lock` alone. Every connection holds it shared
  for its life, so nobody loses a file, or its write-ahead log, that is in use.
- Transactions are short, and whoever has to wait for one longer than it wants to goes without.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rewake.errors import CatalogueUnusableError, RewakeError
from rewake.log.disk import Disk

NAME: Final = "catalogue.sqlite"
_LOCK_NAME: Final = "catalogue.lock"
_VERSION: Final = 1
_PAUSE_S: Final = 0.002
_SIDE_FILES: Final = ("-wal", "-shm", "-journal")
_CACHE_KIB: Final = 16_384
_HASH_BYTES: Final = 8 << 20  # words gathered in memory before they become a segment of the index

_TABLES: Final = """
CREATE TABLE sessions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key BLOB NOT NULL UNIQUE,            -- project directory, slash, session id: bytes as on disk
  size INTEGER NOT NULL DEFAULT -1,    -- of the file that the summary was read from
  mtime_ns INTEGER NOT NULL DEFAULT -1,
  summary BLOB,                        -- JSON
  text_size INTEGER NOT NULL DEFAULT -1,
  text_mtime_ns INTEGER NOT NULL DEFAULT -1,
  text_inode INTEGER NOT NULL DEFAULT 0,
  text_end INTEGER NOT NULL DEFAULT 0, -- where the next line that isn't indexed yet starts
  head BLOB                            -- the first bytes of the file that was indexed, hashed
);
CREATE TABLE passages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, -- the row of `words`; never used twice
  session INTEGER NOT NULL,
  line INTEGER NOT NULL,                -- byte offset
  part INTEGER NOT NULL,                -- which passage of that line
  kind TEXT NOT NULL,
  tool TEXT NOT NULL,
  time_ms INTEGER NOT NULL              -- Unix
);
CREATE INDEX passages_by_session ON passages (session);
CREATE TABLE files (
  session INTEGER NOT NULL,
  path TEXT NOT NULL,
  PRIMARY KEY (session, path)
) WITHOUT ROWID;
"""
# The text itself stays in the transcripts alone: this holds only which word is where.
_WORDS: Final = """
CREATE VIRTUAL TABLE words USING fts5(
  title, prompt, answer, tool, file, content='', tokenize='unicode61 remove_diacritics 2'
);
INSERT INTO words (words, rank) VALUES ('rank', 'bm25(8.0, 4.0, 2.0, 1.0, 3.0)');
"""

_making: Final = threading.Lock()


class Catalogue:
    """One connection. Close it, or use it with `with`.

    `can_search` says whether this Python's SQLite has full-text search (FTS5).
    """

    def __init__(self, connection: sqlite3.Connection, lock: int, disk: Disk) -> None:
        self.connection = connection
        self._lock = lock
        self._disk = disk
        self.can_search = has_full_text(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Harmless when called twice."""
        self.connection.close()
        descriptor, self._lock = self._lock, -1
        if descriptor >= 0:
            self._disk.close(descriptor)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Writes of one short transaction; rolled back on any error."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield self.connection
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")


def open_catalogue(home: Path, disk: Disk, *, wait_ms: int) -> Catalogue:
    """The catalogue of a home, made if it isn't there; waits up to `wait_ms` for other writers.

    Raises CatalogueUnusableError.
    """
    try:
        with _making:
            return _open(home, disk, wait_ms)
    except sqlite3.DatabaseError as error:
        if not is_corrupt(error):
            raise _unusable(home, error) from error
    discard(home, disk)
    try:
        with _making:
            return _open(home, disk, wait_ms)
    except sqlite3.Error as error:
        raise _unusable(home, error) from error


def open_in_memory() -> Catalogue:
    """An empty one for this process alone, where no file can be written."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    _make_tables(connection)
    return Catalogue(connection, -1, Disk())


def discard(home: Path, disk: Disk) -> None:
    """Delete the catalogue's file, if nobody has it open. Raises CatalogueUnusableError."""
    try:
        lock = disk.open_lock(home / _LOCK_NAME)
        try:
            disk.lock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Last the file itself: without it nobody looks for the others.
            for suffix in (*_SIDE_FILES, ""):
                (home / f"{NAME}{suffix}").unlink(missing_ok=True)
        finally:
            disk.close(lock)
    except OSError as error:
        raise _unusable(home, error) from error


def is_corrupt(error: sqlite3.Error) -> bool:
    """Whether the file is no catalogue any more, so that it has to be made anew."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, _OutdatedError) or (
        code is not None and code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
    )


class _OutdatedError(sqlite3.DatabaseError):
    """Made by an older version, or never finished."""


def _unusable(home: Path, error: Exception) -> CatalogueUnusableError:
    return CatalogueUnusableError(
        f"The catalogue {home / NAME} can't be used: {error}.",
        remedy="It is derived: `rewake reindex --all` makes it anew from the transcripts.",
    )


def _open(home: Path, disk: Disk, wait_ms: int) -> Catalogue:
    path = home / NAME
    try:
        lock = disk.open_lock(home / _LOCK_NAME)
    except OSError as error:
        raise _unusable(home, error) from error
    try:
        _take(lock, fcntl.LOCK_SH, disk, wait_ms)
        while not path.exists():  # SQLite itself would make a file that others can read
            disk.lock(lock, fcntl.LOCK_UN)  # or two would wait for each other
            _make_file(path, lock, disk, wait_ms)
            _take(lock, fcntl.LOCK_SH, disk, wait_ms)
        connection = _connect(path, wait_ms)
    except (OSError, RewakeError) as error:
        disk.close(lock)
        raise _unusable(home, error) from error
    except BaseException:
        disk.close(lock)
        raise
    return Catalogue(connection, lock, disk)


def _make_file(path: Path, lock: int, disk: Disk, wait_ms: int) -> None:
    """An empty private file, made while nobody else can have it open."""
    _take(lock, fcntl.LOCK_EX, disk, wait_ms)
    if not path.exists():
        for suffix in _SIDE_FILES:
            path.with_name(f"{NAME}{suffix}").unlink(missing_ok=True)
        disk.write_atomic(path, b"", sync=False)


def _take(lock: int, kind: int, disk: Disk, wait_ms: int) -> None:
    """Somebody who makes or deletes the file is done in a moment. Raises OSError."""
    deadline = time.monotonic() + wait_ms / 1000
    while True:
        try:
            disk.lock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def _connect(path: Path, wait_ms: int) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, isolation_level=None, timeout=wait_ms / 1000, check_same_thread=False
    )
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    version = _version(connection)
    if version == 0:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        if _version(connection) == 0:  # nobody else was faster
            _make_tables(connection)
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        connection.execute("COMMIT")
        version = _version(connection)
    if version > _VERSION:
        raise sqlite3.OperationalError(f"a newer Rewake made it (version {version})")
    if version < _VERSION:
        raise _OutdatedError(f"version {version}")
    missing = _expected(connection).difference(
        name for (name,) in connection.execute("SELECT name FROM sqlite_master")
    )
    if missing:  # never finished, or made where there was no full-text search
        raise _OutdatedError(f"no table {', '.join(sorted(missing))}")
    # Commits survive the end of the process; after a power loss the newest may be missing, which
    # the next look at the files puts right. The file itself stays consistent.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")


def _expected(connection: sqlite3.Connection) -> set[str]:
    tables = {"sessions", "passages", "files"}
    return tables | {"words"} if has_full_text(connection) else tables


def _version(connection: sqlite3.Connection) -> int:
    with closing(connection.execute("PRAGMA user_version")) as cursor:
        return int(cursor.fetchone()[0])


def _make_tables(connection: sqlite3.Connection) -> None:
    for statement in _TABLES.split(";\n"):
        if statement.strip():
            connection.execute(statement)
    if has_full_text(connection):
        for statement in _WORDS.split(";\n"):
            if statement.strip():
                connection.execute(statement)
        connection.execute("INSERT INTO words (words, rank) VALUES ('hashsize', ?)", (_HASH_BYTES,))


def has_full_text(connection: sqlite3.Connection) -> bool:
    """Whether this SQLite was built with FTS5."""
    rows = connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchall()
    return bool(rows)


def home_is_there(home: Path) -> bool:
    """Whether there can be a session at all; a home is never made just to keep a catalogue in it."""
    return os.path.isdir(home / "projects")  # noqa: PTH112  # on the path of every list; half the time
