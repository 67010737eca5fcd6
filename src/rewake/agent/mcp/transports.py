"""The ways to a server, each bounded in what it takes from it.

The rules kept here: a message is bounded in size, and messages in their number a second, so that a
server that floods is read slowly and holds nothing else up; what is no message is logged and dropped;
and a server's process is stopped with its group, in bounded time, however its connection ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from rewake.agent.mcp import supervisor
from rewake.agent.mcp.config import ServerConfig
from rewake.agent.mcp.log import BoundedLog

if TYPE_CHECKING:
    import httpx2
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCMessage

MESSAGE_BYTES_MAX: Final = 16 << 20
MESSAGES_PER_SECOND_MAX: Final = 1_000
_CHUNK_BYTES: Final = 64 << 10
_CONNECT_S_MAX: Final = 30.0
# Between two events of a stream; a call has its own limit.
_SILENCE_S_MAX: Final = 3600.0
# A server that hears that its input has ended goes by itself; then its group is ended.
_GRACE_S: Final = 0.5
_STOP_S_MAX: Final = 3.0
_LOOK_S: Final = 0.01
_LOGGED_BYTES_MAX: Final = 200

Transport = Callable[[], "AbstractAsyncContextManager[TransportStreams]"]


class ServerEndedError(Exception):
    """The connection is at its end; the text says why."""


def stdio(
    config: ServerConfig,
    *,
    cwd: Path,
    environment: Mapping[str, str],
    log: BoundedLog,
    on_end: Callable[[str], None],
) -> Transport:
    """A server that is a process; `on_end` is told why its output ended."""

    @asynccontextmanager
    async def connected() -> AsyncIterator[TransportStreams]:
        process, control = _started(config, cwd, {**environment, **dict(config.env)})
        pipes = [pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe]
        try:
            for pipe in pipes:
                os.set_blocking(pipe.fileno(), False)
            async with _streams(process, log, on_end) as streams:
                yield streams
        finally:
            with anyio.CancelScope(shield=True):
                await _stop(process, control)
            for pipe in pipes:
                with contextlib.suppress(OSError):
                    pipe.close()

    return connected


def _started(
    config: ServerConfig, cwd: Path, environment: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], int]:
    """The supervisor of the server, and the pipe whose end ends both."""
    held, control = os.pipe()
    try:
        process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                supervisor.__file__,
                str(held),
                str(config.command),
                *config.args,
            ],
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(held,),
            start_new_session=True,  # a Ctrl-C in the terminal is not for it
            bufsize=0,
        )
    except (OSError, ValueError) as error:
        os.close(control)
        raise ServerEndedError(f"it could not be started: {error}") from error
    finally:
        os.close(held)
    return process, control


@asynccontextmanager
async def _streams(
    process: subprocess.Popen[bytes], log: BoundedLog, on_end: Callable[[str], None]
) -> AsyncIterator[TransportStreams]:
    from mcp.shared.message import SessionMessage

    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    async with incoming, read, write, outgoing, anyio.create_task_group() as tasks:
        tasks.start_soon(_receive, process, incoming, log, on_end)
        tasks.start_soon(_send, process, outgoing)
        tasks.start_soon(_log, process, log)
        yield read, write
        tasks.cancel_scope.cancel()


async def _receive(
    process: subprocess.Popen[bytes],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    log: BoundedLog,
    on_end: Callable[[str], None],
) -> None:
    """Hand the server's messages on until its output ends."""
    from mcp.shared.message import SessionMessage

    reason = "it closed its output"
    pace = _Pace()
    async with incoming:
        try:
            async for line in _lines(process):
                await pace.keep()
                message = _message(line)
                if message is None:
                    log.write(b"[rewake: no message] " + line[:_LOGGED_BYTES_MAX] + b"\n")
                else:
                    await incoming.send(SessionMessage(message))
        except ServerEndedError as error:
            reason = str(error)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # nobody listens any more
        await _ended_within(process, _GRACE_S)
        code = process.poll()
        on_end(f"it ended with exit status {code}" if code is not None else reason)


def _message(line: bytes) -> JSONRPCMessage | None:
    """The message in a line; None if it is none. Lone surrogates in it become question marks."""
    from mcp_types import jsonrpc_message_adapter

    with contextlib.suppress(ValueError):
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    try:
        text = json.dumps(json.loads(line), ensure_ascii=False).encode("utf-8", "replace")
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    except (ValueError, RecursionError):
        return None


