"""The live view's server: this machine only, reading only, for whoever has the token.

The rules kept here:

- It listens on the loopback address. A request must name that host itself (a name that somebody lets
  point here is refused), must not come from another site, and must be a GET or HEAD.
- The page is the same for everybody and says nothing; every datum needs the token, in a header that no
  other site can send. The token stands in the fragment of the printed address, which no request carries.
- Time and connections are limited, so that nobody who hangs on keeps others out for long.
"""

from __future__ import annotations

import hmac
import socket
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, NamedTuple, Protocol
from urllib.parse import parse_qs, urlsplit

from rewake.report.assets import assets
from rewake.report.page import shell

ADDRESS: Final = "127.0.0.1"
TOKEN_HEADER: Final = "X-Rewake-Token"  # noqa: S105  # the header's name
_TIMEOUT_S: Final = 15  # of a silent connection; a browser opens another one when it needs it
_CONNECTIONS_MAX: Final = 48  # a browser opens six at a time
_API: Final = "/api/"
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


class Answer(NamedTuple):
    """What is sent."""

    status: HTTPStatus
    content_type: str
    body: bytes


class Data(Protocol):
    """Answers what the page asks for. Called from many threads. Must not raise for what is asked."""

    def answer(self, path: tuple[str, ...], query: dict[str, str]) -> Answer:
        """The answer to a path below `/api/`, split at its slashes."""


def text(status: HTTPStatus, message: str) -> Answer:
    """A sentence."""
    return Answer(status, "text/plain; charset=utf-8", message.encode("utf-8", "replace"))


class Server:
    """Serves from `start` to `stop`. `port` 0 takes a free one. Raises OSError where it is taken."""

    def __init__(self, data: Data, token: str, port: int = 0) -> None:
        self._http = _Http((ADDRESS, port), data, token)
        self._thread = threading.Thread(target=self._serve, name="rewake-view", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._http.server_address[1])

    @property
    def address(self) -> str:
        """Of the page, with the token."""
        return f"http://{ADDRESS}:{self.port}/#token={self._http.token}"

    def start(self) -> None:
        """Answer from now on, in threads of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Accept nothing more, and end."""
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def _serve(self) -> None:
        self._http.serve_forever(poll_interval=0.1)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a silent connection must not hold the end up
    request_queue_size = 32

    def __init__(self, address: tuple[str, int], data: Data, token: str) -> None:
        self.data = data
        self.token = token
        self._free = threading.BoundedSemaphore(_CONNECTIONS_MAX)
        super().__init__(address, _Handler)
        port = self.server_address[1]
        self.hosts = frozenset({f"{ADDRESS}:{port}", f"localhost:{port}"})
        self.origins = frozenset(f"http://{host}" for host in self.hosts)

    def process_request(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started: as if there were no room
            self._free.release()
            self.shutdown_request(request)

    def process_request_thread(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """A connection that breaks off is the other side's business; anything else is a defect."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    protocol_version = "HTTP/1.1"
    timeout = _TIMEOUT_S
    server_version = "rewake"
    sys_version = ""

    def do_GET(self) -> None:  # the library's name
        """Answer."""
        self._send(self._answer())

    def do_HEAD(self) -> None:  # the library's name
        """The same without the body."""
        self.do_GET()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002  # the library's
        """What the library refuses: another method, or what is no request."""
        self.close_connection = True
        if code == HTTPStatus.NOT_IMPLEMENTED:
            refusal = "Only GET and HEAD: this view only reads."
            self._send(text(HTTPStatus.METHOD_NOT_ALLOWED, refusal))
        else:
            self._send(text(HTTPStatus(code), HTTPStatus(code).phrase))

    def _answer(self) -> Answer:
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # what follows is no request of its own
        if self.headers.get("Host") not in self.server.hosts or self._is_from_elsewhere():
            return text(HTTPStatus.FORBIDDEN, "wrong host or origin")
        try:
            parts = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        except ValueError:
            return text(HTTPStatus.BAD_REQUEST, "no such address")
        if parts.path == "/":
            return Answer(HTTPStatus.OK, "text/html; charset=utf-8", shell())
        if not parts.path.startswith(_API):
            return text(HTTPStatus.NOT_FOUND, "nothing is here")
        given = self.headers.get(TOKEN_HEADER, "")
        if not hmac.compare_digest(given.encode(), self.server.token.encode()):
            return text(HTTPStatus.FORBIDDEN, "wrong token")
        return self.server.data.answer(tuple(parts.path[len(_API) :].split("/")), query)

    def _is_from_elsewhere(self) -> bool:
        origin = self.headers.get("Origin")
        if origin is not None and origin not in self.server.origins:
            return True
        return self.headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}

    def _send(self, answer: Answer) -> None:
        is_page = answer.content_type.startswith("text/html")
        policy = assets().policy("'self'") if is_page else "default-src 'none'"
        self.send_response(answer.status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", f"{policy}; frame-ancestors 'none'")
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the library's name
        """Nothing is written down: addresses hold what somebody looked for."""
