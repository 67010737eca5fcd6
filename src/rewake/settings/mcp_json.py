"""The project's `.mcp.json`, as other agents have it, as a source of settings that needs trust.

The rule kept here: nothing in it is an error. A file or a server that can't be used is told and left
out, and the rest counts as if it stood in the project's shared settings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from rewake.errors import SettingsError
from rewake.settings.migrations import CURRENT
from rewake.settings.schema import McpServer
from rewake.settings.source import Source, decoded, read_bytes, read_text
from rewake.settings.spots import TextError, line_and_column

FILE_NAME: Final = ".mcp.json"
_SERVERS: Final = "mcpServers"
_KEYS: Final = ("command", "args", "env", "url", "type", "headers", "disabled")
_TYPES: Final = {"streamable-http": "http", "streamableHttp": "http", "streamable_http": "http"}


def read_mcp_json(root: Path) -> Source | None:
    """The servers of a project's `.mcp.json`; None where there is no such file."""
    file = root / FILE_NAME
    if not file.exists():
        return None
    source = Source("mcp", str(file), file=file, version=CURRENT, is_foreign=True)
    try:
        source.text = decoded(file, read_bytes(file))
        data, spots = read_text(source.text, is_toml=False)
    except SettingsError as error:
        source.told = (f"{error.message} None of its MCP servers is used.",)
        return source
    except TextError as error:
        line, column = line_and_column(source.text, error.offset)
        source.told = (f"{file}:{line}:{column}: {error.message}. Its MCP servers aren't used.",)
        return source
    source.spots = {
        ("mcp_servers", *path[1:]): spot for path, spot in spots.items() if path[:1] == (_SERVERS,)
    }
    servers, told = _servers(data.get(_SERVERS, {}), source)
    source.told = tuple(told)
    if servers:
        source.data = {"mcp_servers": servers}
    return source


def _servers(given: object, source: Source) -> tuple[dict[str, Any], list[str]]:
    if not isinstance(given, dict):
        return {}, [f"{source.where(('mcp_servers',))}: {_SERVERS} is no object of servers."]
    servers: dict[str, Any] = {}
    told: list[str] = []
    for name, server in given.items():
        try:
            servers[name] = _server(server)
        except msgspec.ValidationError as error:
            what = str(error).partition(" - at ")[0]
            where = source.where(("mcp_servers", name))
            told.append(f"{where}: the MCP server {name!r} can't be used: {what}.")
    return servers, told


def _server(given: object) -> dict[str, Any]:
    """The keys that mean something here, in the settings' own shape."""
    if not isinstance(given, dict):
        raise msgspec.ValidationError("it is no object")
    found = {key: given[key] for key in _KEYS if given.get(key) is not None}
    kind = found.get("type")
    if isinstance(kind, str):
        found["type"] = _TYPES.get(kind, kind)
    if ("command" in found) == ("url" in found):
        raise msgspec.ValidationError("it needs either a command or a url")
    msgspec.convert(found, McpServer)
    return found