async def _lines(process: subprocess.Popen[bytes]) -> AsyncIterator[bytes]:
    """The lines of the server's output. Raises ServerEndedError for one that is too long."""
    buffer = bytearray()
    async for chunk in _chunks(process.stdout.fileno() if process.stdout else -1):
        looked = len(buffer)
        buffer += chunk
        if b"\n" in chunk:
            *lines, rest = bytes(buffer).split(b"\n")
            buffer = bytearray(rest)
            for line in lines:
                if line.strip():
                    yield line
        elif looked > MESSAGE_BYTES_MAX:
            raise ServerEndedError(f"it sent a message of more than {MESSAGE_BYTES_MAX:,} bytes")


async def _chunks(descriptor: int) -> AsyncIterator[bytes]:
    while True:
        await anyio.wait_readable(descriptor)
        try:
            chunk = os.read(descriptor, _CHUNK_BYTES)
        except BlockingIOError:
            continue
        except OSError:
            return
        if not chunk:
            return
        yield chunk


async def _log(process: subprocess.Popen[bytes], log: BoundedLog) -> None:
    async for chunk in _chunks(process.stderr.fileno() if process.stderr else -1):
        log.write(chunk)


async def _send(
    process: subprocess.Popen[bytes], outgoing: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    """Write what is to be said; a server that is gone is noticed by whoever reads."""
    async for message in outgoing:
        text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        rest = memoryview(text.encode() + b"\n")
        while rest and process.stdin is not None:
            await anyio.wait_writable(process.stdin.fileno())
            try:
                rest = rest[os.write(process.stdin.fileno(), rest) :]
            except BlockingIOError:
                continue
            except OSError:
                break


async def _stop(process: subprocess.Popen[bytes], control: int) -> None:
    """Close its input, then have the supervisor end the group, then kill it."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    await _ended_within(process, _GRACE_S)
    os.close(control)
    if not await _ended_within(process, _STOP_S_MAX):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await _ended_within(process, _STOP_S_MAX)


async def _ended_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    with anyio.move_on_after(seconds):
        while process.poll() is None:  # noqa: ASYNC110  # a process has no event
            await anyio.sleep(_LOOK_S)
    return process.poll() is not None


class _Pace:
    """Lets so many through a second and no more."""

    def __init__(self) -> None:
        self._since = anyio.current_time()
        self._count = 0

    async def keep(self) -> None:
        """Wait where there were too many."""
        self._count += 1
        if self._count < MESSAGES_PER_SECOND_MAX:
            return
        await anyio.sleep(max(self._since + 1 - anyio.current_time(), 0))
        self._since, self._count = anyio.current_time(), 0


# --- HTTP ------------------------------------------------------------------------------------


def http(config: ServerConfig) -> Transport:
    """A server that is reached by HTTP."""

    @asynccontextmanager
    async def connected() -> AsyncIterator[TransportStreams]:
        if config.is_sse:
            from mcp.client.sse import sse_client

            async with (
                sse_client(
                    str(config.url),
                    headers=dict(config.headers),
                    timeout=_CONNECT_S_MAX,
                    sse_read_timeout=_SILENCE_S_MAX,
                    httpx_client_factory=_client,
                ) as streams,
                _paced(streams) as paced,
            ):
                yield paced
            return
        from mcp.client.streamable_http import streamable_http_client

        async with (
            _client(dict(config.headers)) as client,
            streamable_http_client(
                str(config.url), http_client=client, max_sse_event_size=MESSAGE_BYTES_MAX
            ) as streams,
            _paced(streams) as paced,
        ):
            yield paced

    return connected


@asynccontextmanager
async def _paced(streams: TransportStreams) -> AsyncIterator[TransportStreams]:
    """The same streams, messages no faster than they may come."""
    from mcp.shared.message import SessionMessage

    read, write = streams
    incoming, paced = anyio.create_memory_object_stream[SessionMessage | Exception](0)

    async def relay() -> None:
        pace = _Pace()
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with incoming:
                async for message in read:
                    await pace.keep()
                    await incoming.send(message)

    async with incoming, paced, anyio.create_task_group() as tasks:
        tasks.start_soon(relay)
        yield paced, write
        tasks.cancel_scope.cancel()


def _client(
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        """The body of an answer that is one message."""

        def __init__(self, stream: httpx2.AsyncByteStream) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            taken = 0
            async for chunk in self._stream:
                taken += len(chunk)
                if taken > MESSAGE_BYTES_MAX:
                    raise httpx2.ReadError(f"an answer of more than {MESSAGE_BYTES_MAX:,} bytes")
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def bounded(response: httpx2.Response) -> None:
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        if not is_stream and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = Bounded(response.stream)

    return httpx2.AsyncClient(
        headers=headers,
        timeout=timeout or httpx2.Timeout(_CONNECT_S_MAX, read=_SILENCE_S_MAX),
        auth=auth,
        event_hooks={"response": [bounded]},
    )
