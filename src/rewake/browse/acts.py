"""What the browser does to sessions: titles, tags, rewinds, forks, exports and the trash.

The rules kept here: a label says something about a session and does nothing to it; a session is open
only for the moment of a change, and afterwards at rest again; and one that somebody else writes is
left alone (SessionBusyError names the holder).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rewake.browse.source import paths_of
from rewake.compose.opening import open_for_notes
from rewake.compose.place import Place
from rewake.compose.sessions import open_session
from rewake.errors import UsageError
from rewake.resume.listing import SessionInfo
from rewake.session.core import Session

_DONE: Final = "done"
_INTERRUPTED: Final = "interrupted"


def rename(at: Place, info: SessionInfo, title: str) -> None:
    """Give a title; an empty one lets the first prompt be it again. Durable on return."""
    with open_for_notes(at, paths_of(info)) as session:
        session.metadata(title=title.strip() or None)


def set_tags(at: Place, info: SessionInfo, tags: tuple[str, ...]) -> None:
    """Replace the tags. Durable on return."""
    with open_for_notes(at, paths_of(info)) as session:
        session.metadata(tags=list(dict.fromkeys(tags)) or None)


def rewind(at: Place, info: SessionInfo, message_id: str) -> None:
    """Take the conversation back to just after a message; what followed stays as a branch.

    Files stay as they are. Durable on return.
    """
    with _opened(at, info) as session:
        session.rewind(message_id)
        session.terminal(_INTERRUPTED)


def undo_rewind(at: Place, info: SessionInfo) -> None:
    """Go back to where the newest rewind left. Durable on return."""
    with _opened(at, info) as session:
        session.undo_rewind()
        session.terminal(_INTERRUPTED)


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


def export(at: Place, info: SessionInfo, output: str) -> str:
    """Write the session to a file, without the secrets that were found; says what was written.

    A name that ends in `.md` gets Markdown, one in `.json` ATIF, any other an archive. Durable on
    return. Raises UsageError where there is such a file already.
    """
    from rewake.compose import archives

    target = Path(output).expanduser()
    if target.exists():
        raise UsageError(f"{target} is there already.", remedy="Give another name.")
    forms: dict[str, archives.Form] = {".md": "markdown", ".json": "atif"}
    form = forms.get(target.suffix, "archive")
    done = archives.export(info.session_id, target, form=form, project=at.root, home=at.home)
    secrets = sum(done.redacted.values())
    return f"Exported to {done.path}; secrets taken out: {secrets}. Look before you share it."


def delete(at: Place, info: SessionInfo) -> None:
    """Move the session to the trash; forks of it keep their history. Durable on return."""
    from rewake.compose.archives import delete_session

    delete_session(at, paths_of(info))


def _opened(at: Place, info: SessionInfo) -> Session:
    return open_session(_project(at, info), resume=info.session_id, home=at.home, trace=False)


def _project(at: Place, info: SessionInfo) -> Path:
    """Where the session belongs, as long as that is still there."""
    project = Path(info.project)
    return project if info.project and project.is_dir() else at.root
