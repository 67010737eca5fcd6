"""Searching sessions from a program: `rewake.search`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from rewake.catalogue.search import Filters, SearchResult, search_sessions
from rewake.compose.place import place


def search(
    query: str,
    project: str | Path = ".",
    *,
    home: str | Path | None = None,
    everywhere: bool = False,
    since: datetime | None = None,
    until: datetime | None = None,
    tag: str | None = None,
    tool: str | None = None,
    file: str | None = None,
    limit: int = 20,
) -> SearchResult:
    """Search prompts, answers, tool calls, file names and titles of a project's sessions, or of all.

    All words must stand in one message; "a phrase" keeps its order and word* stands for all that
    begin so. Any text is a query. `until` is exclusive; a time without a zone is UTC. `tag` is one of
    the session's, `tool` the tool that was called there, `file` a path or the end of one that the
    session's calls name. At most three hits a session, best first.

    The index catches up with the files first: that reads what is new since the last search. Raises
    UsageError when there is neither a word nor a filter, SearchUnavailableError where this Python's
    SQLite has no FTS5.
    """
    at = place(project, home)
    filters = Filters(_unix_ms(since), _unix_ms(until), tag, tool, file)
    root = None if everywhere else at.root
    return search_sessions(at.home, at.disk, query, root, filters=filters, limit=limit)


def _unix_ms(moment: datetime | None) -> int | None:
    if moment is None:
        return None
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(zoned.timestamp() * 1000)
