"""What the browser changes: titles, tags, rewinds and forks, each through an open session.

The rules kept here: a session is open only for the moment of the change; afterwards it is at rest as
it was before, so a finished session that gets a title is still a finished one; and a session that
somebody else writes is left alone (SessionBusyError names the holder).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rewake.compose.place import Place
from rewake.compose.sessions import open_session
from rewake.resume.listing import SessionInfo
from rewake.session.core import Session

_DONE: Final = "done"
_INTERRUPTED: Final = "interrupted"


def rename(at: Place, info: SessionInfo, title: str) -> None:
    """Give a title; an empty one lets the first prompt be it again. Durable on return."""
    with _writing(at, info) as session:
        session.metadata(title=title.strip() or None)


def set_tags(at: Place, info: SessionInfo, tags: tuple[str, ...]) -> None:
    """Replace the tags. Durable on return."""
    with _writing(at, info) as session:
        session.metadata(tags=list(tags) or None)


def rewind(at: Place, info: SessionInfo, message_id: str) -> None:
    """Take the conversation back to just after a message; what followed stays as a branch.

    Files stay as they are. Durable on return.
    """
    with _writing(at, info) as session:
        session.rewind(message_id)


def undo_rewind(at: Place, info: SessionInfo) -> None:
    """Go back to where the newest rewind left. Durable on return."""
    with _writing(at, info) as session:
        session.undo_rewind()


def fork(at: Place, info: SessionInfo, message_id: str | None) -> str:
    """A new session that goes on from a message (None: from the end); returns its id.

    The original is only read, also while somebody writes it. Durable on return.
    """
    with open_session(
        _project(at, info),
        resume=info.session_id,
        fork=True,
        at_message=message_id,
        home=at.home,
        trace=False,
    ) as session:
        session.terminal(_DONE if info.state == _DONE else _INTERRUPTED)
        return session.session_id


@contextmanager
def _writing(at: Place, info: SessionInfo) -> Iterator[Session]:
    with open_session(
        _project(at, info), resume=info.session_id, home=at.home, trace=False
    ) as session:
        found = session.resumed.terminal if session.resumed is not None else None
        yield session
        session.terminal(found.reason if found is not None else _INTERRUPTED)


def _project(at: Place, info: SessionInfo) -> Path:
    """Where the session belongs, as long as that is still there."""
    project = Path(info.project)
    return project if info.project and project.is_dir() else at.root
