"""`rewake trace`: where a session's time went, step by step; and sending it to an OTLP endpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rewake.cli.terminal import clean, let_readers_leave, one_line, say
from rewake.compose.place import find_session, place
from rewake.model.content import JsonObject
from rewake.record.trace_reader import TraceSummary, summarise_trace

_COLUMNS: Final = {
    "model": "model_ms",
    "tools": "tools_ms",
    "waiting": "permission_ms",
    "commits": "commit_ms",
}
_AGENT_CHARS: Final = 13


def show_trace(session: str, cwd: Path | None, *, as_json: bool) -> int:
    """Print the sums; returns the exit status. Raises SessionNotFoundError, StorageError."""
    let_readers_leave()
    at = place(cwd or ".")
    found = summarise_trace(find_session(at, session).trace)
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json(found)
        return 0
    for line in _lines(found):
        say(line)
    return 0


def send_trace(
    session: str, cwd: Path | None, *, endpoint: str | None, content: bool, as_json: bool
) -> int:
    """Send the session's spans and metrics; returns the exit status."""
    from rewake.compose.telemetry import send_recorded

    count = send_recorded(session, project=cwd or ".", endpoint=endpoint, content=content)
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json({"events": count})
    else:
        say(f"Sent what {count:,} events tell.")
    return 0


def _lines(found: TraceSummary) -> list[str]:
    heads = "".join(f"{name:>11}" for name in _COLUMNS)
    lines = [f"{'step':>6}{heads}{'retries':>9}"]
    lines += [_row(str(step.get("step", "")), step) for step in found.steps]
    lines += [_row("run", run) for run in found.runs]
    for run in found.runs:
        lines.append(
            f"{run.get('time')}: {_count(run, 'requests')} requests, {_count(run, 'calls')} calls,"
            f" {_count(run, 'input_tokens')} tokens in ({_count(run, 'cache_read_tokens')} cached),"
            f" {_count(run, 'output_tokens')} out"
        )
    for compaction in found.compactions:
        lines.append(
            f"{compaction.get('time')}: compacted ({compaction.get('trigger')}),"
            f" {_count(compaction, 'tokens_before')} to {_count(compaction, 'tokens_after')} tokens"
        )
    if not found.runs:
        lines.append("No run has ended in good order, so there are no sums yet.")
    if found.unreadable:
        lines.append(f"{found.unreadable} lines can't be read.")
    lines += [f"in {clean(file)}" for file in found.files]
    return [clean(line) for line in lines]


def _row(name: str, sums: JsonObject) -> str:
    times = "".join(f"{_time(sums.get(key)):>11}" for key in _COLUMNS.values())
    agent = sums.get("agent_id")
    whose = f"  {one_line(str(agent))[:_AGENT_CHARS]}" if agent else ""
    return f"{name:>6}{times}{_count(sums, 'retries'):>9}{whose}"


def _time(value: object) -> str:
    if not isinstance(value, int | float):
        return "-"
    return f"{value / 1000:.2f} s" if value >= 1000 else f"{value:.1f} ms"  # noqa: PLR2004  # a second


def _count(data: JsonObject, name: str) -> str:
    value = data.get(name)
    return f"{value:,}" if isinstance(value, int) else "0"
