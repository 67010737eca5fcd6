"""Which notes speak of what a prompt is about: a small full-text index, and a score with a threshold.

The rules kept here:

- The index is derived: `memory.sqlite` may be deleted at any time. It is used by one process at a time,
  under a lock; whoever can't have it makes one in memory, so a search never fails for it.
- SQLite's FTS5 finds the words and their forms; the score is BM25F computed here, because a threshold
  needs one that means the same in a directory of three notes as in one of a thousand.
- A prompt that no note speaks of finds none.
"""

from __future__ import annotations

import fcntl
import math
import sqlite3
import time
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rewake.errors import SearchUnavailableError, StorageError
from rewake.log.disk import Disk
from rewake.memory.directory import MemoryDirectory, Stored
from rewake.memory.reading import UnreadableError
from rewake.memory.words import indexed, is_pair, query_words

NAME: Final = "memory.sqlite"
_LOCK_NAME: Final = "memory.sqlite.lock"
_VERSION: Final = 1
_TABLE_NAMES: Final = frozenset({"notes", "words", "places", "totals"})
_LOCK_WAIT_S: Final = 0.02  # beyond this, reading the notes anew is as fast
_LOCK_PAUSE_S: Final = 0.002

_TOKENIZER: Final = "tokenize='porter unicode61 remove_diacritics 2'"
_TABLES: Final = (
    """CREATE TABLE notes (
      id INTEGER PRIMARY KEY,
      directory TEXT NOT NULL,
      name TEXT NOT NULL,
      size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL,
      name_words INTEGER NOT NULL, description_words INTEGER NOT NULL, body_words INTEGER NOT NULL,
      UNIQUE (directory, name)
    )""",
    f"CREATE VIRTUAL TABLE words USING fts5(name, description, body, {_TOKENIZER})",
    "CREATE VIRTUAL TABLE places USING fts5vocab(words, instance)",
    "CREATE VIRTUAL TABLE totals USING fts5vocab(words, row)",
)

# --- scoring ---------------------------------------------------------------------------------
# BM25F (Robertson, Zaragoza: "The Probabilistic Relevance Framework", 2009). A word in the name or the
# description says more of what a note is about than one in its text, and those two are short by nature.
_WEIGHT: Final = {"name": 3.0, "description": 2.5, "body": 1.0}
_LENGTH: Final = {"name": 0.2, "description": 0.3, "body": 0.6}
_SATURATION: Final = 1.2
# In a directory of few notes each word is rare or common by accident, so all are weighed as in one of
# this many.
_NOTES_MIN: Final = 60
_TERMS_MAX: Final = 24  # the rarest ones decide; the others cost time
# Words of so many notes in all are looked at, the rarest first: what is in every second note decides
# nothing and is most of the work.
_PLACES_MAX: Final = 2_000
# A hit counts if it reaches this score, this product of score and share (so that one word in common
# counts in a prompt of three, not in one of thirty), and this part of the best hit's score. Chosen on the
# half of benchmarks/data/recall.json that is marked for it; docs/benchmarks.md has the figures.
_SCORE_MIN: Final = 1.8
_SCORE_BY_SHARE_MIN: Final = 0.7
_PART_OF_BEST_MIN: Final = 0.65
# Most pairs of characters that stand in no note are no words but the end of one and the beginning of the
# next, so they say less against a note.
_NO_WORD_PART: Final = 0.25


@dataclass(frozen=True, slots=True)
class Hit:
    """A note that was found. `words` are those of the prompt that stand in it, the telling ones first.

    `share` is how much of the prompt's weight in words they are, 0 to 1. `passes` says whether it is
    likely to matter, and not only to have a word in common.
    """

    stored: Stored
    score: float
    share: float
    words: tuple[str, ...]
    passes: bool


