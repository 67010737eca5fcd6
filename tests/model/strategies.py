"""Hypothesis strategies for whole transcripts.

`transcripts()` draws lines that a writer which keeps the rules of docs/format.md could have written:
parallel calls, repeated provider ids, amendments, checkpoints, rewinds, lone surrogates. The
payloads that tests of the model draw are those of the public view suite.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from hypothesis import strategies as st

from rewake.model import events as ev
from rewake.model.codec import encode_payload, seal_line
from rewake.model.content import Text, ToolCall, ToolResult, Usage
from rewake.model.ids import IdGenerator
from rewake.testing.view_suite_payloads import JSON_OBJECTS, JSON_VALUES, TEXTS, payloads

__all__ = ["JSON_OBJECTS", "JSON_VALUES", "TEXTS", "Writer", "payloads", "transcripts"]


class Writer:
    """Writes lines as a recorder does: rising ids, rising numbers, each line under the one before."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.ids: list[str] = []
        clock = iter(range(10**6))
        # Three lines share a millisecond, so that ids differ by one as well as by time.
        self._new_id = IdGenerator(lambda: next(clock) // 3, lambda bits: 1 << (bits // 2))

    def write(self, payload: ev.KnownPayload) -> str:
        parent = self.ids[-1] if self.ids else None
        if isinstance(payload, ev.Rewind):
            parent = payload.target_id
        event_id = self._new_id()
        header = {
            "event_id": event_id,
            "parent_id": parent,
            "seq": len(self.ids),
            "timestamp": f"2026-01-01T00:00:00.{len(self.ids):06d}Z",
            "session_id": "00000000-0000-7000-8000-000000000000",
            "run_id": "00000000-0000-7000-8000-000000000001",
            "step": len(self.ids) // 4,
            "event_type": ev.EVENT_TYPES[type(payload)],
            "schema_version": 1,
            "payload": msgspec.Raw(encode_payload(payload)),
        }
        self.lines.append(seal_line(msgspec.json.encode(header)[:-1]))
        self.ids.append(event_id)
        return event_id


@st.composite
def transcripts(draw: st.DrawFn, max_steps: int = 8) -> bytes:
    """The bytes of a valid transcript: a first line, a run, then random steps."""
    writer = Writer()
    writer.write(ev.SessionStart(project={"root": "/p"}))
    writer.write(ev.RunStart(1))
    for step in draw(st.lists(st.sampled_from(_STEPS), max_size=max_steps)):
        step(draw, writer)
    return b"".join(writer.lines)


def _turn(draw: st.DrawFn, writer: Writer) -> None:
    """A prompt, an answer with calls that run side by side, some of which never end."""
    writer.write(ev.Message("user", (Text(draw(TEXTS)),)))
    calls = draw(st.lists(st.sampled_from(["call_1", "call_1", "../x"]), max_size=3))
    asked = writer.write(
        ev.Message("assistant", tuple(ToolCall(name, "Read", {"n": 1}) for name in calls))
    )
    phases = []
    for index, name in enumerate(calls):
        requested = ev.ToolLifecycle(
            "Read", "requested", message_id=asked, index=index, provider_call_id=name
        )
        call_id = writer.write(requested)
        phases.append(msgspec.structs.replace(requested, call_id=call_id))
    for phase in draw(st.permutations(phases)):
        _end(draw, writer, phase)
    if draw(st.booleans()):
        writer.write(ev.MessageAmendment(asked, usage=Usage(5, 7)))


def _end(draw: st.DrawFn, writer: Writer, phase: ev.ToolLifecycle) -> None:
    if draw(st.booleans()):
        writer.write(msgspec.structs.replace(phase, status="started", intent=ev.ReadOnlyIntent()))
    status = draw(st.sampled_from([None, "completed", "failed", "resolved"]))
    if status is not None:
        result = ev.Result((Text(draw(TEXTS)),), is_error=status == "failed")
        resolution = ev.Resolution("unknown") if status == "resolved" else None
        writer.write(
            msgspec.structs.replace(phase, status=status, result=result, resolution=resolution)
        )


def _own_results(draw: st.DrawFn, writer: Writer) -> None:
    """A loop that records results by itself, an answer to nothing among them."""
    writer.write(ev.Message("assistant", (ToolCall("call_1", "Read"),)))
    writer.write(ev.Message("tool", (ToolResult("call_1", (Text("r"),)), ToolResult("orphan"))))


def _checkpoint(draw: st.DrawFn, writer: Writer) -> None:
    kept = draw(st.lists(st.sampled_from(writer.ids), max_size=3, unique=True))
    history = ev.History(None, tuple(sorted(kept)))
    if draw(st.booleans()):
        writer.write(ev.Checkpoint("compaction", 1, history, {}, summary="so far"))
    else:
        writer.write(ev.Checkpoint("state", 1, history, {}))


def _rewind(draw: st.DrawFn, writer: Writer) -> None:
    target = draw(st.sampled_from([None, *writer.ids]))
    checkpoint = ev.Checkpoint("state", 1, ev.History(), {})
    writer.write(ev.Rewind(target, "conversation", checkpoint))


def _small_facts(draw: st.DrawFn, writer: Writer) -> None:
    facts = payloads(ev.StateTransition, ev.Metadata, ev.AgentEvent, ev.Terminal)
    writer.write(draw(facts))


_STEPS: list[Callable[[st.DrawFn, Writer], None]] = [
    _turn,
    _turn,
    _own_results,
    _checkpoint,
    _rewind,
    _small_facts,
]
