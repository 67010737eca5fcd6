"""Titles and tags of recorded sessions, changed from outside a run.

The rule kept here: a label says something about a session and does nothing to it. No run begins, no
interrupted call is settled, so whoever resumes it finds it as it was left.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rewake.compose.opening import open_for_notes
from rewake.compose.place import find_session, place
from rewake.resume.listing import tags_of
from rewake.session.core import Session


def set_title(
    session: str, title: str, *, project: str | Path = ".", home: str | Path | None = None
) -> tuple[str, str]:
    """Give a title; an empty one lets the first prompt be it again. Durable on return.

    Returns the session's id and the title that it has now. Raises SessionNotFoundError,
    SessionBusyError.
    """
    at = place(project, home)
    with open_for_notes(at, find_session(at, session)) as opened:
        opened.metadata(title=title.strip() or None)
        return opened.session_id, opened.state.world.title


def change_tags(
    session: str,
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
    *,
    project: str | Path = ".",
    home: str | Path | None = None,
) -> tuple[str, tuple[str, ...]]:
    """Add and remove tags. Durable on return.

    Returns the session's id and the tags that it has now. Raises SessionNotFoundError,
    SessionBusyError.
    """
    at = place(project, home)
    with open_for_notes(at, find_session(at, session)) as opened:
        opened.metadata(tags=changed_tags(opened, add, remove) or None)
        return opened.session_id, tags_of(opened.state.world.metadata.get("tags"))


def changed_tags(session: Session, add: Iterable[str], remove: Iterable[str]) -> list[str]:
    """An open session's tags with these added and those removed, each once."""
    known = tags_of(session.state.world.metadata.get("tags"))
    gone = set(remove)
    return [tag for tag in dict.fromkeys((*known, *tags_of(list(add)))) if tag not in gone]
