"""A server's tool as a tool of the agent, and the attendant that brings new ones in.

The rules kept here: a call goes the way of every other (permission, intent, outcome); one whose answer
never came is left to the evidence, which says `unknown`; and the list of tools only grows at its end,
so that what a provider has cached of a request stays true as far as it can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import anyio.to_thread
import msgspec

from rewake.agent.mcp.connection import AnswerError, ServerDownError
from rewake.agent.mcp.hub import McpHub
from rewake.agent.mcp.listing import RemoteTool
from rewake.agent.mcp.results import output_of
from rewake.agent.ports import (
    Prepared,
    Tool,
    ToolContext,
    ToolInputError,
    ToolOutput,
    ToolSpec,
)
from rewake.model.content import JsonObject, Text
from rewake.model.events import Intent, OtherIntent, Outcome, ReadOnlyIntent

KEY_META: Final = "rewake/idempotency-key"
"""Under this key of a call's `_meta` a server finds the call's idempotency key."""
FIRST_WAIT_S: Final = 5.0
_PREVIEW_CHARS_MAX: Final = 4_000
_SUMMARY_CHARS_MAX: Final = 120


@dataclass(frozen=True, slots=True)
class _Plan:
    arguments: JsonObject
    key: str


class McpTool:
    """One tool of one server."""

    def __init__(self, hub: McpHub, server: str, remote: RemoteTool) -> None:
        self._hub = hub
        self._server = server
        self._remote = remote
        self.spec: ToolSpec = remote.spec
        self.read_only = remote.read_only

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:  # noqa: ARG002  # the port's
        key = f"rewake:{call_id}"
        try:
            shown = msgspec.json.encode(arguments).decode()
        except (UnicodeEncodeError, TypeError, ValueError) as error:
            raise ToolInputError(
                f"The arguments hold something that can't be sent to a server: {error}."
            ) from error
        intent: Intent = ReadOnlyIntent()
        if not self.read_only:
            again = (
                "; the server says that repeating it is harmless"
                if self._remote.is_idempotent
                else ""
            )
            intent = OtherIntent(f"MCP {self._server}: {self._remote.name}{again}", key)
        return Prepared(
            intent=intent,
            subject="",
            summary=_cut(f"{self._remote.name} of {self._server} {shown}", _SUMMARY_CHARS_MAX),
            preview=_cut(msgspec.json.format(shown, indent=2), _PREVIEW_CHARS_MAX),
            data=_Plan(arguments, key),
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:
        plan = prepared.data
        if not isinstance(plan, _Plan):
            raise TypeError("this call was not prepared by this tool")
        meta = {KEY_META: plan.key}
        told: JsonObject = {"mcp_server": self._server, "mcp_tool": self._remote.name}
        try:
            answer = await self._hub.call(self._server, self._remote.name, plan.arguments, meta)
        except (ServerDownError, AnswerError) as error:
            return ToolOutput((Text(str(error)),), is_error=True, outcome=Outcome(details=told))
        output = await anyio.to_thread.run_sync(output_of, answer, context.blobs)
        details = {**told, **output.outcome.details}
        return ToolOutput(output.content, output.is_error, Outcome(details=details))


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"


@dataclass(slots=True)
class McpAttendant:
    """Puts the servers' tools among `tools` before each request, and says what became of servers."""

    hub: McpHub
    tools: dict[str, Tool]
    notice: Callable[[str], None]
    first_wait_s: float = FIRST_WAIT_S
    _has_waited: bool = False
    _ours: set[str] = field(default_factory=set)

    async def on_prompt(self, prompt: str | None) -> None:
        """Nothing is to be said here."""

    async def before_request(self) -> None:
        """Bring the tools up to date. The first time, wait a moment for servers that are starting."""
        if not self._has_waited:
            self._has_waited = True
            await anyio.to_thread.run_sync(self.hub.wait, self.first_wait_s, abandon_on_cancel=True)
        for sentence in self.hub.notices():
            self.notice(sentence)
        self._take_in()

    def _take_in(self) -> None:
        found = self.hub.tools()
        names = {remote.spec.name for _, remote in found}
        for gone in self._ours - names:
            del self.tools[gone]
        self._ours &= names
        for server, remote in found:
            name = remote.spec.name
            if name in self._ours or name not in self.tools:
                self._ours.add(name)
                self.tools[name] = McpTool(self.hub, server, remote)
