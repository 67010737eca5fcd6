"""A collector for OTLP over HTTP on the loopback interface; keeps what it is sent."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Collected:
    """What arrived, decoded."""

    endpoint: str = ""
    spans: list[Any] = field(default_factory=list)
    metrics: list[Any] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)

    def span(self, name: str) -> Any:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def names(self) -> list[str]:
        return sorted(span.name for span in self.spans)


def attributes(thing: Any) -> dict[str, Any]:
    """Plain values by name."""
    return {item.key: _plain(item.value) for item in thing.attributes}


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(item) for item in value.array_value.values]
    return getattr(value, kind)


@contextmanager
def collector() -> Iterator[Collected]:
    """A collector at work."""
    collected = Collected()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces":
                spans = ExportTraceServiceRequest.FromString(body)
                for resource in spans.resource_spans:
                    collected.resources.append(attributes(resource.resource))
                    for scope in resource.scope_spans:
                        collected.spans.extend(scope.spans)
            elif self.path == "/v1/metrics":
                metrics = ExportMetricsServiceRequest.FromString(body)
                for resource in metrics.resource_metrics:
                    for scope in resource.scope_metrics:
                        collected.metrics.extend(scope.metrics)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    collected.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield collected
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
