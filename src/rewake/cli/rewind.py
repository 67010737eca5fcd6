"""`rewake rewind`: take a conversation back to a message, or take that back."""

from __future__ import annotations

from pathlib import Path

from rewake.cli.jsonout import to_json
from rewake.cli.terminal import say
from rewake.compose.opening import open_for_notes
from rewake.compose.place import find_session, place
from rewake.errors import UsageError


def rewind_session(
    session: str, to: str | None, cwd: Path | None, *, undo: bool, as_json: bool
) -> int:
    """Go back, and say how to take that back; returns the exit status.

    Nothing else changes: no run begins, and calls that were interrupted wait for a resume.

    Raises UsageError when the message isn't there, SessionBusyError, SessionNotFoundError.
    """
    if undo == (to is not None):
        raise UsageError(
            "Where to go back to isn't clear.", remedy="Give either --to MESSAGE or --undo."
        )
    at = place(cwd or ".")
    with open_for_notes(at, find_session(at, session)) as opened:
        rewind_id = opened.undo_rewind() if to is None else opened.rewind(to)
        session_id = opened.session_id
        messages = len(opened.messages)
    if as_json:
        done = {"session_id": session_id, "rewind_id": rewind_id, "messages": messages}
        say(to_json(done))
        return 0
    say(f"The conversation of {session_id} is back at {messages} messages; files are as they were.")
    say(f"To take that back: rewake rewind {session_id} --undo")
    return 0
