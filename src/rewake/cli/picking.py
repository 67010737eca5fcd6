"""Lets the user pick the session to resume where none was named."""

from __future__ import annotations

import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rewake.cli.lists import rows
from rewake.cli.sessions import newest
from rewake.cli.terminal import Style, can_browse, say, style_for
from rewake.compose.place import place
from rewake.errors import SessionNotFoundError, UsageError
from rewake.resume.listing import SessionInfo

_SHOWN: Final = 20


def pick_session(cwd: Path | None) -> str:
    """The id of the session that the user chose, in the browser where the terminal is good for it.

    Else from a numbered list. Without a terminal nobody can choose: the list goes to stderr and
    UsageError is raised, as it is when the user chooses nothing. Raises SessionNotFoundError when
    there is none at all.
    """
    found = _some(cwd)
    if not can_browse():
        return _from_list(*found)
    from rewake.browse.run import BrowserFailedError, pick_session

    try:
        return _required(pick_session(place(cwd or ".")))
    except BrowserFailedError:
        return _from_list(*found)


async def pick_session_async(cwd: Path | None) -> str:
    """The same inside an event loop."""
    found = _some(cwd)
    if not can_browse():
        return _from_list(*found)
    from rewake.browse.run import BrowserFailedError, pick_session_async

    try:
        return _required(await pick_session_async(place(cwd or ".")))
    except BrowserFailedError:
        return _from_list(*found)


def _required(chosen: str | None) -> str:
    if chosen is None:
        raise UsageError("No session was chosen.", remedy="Choose one with Enter next time.")
    return chosen


def _some(cwd: Path | None) -> tuple[list[SessionInfo], int]:
    """The newest sessions and how many there are. Raises SessionNotFoundError when there is none."""
    found, total, root = newest(cwd, everywhere=False, limit=_SHOWN)
    if not found:
        raise SessionNotFoundError(
            f"The project {root} has no session yet.",
            remedy="Start one, or list those of all projects with `rewake sessions --all`.",
        )
    return found, total


def _from_list(found: list[SessionInfo], total: int) -> str:
    chooses = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    _print(found, total, numbered=chooses)
    if not chooses:
        raise UsageError(
            "--resume without an id needs a terminal to choose in.",
            remedy="Give the id of one of these, or --continue for the newest.",
        )
    return _chosen(found)


def _print(found: list[SessionInfo], total: int, *, numbered: bool) -> None:
    style: Style = style_for(sys.stderr)
    columns = shutil.get_terminal_size((100, 24)).columns
    lines = rows(found, now=datetime.now(UTC), columns=columns - 4, style=style, with_project=False)
    for number, line in enumerate(lines, start=1):
        say(f"{number:>2}. {line}" if numbered else line, stream=sys.stderr)
    if total > len(found):
        say(f"{total - len(found)} older ones are in `rewake sessions`.", stream=sys.stderr)


def _chosen(found: list[SessionInfo]) -> str:
    while True:
        say(f"Which one? [1-{len(found)}] ", stream=sys.stderr, end="")
        answer = sys.stdin.readline()
        if not answer.strip():
            raise UsageError("No session was chosen.", remedy="Give its number next time.")
        if answer.strip().isdecimal() and 1 <= int(answer) <= len(found):
            return found[int(answer) - 1].session_id
