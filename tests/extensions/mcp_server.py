"""A real MCP server for tests, made with the official package: `mcp_server.py stdio|http PORT`."""

from __future__ import annotations

import base64
import os
import sys
import time
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.utilities.types import Image
from mcp_types import ToolAnnotations

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
server = MCPServer("for tests")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look() -> str:
    """Looks and changes nothing."""
    return "seen"


@server.tool()
def fails() -> str:
    """Always fails."""
    raise ValueError("it is broken")


@server.tool()
def picture() -> Image:
    """A picture of one pixel."""
    return Image(data=PIXEL, format="png")


@server.tool()
def huge(chars: int) -> str:
    """As long a text as is asked for."""
    return "x" * chars


@server.tool()
def pid() -> int:
    """The server's process id."""
    return os.getpid()


@server.tool()
def environment(name: str) -> str:
    """A variable of the server's environment."""
    return os.environ.get(name, "(unset)")


@server.tool()
async def key(context: Context[Any, Any]) -> str:
    """The idempotency key of this call."""
    meta = context.request_context.meta
    return str(dict(meta or {}).get("rewake/idempotency-key"))


@server.tool()
async def hang(file: str) -> str:
    """Writes its process id to a file and waits; a cancellation is written to it as well."""
    Path(file).write_text(f"{os.getpid()}\n")  # noqa: ASYNC240  # a test's few bytes
    try:
        await anyio.sleep(1000)
    except BaseException:
        Path(file).write_text("cancelled\n")  # noqa: ASYNC240  # a test's few bytes
        raise
    return "waited"


@server.tool()
async def grow(context: Context[Any, Any]) -> str:
    """Adds a tool, and says so."""
    if "late" not in [tool.name for tool in await server.list_tools()]:
        server.add_tool(late, name="late")
    await context.notify_tools_changed()
    return "grown"


def late() -> str:
    """A tool that wasn't there at first."""
    return "here"


if __name__ == "__main__":
    sys.stderr.write("hello from stderr\n")
    if len(sys.argv) > 2 and sys.argv[1] == "slow":
        while not Path(sys.argv[2]).exists():
            time.sleep(0.01)
    if sys.argv[1] == "http":
        server.run("streamable-http", port=int(sys.argv[2]))
    elif sys.argv[1] == "sse":
        server.run("sse", port=int(sys.argv[2]))
    else:
        server.run("stdio")
