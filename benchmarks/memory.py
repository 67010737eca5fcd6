"""What session memory costs over a long session, as part of the fold and against rebuilding it."""

from __future__ import annotations

import time
from typing import Final

from benchmarks.harness import Figure, Setting, Target, median_of

from rewake.model.content import Text, ToolCall
from rewake.model.events import (
    EVENT_TYPES,
    Change,
    Event,
    FileState,
    KnownPayload,
    Message,
    Outcome,
    Result,
    ToolLifecycle,
)
from rewake.model.ids import IdGenerator
from rewake.state.fold import SessionState
from rewake.state.memory import SessionMemory

_TOTAL_S: Final = Target("≤", 0.3)
_REBUILDS: Final = 10
_MS: Final = 1_000
_OUTPUT: Final = (
    "collected 31 items, 2 failed: test_parser.py::test_empty_line expected 3, got 4 " * 6
)


def measure(setting: Setting) -> list[Figure]:
    """The whole fold of the events, session memory alone, and rebuilding memory at each call."""
    calls = setting.sizes.tool_calls
    events = _events(calls)
    ended = [event for event in events if _has_ended(event)]

    def fold() -> None:
        state = SessionState()
        for event in events:
            state.apply(event)

    def memory_alone() -> None:
        _remember(SessionMemory(), ended)

    def rebuild() -> None:
        for number in range(_REBUILDS):
            _remember(SessionMemory(), ended[: len(ended) * (2 * number + 1) // (2 * _REBUILDS)])

    folded, alone, rebuilt = median_of((fold, memory_alone, rebuild), setting.sizes.rounds)
    scaled = rebuilt / _REBUILDS * calls
    memory = _remember(SessionMemory(), ended)
    (rendered,) = median_of((memory.render,), setting.sizes.rounds)
    return [
        Figure(
            f"session memory over {calls:,} tool calls",
            alone,
            "s",
            _TOTAL_S,
            scaled,
            "rebuilding at each call",
            note=f"rebuilt at {_REBUILDS} places, scaled",
        ),
        Figure(f"the whole fold of their {len(events):,} events", folded, "s", _TOTAL_S),
        Figure("rendering it once", rendered * _MS, "ms", note="at a compaction, not per event"),
    ]


def _has_ended(event: Event) -> bool:
    return isinstance(event.payload, ToolLifecycle) and event.payload.status in {
        "completed",
        "failed",
    }


def _remember(memory: SessionMemory, ended: list[Event]) -> SessionMemory:
    for event in ended:
        payload = event.payload
        if not isinstance(payload, ToolLifecycle):
            continue
        if payload.status == "completed":
            memory.completed_call(event.event_id, payload.tool_name, payload.outcome)
        else:
            memory.failed_call(event.event_id, payload.tool_name, payload.outcome, payload.result)
    return memory


def _events(calls: int) -> list[Event]:
    """Per call an assistant message, `requested`, `started` and how it ended; a tenth failed."""
    ids = IdGenerator(lambda: time.time_ns() // 1_000_000, lambda _bits: 1)
    events: list[Event] = []

    def add(payload: KnownPayload) -> str:
        parent = events[-1].event_id if events else None
        event_id = ids()
        at = "2026-01-01T00:00:00.000000Z"
        kind = EVENT_TYPES[type(payload)]
        events.append(Event(event_id, parent, len(events), at, "s", "r", kind, 1, payload))
        return event_id

    add(Message("user", (Text("Make the tests pass, then clean up the parser."),)))
    for number in range(calls):
        message_id = add(Message("assistant", (Text("Next."), ToolCall("call_1", "Edit"))))
        call_id = add(ToolLifecycle("Edit", "requested", message_id=message_id))
        add(ToolLifecycle("Edit", "started", call_id, message_id))
        add(_ended(number, call_id, message_id))
    return events


def _ended(number: int, call_id: str, message_id: str) -> ToolLifecycle:
    result = Result((Text(_OUTPUT),))
    if number % 10 == 0:
        return ToolLifecycle("Edit", "failed", call_id, message_id, result=result)
    digest = f"{number:064x}"
    change = Change(
        f"/project/src/module_{number}.py", FileState(), FileState("file", digest, 9, 0o644)
    )
    outcome = Outcome((change,))
    return ToolLifecycle("Edit", "completed", call_id, message_id, outcome=outcome, result=result)
