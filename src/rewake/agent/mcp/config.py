"""Which servers there are: names made safe, variables filled in.

The rule kept here: what can't be used is a sentence and not an error, and a variable that is missing
keeps its server from starting rather than starting it with a hole.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rewake.settings.schema import McpServer

NAME_CHARS_MAX: Final = 64
"""What model providers take as the name of a tool."""
_SERVER_CHARS_MAX: Final = 24
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9-]+")
_UNSAFE_IN_TOOL: Final = re.compile(r"[^A-Za-z0-9_-]")
_VARIABLE: Final = re.compile(r"\$\{(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\}")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """One server, ready to be started. `name` is as given, `safe_name` as its tools carry it."""

    name: str
    safe_name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    url: str | None = None
    is_sse: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float | None = None
    trusts_read_only: bool = False

    @property
    def shown(self) -> str:
        """What is started or reached, for people."""
        return " ".join((self.command, *self.args)) if self.command is not None else str(self.url)


def server_configs(
    given: Mapping[str, McpServer], environ: Mapping[str, str]
) -> tuple[list[ServerConfig], list[str]]:
    """The servers that can be started, and a sentence for each that can't."""
    configs: list[ServerConfig] = []
    problems: list[str] = []
    taken: set[str] = set()
    for name, server in given.items():
        if server.disabled:
            continue
        if (server.command is None) == (server.url is None):
            problems.append(f"The MCP server {name!r} needs either a command or a url.")
            continue
        missing: set[str] = set()
        config = _config(name, server, environ, missing, taken)
        if missing:
            listed = ", ".join(sorted(missing))
            problems.append(f"The MCP server {name!r} isn't started: {listed} is not set.")
            continue
        taken.add(config.safe_name)
        configs.append(config)
    return configs, problems


def _config(
    name: str,
    server: McpServer,
    environ: Mapping[str, str],
    missing: set[str],
    taken: set[str],
) -> ServerConfig:
    def filled(text: str) -> str:
        return _filled(text, environ, missing)

    return ServerConfig(
        name=name,
        safe_name=_safe_server_name(name, taken),
        command=filled(server.command) if server.command is not None else None,
        args=tuple(map(filled, server.args)),
        env=tuple((key, filled(value)) for key, value in server.env.items()),
        url=filled(server.url) if server.url is not None else None,
        is_sse=server.type == "sse",
        headers=tuple((key, filled(value)) for key, value in server.headers.items()),
        timeout_s=server.timeout_s,
        trusts_read_only=server.trust_read_only_hint,
    )


def _filled(text: str, environ: Mapping[str, str], missing: set[str]) -> str:
    def value(match: re.Match[str]) -> str:
        found = environ.get(match["name"]) or match["default"]
        if found is None:
            missing.add(match["name"])
        return found or ""

    return _VARIABLE.sub(value, text)


def _safe_server_name(name: str, taken: set[str]) -> str:
    """No two underscores in a row, so that `mcp__a` never speaks of a server called `a__b`."""
    safe = _UNSAFE.sub("_", name).strip("_-") or "server"
    if len(safe) <= _SERVER_CHARS_MAX and safe not in taken:
        return safe
    return f"{safe[: _SERVER_CHARS_MAX - 7].rstrip('_')}-{_digest(name)}"


def tool_name(server: str, tool: str, taken: set[str]) -> str:
    """`mcp__server__tool`, in characters and a length that providers take, and not yet `taken`."""
    whole = f"mcp__{server}__{_UNSAFE_IN_TOOL.sub('_', tool) or 'tool'}"
    if len(whole) <= NAME_CHARS_MAX and whole not in taken:
        return whole
    return f"{whole[: NAME_CHARS_MAX - 7]}-{_digest(tool)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]
