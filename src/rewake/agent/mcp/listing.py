"""What a server says of its tools, cut down to what a model can be told.

The rule kept here: whatever a server lists, the model sees a bounded number of tools, each with a safe
and unique name, a bounded description and a schema that is an object; what is left out is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from rewake.agent.mcp.config import ServerConfig, tool_name
from rewake.agent.ports import ToolSpec
from rewake.model.content import JsonObject

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool

TOOLS_MAX: Final = 128  # of one server; many providers take no more in all
_PAGES_MAX: Final = 20
_NAMED_MAX: Final = 5  # as many as fit a notice
_DESCRIPTION_CHARS_MAX: Final = 2_000
_SCHEMA_BYTES_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class RemoteTool:
    """One tool of a server: its own name, and how it is called here."""

    name: str
    spec: ToolSpec
    read_only: bool
    is_idempotent: bool


async def listed(
    client: Client, config: ServerConfig, before: Sequence[RemoteTool]
) -> tuple[tuple[RemoteTool, ...], tuple[str, ...]]:
    """The server's tools, those from `before` in their old order and under their old names first.

    Also a sentence on what was left out.
    """
    found: list[Tool] = []
    cursor: str | None = None
    for _ in range(_PAGES_MAX):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if not cursor or len(found) > TOOLS_MAX:
            break
    return chosen(found, config, before)


def chosen(
    found: Sequence[Tool], config: ServerConfig, before: Sequence[RemoteTool]
) -> tuple[tuple[RemoteTool, ...], tuple[str, ...]]:
    """See `listed`."""
    known = {tool.name: tool.spec.name for tool in before}
    taken = set(known.values())
    by_name: dict[str, RemoteTool] = {}
    left_out: list[str] = []
    for tool in found:
        problem = _problem(tool, by_name)
        if problem:
            left_out.append(f"{tool.name[:40]!r} ({problem})")
            continue
        name = known.get(tool.name) or tool_name(config.safe_name, tool.name, taken)
        taken.add(name)
        by_name[tool.name] = _remote(tool, name, config)
    order = [tool.name for tool in before if tool.name in by_name]
    order += [name for name in by_name if name not in known]
    if not left_out:
        return tuple(by_name[name] for name in order), ()
    more = len(left_out) - _NAMED_MAX
    shown = ", ".join(left_out[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    told = f"Tools of the MCP server {config.name} are left out: {shown}."
    return tuple(by_name[name] for name in order), (told,)


def _problem(tool: Tool, before: dict[str, RemoteTool]) -> str:
    if tool.name in before:
        return "its name is there twice"
    if len(before) >= TOOLS_MAX:
        return f"more than {TOOLS_MAX}"
    if tool.input_schema.get("type", "object") != "object":
        return "its parameters are no object"
    try:
        size = len(msgspec.json.encode(tool.input_schema))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return "its parameters can't be read"
    return "its parameters are too long" if size > _SCHEMA_BYTES_MAX else ""


def _remote(tool: Tool, name: str, config: ServerConfig) -> RemoteTool:
    hints = tool.annotations
    parameters: JsonObject = {**tool.input_schema, "type": "object"}
    parameters.setdefault("properties", {})
    description = tool.description or tool.title or tool.name
    if len(description) > _DESCRIPTION_CHARS_MAX:
        description = f"{description[: _DESCRIPTION_CHARS_MAX - 1]}…"
    return RemoteTool(
        name=tool.name,
        spec=ToolSpec(name, description, parameters),
        read_only=config.trusts_read_only and hints is not None and hints.read_only_hint is True,
        is_idempotent=hints is not None and hints.idempotent_hint is True,
    )
