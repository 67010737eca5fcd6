"""Where the time and the tokens of a run went, step by step, counted as the trace hears of them.

The rule kept here: only sums are kept, so a run of any length costs the same.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from rewake.model.content import JsonObject, Usage
from rewake.model.events import Checkpoint, Event, Message, MessageAmendment, StateTransition

_REQUESTING = "requesting"
_WAITING = "waiting"
_COUNTED = frozenset({"message", "message_amendment", "checkpoint", "state_transition"})


@dataclass(slots=True)
class Sums:
    """Milliseconds by what they went to, and counts."""

    model_ms: float = 0.0
    tools_ms: float = 0.0
    permission_ms: float = 0.0
    commit_ms: float = 0.0
    commits: int = 0
    requests: int = 0
    retries: int = 0
    compactions: int = 0
    calls: int = 0

    def add(self, other: Sums) -> None:
        """Add another's."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def shown(self) -> JsonObject:
        """As JSON, times to the microsecond, without what is nothing."""
        return {name: round(value, 3) for name, value in asdict(self).items() if value}


@dataclass(slots=True)
class Tally:
    """The sums of the step that is going on and of all before it, and the tokens of the run."""

    step: int = 0
    now: Sums = field(default_factory=Sums)
    total: Sums = field(default_factory=Sums)
    usage: Usage = field(default_factory=Usage)
    events: int = 0
    bytes: int = 0

    def event(self, event: Event, size: int) -> JsonObject | None:
        """Count one event; returns what the step before came to, if this one begins another."""
        self.events += 1
        self.bytes += size
        if event.event_type not in _COUNTED:
            return None
        payload = event.payload
        if isinstance(payload, Message | MessageAmendment) and payload.usage is not None:
            self.usage = self.usage + payload.usage
        elif isinstance(payload, Checkpoint):
            self.now.compactions += payload.kind == "compaction"
            if payload.usage is not None:
                self.usage = self.usage + payload.usage
        elif isinstance(payload, StateTransition):
            self.now.retries += payload.to_state == _WAITING
            if payload.to_state == _REQUESTING and event.step != self.step:
                ended = self.end_of_step()
                self.step = event.step
                return ended
        return None

    def note(self, kind: str, data: JsonObject) -> None:
        """Count what a note says."""
        if kind == "response":
            self.now.requests += 1
            self.now.model_ms += _ms(data, "duration_ms")
        elif kind == "tool":
            self.now.calls += 1
            self.now.tools_ms += _ms(data, "duration_ms")
        elif kind == "permission":
            self.now.permission_ms += _ms(data, "waited_ms")

    def committed(self, duration_ns: int) -> None:
        """Count one sync of the transcript."""
        self.now.commits += 1
        self.now.commit_ms += duration_ns / 1e6

    def end_of_step(self) -> JsonObject | None:
        """What the step came to; None if nothing happened in it."""
        sums, self.now = self.now, Sums()
        self.total.add(sums)
        shown = sums.shown()
        return {"step": self.step, **shown} if shown else None

    def summary(self) -> JsonObject:
        """What the whole run came to."""
        usage = self.usage
        return {
            **self.total.shown(),
            "events": self.events,
            "bytes": self.bytes,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "cost_usd": usage.cost_usd,
        }


def _ms(data: JsonObject, name: str) -> float:
    value = data.get(name)
    return float(value) if isinstance(value, int | float) else 0.0
