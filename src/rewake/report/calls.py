"""Tool calls as rows: asked for, at work, ended, settled.

The rules kept here: a call has one row whatever becomes of it and however late; what it was about to
change is shown where nothing says what it did change.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rewake.model.content import ToolCall, ToolResult
from rewake.model.events import (
    AgentIntent,
    Change,
    Event,
    FileChangeIntent,
    Outcome,
    Resolution,
    ShellIntent,
    ToolLifecycle,
)
from rewake.report.chunks import AGENT, CHANGES, CUT, ERROR, OPEN, VERDICT, Store
from rewake.report.contents import Contents
from rewake.report.figures import Figures
from rewake.report.timeline import Timeline
from rewake.report.turns import Turns

_INTERRUPTED_MAX: Final = 500
_CALLS_MAX: Final = 5_000  # without an end; more are no session's
_ENDED: Final = frozenset({"completed", "failed", "resolved"})


class _Call(msgspec.Struct):
    """A call whose end, or what became of it after that, is still to come."""

    key: tuple[str, int]
    row: int
    content: dict[str, Any]
    provider_id: str
    flags: int = OPEN
    started: bool = False
    intended: tuple[Change, ...] = ()
    in_background: bool = False


def key_of(event: Event, phase: ToolLifecycle) -> tuple[str, int]:
    """What tells calls apart: the message that asked for it, and its place there."""
    return phase.message_id or phase.call_id or event.event_id, phase.index


class Calls:
    """The calls of one story. Times are milliseconds since it began.

    `interrupted` are those with a verdict, `agents` what is known of sub-agents by their ids.
    """

    def __init__(
        self,
        store: Store,
        contents: Contents,
        timeline: Timeline,
        turns: Turns,
        figures: Figures,
    ) -> None:
        self.interrupted: list[dict[str, Any]] = []
        self.agents: dict[str, dict[str, Any]] = {}
        self._store = store
        self._contents = contents
        self._timeline = timeline
        self._turns = turns
        self._figures = figures
        self._calls: dict[tuple[str, int], _Call] = {}
        self._now = 0

    def asked(
        self, event: Event, key: tuple[str, int], block: ToolCall, *, row: int, now: int
    ) -> None:
        """A call that an event asks for, or is the first to tell of, gets a row."""
        content = {"id": event.event_id, **self._contents.call(block), "state": "asked"}
        call = _Call(key, row, {**content, "asked": now}, block.provider_call_id)
        self._calls[key] = call
        if len(self._calls) > _CALLS_MAX:
            del self._calls[next(iter(self._calls))]
        self._figures.calls += 1
        self._keep(call)

    def answered(self, block: ToolResult, now: int) -> bool:
        """A result in a message of its own: whether a call waited for it.

        As in the conversation, the first such call of the newest message that has one.
        """
        waiting = [
            call
            for call in self._calls.values()
            if call.flags & OPEN
            and "result" not in call.content
            and call.provider_id == block.provider_call_id
        ]
        if not waiting:
            return False
        call = next(one for one in waiting if one.key[0] == waiting[-1].key[0])
        call.content["result"] = self._contents.blocks(block.content)
        call.content.update(state="failed" if block.is_error else "completed", ended=now)
        self._end(call, is_error=block.is_error)
        return True

    def knows(self, event: Event, phase: ToolLifecycle) -> bool:
        """Whether a phase is of a call that has its row."""
        return key_of(event, phase) in self._calls

    def phase(self, event: Event, phase: ToolLifecycle, now: int) -> None:
        """A phase of a call that is known."""
        self._now = now
        call = self._calls[key_of(event, phase)]
        content = call.content
        content["call"] = phase.call_id or event.event_id
        if phase.status not in _ENDED:
            content["state"] = phase.status
            content[phase.status] = self._now
            if phase.status == "started":
                call.started = True
                self._timeline.started(self._now)
                self._intent(call, phase)
            self._keep(call)
            return
        by_recovery = phase.resolution is not None and phase.resolution.by != "action"
        if call.started and not by_recovery:
            self._timeline.ended(self._now)
        call.started = False
        if "result" in content and call.in_background:
            content["backgroundEnded"] = self._now
        else:
            content["state"] = phase.status
            content.setdefault("ended", self._now)
        if phase.result is not None and "result" not in content:
            content["result"] = self._contents.blocks(phase.result.content)
        if phase.outcome is not None:
            self._outcome(call, phase.outcome)
        if phase.resolution is not None:
            self._resolved(call, phase.resolution)
        self._end(call, is_error=phase.status == "failed" or _is_error(phase))

    def _resolved(self, call: _Call, resolution: Resolution) -> None:
        if "backgroundEnded" in call.content and resolution.verdict == "applied":
            return  # an ordinary end, of a command that its call had left behind
        call.content.update(self._contents.evidence(resolution))
        call.flags |= VERDICT
        self._show_intended(call)
        self._interrupted(call, resolution)

    def _intent(self, call: _Call, phase: ToolLifecycle) -> None:
        intent = phase.intent
        match intent:
            case AgentIntent():
                call.content["agent"] = intent.agent_id
                call.flags |= AGENT
                self.agents.setdefault(intent.agent_id, {})["row"] = call.row
            case ShellIntent():
                call.content["cwd"] = intent.cwd
                call.in_background = intent.background
                if intent.background:
                    call.content["background"] = True
            case FileChangeIntent():
                call.intended = intent.changes
            case _:
                return

    def _outcome(self, call: _Call, outcome: Outcome) -> None:
        content = call.content
        if outcome.exit_code is not None:
            content["exit"] = outcome.exit_code
        if outcome.duration_ms is not None:
            content["duration"] = outcome.duration_ms
        if outcome.verification is not None:
            content["verified"] = outcome.verification.passed
        if outcome.todos is not None:
            content["todos"] = [[todo.status, todo.content] for todo in outcome.todos]
        if outcome.changes:
            content.pop("intended", None)
            call.intended = ()
            content["diffs"] = diffs = self._contents.diffs(outcome.changes)
            call.flags |= CHANGES
            for number, (change, diff) in enumerate(zip(outcome.changes, diffs, strict=False)):
                self._turns.changed(change, diff, call.row, number)
                self._figures.changed(diff)

    def _interrupted(self, call: _Call, resolution: Resolution) -> None:
        if len(self.interrupted) >= _INTERRUPTED_MAX:
            return
        self.interrupted.append(
            {
                "row": call.row,
                "name": call.content["name"],
                "about": call.content["about"],
                "time": self._now,
                "verdict": resolution.verdict,
                "by": resolution.by,
                "note": resolution.note,
                "evidence": call.content["evidence"],
            }
        )

    def _end(self, call: _Call, *, is_error: bool) -> None:
        call.flags &= ~OPEN
        if is_error:
            call.flags |= ERROR
            self._figures.failed += 1
        if any(len(block.get("text", ())) > 1 for block in call.content.get("result", ())):
            call.flags |= CUT
        verdict = call.content.get("verdict")
        is_left = call.in_background and "backgroundEnded" not in call.content
        if is_left or verdict in {"unknown", "still_running"}:
            self._keep(call)  # what becomes of it is still to be told
            return
        self._store.put(call.row, call.content, 1, call.flags)
        self._calls.pop(call.key, None)

    def _keep(self, call: _Call) -> None:
        self._store.keep_open(call.row, call.content, 1, call.flags)

    def _show_intended(self, call: _Call) -> None:
        """Where no outcome says what was done, what was to be done."""
        if call.intended:
            call.content["intended"] = self._contents.diffs(call.intended)
            call.intended = ()

    def show_open(self) -> None:
        """Somebody looks now: calls that are at work say what they are about to change."""
        for call in self._calls.values():
            if call.intended:
                self._show_intended(call)
                self._keep(call)


def _is_error(phase: ToolLifecycle) -> bool:
    return phase.result is not None and phase.result.is_error
