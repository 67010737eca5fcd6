"""Finds every kind of damage in a session, and says what each means for the user.

The rules kept here:

- Nothing is changed, and nothing is raised for what is wrong: it becomes a finding.
- The transcript is streamed once; memory is bounded by its longest line and its ids. What a resume
  would make of it is asked of the loader itself.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final

import msgspec

from rewake.doctor.calls import Calls
from rewake.doctor.contents import Contents
from rewake.doctor.findings import LISTED_MAX, Findings, Kind, Report
from rewake.doctor.lines import Line, lines, owner
from rewake.doctor.links import Links
from rewake.doctor.subject import Subject
from rewake.doctor.surroundings import look_around, writer
from rewake.errors import RewakeError, StorageError, UnreadableVersionError
from rewake.log.disk import Disk
from rewake.log.layout import SessionPaths
from rewake.log.scan import Transcript
from rewake.model.codec import CRC_BYTES, CRC_PREFIX
from rewake.model.events import READER_VERSION, Event, RunStart, SessionStart, Unknown
from rewake.resume.agents import record_files
from rewake.resume.lineage import Lineage
from rewake.resume.load import BlobReader, Damage, load, load_from_root
from rewake.resume.remote import remote_files

_MISMATCH: Final = "checksum mismatch: "
# What only the loader can tell; everything else it reports was seen line by line already.
_LOADERS_OWN: Final[dict[str, Kind]] = {
    "unusable_checkpoint": "unusable_checkpoint",
    "missing_event": "missing_event",
    "missing_origin": "missing_origin",
}


def check(subject: Subject, disk: Disk, *, deep: bool = False) -> Report:
    """Look at a session; never raises for damage, and takes no lock.

    What is appended while it runs is not looked at. With `deep`, the state is folded from the root
    too and compared with the one that a resume would use.
    """
    findings = Findings(subject.transcript)
    check_ = _Check(subject, findings)
    found = writer(subject, disk, findings)
    look_around(subject, findings, is_written=found is not None)
    try:
        if not stat.S_ISREG(subject.transcript.stat().st_mode):
            findings.add("unreadable_file", f"{subject.transcript} is no regular file")
        else:
            with Lineage(Transcript(subject.transcript), subject.ancestors()) as reader:
                check_.read(reader.transcript, is_written=found is not None)
                check_.resume(reader, deep=deep)
    except FileNotFoundError:
        findings.add("missing_transcript", f"{subject.transcript} doesn't exist")
    except (RewakeError, OSError) as error:
        findings.add("unreadable_file", str(error))
    agents = tuple(check(agent, disk, deep=deep) for agent in subject.agents(disk))
    if subject.session is not None and subject.agent_id is None:
        _check_records(subject.session, disk, findings)
    report = findings.report(check_.session_id, check_.events, check_.size)
    return msgspec.structs.replace(
        report,
        ok=report.ok and all(agent.ok for agent in agents),
        agent_id=subject.agent_id,
        agents=agents,
    )


def _check_records(session: SessionPaths, disk: Disk, findings: Findings) -> None:
    """The records of agents that run here or elsewhere."""
    for files in (record_files(session.agents, disk), remote_files(session.agents, disk)):
        try:
            damaged = files.list()[1]
        except StorageError:
            return  # the directory has its finding
        for record in damaged:
            findings.add("damaged_record", record.problem, path=Path(record.path))


class NoBlobs:
    """For a transcript whose project is somewhere else: every blob is missing."""

    def get(self, sha256: str) -> bytes:
        """Raises StorageError."""
        raise StorageError(f"The blob {sha256} is elsewhere.", path="", remedy="")


class _Check:
    """One transcript being checked."""

    def __init__(self, subject: Subject, findings: Findings) -> None:
        self.session_id = subject.name or ""
        self.events = 0
        self.size = 0
        self._end = 0
        self._unexplained: list[tuple[int, int, Kind, str]] = []
        self._subject = subject
        self._findings = findings
        self._links = Links(findings, subject.transcript)
        self._calls = Calls(findings, self._links)
        self._contents = Contents(findings, subject.blobs)

    # --- line by line ---------------------------------------------------------------------

    def read(self, reader: Transcript, *, is_written: bool) -> None:
        """Look at every line."""
        self.size = self._end = reader.size()
        whose = owner(reader, self.size, self._subject.name)
        self.session_id = whose.session_id
        if not whose.certain and whose.session_id:  # without any event it is nobody's
            detail = f"the directory is {self._subject.name}, the lines are of {whose.session_id}"
            self._findings.add("wrong_directory", detail)
        for line in lines(reader, self.size):
            if line.event is not None:
                self._event(line.event, line)
            else:
                self._broken(line, is_written=is_written)
        self._explain(None)
        if not self.events:
            self._findings.add("no_events", f"{self.size} bytes without an event")
        self._links.finish()
        self._calls.finish()
        for call in self._calls.open.values():
            for sha256 in sorted(call.contents()):
                what = f"a file of an unfinished {call.tool_name}"
                self._contents.check(sha256, what, call.offset, call.line_number)
        self._contents.finish()

    def _broken(self, line: Line, *, is_written: bool) -> None:
        events = [piece.event for piece in line.pieces if piece.event is not None]
        if not line.complete:
            self._torn(line, len(events), is_written=is_written)
        elif events:
            kind, detail = _name(line, len(events))
            self._findings.add(kind, detail, offset=line.offset, line_number=line.number)
        else:
            self._lost(line)
        for event in events:
            self._event(event, line)

    def _lost(self, line: Line) -> None:
        """A line without an event: the next event tells whether one stood here."""
        self._links.lost_line()
        self._unexplained.append((line.offset, line.number, *_name(line, 0)))
        if len(self._unexplained) > LISTED_MAX:
            self._explain(None)

    def _explain(self, event: Event | None) -> None:
        """Say what the lines without an event were, now that `event` follows them (or nothing)."""
        is_cut_write = event is not None and self._links.continues(event)
        for offset, number, kind, detail in self._unexplained:
            told = f"{kind.replace('_', ' ')}: {detail}"
            if is_cut_write:
                self._findings.add("cut_write", told, offset=offset, line_number=number)
            else:
                self._findings.add(kind, detail, offset=offset, line_number=number)
        self._unexplained.clear()

    def _torn(self, line: Line, events: int, *, is_written: bool) -> None:
        self._end = line.offset
        detail = f"{len(line.data)} bytes without a newline"
        if events:
            detail += f"; {events} whole in it" if events > 1 else "; one whole event in it"
        self._findings.add(
            "torn_tail",
            detail,
            offset=line.offset,
            line_number=line.number,
            severity="info" if is_written else None,
        )

    def _event(self, event: Event, line: Line) -> None:
        if event.session_id != self.session_id:
            detail = f"event {event.event_id} is of session {event.session_id}"
            self._note("foreign_session", detail, event, line)
            return
        if CRC_PREFIX not in event.line[-CRC_BYTES - 1 :]:  # a carriage return may follow it
            self._note("no_checksum", f"event {event.event_id} has no checksum", event, line)
        if self._unexplained:
            self._explain(event)
        is_first = self._links.first_id is None
        if not self._links.accept(event, line):
            return
        self.events += 1
        whole = self._contents.inflate(event, line)
        if is_first:
            self._first(whole, line)
        payload = whole.payload
        if isinstance(payload, Unknown) and payload.problem is not None:
            detail = f"{event.event_type}: {payload.problem}"
            self._note("unreadable_payload", detail, event, line)
        elif isinstance(payload, SessionStart | RunStart):
            self._check_version(payload, event, line)
        self._calls.accept(whole, line)
        self._contents.accept(whole, line)

    def _first(self, event: Event, line: Line) -> None:
        if isinstance(event.payload, SessionStart):
            self._links.is_fork = event.payload.forked_from is not None
        elif event.event_type != "session":
            detail = f"the first event is a {event.event_type}"
            self._note("no_session_line", detail, event, line)

    def _check_version(self, payload: SessionStart | RunStart, event: Event, line: Line) -> None:
        if payload.min_reader_version > READER_VERSION:
            detail = (
                f"it needs a reader of version {payload.min_reader_version}, "
                f"this Rewake reads version {READER_VERSION}"
            )
            self._note("version_too_new", detail, event, line)

    def _note(self, kind: Kind, detail: str, event: Event, line: Line) -> None:
        self._findings.add(kind, detail, offset=event.offset, line_number=line.number)

    # --- as a resume would ----------------------------------------------------------------

    def resume(self, reader: Lineage, *, deep: bool) -> None:
        """Load it, and with `deep` compare what the checkpoints say with what the events say."""
        if not self.events:
            return
        if reader.origin is not None and reader.ancestor() is None:
            kind: Kind = "missing_origin" if self._subject.session else "origin_unchecked"
            self._findings.add(kind, f"session {reader.origin.session_id} is not here")
            return
        blobs: BlobReader = self._subject.blobs or NoBlobs()
        try:
            loaded = load(reader, blobs, end=self._end)
            for damage in loaded.damage:
                self._adopt(damage)
            if not deep:
                return
            folded = load_from_root(reader, blobs, end=self._end)
        except UnreadableVersionError:
            return  # it has its finding
        except RewakeError as error:
            self._findings.add("unloadable", str(error))
            return
        resumed, whole = loaded.state.as_json(), folded.state.as_json()
        del resumed["history"], whole["history"]  # the same events, listed by way of another base
        differing = [key for key in whole if whole[key] != resumed[key]]
        if differing:
            detail = f"{', '.join(differing)} differ from a fold of all events"
            self._findings.add("checkpoint_differs", detail)

    def _adopt(self, damage: Damage) -> None:
        kind = _LOADERS_OWN.get(damage.kind)
        if kind is not None:
            offset = damage.offset if damage.offset >= 0 else None
            self._findings.add(kind, damage.detail, offset=offset)


def _name(line: Line, events: int) -> tuple[Kind, str]:
    """What is wrong with a complete line that the reader doesn't take as it stands."""
    if all(piece.is_nul for piece in line.pieces if piece.event is None):
        nuls = sum(len(piece.data) for piece in line.pieces if piece.event is None)
        if not events and nuls:
            return "nul_line", f"{nuls} NUL bytes and nothing else"
        if events == 1:
            return "nul_padding", f"{nuls} NUL bytes around a whole event"
    if events:
        rest = sum(len(piece.data) for piece in line.pieces if piece.event is None)
        others = f" and {rest} other bytes" if rest else ""
        return "glued_records", f"{events} event{'s' * (events > 1)}{others} on one line"
    if line.reason.startswith(_MISMATCH):
        return "checksum_mismatch", line.reason.removeprefix(_MISMATCH)
    return "corrupt_line", line.reason
