"""Order and parents: ids and numbers rise, each event continues the line before it.

The rule kept here: what is expected of a line follows from docs/format.md ("Ids", "Parents") and
from the lines before it; an event that the reader ignores (a repetition, a line of another session)
is nobody's predecessor.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rewake.doctor.findings import Findings, Kind
from rewake.doctor.lines import Ids, Line, standing
from rewake.model.events import PAYLOAD_TYPES, Event, Rewind


class _Gap(NamedTuple):
    """A parent that didn't stand before its event; whether it stands later is known at the end."""

    event_id: str
    parent_id: str
    offset: int
    line_number: int
    unseen: str


class Links:
    """Looks at each event of the session in file order."""

    def __init__(self, findings: Findings, path: Path) -> None:
        self.ids = Ids()
        self.first_id: str | None = None
        self.is_fork = False
        self._findings = findings
        self._path = path
        self._previous: Event | None = None
        self._corrupt_since = 0
        self._gaps: list[_Gap] = []

    def lost_line(self) -> None:
        """A line without any event; it took a number of its own."""
        self._corrupt_since += 1

    def accept(self, event: Event, line: Line) -> bool:
        """Check the event's place; whether it counts (a repetition doesn't)."""
        if event.event_id in self.ids:
            self._repeated(event, line)
            return False
        highest = self.ids.highest
        if not self.ids.add(event.event_id, event.offset):
            detail = f"event {event.event_id} is not above {highest or 'any id'}"
            self._note("id_not_rising", detail, event, line)
        if self.first_id is None:
            self.first_id = event.event_id
        unseen = self._check_seq(event, line)
        self._check_parent(event, line, unseen)
        self._previous = event
        self._corrupt_since = 0
        return True

    def continues(self, event: Event) -> bool:
        """Whether nothing was recorded between the last event that counts and this one."""
        return self._previous is not None and event.parent_id == self._previous.event_id

    def known(self, event_id: str) -> bool:
        """Whether the event is here, or may be one of the session that this one was forked from."""
        if event_id in self.ids:
            return True
        return self.is_fork and self.first_id is not None and event_id < self.first_id

    def finish(self) -> None:
        """Say of every parent that didn't stand before its event whether it stands anywhere."""
        for gap in self._gaps:
            if gap.parent_id == gap.event_id:
                kind: Kind = "parent_not_before"
                detail = f"event {gap.event_id} names itself as its parent"
            elif gap.parent_id in self.ids:
                kind = "parent_not_before"
                detail = f"event {gap.event_id} hangs under {gap.parent_id}, which stands after it"
            else:
                kind = "missing_parent"
                detail = f"event {gap.event_id} hangs under {gap.parent_id}, which is not here"
                detail += f"; {gap.unseen}" if gap.unseen else ""
            self._findings.add(kind, detail, offset=gap.offset, line_number=gap.line_number)

    def _repeated(self, event: Event, line: Line) -> None:
        first = self.ids.offset(event.event_id)
        if standing(event, self.ids, self._path) == "repeated":
            detail = f"the same bytes as at byte {first}"
            self._note("duplicate_event", detail, event, line)
        else:
            detail = f"event {event.event_id} says something else at byte {first}"
            self._note("conflicting_event", detail, event, line)

    def _check_seq(self, event: Event, line: Line) -> str:
        """What to say of numbers that are not here, beyond those that corrupt lines took."""
        last = self._previous.seq if self._previous is not None else -1
        missing = event.seq - last - 1
        if missing < 0:
            self._note("seq_not_rising", f"number {event.seq} follows {last}", event, line)
        if missing <= self._corrupt_since:
            return ""
        if missing == 1:
            return f"number {last + 1} is not here"
        return f"numbers {last + 1} to {event.seq - 1} are not here"

    def _check_parent(self, event: Event, line: Line, unseen: str) -> None:
        parent_id = event.parent_id
        if not self.continues(event) and (
            parent_id == event.event_id or (parent_id is not None and not self.known(parent_id))
        ):
            gap = _Gap(event.event_id, parent_id or "", event.offset, line.number, unseen)
            self._gaps.append(gap)
            return
        if unseen:
            self._note("seq_gap", unseen, event, line)
        if self.continues(event) or _is_as_agreed(event, self._previous):
            return
        under = f"under {parent_id}" if parent_id is not None else "under nothing"
        detail = f"event {event.event_id} hangs {under} instead of the line before it"
        self._note("unexpected_parent", detail, event, line)

    def _note(self, kind: Kind, detail: str, event: Event, line: Line) -> None:
        self._findings.add(kind, detail, offset=event.offset, line_number=line.number)


def _is_as_agreed(event: Event, previous: Event | None) -> bool:
    """Whether a parent that isn't the line before is the one that the format gives this event."""
    if previous is None:
        return event.parent_id is None
    payload = event.payload
    if isinstance(payload, Rewind):
        return payload.scope != "files" and payload.target_id == event.parent_id
    # A type that this version doesn't know may have rules of its own, and a rewind whose payload
    # can't be read may go anywhere.
    return event.event_type == "rewind" or event.event_type not in PAYLOAD_TYPES
