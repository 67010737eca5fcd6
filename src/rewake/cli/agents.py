"""`rewake agents`: the sub-agents of a session, and the types of agents that a project has."""

from __future__ import annotations

import shutil
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from rewake.cli.lists import short_ids
from rewake.cli.terminal import Style, fit, let_readers_leave, note, one_line, say, style_for, width
from rewake.compose.agent_records import agents_at
from rewake.compose.place import NEWEST, find_session, place
from rewake.resume.agents import AgentInfo

if TYPE_CHECKING:
    from rewake.agent.agent_types import AgentType

_STATUS_COLUMNS: Final = 11
_NAME_COLUMNS: Final = 19
_TITLE_COLUMNS_MIN: Final = 20
_NOBODY: Final = "This session has no sub-agents."


def list_agents(session: str | None, cwd: Path | None, *, as_json: bool) -> int:
    """Print them, nested; returns the exit status. Raises SessionNotFoundError."""
    let_readers_leave()
    at = place(cwd or ".")
    found = agents_at(at, find_session(at, session or NEWEST))
    if as_json:
        from rewake.cli.jsonout import to_json

        say(to_json([msgspec.to_builtins(row) for row in found]))
        return 0
    if not found:
        say(_NOBODY)
        return 0
    style, columns = style_for(sys.stdout), shutil.get_terminal_size((100, 24)).columns
    for line in _rows(found, style, columns):
        say(line)
    for row in found:
        if row.problem is not None:
            note(f"{row.agent_id}: {row.problem}")
    return 0


def _rows(found: list[AgentInfo], style: Style, columns: int) -> list[str]:
    ids = short_ids([row.agent_id for row in found])
    id_columns = max(width(text) for text in ids)
    return [
        f"{short:<{id_columns}}  {_row(row, style, columns - id_columns - 2)}"
        for short, row in zip(ids, found, strict=True)
    ]


def _row(row: AgentInfo, style: Style, columns: int) -> str:
    counts = f"{row.steps} step{'s' * (row.steps != 1)}, {_tokens(row)}{_time(row)}"
    indent = "  " * (row.depth - 1)
    name = f"{indent}{row.agent_type or 'agent'}: {row.task}"
    room = max(columns - _STATUS_COLUMNS - width(counts) - 4, _TITLE_COLUMNS_MIN)
    shown = fit(name, room)
    return f"{_status(row.status, style)}  {shown}  {style.dim(counts)}"


def _tokens(row: AgentInfo) -> str:
    usage = row.usage
    cost = f", ${usage.cost_usd:.4f}" if usage.cost_usd else ""
    return f"{usage.input_tokens + usage.output_tokens:,} tokens{cost}"


def _time(row: AgentInfo) -> str:
    try:
        began, ended = map(datetime.fromisoformat, (row.started_at, row.ended_at))
    except ValueError:
        return ""
    return f", {max((ended - began).total_seconds(), 0):.0f} s"


def _status(status: str, style: Style) -> str:
    text = f"{one_line(status):<{_STATUS_COLUMNS}}"
    match status:
        case "completed":
            return style.green(text)
        case "running":
            return style.cyan(text)
        case "failed" | "damaged":
            return style.red(text)
        case _:
            return style.yellow(text)


# --- types -----------------------------------------------------------------------------------


def list_types(cwd: Path | None, *, as_json: bool) -> int:
    """Print the types of agents that the project has, and what is wrong with their files."""
    from rewake.compose.extensions import load_types

    let_readers_leave()
    at = place(cwd or ".")
    types, problems = load_types(at.home, at.root)
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json(
            {
                "types": [_type_object(kind) for kind in types.values()],
                "problems": [
                    {"path": str(one.path), "line": one.line or None, "message": one.message}
                    for one in problems
                ],
            }
        )
        return 0
    for kind in types.values():
        tools = ", ".join(kind.tools) if kind.tools is not None else "all tools"
        say(f"{one_line(kind.name):<{_NAME_COLUMNS}} {one_line(kind.description)}")
        say(style_for(sys.stdout).dim(f"{'':<{_NAME_COLUMNS}} {one_line(tools)}"))
    for problem in problems:
        note(str(problem))
    return 0


def _type_object(kind: AgentType) -> dict[str, object]:
    return {
        "name": kind.name,
        "description": kind.description,
        "tools": kind.tools,
        "model": kind.model,
        "max_steps": kind.max_steps,
        "path": str(kind.path) if kind.path is not None else None,
    }
