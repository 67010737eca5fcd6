"""Spans and metrics on their way to an OTLP endpoint: live, or of a session recorded before.

The rule kept here: an endpoint that is slow or away costs the session nothing; what could not be sent
by the end of a bounded wait is given up.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rewake.compose.place import Place, find_session, place
from rewake.errors import TelemetryError, UsageError
from rewake.log.layout import SessionPaths
from rewake.log.scan import Transcript
from rewake.model.events import Event
from rewake.record.telemetry import TelemetrySink
from rewake.resume.load import inflate
from rewake.settings.schema import Telemetry
from rewake.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider

# At the end of a session somebody waits for the prompt to come back; retries are within it.
_SENT_S_MAX: Final = 2.0
_REPLAYED_S_MAX: Final = 30.0
_REMEDY: Final = 'Install it: pip install "rewake[otel]", or set telemetry.enabled to false.'


def telemetry_sink(
    at: Place, given: Telemetry, *, sent_s_max: float = _SENT_S_MAX
) -> TelemetrySink:
    """A sink that sends to `given.endpoint` (OTLP over HTTP), else where the environment says.

    The environment is OpenTelemetry's own: OTEL_EXPORTER_OTLP_ENDPOINT, …_HEADERS, OTEL_SERVICE_NAME
    and the like. Raises UsageError without the extra `otel`.
    """
    unsent: list[str] = []
    tracers, meters = _providers(given.endpoint, at.environ, sent_s_max, unsent.append)

    def close() -> None:
        sending = {
            "spans": tracers.shutdown,  # sends what waits
            "metrics": lambda: meters.shutdown(sent_s_max * 1_000),
        }
        unsent.extend(_in_time(sending, sent_s_max))
        if unsent:
            raise TelemetryError(
                f"Not all could be sent to {given.endpoint or 'the OTLP endpoint'}:"
                f" {', '.join(dict.fromkeys(unsent))}.",
                remedy="Check the endpoint; `rewake trace ID --send` sends a recorded session again.",
            )

    return TelemetrySink(
        tracers.get_tracer("rewake", VERSION),
        meters.get_meter("rewake", VERSION),
        content=given.content is True,
        redact=at.redact() if given.content is True else lambda value: value,
        on_close=close,
    )


def _in_time(acts: Mapping[str, Callable[[], object]], wait_s_max: float) -> list[str]:
    """Do all of them at once, and wait so long for all together; returns which did not succeed.

    The exporters' own limits are for each attempt, and an endpoint that answers by drops keeps to none.
    What still hangs then is left to threads that end with the process.
    """
    done: set[str] = set()

    def do(name: str, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception:  # noqa: BLE001  # whatever an exporter fails with, it is not sent
            return
        done.add(name)

    threads = [
        threading.Thread(target=do, args=item, name="rewake-telemetry", daemon=True)
        for item in acts.items()
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + wait_s_max
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [name for name in acts if name not in done]


def _providers(
    endpoint: str | None,
    environ: Mapping[str, str],
    sent_s_max: float,
    on_unsent: Callable[[str], None],
) -> tuple[TracerProvider, MeterProvider]:
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import (
            MetricExportResult,
            MetricsData,
            PeriodicExportingMetricReader,
        )
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
    except ImportError as error:
        raise UsageError("OpenTelemetry is not installed.", remedy=_REMEDY) from error
    # Its warnings would go across the terminal; a program that logs gets them all the same.
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())

    class Spans(OTLPSpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            result = super().export(spans)
            if result is not SpanExportResult.SUCCESS:
                on_unsent("spans")
            return result

    class Metrics(OTLPMetricExporter):
        def export(
            self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **rest: object
        ) -> MetricExportResult:
            result = super().export(metrics_data, timeout_millis, **rest)
            if result is not MetricExportResult.SUCCESS:
                on_unsent("metrics")
            return result

    base = endpoint.rstrip("/") if endpoint else None
    spans = Spans(f"{base}/v1/traces" if base else None, timeout=sent_s_max)
    metrics = Metrics(f"{base}/v1/metrics" if base else None, timeout=sent_s_max)
    about = {"service.version": VERSION}
    if not _is_named(environ):
        about["service.name"] = "rewake"
    resource = Resource.create(about)  # with what OTEL_RESOURCE_ATTRIBUTES says
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(spans))
    reader = PeriodicExportingMetricReader(metrics)
    return tracers, MeterProvider([reader], resource, shutdown_on_exit=False)


def _is_named(environ: Mapping[str, str]) -> bool:
    return bool(
        environ.get("OTEL_SERVICE_NAME")
        or "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    )


def send_recorded(
    session: str,
    *,
    project: str | Path = ".",
    home: str | Path | None = None,
    endpoint: str | None = None,
    content: bool = False,
    wait_s_max: float = _REPLAYED_S_MAX,
) -> int:
    """Send the spans and metrics of a recorded session, its sub-agents' too; returns how many events.

    Each sending is tried again for `wait_s_max` seconds in all.
    Sending twice sends them twice. Raises SessionNotFoundError, UsageError without the extra `otel`,
    TelemetryError when not all could be sent.
    """
    at = place(project, home)
    paths = find_session(at, session)
    sink = telemetry_sink(at, Telemetry(endpoint=endpoint, content=content), sent_s_max=wait_s_max)
    count = 0
    blobs = at.blobs(paths)
    try:
        for event in _recorded(paths):
            sink.record(inflate(event, blobs)[0], event.line)
            count += 1
    finally:
        sink.close()
    return count


def _recorded(paths: SessionPaths) -> Iterator[Event]:
    """The events of the session and of its sub-agents, in the order of their ids."""
    files = [paths.transcript, *sorted(paths.agents.glob("*.jsonl"))]
    return heapq.merge(*(_events(file) for file in files), key=lambda event: event.event_id)


def _events(transcript: Path) -> Iterator[Event]:
    with Transcript(transcript) as reader:
        yield from (item for item in reader.forward() if isinstance(item, Event))
