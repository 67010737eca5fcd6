"""One server's life: started, listed, called, lost, started again.

The rules kept here:

- Everything here runs in the hub's thread and loop; `state`, `reason` and `tools` may be read from any.
- A start that takes too long has failed. A server that failed is started again by the next call, not
  before a pause that doubles each time.
- A call whose answer never came (the connection broke, the time ran out) raises `LostCallError`: what
  it did is not known. An answer that can't be used is an answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import anyio

from rewake.agent.mcp.config import ServerConfig
from rewake.agent.mcp.listing import RemoteTool, listed
from rewake.agent.mcp.transports import ServerEndedError, Transport
from rewake.model.content import JsonObject

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, ListRootsResult

State = Literal["starting", "ready", "failed", "closed"]

START_S_MAX: Final = 30.0
CALL_S_MAX: Final = 120.0
_PAUSES_S: Final = (1.0, 2.0, 5.0, 15.0, 60.0)
# However often a server says that its tools have changed, they are asked for this seldom.
_RELIST_PAUSE_S: Final = 2.0
_REASON_CHARS_MAX: Final = 300


class ServerDownError(Exception):
    """The server can't be called now; nothing was sent. The text tells the model."""


class LostCallError(Exception):
    """The call was sent and its answer never came."""


class AnswerError(Exception):
    """The server answered with an error, or with what is no answer; the text tells the model."""


@dataclass(slots=True)
class Limits:
    """How long things may take, in seconds."""

    start_s: float = START_S_MAX
    call_s: float = CALL_S_MAX
    pauses_s: tuple[float, ...] = _PAUSES_S
    relist_pause_s: float = _RELIST_PAUSE_S


