"""`rewake title` and `rewake tag`: what a session is called, and what it is filed under."""

from __future__ import annotations

from pathlib import Path

from rewake.cli.jsonout import to_json
from rewake.cli.terminal import note, one_line, say
from rewake.compose.labels import change_tags, set_title
from rewake.compose.place import find_session, place
from rewake.errors import UsageError
from rewake.resume.listing import SessionInfo, describe


def title_session(session: str, title: str | None, cwd: Path | None, *, as_json: bool) -> int:
    """Give a title, or say the one it has; returns the exit status.

    Raises SessionNotFoundError, SessionBusyError.
    """
    if title is None:
        info = _described(session, cwd)
        session_id, now = info.session_id, info.title
    else:
        session_id, now = set_title(session, title, project=cwd or ".")
    say(to_json({"session_id": session_id, "title": now}) if as_json else one_line(now))
    return 0


def tag_session(
    session: str, tags: tuple[str, ...], cwd: Path | None, *, remove: bool, as_json: bool
) -> int:
    """Add or remove tags, or say those it has; returns the exit status.

    Raises UsageError, SessionNotFoundError, SessionBusyError.
    """
    if remove and not tags:
        raise UsageError("It isn't said which tags to remove.", remedy="Name them before --remove.")
    if tags:
        added, gone = ((), tags) if remove else (tags, ())
        session_id, now = change_tags(session, added, gone, project=cwd or ".")
    else:
        info = _described(session, cwd)
        session_id, now = info.session_id, info.tags
    if as_json:
        say(to_json({"session_id": session_id, "tags": now}))
    elif now:
        say(one_line(" ".join(now)))
    else:
        note("No tags.")
    return 0


def _described(session: str, cwd: Path | None) -> SessionInfo:
    at = place(cwd or ".")
    paths = find_session(at, session)
    return describe(paths, at.blobs(paths), at.disk)
