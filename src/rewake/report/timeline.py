"""Where the time of a session went, step by step: the model, tools, waiting; and how full the context was.

The rule kept here: times are read from the lines that the transcript has anyway. A step begins with
the request and ends with its last call; what lies between and is neither the model's nor a tool's was
waited for (a permission, a retry).
"""

from __future__ import annotations

from typing import Any, Final

from rewake.model.content import Usage
from rewake.model.events import Checkpoint, StateTransition

_REQUESTING: Final = "requesting"
_WAITING: Final = "waiting"


class _Step:
    __slots__ = ("begun", "message", "model_ms", "row", "said", "tools_ms", "usage", "waited_ms")

    def __init__(self, begun: int, said: int, row: int, usage: Usage | None, waited: int) -> None:
        self.begun = begun
        self.said = said
        self.row = row
        self.usage = usage
        self.waited_ms = waited
        self.model_ms = max(0, said - begun - waited)
        self.tools_ms = 0


class Timeline:
    """All steps of all runs, in file order. Times are milliseconds since the session began."""

    def __init__(self) -> None:
        self._steps: list[_Step] = []
        self._by_message: dict[str, int] = {}
        self._requested_at: int | None = None
        self._waiting_since: int | None = None
        self._waited = 0
        self._running = 0
        self._running_since = 0
        self._last_ended = 0
        self.compactions: list[list[Any]] = []

    @property
    def count(self) -> int:
        """Steps so far."""
        return len(self._steps)

    @property
    def working_ms(self) -> int:
        """The time in which the model or a tool was at work."""
        return sum(step.model_ms + step.tools_ms for step in self._steps)

    def transition(self, payload: StateTransition, now: int) -> None:
        """The loop's state says when a request goes out, and when it waits for the next attempt."""
        if payload.to_state == _REQUESTING:
            if self._waiting_since is not None:
                self._waited += now - self._waiting_since
                self._waiting_since = None
            if self._requested_at is None:
                self._requested_at = now
        elif payload.to_state == _WAITING:
            self._waiting_since = now
        else:
            self._waiting_since = None

    def prompt(self) -> None:
        """A person said something: whatever was requested before is over."""
        self._requested_at = None
        self._waited = 0

    def answer(self, message_id: str, row: int, usage: Usage | None, now: int, before: int) -> None:
        """The model's message; without a transition the request went out at the event `before` it."""
        begun = self._requested_at if self._requested_at is not None else before
        self._steps.append(_Step(min(begun, now), now, row, usage, min(self._waited, now - begun)))
        self._by_message[message_id] = len(self._steps) - 1
        self._requested_at, self._waited = None, 0
        self._running, self._last_ended = 0, now

    def amend(self, message_id: str, usage: Usage) -> bool:
        """Usage that came late; whether it was missing."""
        number = self._by_message.get(message_id)
        if number is None or self._steps[number].usage is not None:
            return False
        self._steps[number].usage = usage
        return True

    def started(self, now: int) -> None:
        """A call begins; several may run at once."""
        if self._running == 0:
            self._running_since = now
            if self._steps:
                self._steps[-1].waited_ms += max(0, now - self._last_ended)
        self._running += 1

    def ended(self, now: int) -> None:
        """A call that had started ends."""
        if self._running == 0:
            return  # of an earlier step or run, settled by recovery
        self._running -= 1
        if self._running == 0 and self._steps:
            self._steps[-1].tools_ms += max(0, now - self._running_since)
            self._last_ended = now

    def run(self) -> None:
        """A new process: nothing of the one before runs on."""
        self._running = 0
        self._requested_at = self._waiting_since = None
        self._waited = 0

    def compacted(self, checkpoint: Checkpoint, row: int) -> None:
        """The context was made shorter before the next step."""
        self.compactions.append(
            [len(self._steps), row, checkpoint.tokens_before, checkpoint.tokens_after]
        )

    def columns(self, start: int = 0) -> dict[str, Any]:
        """The steps from `start` on, as columns."""
        steps = self._steps[start:]
        usages = [step.usage or Usage() for step in steps]
        return {
            "from": start,
            "row": [step.row for step in steps],
            "begun": [step.begun for step in steps],
            "model": [step.model_ms for step in steps],
            "tools": [step.tools_ms for step in steps],
            "waited": [step.waited_ms for step in steps],
            "input": [usage.input_tokens for usage in usages],
            "output": [usage.output_tokens for usage in usages],
            "cached": [usage.cache_read_tokens for usage in usages],
            "compactions": self.compactions,
        }
