"""A strict double of the OpenAI and Anthropic services, for tests that run the real client library.

It listens on 127.0.0.1, speaks `POST /v1/chat/completions`, `GET /v1/models` and
`POST /v1/messages`, streamed or not, keeps every request, and refuses with status 400 what the real
services refuse (see `rewake.testing.provider_rules`):

    with provider_server(parse_turns(b'{"text": "hello"}', "inline")) as server:
        os.environ["ANTHROPIC_BASE_URL"] = server.anthropic_url
        os.environ["OPENAI_BASE_URL"] = server.openai_url
        ...
        assert [request.violations for request in server.requests] == [()]

Answers come from a script (the format of `rewake.script`), where the turn is the number of
assistant messages in the request, or from a callable. `server.inject(Failure(status=529))` makes
the next request fail. From a shell:

    python -m rewake.testing.provider_server --script turns.jsonl --port 0

prints the two URLs as shell assignments and serves until it is interrupted; `--log FILE` appends
each request as one JSON line.

The rule kept here: what isn't refused is what the service would accept, and the double never
repairs a request.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, Literal, TextIO

from rewake.model.content import JsonObject
from rewake.script import Script, ScriptedError, Turn, agent_in, read_turns
from rewake.testing.provider_rules import violations_anthropic, violations_openai
from rewake.testing.provider_wire import (
    Protocol,
    error_body,
    streamed_answer,
    too_long_message,
    whole_answer,
)

_PROTOCOLS: Final[dict[str, Protocol]] = {
    "/v1/chat/completions": "openai",
    "/v1/messages": "anthropic",
}
_RULES: Final = {"openai": violations_openai, "anthropic": violations_anthropic}


@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """One request as it came: its bytes, parsed, and what was refused in it."""

    protocol: Protocol
    raw: bytes
    body: JsonObject
    violations: tuple[str, ...]
    headers: dict[str, str]

    @property
    def turn(self) -> int:
        """How many assistant messages the request holds."""
        messages = self.body.get("messages", [])
        return sum(1 for message in messages if message.get("role") == "assistant")

    @property
    def agent(self) -> str:
        """The type of the sub-agent that asks, empty for the main one."""
        told = [
            message.get("content")
            for message in self.body.get("messages", [])
            if message.get("role") in {"system", "developer"}
        ]
        return agent_in("\n".join(map(_text_of, [self.body.get("system"), *told])))


def _text_of(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


@dataclass(frozen=True, slots=True)
class Failure:
    """How one request fails.

    `status`: an error response with this status and message; `context_length`: the service's own
    way to say that the prompt is too long; `drop`: the connection breaks, after `after_events`
    events of a stream; `stream_error`: an error event in the middle of a stream (Anthropic's
    `overloaded_error`) with the status it stands for.
    """

    kind: Literal["status", "context_length", "drop", "stream_error"] = "status"
    status: int = 500
    message: str = "scripted failure"
    retry_after_s: int | None = None
    after_events: int = 0


Answer = Callable[[ProviderRequest], Turn | Failure]


class ProviderServer:
    """The running double. `requests` grows in order of arrival; read it after the answers came."""

    def __init__(self, answer: Answer, *, port: int = 0, log: TextIO | None = None) -> None:
        self.requests: list[ProviderRequest] = []
        self._answer = answer
        self._failures: deque[Failure] = deque()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._log = log
        self._http = _Server(self, port)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def openai_url(self) -> str:
        """For `OPENAI_BASE_URL`."""
        return f"{self.url}/v1"

    @property
    def anthropic_url(self) -> str:
        """For `ANTHROPIC_BASE_URL`."""
        return self.url

    def inject(self, *failures: Failure) -> None:
        """Make the next requests fail, one failure each, in this order."""
        with self._lock:
            self._failures.extend(failures)

    def start(self) -> None:
        """Serve from a thread."""
        self._thread.start()

    def stop(self) -> None:
        """End delayed answers, close the port and wait for the requests in flight."""
        self._stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def receive(self, request: ProviderRequest) -> tuple[int, Turn | Failure]:
        """Keep the request; its number and what to answer. Called by the connection's thread."""
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
            if self._log is not None:
                entry = {"protocol": request.protocol, "violations": request.violations}
                self._log.write(json.dumps({**entry, "body": request.body}) + "\n")
                self._log.flush()
            if request.violations:
                return number, Failure(status=400, message=" ".join(request.violations))
            if self._failures:
                return number, self._failures.popleft()
            return number, self._answer(request)

    def pause(self, delay_ms: int) -> None:
        """Wait, unless the server stops before."""
        self._stopping.wait(delay_ms / 1000)


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that server_close() waits for them and leaves no open socket
    request_queue_size = 64

    def __init__(self, owner: ProviderServer, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.owner = owner

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is what interruption tests do; anything else is a defect."""
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # as the base declares it


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Requests are kept, not printed."""

    def do_GET(self) -> None:
        """List the one model."""
        if self.path.split("?")[0] == "/v1/models":
            self._json(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})
        else:
            self._json(404, error_body("openai", 404, f"Invalid URL (GET {self.path})"))

    def do_POST(self) -> None:
        """Answer one model request."""
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        protocol = _PROTOCOLS.get(self.path.split("?")[0])
        if protocol is None:
            self._json(404, error_body("openai", 404, f"Invalid URL (POST {self.path})"))
            return
        request = _parse(protocol, raw, {k.lower(): v for k, v in self.headers.items()})
        number, answer = self.server.owner.receive(request)
        if isinstance(answer, Turn):
            self.server.owner.pause(answer.delay_ms)
            self._answer(request, answer, number)
        else:
            self._fail(request, answer, number)

    def _answer(self, request: ProviderRequest, turn: Turn, number: int) -> None:
        model = str(request.body["model"])
        if not request.body.get("stream"):
            self._json(200, whole_answer(request.protocol, turn, number, model))
            return
        self._open_stream()
        for event in _events(request, turn, number):
            self._chunk(event)
        self._chunk(b"")

    def _fail(self, request: ProviderRequest, failure: Failure, number: int) -> None:
        protocol = request.protocol
        match failure.kind:
            case "status":
                headers = {}
                if failure.retry_after_s is not None:
                    headers["retry-after"] = str(failure.retry_after_s)
                body = error_body(protocol, failure.status, failure.message)
                self._json(failure.status, body, headers)
            case "context_length":
                self._json(400, error_body(protocol, 400, too_long_message(protocol)))
            case "drop" | "stream_error":
                self._open_stream()
                half = Turn(text="this answer is cut off in the middle")
                for event, _ in zip(
                    _events(request, half, number), range(failure.after_events), strict=False
                ):
                    self._chunk(event)
                if failure.kind == "stream_error":
                    body = error_body(protocol, failure.status, failure.message)
                    head = "event: error\n" if protocol == "anthropic" else ""
                    self._chunk(f"{head}data: {json.dumps(body)}\n\n".encode())
                    self._chunk(b"")
        self.close_connection = True

    def _open_stream(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.send_header("connection", "close")
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _json(self, status: int, body: JsonObject, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.close_connection = True
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.send_header("connection", "close")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def _events(request: ProviderRequest, turn: Turn, number: int) -> Iterator[bytes]:
    options = request.body.get("stream_options") or {}
    return streamed_answer(
        request.protocol,
        turn,
        number,
        str(request.body["model"]),
        with_usage=bool(options.get("include_usage")),
    )


def _parse(protocol: Protocol, raw: bytes, headers: dict[str, str]) -> ProviderRequest:
    try:
        body = json.loads(raw.decode("utf-8"))
    except ValueError as error:
        problem = f"We could not parse the JSON body of your request: {error}"
        return ProviderRequest(protocol, raw, {}, (problem,), headers)
    violations = tuple(_RULES[protocol](body))
    return ProviderRequest(
        protocol, raw, body if isinstance(body, dict) else {}, violations, headers
    )


def scripted_answer(turns: Iterable[Turn]) -> Answer:
    """Answers by the number of assistant messages in the request, and by whose request it is."""
    known = tuple(turns)
    scripts: dict[str, Script] = {}

    def answer(request: ProviderRequest) -> Turn | Failure:
        agent = request.agent
        taken = scripts.setdefault(agent, Script(known, agent)).take(request.turn)
        if isinstance(taken, ScriptedError):
            return Failure(status=taken.status, message=taken.message)
        return taken

    return answer


@contextmanager
def provider_server(
    turns: Iterable[Turn] | Answer, *, port: int = 0, log: TextIO | None = None
) -> Iterator[ProviderServer]:
    """A running double that is closed, with all its threads, on the way out."""
    answer = turns if callable(turns) else scripted_answer(turns)
    server = ProviderServer(answer, port=port, log=log)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: serve a script until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m rewake.testing.provider_server")
    parser.add_argument("--script", type=Path, required=True, help="turns as JSON Lines")
    parser.add_argument("--port", type=int, default=0, help="0 chooses a free one")
    parser.add_argument("--log", type=Path, help="append each request here as a JSON line")
    options = parser.parse_args(arguments)
    turns = read_turns(options.script)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with (
        Path(options.log or os.devnull).open("a", encoding="utf-8") as log,
        provider_server(turns, port=options.port, log=log) as server,
    ):
        sys.stdout.write(f"OPENAI_BASE_URL={server.openai_url}\n")
        sys.stdout.write(f"ANTHROPIC_BASE_URL={server.anthropic_url}\n")
        sys.stdout.flush()
        stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
