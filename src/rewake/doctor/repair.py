"""Makes a transcript whole again: a repaired sibling takes its place, the original is kept.

The rules kept here:

- What a reader can use is copied byte for byte, in order; nothing is encoded anew. Records glued
  together get a line each, NULs around a record go; left out are lines without any record, lines of
  another session, and exact repetitions.
- A transcript without damage is not touched, so repairing twice changes nothing.
- Everything left out is named with its offset and its bytes, and stays in the original.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from rewake.doctor.findings import LISTED_MAX
from rewake.doctor.lines import Ids, Line, Owner, lines, owner, standing
from rewake.doctor.subject import Subject
from rewake.doctor.swap import Sibling, remove_leftover
from rewake.errors import DamagedError
from rewake.log.disk import Disk
from rewake.log.lock import Holder, SessionLock
from rewake.log.scan import Transcript
from rewake.model.events import Event
from rewake.resume.load import refuse_newer

Treatment = Literal["dropped", "split", "unpadded", "completed"]
Reason = Literal["unreadable", "nul", "foreign", "repeated"]


class Treated(msgspec.Struct, frozen=True):
    """One line that isn't copied as it stands.

    `kept` counts the events of it that are kept, `dropped_bytes` those of its bytes that are not;
    `reason` says why if there are any.
    """

    treatment: Treatment
    offset: int
    line_number: int
    kept: int
    dropped_bytes: int
    reason: Reason | None


class RepairReport(msgspec.Struct, frozen=True):
    """What a repair did, or with `dry_run` would do.

    `lines` lists the first lines of each treatment, `counts` counts all of them. `events_missing`
    counts the numbers that no event has, except where the next event shows that there was none (a
    write that was cut short); what stood after the last event has left no number. `removed`
    is what was left over by an interrupted repair. `agents` are the same of the session's sub-agents,
    those only for which something was done.
    """

    session_id: str
    path: str
    changed: bool
    dry_run: bool
    kept_original: str | None
    removed: str | None
    events: int
    events_missing: int
    bytes_before: int
    bytes_after: int
    lines: tuple[Treated, ...]
    counts: dict[str, int]
    agent_id: str | None = None
    agents: tuple[RepairReport, ...] = ()


def repair(
    subject: Subject, disk: Disk, holder: Holder, *, moment: str, dry_run: bool = False
) -> RepairReport:
    """Repair a transcript. `moment` names the kept original, such as 20260101T120000Z.

    On return the repaired transcript and the kept original are durable. Raises SessionBusyError
    while a process writes the session, UnreadableVersionError if it asks for a newer reader,
    SessionNotFoundError where there is no transcript, DamagedError for a file outside of any home
    that has not one event in it (so that no other file is taken for one); and StorageError, after which the transcript
    is whole, the damaged one or (if only the last sync failed) the repaired one. With `dry_run`
    nothing is changed and no lock is taken.
    """
    subject.require()
    if dry_run:
        planned = _planned(subject)
        agents = [_planned(agent) for agent in subject.agents(disk)]
        return _with_agents(planned, agents)
    is_lock_ours = subject.session is None and not subject.lock.exists()
    with SessionLock(subject.lock, disk, holder):
        try:
            repaired = _repair(subject, disk, moment)
            agents = [_repair(agent, disk, moment) for agent in subject.agents(disk)]
            return _with_agents(repaired, agents)
        finally:
            if is_lock_ours:  # a file outside of any home gets no new neighbour
                subject.lock.unlink(missing_ok=True)


def _planned(subject: Subject) -> RepairReport:
    with Transcript(subject.transcript) as reader:
        work = _plan(subject, reader)
        work.require_events()
        return work.report(dry_run=True)


def _with_agents(report: RepairReport, agents: list[RepairReport]) -> RepairReport:
    worth_telling = tuple(one for one in agents if one.counts or one.removed is not None)
    return msgspec.structs.replace(report, agents=worth_telling)


def _repair(subject: Subject, disk: Disk, moment: str) -> RepairReport:
    removed = remove_leftover(subject.transcript)
    with Transcript(subject.transcript) as reader:
        work = _plan(subject, reader)
        work.require_events()
        kept = None
        if work.is_damaged:
            with Sibling(subject.transcript, disk) as sibling:
                for record in work.records(account=False):
                    sibling.write((record, b"\n"))
                kept = sibling.swap(moment)
    return work.report(kept_original=kept, removed=removed)


def _plan(subject: Subject, reader: Transcript) -> _Work:
    work = _Work(subject, reader)
    for _ in work.records(account=True):
        pass
    return work


class _Kept(NamedTuple):
    """What is kept of a line, and what became of the rest."""

    events: list[Event]
    dropped: Counter[Reason]


class _Work:
    """Goes over the lines, once to find out what there is to do and once to do it."""

    def __init__(self, subject: Subject, reader: Transcript) -> None:
        self._subject = subject
        self._reader = reader
        self._size = reader.size()
        self._owner: Owner = owner(reader, self._size, subject.name)
        self._events = 0
        self._missing = 0
        self._last_seq = -1
        self._last_id: str | None = None
        self._bytes_after = 0
        self._listed: list[Treated] = []
        self._counts: Counter[str] = Counter()

    @property
    def is_damaged(self) -> bool:
        """Whether a line was found that isn't copied as it stands."""
        return bool(self._counts)

    def require_events(self) -> None:
        """Raises DamagedError for what is no session's and has no event, once all is accounted for."""
        if self._subject.session is None and self.is_damaged and not self._events:
            raise DamagedError(
                f"{self._subject.transcript} has no event of a session; it was not touched.",
                remedy="Name a transcript, or a session: `rewake sessions --all` lists them.",
            )

    def records(self, *, account: bool) -> Iterator[bytes]:
        """The records of the repaired transcript, without their newlines."""
        ids = Ids()
        for line in lines(self._reader, self._size):
            kept = self._sift(line, ids)
            if account:
                self._account(line, kept)
            for event in kept.events:
                yield event.line

    def report(
        self,
        *,
        dry_run: bool = False,
        kept_original: Path | None = None,
        removed: Path | None = None,
    ) -> RepairReport:
        """What was found and done."""
        return RepairReport(
            session_id=self._owner.session_id,
            path=str(self._subject.transcript),
            changed=self.is_damaged and not dry_run,
            dry_run=dry_run,
            kept_original=None if kept_original is None else str(kept_original),
            removed=None if removed is None else str(removed),
            events=self._events,
            events_missing=self._missing,
            bytes_before=self._size,
            bytes_after=self._bytes_after,
            lines=tuple(self._listed),
            counts=dict(self._counts),
            agent_id=self._subject.agent_id,
        )

    def _sift(self, line: Line, ids: Ids) -> _Kept:
        kept = _Kept([], Counter())
        if line.event is not None:
            self._judge(line.event, ids, kept)
            return kept
        for piece in line.pieces:
            if piece.event is not None:
                self._judge(piece.event, ids, kept)
            else:
                kept.dropped["nul" if piece.is_nul else "unreadable"] += len(piece.data)
        return kept

    def _judge(self, event: Event, ids: Ids, kept: _Kept) -> None:
        if self._owner.certain and event.session_id != self._owner.session_id:
            kept.dropped["foreign"] += len(event.line)
            return
        stands = standing(event, ids, self._subject.transcript)
        if stands == "repeated":
            kept.dropped["repeated"] += len(event.line)
            return
        if stands == "new":
            ids.add(event.event_id, event.offset)
        refuse_newer(event)
        kept.events.append(event)

    def _account(self, line: Line, kept: _Kept) -> None:
        for event in kept.events:
            self._events += 1
            self._bytes_after += len(event.line) + 1
            if event.parent_id != self._last_id:  # else nothing was recorded between the two
                self._missing += max(event.seq - self._last_seq - 1, 0)
            self._last_seq = max(self._last_seq, event.seq)
            self._last_id = event.event_id
        if line.event is not None and kept.events:
            return
        treatment = _treatment(line, kept)
        key = f"{treatment}"
        reason = kept.dropped.most_common(1)[0][0] if kept.dropped else None
        if treatment == "dropped" and reason is not None:
            key = f"dropped_{reason}"
        self._counts[key] += 1
        if self._counts[key] <= LISTED_MAX:
            dropped_bytes = kept.dropped.total()
            self._listed.append(
                Treated(
                    treatment, line.offset, line.number, len(kept.events), dropped_bytes, reason
                )
            )


def _treatment(line: Line, kept: _Kept) -> Treatment:
    if not kept.events:
        return "dropped"
    if len(kept.events) == 1 and not line.complete and not kept.dropped:
        return "completed"
    if len(kept.events) == 1 and set(kept.dropped) == {"nul"}:
        return "unpadded"
    return "split"
