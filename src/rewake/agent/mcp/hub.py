"""All servers of a session, in a thread and an event loop of their own.

The rules kept here:

- Nothing waits for a server that nobody calls: they start side by side, and whoever asks for their tools
  waits for a bounded time. What a late one has comes with a later request.
- A server that fails is told of once for each time that it does.
- `close` ends every server and the thread, in bounded time. When the process dies without it, each
  server's supervisor does that.
"""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal

from rewake.agent.mcp.config import ServerConfig
from rewake.agent.mcp.connection import Connection, Limits, State
from rewake.agent.mcp.listing import RemoteTool
from rewake.agent.mcp.log import BoundedLog
from rewake.agent.mcp.transports import Transport, http, stdio
from rewake.log.disk import Disk
from rewake.model.content import JsonObject

if TYPE_CHECKING:
    from mcp_types import CallToolResult

_CLOSE_S_MAX: Final = 10.0
# What the client package has to say is for who debugs it, not for a terminal.
_LOGGERS: Final = ("mcp", "client", "httpx2")


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server as it is now. `log` is where its stderr goes; None for one reached by HTTP."""

    name: str
    shown: str
    state: State
    reason: str
    tools: tuple[RemoteTool, ...]
    log: Path | None


@dataclass(slots=True)
class McpHub:
    """The servers of one session. Made with `start_hub`; `close` it, from any thread.

    `on_change` is called in the hub's thread after any change.
    """

    configs: Sequence[ServerConfig]
    logs: Mapping[str, BoundedLog]
    _portal: BlockingPortal | None = None
    _thread: threading.Thread | None = None
    _connections: dict[str, Connection] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _notices: list[str] = field(default_factory=list)
    _said: set[str] = field(default_factory=set)

    def tools(self) -> list[tuple[str, RemoteTool]]:
        """The tools known now, each with the name of its server, servers in the order given."""
        found = []
        for config in self.configs:
            connection = self._connections.get(config.name)
            if connection is not None:
                found += [(config.name, tool) for tool in connection.tools]
        return found

    def status(self) -> list[ServerStatus]:
        """Every server as it is now."""
        return [self._status(config) for config in self.configs]

    def _status(self, config: ServerConfig) -> ServerStatus:
        one = self._connections.get(config.name)
        log = self.logs.get(config.name)
        state: State = one.state if one is not None else "closed"
        reason, tools = (one.reason, one.tools) if one is not None else ("", ())
        return ServerStatus(
            config.name,
            config.shown,
            state,
            reason if state == "failed" else "",
            tools,
            log.path if log is not None else None,
        )

    def wait(self, seconds: float) -> bool:
        """Wait until every server has started or failed, but not longer; whether they all have."""

        def are_settled() -> bool:
            return all(one.state != "starting" for one in self._connections.values())

        with self._changed:
            return self._changed.wait_for(are_settled, seconds)

    def notices(self) -> list[str]:
        """What happened since the last call that the user should know."""
        with self._changed:
            told, self._notices[:] = list(self._notices), []
        return told

    async def call(
        self, server: str, tool: str, arguments: JsonObject, meta: JsonObject
    ) -> CallToolResult:
        """Call a tool; cancelled, the server is told so. Raises what `Connection.call` does."""
        if self._portal is None:
            raise RuntimeError("the MCP servers of this session are closed")
        connection = self._connections[server]
        future = self._portal.start_task_soon(connection.call, tool, arguments, meta)
        try:
            await _done(future)
        finally:
            if not future.done():
                future.cancel()
        return future.result()

    # --- its life

    def start(
        self,
        make: Callable[[ServerConfig, Callable[[str], None]], Transport],
        root: str,
        limits: Limits,
    ) -> None:
        """Begin to start all servers; returns at once."""
        for name in _LOGGERS:
            logging.getLogger(name).addHandler(logging.NullHandler())
        ready = threading.Event()
        # A daemon: who leaves without closing is not kept, and the supervisors end the servers then.
        self._thread = threading.Thread(
            target=anyio.run, args=(self._serve, ready), name="rewake-mcp", daemon=True
        )
        self._thread.start()
        ready.wait()
        portal = self._portal
        if portal is None:
            raise RuntimeError("the thread of the MCP servers did not start")
        for config in self.configs:
            connection = portal.call(partial(Connection, config, root, limits, self._on_change))
            self._connections[config.name] = connection
            portal.start_task_soon(connection.live, make(config, connection.lose))

    async def _serve(self, ready: threading.Event) -> None:
        try:
            async with BlockingPortal() as portal:
                self._portal = portal
                ready.set()
                await portal.sleep_until_stopped()
        finally:
            ready.set()

    def close(self) -> None:
        """End all servers. Harmless when called twice."""
        portal, self._portal = self._portal, None
        if portal is None:
            return
        for connection in self._connections.values():
            portal.call(connection.close)
        with self._changed:
            self._changed.wait_for(
                lambda: all(one.state == "closed" for one in self._connections.values()),
                _CLOSE_S_MAX,
            )
        portal.call(partial(portal.stop, cancel_remaining=True))
        if self._thread is not None:
            self._thread.join(_CLOSE_S_MAX)
        for log in self.logs.values():
            log.close()

    def _on_change(self, connection: Connection) -> None:
        with self._changed:
            if connection.has_just_failed and self._portal is not None:
                self._notices.append(self._failure(connection))
            for problem in connection.problems:
                if problem not in self._said:
                    self._said.add(problem)
                    self._notices.append(problem)
            self._changed.notify_all()

    def _failure(self, connection: Connection) -> str:
        log = self.logs.get(connection.config.name)
        where = f" What it printed: {log.path}" if log is not None and log.path.exists() else ""
        return f"The MCP server {connection.config.name} is not there: {connection.reason}.{where}"


async def _done(future: concurrent.futures.Future[CallToolResult]) -> None:
    """Return when the future is done, however it ended."""
    ended = threading.Event()
    future.add_done_callback(lambda _future: ended.set())
    try:
        await anyio.to_thread.run_sync(ended.wait, abandon_on_cancel=True)
    finally:
        ended.set()  # whoever still waits in the thread is let go


def start_hub(
    configs: Sequence[ServerConfig],
    *,
    root: Path,
    cwd: Path,
    environment: Mapping[str, str],
    log_directory: Path,
    disk: Disk,
    limits: Limits | None = None,
) -> McpHub:
    """A hub whose servers are being started."""
    logs = {
        config.name: BoundedLog(log_directory / f"{config.safe_name}.log", disk)
        for config in configs
        if config.command is not None
    }

    def make(config: ServerConfig, on_end: Callable[[str], None]) -> Transport:
        if config.command is None:
            return http(config)
        log = logs[config.name]
        return stdio(config, cwd=cwd, environment=environment, log=log, on_end=on_end)

    hub = McpHub(configs, logs)
    hub.start(make, root.as_uri(), limits or Limits())
    return hub
