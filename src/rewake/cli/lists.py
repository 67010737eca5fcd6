"""Rows of sessions for people: one line each, as wide as the terminal.

The rule kept here: what stands first is what a user needs to resume one: an id that is unique
among those shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from rewake.cli.terminal import Style, fit, one_line, width
from rewake.resume.listing import SessionInfo
from rewake.screentext import age as age  # noqa: PLC0414  # commands look for it here

# Ids begin with the time in milliseconds: 13 characters tell all of it.
_ID_CHARS_MIN: Final = 13
_TITLE_COLUMNS_MIN: Final = 20
_STATE_COLUMNS: Final = 11


def rows(
    sessions: Sequence[SessionInfo],
    *,
    now: datetime,
    columns: int,
    style: Style,
    with_project: bool,
) -> list[str]:
    """One line a session."""
    ids = short_ids([info.session_id for info in sessions])
    id_columns = max((width(text) for text in ids), default=0)
    lines = []
    for short, info in zip(ids, sessions, strict=True):
        head = f"{short:<{id_columns}}  {_state(info, style)}  {age(info.updated_at, now):>8}"
        used = id_columns + _STATE_COLUMNS + 12 + 2
        where = _project(info) if with_project else ""
        room = max(columns - used - (width(where) + 2 if where else 0), _TITLE_COLUMNS_MIN)
        title = fit(_title(info), room)
        lines.append(f"{head}  {title}{style.dim('  ' + where) if where else ''}")
    return lines


def short_ids(ids: Sequence[str]) -> list[str]:
    """The shortest beginnings (of 13 characters or more) that tell these ids apart."""
    chars = _ID_CHARS_MIN
    longest = max((len(session_id) for session_id in ids), default=0)
    while chars < longest and len({session_id[:chars] for session_id in ids}) < len(ids):
        chars += 1
    return [one_line(session_id[:chars]) for session_id in ids]


def _title(info: SessionInfo) -> str:
    if info.problem is not None:
        return f"(can't be read: {info.problem})"
    return info.title or "(no prompt)"


def _state(info: SessionInfo, style: Style) -> str:
    text = f"{info.state:<{_STATE_COLUMNS}}"
    match info.state:
        case "done":
            return style.green(text)
        case "running":
            return style.cyan(text)
        case "interrupted":
            return style.yellow(text)
        case "failed" | "damaged":
            return style.red(text)
        case "empty":
            return style.dim(text)


def _project(info: SessionInfo) -> str:
    home = str(Path.home())
    project = one_line(info.project)
    return f"~{project[len(home) :]}" if project.startswith(f"{home}/") else project
