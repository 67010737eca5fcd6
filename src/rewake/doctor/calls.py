"""Tool calls, their ends and their results, and the messages that amendments complete.

The rule kept here: calls follow the order of the file, not the branch, and memory holds one id a
call. Where the file can't tell (after a rewind, in a fork), a result gets the benefit of the doubt.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from rewake.doctor.findings import Findings
from rewake.doctor.lines import Line
from rewake.doctor.links import Links
from rewake.model.content import ToolCall, ToolResult
from rewake.model.events import (
    Event,
    FileChangeIntent,
    Intent,
    Message,
    MessageAmendment,
    Rewind,
    SessionStart,
    ToolLifecycle,
)

_ENDED: Final = frozenset({"completed", "failed", "resolved"})


class Open(NamedTuple):
    """A call that hasn't ended, with the place of its newest line."""

    tool_name: str
    status: str
    offset: int
    line_number: int
    intent: Intent | None

    def contents(self) -> set[str]:
        """The blobs that settling this call needs."""
        if not isinstance(self.intent, FileChangeIntent):
            return set()
        states = [side for change in self.intent.changes for side in (change.before, change.after)]
        return {state.sha256 for state in states if state.sha256 is not None}


class Calls:
    """Looks at each event of the session in file order, after `Links` has."""

    def __init__(self, findings: Findings, links: Links) -> None:
        self.open: dict[str, Open] = {}
        self._findings = findings
        self._links = links
        self._requested: set[str] = set()
        # The calls of the newest assistant message that wait for a result; None where it is unknown.
        self._waiting: Counter[str] | None = Counter()

    def accept(self, event: Event, line: Line) -> None:
        """Check one event; `event` has its whole payload."""
        payload = event.payload
        if isinstance(payload, ToolLifecycle):
            self._phase(event, payload, line)
        elif isinstance(payload, Message):
            self._message(event, payload, line)
        elif isinstance(payload, MessageAmendment):
            if not self._links.known(payload.message_id):
                detail = f"it completes message {payload.message_id}, which is not here"
                self._findings.add(
                    "orphan_amendment", detail, offset=event.offset, line_number=line.number
                )
        elif isinstance(payload, Rewind | SessionStart):
            self._waiting = None

    def finish(self) -> None:
        """Name the calls that are still open."""
        for call_id, call in self.open.items():
            detail = f"{call.tool_name} {call.status}: call {call_id} has no end"
            self._findings.add(
                "open_call", detail, offset=call.offset, line_number=call.line_number
            )

    def _phase(self, event: Event, payload: ToolLifecycle, line: Line) -> None:
        call_id = payload.call_id or event.event_id
        if payload.status == "requested":
            self._requested.add(call_id)
        elif not self._is_known(call_id, payload):
            detail = f"{payload.tool_name} {payload.status}: no line requested call {call_id}"
            self._findings.add(
                "orphan_outcome", detail, offset=event.offset, line_number=line.number
            )
            return
        if payload.status in _ENDED:
            self.open.pop(call_id, None)
            return
        self.open[call_id] = Open(
            payload.tool_name, payload.status, event.offset, line.number, payload.intent
        )

    def _is_known(self, call_id: str, payload: ToolLifecycle) -> bool:
        if call_id in self._requested:
            return True
        message_id = payload.message_id
        if message_id is not None and call_id == f"{message_id}/{payload.index}":
            # Recovery names a call so that its message asked for and that got no line of its own.
            return self._links.known(message_id)
        return call_id not in self._links.ids and self._links.known(call_id)

    def _message(self, event: Event, message: Message, line: Line) -> None:
        if message.role == "assistant":
            calls = [block for block in message.content if isinstance(block, ToolCall)]
            self._waiting = Counter(call.provider_call_id for call in calls)
            return
        if self._waiting is None:
            return
        for block in message.content:
            if not isinstance(block, ToolResult):
                continue
            name = block.provider_call_id
            if self._waiting[name] > 0:
                self._waiting[name] -= 1
                continue
            detail = f"a result for {name!r}, which no call waits for"
            self._findings.add(
                "orphan_result", detail, offset=event.offset, line_number=line.number
            )
