"""`rewake mcp` and `/mcp`: the servers, whether they work, and what tools they have.

The rule kept here: the command starts the servers that may run, for as long as it takes to ask them, and
no others; at the prompt those of the session are shown as they are.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rewake.agent.tools.environment import for_command
from rewake.cli.terminal import let_readers_leave, note, one_line, say, style_for
from rewake.compose.extensions import Extensions, load_extensions
from rewake.compose.place import Place, place
from rewake.compose.settings import load_for
from rewake.model.content import JsonObject

if TYPE_CHECKING:
    from rewake.agent.mcp.hub import ServerStatus
    from rewake.cli.opening import Agent

_PRINTED_LINES_MAX = 5
_WAIT_S = 35.0  # a little longer than a server has to start


def list_servers(cwd: Path | None, *, as_json: bool) -> int:
    """Start the servers, ask them, end them, and print what they said; returns the exit status."""
    at = place(cwd or Path())
    loaded = load_for(at)
    extensions = load_extensions(at.home, at.root, loaded.settings)
    rows = _asked(extensions, at) if extensions.servers else []
    rows += [
        _waiting(name, "disabled")
        for name, server in loaded.settings.mcp_servers.items()
        if server.disabled
    ]
    for left_out in loaded.untrusted:
        if left_out.key == "mcp_servers":
            rows += [_waiting(name, "not trusted") for name in left_out.value]
    problems = [*loaded.notices(), *extensions.problems]
    let_readers_leave()  # not before: a server that dies would end us as a reader does
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json({"servers": rows, "problems": problems})
        return 0
    _print(rows)
    for problem in problems:
        note(one_line(problem))
    return 0


def print_servers(agent: Agent | None, cwd: Path) -> None:
    """Print the servers of the session as they are, or those that it would have."""
    if agent is not None:
        _print([_object(one) for one in _status(agent)])
        return
    at = place(cwd)
    extensions = load_extensions(at.home, at.root, load_for(at).settings)
    _print([_waiting(one.name, "not started yet") for one in extensions.servers])


def _status(agent: Agent) -> list[ServerStatus]:
    if not agent.extensions.servers:
        return []
    from rewake.agent.mcp.tool import McpAttendant

    hubs = [one.hub for one in agent.loop.attendants if isinstance(one, McpAttendant)]
    return [status for hub in hubs for status in hub.status()]


def _asked(extensions: Extensions, at: Place) -> list[JsonObject]:
    from rewake.agent.mcp.hub import start_hub

    with tempfile.TemporaryDirectory(prefix="rewake-mcp-") as logs:
        hub = start_hub(
            extensions.servers,
            root=at.root,
            cwd=at.root,
            environment=for_command(os.environ, frozenset(), str(at.root)),
            log_directory=Path(logs),
            disk=at.disk,
        )
        try:
            hub.wait(_WAIT_S)
            return [_object(one) for one in hub.status()]
        finally:
            hub.close()


def _object(one: ServerStatus) -> JsonObject:
    return {
        "name": one.name,
        "server": one.shown,
        "state": one.state,
        "reason": one.reason or None,
        "printed": _printed(one) if one.state == "failed" else [],
        "tools": [
            {"name": tool.spec.name, "description": tool.spec.description} for tool in one.tools
        ],
    }


def _printed(one: ServerStatus) -> list[str]:
    """The end of what it said on stderr, which mostly is why it failed."""
    try:
        said = b"" if one.log is None else one.log.read_bytes()
    except OSError:  # it printed nothing, so there is no log
        return []
    lines = [line.rstrip() for line in said.decode("utf-8", "replace").splitlines()]
    return [line for line in lines if line][-_PRINTED_LINES_MAX:]


def _waiting(name: str, state: str) -> JsonObject:
    row: JsonObject = {"name": name, "server": None, "state": state, "reason": None}
    return {**row, "printed": [], "tools": []}


def _print(rows: Sequence[JsonObject]) -> None:
    style = style_for(sys.stdout)
    for row in rows:
        state, server = str(row["state"]), one_line(str(row["server"] or ""))
        paint = {"ready": style.green, "failed": style.red}.get(state, style.yellow)
        say(f"{style.bold(one_line(row['name']))} {paint(state)} {style.dim(server)}".rstrip())
        if row["reason"]:
            say(f"  {one_line(row['reason'])}")
        for line in row["printed"]:
            say(style.dim(f"  │ {one_line(line)}"))
        for tool in row["tools"]:
            say(f"  {tool['name']:<30} {one_line(tool['description'])[:80]}")
    if not rows:
        say("There are none. A project's are in .mcp.json, yours in mcp_servers of the settings.")
