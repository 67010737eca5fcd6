"""What can be set: every key with its type, its unit and its meaning.

The rule kept here: a key that nobody has set is None (or empty), so that each part has its own default
beside the code that it is for, and a source says no more than what its author wrote. Each key also has
its line in `keys.py`: how sources combine, and whether a project must be trusted with it.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Permissions(msgspec.Struct, frozen=True):
    """Rules such as `Bash(git status:*)`, the mode, and directories besides the project."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    mode: Literal["default", "acceptEdits", "plan", "bypass"] | None = None
    additional_directories: tuple[str, ...] = ()


class HookCommand(msgspec.Struct, frozen=True):
    """A command that gets JSON on stdin. `timeout` is in seconds."""

    command: str
    type: Literal["command"] = "command"
    timeout: float | None = None


class HookMatcher(msgspec.Struct, frozen=True):
    """`hooks` run for tools whose name `matcher` (a regular expression; empty: any) matches wholly."""

    hooks: tuple[HookCommand, ...] = ()
    matcher: str = ""


class McpServer(msgspec.Struct, frozen=True):
    """How to start or reach an MCP server: `command` (stdio) or `url` (streamable HTTP or SSE).

    With `trust_read_only_hint` a tool that the server calls read-only is run without being asked for;
    `.mcp.json` can't say it. `timeout_s` is for one call.
    """

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str | None = None
    type: Literal["stdio", "http", "sse"] | None = None
    headers: dict[str, str] = {}
    disabled: bool = False
    timeout_s: float | None = None
    trust_read_only_hint: bool = False


class Agents(msgspec.Struct, frozen=True):
    """Sub-agents: how deep they nest, how many work at once, how many model calls each may make."""

    depth_max: int | None = None
    parallel_max: int | None = None
    max_steps: int | None = None


class Memory(msgspec.Struct, frozen=True):
    """The memory directories: whether the agent has them, and how notes come back by themselves."""

    enabled: bool | None = None
    recall: bool | None = None
    recall_notes_max: int | None = None
    recall_time_ms_max: int | None = None


class Instructions(msgspec.Struct, frozen=True):
    """AGENTS.md and the like: directories outside the project that they may import from."""

    import_directories: tuple[str, ...] = ()


class Trace(msgspec.Struct, frozen=True):
    """The debug log beside the transcript: whether there is one, how large, how many old ones."""

    enabled: bool | None = None
    file_bytes_max: int | None = None
    files_max: int | None = None
    content: bool | None = None


class Telemetry(msgspec.Struct, frozen=True):
    """Spans and metrics over OTLP: whether to send them, where to (else as the environment says).

    With `content` words and arguments go along, without their secrets.
    """

    enabled: bool | None = None
    endpoint: str | None = None
    content: bool | None = None


class Retention(msgspec.Struct, frozen=True):
    """What `rewake gc` may move to the trash without being asked for it by flags."""

    age_days_max: int | None = None
    bytes_max: int | None = None


class Settings(msgspec.Struct, frozen=True):
    """What is set; None means that nobody has set it.

    `small_model` judges and titles; `max_cost_usd` is US dollars for one run; `compact_at_tokens` the
    size of a request from which the conversation is compacted; `verify` a command that must succeed
    before a run counts as done, which is asked at most `verify_max` times. `mcp_wait_s` is how many
    seconds the first request waits at most for MCP servers that are starting.
    """

    model: str | None = None
    small_model: str | None = None
    permissions: Permissions = Permissions()
    max_steps: int | None = None
    max_cost_usd: float | None = None
    compact_at_tokens: int | None = None
    verify: str | None = None
    verify_max: int | None = None
    hooks: dict[str, tuple[HookMatcher, ...]] = {}
    mcp_servers: dict[str, McpServer] = {}
    mcp_wait_s: float | None = None
    agents: Agents = Agents()
    memory: Memory = Memory()
    instructions: Instructions = Instructions()
    redact_transcript: bool | None = None
    trace: Trace = Trace()
    telemetry: Telemetry = Telemetry()
    retention: Retention = Retention()
    theme: str | None = None
