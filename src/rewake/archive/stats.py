"""Counts, tokens and cost of sessions, by project, day and model.

The rules kept here:

- By project and day the numbers are the sessions' own totals (what the list knows already); a session
  counts on the day on which it was last at work.
- By model they are read from the transcripts, message by message.
- A cost that nobody knows is unknown, not zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from rewake.model.codec import decode_line, decode_payload
from rewake.model.content import Usage
from rewake.model.events import Checkpoint, Event, Message, MessageAmendment, RunStart, Spilled
from rewake.resume.listing import SessionInfo

_DAY: Final = slice(0, 10)  # of an RFC 3339 timestamp
_USAGE: Final = b'"usage"'
_RUN: Final = b'"event_type":"run"'
_UNKNOWN: Final = "unknown"


class Counts(msgspec.Struct, frozen=True):
    """One row. `messages` are model calls where the row is a model's; `cost_usd` None if unknown."""

    name: str
    sessions: int = 0
    messages: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


class Statistics(msgspec.Struct, frozen=True):
    """Everything; days in order, the others by what they cost, then by their tokens."""

    total: Counts
    projects: tuple[Counts, ...]
    days: tuple[Counts, ...]
    models: tuple[Counts, ...]


def count(rows: Iterable[SessionInfo], models: Iterable[Counts] = ()) -> Statistics:
    """The statistics of the sessions in `rows`."""
    listed = list(rows)
    projects = _grouped(listed, lambda row: row.project or _UNKNOWN)
    days = _grouped(listed, lambda row: row.updated_at[_DAY] or _UNKNOWN)
    total = _grouped(listed, lambda _: "total")
    return Statistics(
        total=total[0] if total else Counts("total"),
        projects=tuple(sorted(projects, key=_weight)),
        days=tuple(sorted(days, key=lambda row: row.name)),
        models=tuple(sorted(models, key=_weight)),
    )


def _weight(row: Counts) -> tuple[float, int, str]:
    return -(row.cost_usd or 0.0), -(row.input_tokens + row.output_tokens), row.name


def _grouped(rows: list[SessionInfo], name: Callable[[SessionInfo], str]) -> list[Counts]:
    found: dict[str, Counts] = {}
    for row in rows:
        key = name(row)
        before = found.get(key, Counts(key))
        found[key] = Counts(
            name=key,
            sessions=before.sessions + 1,
            messages=before.messages + (row.messages or 0),
            calls=before.calls + (row.calls or 0),
            input_tokens=before.input_tokens + row.input_tokens,
            output_tokens=before.output_tokens + row.output_tokens,
            cost_usd=_sum(before.cost_usd, row.cost_usd),
        )
    return list(found.values())


def _sum(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other


# --- models ----------------------------------------------------------------------------------


class ModelCounter:
    """Adds up model calls over transcripts; `counts` has the result."""

    def __init__(self) -> None:
        self._usage: dict[str, Usage] = {}
        self._messages: dict[str, int] = {}
        self._sessions: dict[str, int] = {}

    def add(self, transcript: Path) -> None:
        """Read one transcript. Raises OSError."""
        called: dict[str, tuple[str, Usage]] = {}
        model = ""
        with transcript.open("rb") as file:
            for line in file:
                if _USAGE not in line and _RUN not in line:
                    continue
                event = decode_line(line.rstrip(b"\n"))
                if not isinstance(event, Event) or event.event_id in called:
                    continue
                model = _account(event, model, called)
        for name, usage in called.values():
            self._usage[name] = self._usage.get(name, Usage()) + usage
            self._messages[name] = self._messages.get(name, 0) + 1
        for name in {name for name, _ in called.values()}:
            self._sessions[name] = self._sessions.get(name, 0) + 1

    def counts(self) -> list[Counts]:
        """One row a model."""
        return [
            Counts(
                name=name,
                sessions=self._sessions[name],
                messages=self._messages[name],
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cost_usd=usage.cost_usd,
            )
            for name, usage in self._usage.items()
        ]


def _account(event: Event, model: str, called: dict[str, tuple[str, Usage]]) -> str:
    """Note what an event says of a model call; returns the model that the run works with."""
    payload: object = event.payload
    if isinstance(payload, Spilled):
        # Numbers are whole in a preview.
        payload = decode_payload(event.event_type, event.schema_version, bytes(payload.preview))
    if isinstance(payload, RunStart):
        return payload.model
    if isinstance(payload, Message | Checkpoint) and payload.usage is not None:
        name = payload.model if isinstance(payload, Message) else ""
        called[event.event_id] = (name or model or _UNKNOWN, payload.usage)
    elif isinstance(payload, MessageAmendment) and payload.usage is not None:
        before = called.get(payload.message_id, (model or _UNKNOWN, Usage()))
        called[payload.message_id] = (payload.model or before[0], payload.usage)
    return model