def rank(
    directories: Sequence[MemoryDirectory],
    text: str,
    *,
    cache: Path | None,
    disk: Disk,
    limit: int = 12,
    every_word: bool = False,
) -> list[Hit]:
    """The notes with words of `text`, best first. Each is as its file is now.

    The index is kept in the directory `cache`, which must be there; None: in memory, for this once.
    With `every_word`, for who searches on purpose, a query of common words alone finds notes, too.

    Raises SearchUnavailableError where this Python's SQLite has no FTS5.
    """
    words = query_words(text, every_word=every_word)
    if not words or not any(directory.path.is_dir() for directory in directories):
        return []
    by_path = {str(directory.path): directory for directory in directories}
    found = _found(directories, words, 2 * limit, cache=cache, disk=disk)
    hits: list[Hit] = []
    best = found[0].score if found else 0.0
    for one in found:
        with suppress(FileNotFoundError, UnreadableError):
            stored = by_path[one.directory].current(one.name)
            passes = one.score >= max(_SCORE_MIN, _PART_OF_BEST_MIN * best)
            passes = passes and one.score * one.share >= _SCORE_BY_SHARE_MIN
            hits.append(Hit(stored, one.score, one.share, one.words, passes))
        if len(hits) == limit:
            break
    return hits


def _found(
    directories: Sequence[MemoryDirectory],
    words: Sequence[str],
    limit: int,
    *,
    cache: Path | None,
    disk: Disk,
) -> list[_Scored]:
    places = [str(directory.path) for directory in directories]
    try:
        with _index(cache, disk) as index:
            index.catch_up(directories)
            return index.scores(places, words, limit)
    except sqlite3.Error:
        if cache is None:
            raise
        # Damaged where opening it doesn't look, or there is no room for it: it is made anew another time.
        _discard_locked(cache, disk)
    return _found(directories, words, limit, cache=None, disk=disk)


@dataclass(frozen=True, slots=True)
class _Scored:
    directory: str
    name: str
    score: float
    share: float
    words: tuple[str, ...]


