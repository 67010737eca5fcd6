"""Searching every session: by the index, after it has caught up with the files.

The rules kept here: what is found is what the transcripts say now (a hit is read from its line, and
one whose line is gone is none); nothing that is wrong with one transcript, or with the catalogue,
hides what the others hold; and text on its way to a terminal has no control sequences.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from rewake.catalogue.database import (
    Catalogue,
    discard,
    home_is_there,
    is_corrupt,
    open_catalogue,
    open_in_memory,
)
from rewake.catalogue.files import Found, find_files
from rewake.catalogue.indexing import Progress, catch_up
from rewake.catalogue.listing import read_one, recall
from rewake.catalogue.passages import Kind, Passage, passages_of
from rewake.catalogue.query import Term, match_expression, snippet_of, terms_of
from rewake.errors import (
    CatalogueUnusableError,
    RewakeError,
    SearchUnavailableError,
    UsageError,
)
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk
from rewake.log.layout import Layout
from rewake.log.scan import Transcript
from rewake.model.codec import decode_line
from rewake.model.events import Event
from rewake.resume.listing import Summary
from rewake.resume.load import inflate
from rewake.state.text import valid_unicode

_WAIT_MS: Final = 5_000
_LINE_BYTES: Final = 1 << 14
_HITS_PER_SESSION: Final = 3  # the others of a long session would hide the next one


class SearchHit(msgspec.Struct, frozen=True):
    """One place where the words stand. `timestamp` is RFC 3339 in UTC; smaller `rank` is better.

    `message_id` can be resumed at; it is None for what belongs to no message (a title). `snippet` is
    one clean line, `marks` the beginnings and ends of the hits in it, in characters.
    """

    session_id: str
    title: str
    project: str
    message_id: str | None
    timestamp: str
    kind: Kind
    tool: str
    snippet: str
    marks: tuple[tuple[int, int], ...]
    rank: float
    path: str


class SearchResult(msgspec.Struct, frozen=True):
    """Hits, best first. `problems` say in a sentence each what could not be looked at."""

    hits: tuple[SearchHit, ...]
    problems: tuple[str, ...] = ()


class Filters(msgspec.Struct, frozen=True):
    """What a hit must be besides. Times are Unix milliseconds, `until` exclusive.

    `tag` is one of the session's; `tool` the tool that was called in this place; `file` a path, or
    the end of one, that the session's calls name.
    """

    since_ms: int | None = None
    until_ms: int | None = None
    tag: str | None = None
    tool: str | None = None
    file: str | None = None

    def is_empty(self) -> bool:
        """Whether everything passes."""
        return self == Filters()


def search_sessions(
    home: Path,
    disk: Disk,
    query: str,
    root: Path | None = None,
    *,
    filters: Filters | None = None,
    limit: int = 20,
    progress: Progress | None = None,
) -> SearchResult:
    """Search the sessions of the project at `root`, or of all.

    Without words in `query`, what passes the filters, newest first. Raises UsageError when there is
    neither a word nor a filter, SearchUnavailableError.
    """
    chosen = filters or Filters()
    # Asked for a file alone, the places that name it are what is wanted.
    terms = terms_of(query) or (terms_of(f'"{chosen.file}"') if chosen.file else ())
    if not terms and chosen.is_empty():
        raise UsageError(
            f"There is no word to search for in {query!r}.", remedy="Give a word, or a filter."
        )
    if not home_is_there(home):
        return SearchResult(())
    problems: list[str] = []

    def note(path: Path, error: OSError) -> None:
        problems.append(f"{path} can't be read: {error.strerror or error}")

    found = find_files(Layout(home), root, note)
    wanted = _Wanted({item.key: item for item in found}, terms, chosen, limit)
    search = _Search(home, disk, wanted, problems, progress)
    try:
        hits = search.in_file()
    except sqlite3.Error as error:
        if not is_corrupt(error):
            raise CatalogueUnusableError(
                f"The catalogue in {home} can't be searched: {error}.",
                remedy="Try again, or make it anew with `rewake reindex --all`.",
            ) from error
        hits = search.anew()
    return SearchResult(tuple(hits), tuple(problems))


class _Wanted(msgspec.Struct, frozen=True):
    files: dict[bytes, Found]
    terms: tuple[Term, ...]
    filters: Filters
    limit: int


class _Search:
    """One search, in whichever catalogue can be used."""

    def __init__(
        self,
        home: Path,
        disk: Disk,
        wanted: _Wanted,
        problems: list[str],
        progress: Progress | None,
    ) -> None:
        self.home = home
        self.disk = disk
        self.wanted = wanted
        self.problems = problems
        self.progress = progress

    def in_file(self) -> list[SearchHit]:
        """In the home's catalogue, or in one made for this search where that can't be used."""
        try:
            catalogue = open_catalogue(self.home, self.disk, wait_ms=_WAIT_MS)
        except CatalogueUnusableError as error:
            self.problems.append(f"{error.message} Searched without it.")
            catalogue = open_in_memory()
        with catalogue:
            return self._caught_up(catalogue)

    def anew(self) -> list[SearchHit]:
        """After it turned out corrupt while it was used."""
        try:
            discard(self.home, self.disk)
            return self.in_file()
        except (CatalogueUnusableError, sqlite3.DatabaseError):
            with open_in_memory() as catalogue:
                return self._caught_up(catalogue)

    def _caught_up(self, catalogue: Catalogue) -> list[SearchHit]:
        if not catalogue.can_search:
            raise SearchUnavailableError(
                "This Python's SQLite has no full-text search (FTS5), so nothing can be searched.",
                remedy="Use a Python whose sqlite3 has FTS5; listing and resuming work without it.",
            )
        files = list(self.wanted.files.values())
        try:
            done = catch_up(catalogue, self.disk, files, self.progress)
            self.problems.extend(f"{path}: {why}" for path, why in done.problems)
        except sqlite3.OperationalError as error:
            # Full, busy or read-only: what was indexed before is still there to be searched.
            self.problems.append(f"The newest messages may be missing: {error}.")
        return self._hits(catalogue)

    def _hits(self, catalogue: Catalogue) -> list[SearchHit]:
        counts: dict[bytes, int] = {}
        summaries: dict[bytes, Summary] = {}
        hits: list[SearchHit] = []
        for place in _places(catalogue, self.wanted):
            item = self.wanted.files.get(place.key)
            if item is None or counts.get(place.key, 0) >= _HITS_PER_SESSION:
                continue
            if place.key not in summaries:
                known = recall(catalogue, [item]).get(place.key)
                summaries[place.key] = known or read_one(item, self.disk)
            summary = summaries[place.key]
            if self.wanted.filters.tag not in {None, *summary.tags}:
                continue
            hit = self._hit(item, summary, place)
            if hit is None:
                continue
            counts[place.key] = counts.get(place.key, 0) + 1
            hits.append(hit)
            if len(hits) >= self.wanted.limit:
                break
        return hits

    def _hit(self, item: Found, summary: Summary, place: _Place) -> SearchHit | None:
        passage = _passage(item, place, self.disk)
        if passage is None:
            return None
        snippet = snippet_of(passage.text, self.wanted.terms)
        return SearchHit(
            session_id=item.session_id,
            title=summary.title,
            project=summary.project,
            message_id=passage.message_id,
            timestamp=_rfc3339(place.time_ms),
            kind=passage.kind,
            tool=passage.tool,
            snippet=snippet.text,
            marks=snippet.marks,
            rank=place.rank,
            path=str(item.paths.transcript),
        )


# --- the question ----------------------------------------------------------------------------


class _Place(msgspec.Struct, frozen=True):
    """A row that fits: which session, which line, which passage of it."""

    key: bytes
    line: int
    part: int
    time_ms: int
    rank: float


def _places(catalogue: Catalogue, wanted: _Wanted) -> Iterator[_Place]:
    """What fits, best first; sorted by the index, handed out one by one."""
    conditions, values = _conditions(wanted.filters)
    if wanted.terms:
        conditions.insert(0, "words MATCH ?")
        values.insert(0, match_expression(wanted.terms))
        rank, order = "words.rank", "words.rank"
        tables = "words CROSS JOIN passages AS p ON p.id = words.rowid"
    else:
        rank, order = "0.0", "p.time_ms DESC, p.id DESC"
        tables = "passages AS p"
    where = " AND ".join(conditions) or "1"
    question = (
        f"SELECT s.key, p.line, p.part, p.time_ms, {rank} FROM {tables}"  # noqa: S608  # constants; values are bound
        f" CROSS JOIN sessions AS s ON s.id = p.session WHERE {where} ORDER BY {order}"
    )
    for values_of_row in catalogue.connection.execute(question, values):
        yield _Place(*values_of_row)


def _conditions(filters: Filters) -> tuple[list[str], list[str | int]]:
    conditions: list[str] = []
    values: list[str | int] = []
    if filters.since_ms is not None:
        conditions.append("p.time_ms >= ?")
        values.append(filters.since_ms)
    if filters.until_ms is not None:
        conditions.append("p.time_ms < ?")
        values.append(filters.until_ms)
    if filters.tool is not None:
        conditions.append("p.tool = ? COLLATE NOCASE")
        values.append(valid_unicode(filters.tool))
    if filters.file is not None:
        path = valid_unicode(filters.file)
        conditions.append(
            "EXISTS (SELECT 1 FROM files AS f WHERE f.session = p.session"
            " AND (f.path = ? OR substr(f.path, -length(?)) = ?))"
        )
        values += [path, f"/{path}", f"/{path}"]
    return conditions, values


def _passage(item: Found, place: _Place, disk: Disk) -> Passage | None:
    """Read again from the transcript; None where that isn't what was indexed any more."""
    paths = item.paths
    try:
        with Transcript(paths.transcript) as reader:
            for offset, line in reader.lines_forward(place.line, block_bytes=_LINE_BYTES):
                event = decode_line(line, offset)
                if not isinstance(event, Event):
                    return None
                blobs = BlobStore(paths.blobs, disk, durable=False)
                passages = passages_of(inflate(event, blobs)[0])
                return passages[place.part] if place.part < len(passages) else None
    except (OSError, RewakeError):
        return None  # it was moved or deleted since the files were looked at
    return None


def _rfc3339(unix_ms: int) -> str:
    return datetime.fromtimestamp(unix_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
