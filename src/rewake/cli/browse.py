"""`rewake browse`: look around in all sessions, and go on with one of them."""

from __future__ import annotations

from pathlib import Path

from rewake.cli.terminal import can_browse
from rewake.compose.place import place
from rewake.errors import UsageError


def browse_sessions(cwd: Path | None, *, everywhere: bool) -> int:
    """Browse, then go on with what was chosen; returns the exit status. Raises UsageError."""
    if not can_browse():
        raise UsageError(
            "The browser needs a terminal that can show more than lines.",
            remedy="List the sessions with `rewake sessions`, look into one with `rewake show`.",
        )
    from rewake.browse.run import browse

    choice = browse(place(cwd or "."), everywhere=everywhere)
    if choice is None:
        return 0
    from rewake.cli.interactive import converse
    from rewake.cli.options import AgentChoices

    return converse(AgentChoices(resume=choice.session_id))