class _Index:
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
        place = str(directory.path)
        known = {
            name: (number, (size, mtime_ns, inode))
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

    def _add(self, place: str, stored: Stored, state: tuple[int, int, int]) -> None:
        note = stored.note
        texts = [indexed(part) for part in (note.name, note.description, note.body)]
        lengths = [len(part.split()) for part in texts]
        number = self._connection.execute(
            "INSERT INTO notes VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
            (place, note.name, *state, *lengths),
        ).lastrowid
        self._connection.execute(
            "INSERT INTO words (rowid, name, description, body) VALUES (?, ?, ?, ?)",
            (number, *texts),
        )

    # --- asking ------------------------------------------------------------------------------

    def scores(self, places: Sequence[str], words: Sequence[str], limit: int) -> list[_Scored]:
        """The notes in `places` with one of the words, best first, at most `limit`."""
        marks = ", ".join("?" * len(places))
        count, *averages = self._connection.execute(
            "SELECT count(*), avg(name_words), avg(description_words), avg(body_words) FROM notes "  # noqa: S608  # only marks
            f"WHERE directory IN ({marks})",
            places,
        ).fetchone()
        if not count:
            return []
        average = {part: max(one, 1.0) for part, one in zip(_WEIGHT, averages, strict=True)}
        terms = _terms(words)
        found = self._counts(list(terms))
        notes = self._notes(places, {number for one in found.values() for number in one.notes})
        weights = {
            term: _rarity(found[term].frequency if term in found else 0, count) for term in terms
        }
        total = _total(
            weight * (_NO_WORD_PART if term not in found and is_pair(terms[term]) else 1.0)
            for term, weight in weights.items()
        )
        parts: dict[int, list[tuple[float, str, float]]] = defaultdict(list)
        for term, one in found.items():
            for number, fields in one.notes.items():
                if number in notes:
                    weighted = _weighted(fields, notes[number].lengths, average)
                    gain = weights[term] * weighted / (_SATURATION + weighted)
                    parts[number].append((gain, terms[term], weights[term]))
        best = sorted(parts, key=lambda number: (-_gain(parts[number]), notes[number].name, number))
        return [_scored(notes[number], parts[number], total) for number in best[:limit]]

    def _notes(self, places: Sequence[str], numbers: Container[int]) -> dict[int, _Indexed]:
        """Those of the notes that are in the places."""
        marks = ", ".join("?" * len(places))
        return {
            number: _Indexed(
                directory, name, {"name": in_name, "description": in_description, "body": in_body}
            )
            for number, directory, name, in_name, in_description, in_body in self._connection.execute(
                "SELECT id, directory, name, name_words, description_words, body_words FROM notes "  # noqa: S608  # only marks
                f"WHERE directory IN ({marks})",
                places,
            )
            if number in numbers
        }

    def _counts(self, terms: Sequence[str]) -> dict[str, _Found]:
        """Where each term stands that stands anywhere; of many terms only the rarest are looked at."""
        canonical = {form: term for term in terms for form in _forms(term)}
        marks = ", ".join("?" * len(canonical))
        totals = dict(
            self._connection.execute(
                f"SELECT term, doc FROM totals WHERE term IN ({marks})",  # noqa: S608  # only marks
                list(canonical),
            ).fetchall()
        )
        found: dict[str, _Found] = {}
        for form, frequency in totals.items():
            found.setdefault(canonical[form], _Found()).frequency += frequency
        rarest: list[str] = []
        left = _PLACES_MAX
        for form in sorted(totals, key=lambda form: (totals[form], form))[:_TERMS_MAX]:
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


@dataclass(frozen=True, slots=True)
class _Indexed:
    directory: str
    name: str
    lengths: Mapping[str, int]


@dataclass(slots=True)
class _Found:
    """In how many notes a term stands, and how often in which part of those that were looked at."""

    frequency: int = 0
    notes: dict[int, dict[str, int]] = field(default_factory=dict)


def _total(weights: Iterable[float]) -> float:
    """What a prompt weighs. A long one is no less about something for being long, so the weightiest
    words are its measure.
    """
    return sum(sorted(weights, reverse=True)[:_TERMS_MAX])


def _gain(parts: Sequence[tuple[float, str, float]]) -> float:
    return sum(gain for gain, _, _ in parts)


def _scored(note: _Indexed, parts: Sequence[tuple[float, str, float]], total: float) -> _Scored:
    return _Scored(
        directory=note.directory,
        name=note.name,
        score=_gain(parts),
        share=min(sum(weight for _, _, weight in parts) / total, 1.0),
        words=tuple(dict.fromkeys(word for _, word, _ in sorted(parts, reverse=True))),
    )


def _forms(term: str) -> tuple[str, ...]:
    """Porter's stemmer makes `deploi` of deploy and `deploy` of deployment: they are one word."""
    if term.endswith(("i", "y")):
        return f"{term[:-1]}i", f"{term[:-1]}y"
    return (term,)


def _rarity(notes_with: int, notes: int) -> float:
    count = max(notes, _NOTES_MIN)
    return math.log(1 + (count - notes_with + 0.5) / (notes_with + 0.5))


def _weighted(
    counts: Mapping[str, int], lengths: Mapping[str, int], average: Mapping[str, float]
) -> float:
    total = 0.0
    for part, count in counts.items():
        share = _LENGTH[part]
        total += _WEIGHT[part] * count / (1 - share + share * lengths[part] / average[part])
    return total


def _terms(words: Sequence[str]) -> dict[str, str]:
    """The words as the index has them (stemmed), each with the word of the prompt."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE asked USING fts5(word, {_TOKENIZER})")
        connection.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(asked, instance)")
        connection.executemany("INSERT INTO asked VALUES (?)", [(word,) for word in words])
        terms: dict[str, str] = {}
        for term, number in connection.execute("SELECT term, doc FROM terms ORDER BY doc, offset"):
            canonical = _forms(term)[0]
            terms.setdefault(canonical, words[number - 1])
    return terms


# --- the file --------------------------------------------------------------------------------


@contextmanager
def _index(cache: Path | None, disk: Disk) -> Iterator[_Index]:
    """The index in `cache`, else one in memory. Raises SearchUnavailableError."""
    with ExitStack() as stack:
        connection = _in_file(cache, disk, stack) if cache is not None else None
        if connection is None:
            connection = stack.enter_context(closing(_connect(":memory:")))
            _make_tables(connection)
        yield _Index(connection)


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


def _discard_locked(cache: Path, disk: Disk) -> None:
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