@dataclass(slots=True)
class Connection:
    """The connection to one server. `on_change` is called after each change of state or tools."""

    config: ServerConfig
    root_uri: str
    limits: Limits
    on_change: Callable[[Connection], None]
    state: State = "starting"
    reason: str = ""
    tools: tuple[RemoteTool, ...] = ()
    problems: tuple[str, ...] = ()
    _client: Client | None = None
    _scope: anyio.CancelScope | None = None
    _signal: anyio.Event = field(default_factory=anyio.Event)
    _settled: anyio.Event = field(default_factory=anyio.Event)
    _wanted: anyio.Event = field(default_factory=anyio.Event)
    _lost: str | None = None
    _failures: int = 0
    _not_before: float = 0.0
    _is_closing: bool = False

    @property
    def has_just_failed(self) -> bool:
        """Whether this is the first failure since it last worked."""
        return self.state == "failed" and self._failures == 1

    # --- its life

    async def live(self, transport: Transport) -> None:
        """Keep the server as long as it lasts, again each time that it is wanted, until `close`."""
        while not self._is_closing:
            await self._once(transport)
            if not self._is_closing:
                await self._wanted.wait()
        self._become("closed")

    def close(self) -> None:
        """End the connection and don't begin another."""
        self._is_closing = True
        self._wanted.set()
        if self._scope is not None:
            self._scope.cancel()

    def lose(self, reason: str) -> None:
        """Note that the connection is at its end."""
        if self._lost is None:
            self._lost = reason
            self._signal.set()
            self._unsettle()
            if self._scope is not None and self.state == "starting":
                self._scope.cancel()

    async def _once(self, transport: Transport) -> None:
        self._wanted, self._signal, self._lost = anyio.Event(), anyio.Event(), None
        self._unsettle()
        self._become("starting")
        deadline = anyio.current_time() + self.limits.start_s
        reason = f"it gave no answer within {self.limits.start_s:g} s"
        with anyio.CancelScope(deadline=deadline) as self._scope:
            try:
                await self._served(transport)
                reason = "the connection ended"
            except Exception as error:  # noqa: BLE001  # a server and its client are foreign code
                reason = _words(error)
        self._client, self._scope = None, None
        self._failed(self._end() or reason)

    def _end(self) -> str | None:
        return self._lost

    async def _served(self, transport: Transport) -> None:
        """Connect, list the tools, and stay until the connection is lost."""
        from mcp import Client
        from mcp_types import Implementation

        from rewake.version import VERSION

        async with Client(
            transport(),
            read_timeout_seconds=self.limits.start_s,
            list_roots_callback=self._roots,
            message_handler=self._heard,
            client_info=Implementation(name="rewake", version=VERSION),
            cache=None,
        ) as client:
            await self._list(client)
            self._client = client
            if self._scope is not None:
                self._scope.deadline = math.inf
            self._failures = 0
            self._become("ready")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._listen, client)
                await self._follow(client)
                tasks.cancel_scope.cancel()

    async def _follow(self, client: Client) -> None:
        """List the tools anew when they have changed, until the connection is lost."""
        while self._lost is None:
            await self._signal.wait()
            if self._lost is None:
                self._signal = anyio.Event()
                await self._list(client)
                self.on_change(self)
                await anyio.sleep(self.limits.relist_pause_s)

    async def _list(self, client: Client) -> None:
        self.tools, self.problems = await listed(client, self.config, self.tools)

    async def _listen(self, client: Client) -> None:
        """Newer servers only say that their tools have changed to whoever asked to be told."""
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
        from mcp.shared.exceptions import MCPError

        tools = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        try:
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._signal.set()
        except (ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            return  # its tools stay as they were listed

    async def _heard(self, message: object) -> None:
        from mcp_types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._signal.set()

    async def _roots(self, context: object) -> ListRootsResult:  # noqa: ARG002  # the port's
        from mcp_types import ListRootsResult, Root

        return ListRootsResult(roots=[Root.model_validate({"uri": self.root_uri})])

    def _failed(self, reason: str) -> None:
        pauses = self.limits.pauses_s
        pause = pauses[min(self._failures, len(pauses) - 1)]
        self._failures += 1
        self._not_before = anyio.current_time() + pause
        self.reason = (
            reason if len(reason) <= _REASON_CHARS_MAX else f"{reason[:_REASON_CHARS_MAX]}…"
        )
        self._become("failed")

    def _unsettle(self) -> None:
        """Have whoever asks from now on wait for how the next start ends."""
        if self._settled.is_set():
            self._settled = anyio.Event()

    def _become(self, state: State) -> None:
        self.state = state
        if state != "starting":
            self._settled.set()
        self.on_change(self)

    # --- calls

    async def call(self, tool: str, arguments: JsonObject, meta: JsonObject) -> CallToolResult:
        """Call a tool, starting the server again if need be.

        Raises ServerDownError, LostCallError, AnswerError.
        """
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT
        from pydantic import ValidationError

        client = await self._ready_client()
        limit_s = self.config.timeout_s or self.limits.call_s
        try:
            with anyio.fail_after(limit_s):
                return await client.call_tool(
                    tool,
                    arguments,
                    read_timeout_seconds=limit_s,
                    meta=meta,  # type: ignore[arg-type]  # an open mapping of its own type
                )
        except TimeoutError:
            raise LostCallError(f"no answer came within {limit_s:g} s") from None
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                raise LostCallError(f"no answer came within {limit_s:g} s") from error
            if error.code == CONNECTION_CLOSED:
                self.lose("the connection ended")
                raise LostCallError(f"the connection to {self.config.name} broke") from error
            raise AnswerError(f"The server answered with an error: {error.message}") from error
        except (RuntimeError, ValidationError) as error:
            raise AnswerError(
                f"The server's answer can't be used, though the call may have been done: {_words(error)}"
            ) from error
        except Exception as error:
            self.lose(_words(error))
            raise LostCallError(
                f"the connection to {self.config.name} broke: {_words(error)}"
            ) from error

    async def _ready_client(self) -> Client:
        name = self.config.name
        if self.state == "ready" and self._lost is not None:
            await self._settled.wait()  # it is about to be known as failed
        if self.state == "failed":
            pause = self._not_before - anyio.current_time()
            if pause > 0:
                raise ServerDownError(
                    f"The MCP server {name} is not there ({self.reason}). Nothing was sent to it. It can "
                    f"be tried again in {math.ceil(pause)} s."
                )
            self._wanted.set()
            self._unsettle()
            self.state = "starting"
        if self.state == "starting":
            await self._settled.wait()
        if self._client is None or self.state != "ready":
            raise ServerDownError(
                f"The MCP server {name} could not be started: {self.reason or 'it is closed'}. Nothing was "
                "sent to it."
            )
        return self._client


def _words(error: BaseException) -> str:
    """What an error says, of a group the first that says anything."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(str(error).split())
    return (
        text if isinstance(error, ServerEndedError) and text else f"{type(error).__name__}: {text}"
    )
