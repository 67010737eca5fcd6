"""What a trace says, read back: steps with their times, and what each run came to.

The rule kept here: a trace is best effort, and so is reading one. A line that can't be read is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from rewake.errors import StorageError
from rewake.log.disk import storage_error
from rewake.model.content import JsonObject
from rewake.record.trace_file import trace_files


class TraceSummary(msgspec.Struct, frozen=True):
    """Steps in the order they ended, and one entry per run that ended in good order; times in ms.

    `responses` are those of the model: what each took, used and failed with. `unreadable` counts lines.
    """

    files: tuple[str, ...]
    steps: tuple[JsonObject, ...]
    runs: tuple[JsonObject, ...]
    responses: tuple[JsonObject, ...]
    compactions: tuple[JsonObject, ...]
    unreadable: int


def read_trace(path: Path) -> Iterator[JsonObject | None]:
    """The lines of a trace, the oldest file first; None for one that can't be read.

    Raises StorageError.
    """
    for file in trace_files(path):
        try:
            with file.open("rb") as opened:
                for line in opened:
                    yield _decoded(line)
        except OSError as error:
            raise storage_error(error, file, "read") from error


def _decoded(line: bytes) -> JsonObject | None:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def summarise_trace(path: Path) -> TraceSummary:
    """The sums of the trace at `path`. Raises StorageError where there is none or it can't be read."""
    files = trace_files(path)
    if not files:
        raise StorageError(
            f"There is no trace {path}.",
            path=str(path),
            remedy="It is written while a session runs, unless settings say trace.enabled: false.",
        )
    notes: dict[str, list[JsonObject]] = {"step": [], "summary": [], "response": []}
    compactions = []
    unreadable = 0
    for line in read_trace(path):
        if line is None:
            unreadable += 1
            continue
        kind, data = line.get("note"), line.get("data")
        if kind in notes and isinstance(data, dict):
            kept = {key: value for key, value in data.items() if key not in {"content", "provider"}}
            notes[kind].append({"time": line.get("time"), **kept})
        elif line.get("event_type") == "checkpoint" and "trigger" in line:
            compactions.append(line)
    return TraceSummary(
        files=tuple(map(str, files)),
        steps=tuple(notes["step"]),
        runs=tuple(notes["summary"]),
        responses=tuple(notes["response"]),
        compactions=tuple(compactions),
        unreadable=unreadable,
    )
