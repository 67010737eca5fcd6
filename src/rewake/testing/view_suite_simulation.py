"""A simulated session: random but valid events, with a live state beside them.

It stands for what a session records, without files: `Simulation.events` is the transcript, and
`Simulation.state` the live fold. A `Source` reads such a list as a transcript is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from rewake.log.scan import Lookup
from rewake.model.codec import CorruptLine, TornTail, decode_payload, encode_payload
from rewake.model.content import Text, Thinking, ToolCall, ToolResult, Usage
from rewake.model.events import (
    EVENT_TYPES,
    Change,
    Event,
    FileRead,
    FileState,
    KnownPayload,
    Message,
    MessageAmendment,
    Metadata,
    Outcome,
    Resolution,
    Result,
    Rewind,
    RunStart,
    SessionStart,
    StateTransition,
    Terminal,
    Todo,
    ToolLifecycle,
)
from rewake.model.ids import IdGenerator
from rewake.resume.load import load
from rewake.state.conversation import Conversation
from rewake.state.fold import SessionState
from rewake.state.world import tool_calls
from rewake.testing.view_suite_hypothesis import st


class NoBlobs:
    """For sessions whose payloads all stand in their lines."""

    def get(self, sha256: str) -> bytes:
        raise AssertionError(sha256)


class Source:
    """A list of events, read as a transcript is read; an event's offset is its index."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events

    def size(self) -> int:
        return len(self.events)

    def backward(self, end: int | None = None) -> Iterator[Event | CorruptLine | TornTail]:
        yield from reversed(self.events[:end])

    def forward(self) -> Iterator[Event | CorruptLine | TornTail]:
        yield from self.events

    def find_many(self, event_ids: Iterable[str]) -> Lookup:
        wanted = set(event_ids)
        found = {event.event_id: event for event in self.events if event.event_id in wanted}
        return Lookup(found, (), tuple(wanted - found.keys()))


class Simulation:
    """Records random facts; every method appends at least one event and folds it."""

    def __init__(self, draw: st.DataObject) -> None:
        self.draw = draw
        self.events: list[Event] = []
        self.state = SessionState()
        self.open: list[tuple[str, ToolLifecycle]] = []
        millisecond = iter(range(10**6))
        self._ids = IdGenerator(lambda: next(millisecond) // 3, lambda bits: 1 << (bits // 2))
        self.record(SessionStart(project={"root": "/p"}))
        self.record(RunStart(1))

    def record(self, payload: KnownPayload, target: Conversation | None = None) -> Event:
        parent = self.events[-1].event_id if self.events else None
        if isinstance(payload, Rewind):
            parent = payload.target_id
        name = EVENT_TYPES[type(payload)]
        frozen = decode_payload(name, 1, encode_payload(payload))
        event = Event(
            event_id=self._ids(),
            parent_id=parent,
            seq=len(self.events),
            timestamp=f"2026-01-01T00:00:00.{len(self.events):06d}Z",
            session_id="s",
            run_id="r",
            event_type=name,
            schema_version=1,
            payload=frozen,
            step=len(self.events) // 4,
            offset=len(self.events),
        )
        self.events.append(event)
        self.state.apply(event, target=target)
        return event

    def any_of(self, *names: str) -> str:
        return self.draw.draw(st.sampled_from(names))

    def chance(self) -> bool:
        return self.draw.draw(st.booleans())

    # --- one method a fact ---------------------------------------------------------------

    def prompt(self) -> None:
        text = self.draw.draw(st.text(max_size=30))
        self.record(Message("user", (Text(text),), source=self.any_of("", "", "rewake")))

    def assistant(self) -> None:
        count = self.draw.draw(st.integers(0, 3))
        calls = tuple(
            ToolCall(self.any_of("call_1", "call_2", "../x"), self.any_of("Edit", "Bash", ""))
            for _ in range(count)
        )
        thinking = (Thinking("why", self.any_of("", "signed") or None),) if self.chance() else ()
        usage = Usage(10, 5) if self.chance() else None
        said = (Text(self.any_of("", "ok", "\ud800")),)
        event = self.record(Message("assistant", (*thinking, *said, *calls), usage=usage))
        for index, call in enumerate(calls):
            if self.chance():
                requested = ToolLifecycle(
                    call.name,
                    "requested",
                    message_id=event.event_id,
                    index=index,
                    provider_call_id=call.provider_call_id,
                )
                self.open.append((self.record(requested).event_id, requested))

    def call_phase(self) -> None:
        if not self.open:
            return
        place = self.draw.draw(st.integers(0, len(self.open) - 1))
        call_id, requested = self.open[place]
        status = self.any_of("started", "completed", "failed", "resolved")
        phase = msgspec.structs.replace(requested, status=status, call_id=call_id)
        if status == "started":
            self.record(phase)
            return
        if self.chance():
            del self.open[place]  # else it may be answered again, which must change nothing
        sha256 = self.any_of("aa", "bb")
        before, after = FileState(), FileState("file", sha256, 2)
        outcome = Outcome(
            changes=(Change("/p/a", before, after),) if self.chance() else (),
            reads=(FileRead("/p/b", sha256),) if self.chance() else (),
            todos=(Todo("x", "pending"), Todo("y", "completed")) if self.chance() else None,
        )
        self.record(
            msgspec.structs.replace(
                phase,
                outcome=outcome,
                result=Result((Text(self.any_of("", "done")),)) if self.chance() else None,
                resolution=Resolution("applied") if status == "resolved" else None,
            )
        )

    def tool_message(self) -> None:
        entry = self.state.conversation.last_assistant()
        ids = [call.provider_call_id for call in tool_calls(entry.message)] if entry else []
        blocks = tuple(ToolResult(call_id, (Text("r"),)) for call_id in (*ids, "orphan"))
        self.record(Message("tool", blocks))

    def amendment(self) -> None:
        entry = self.state.conversation.last_assistant()
        if entry is not None and entry.message.usage is None:
            self.record(MessageAmendment(entry.message_id, usage=Usage(7, 7)))

    def transition(self) -> None:
        self.record(StateTransition("idle", self.any_of("requesting", "compacting"), "because"))

    def title(self) -> None:
        self.record(Metadata({"title": self.any_of("one", "two")}))

    def terminal(self) -> None:
        self.record(Terminal("done"))
        self.record(RunStart(self.state.world.generation + 1))

    def state_checkpoint(self) -> None:
        self.record(self.state.checkpoint())

    def compaction(self) -> None:
        conversation = self.state.conversation
        kept = [
            entry
            for entry in conversation.entries
            if self.chance() or entry.message_id == conversation.newest_prompt
        ]
        memory = conversation.memory.render()
        self.record(
            self.state.checkpoint("compaction", kept=kept, summary="sum", session_memory=memory)
        )

    def rewind(self) -> None:
        target = self.draw.draw(st.sampled_from(self.events))
        conversation = self.conversation_at(target)
        checkpoint = self.state.checkpoint(conversation=conversation)
        self.record(Rewind(target.event_id, "conversation", checkpoint), target=conversation)

    def conversation_at(self, target: Event) -> Conversation:
        loaded = load(Source(self.events), NoBlobs(), end=target.seq + 1)
        return loaded.state.conversation

    def run(self, steps: int) -> None:
        common = ("prompt", "assistant", "assistant", "call_phase", "call_phase", "call_phase")
        rare = ("tool_message", "amendment", "transition", "title", "terminal")
        marks = ("state_checkpoint", "compaction", "rewind")
        for _ in range(steps):
            getattr(self, self.any_of(*common, *rare, *marks))()
