"""`rewake repair`: a damaged transcript made whole, and said plainly what was kept and what is lost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rewake.cli.check import find_subject
from rewake.cli.jsonout import to_json
from rewake.cli.terminal import clean, let_readers_leave, one_line, say
from rewake.compose.place import place
from rewake.doctor.repair import RepairReport, Treated, repair
from rewake.errors import ExitCode
from rewake.log.lock import this_process
from rewake.record.lines import Timestamps

_DROPPED: Final = {
    "unreadable": "nothing in it can be read",
    "nul": "it is NULs only",
    "foreign": "it is another session's",
    "repeated": "it repeats an earlier one",
}


def repair_session(wanted: str | None, cwd: Path | None, *, dry_run: bool, as_json: bool) -> int:
    """Repair one session; returns the exit status. Raises what `doctor.repair` raises."""
    let_readers_leave()
    at = place(cwd or ".")
    subject = find_subject(at, wanted)
    holder = this_process(Timestamps(at.clock_ns)(), "rewake repair")
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    report = repair(subject, at.disk, holder, moment=moment, dry_run=dry_run)
    if as_json:
        say(to_json(report))
    else:
        for one in (report, *report.agents):
            for sentence in _sentences(one):
                say(sentence)
    is_damaged = any(one.counts for one in (report, *report.agents))
    return int(ExitCode.DAMAGED if dry_run and is_damaged else ExitCode.DONE)


def _sentences(report: RepairReport) -> Iterator[str]:
    name = one_line(report.session_id) or clean(report.path)
    if report.agent_id is not None:
        name = f"Sub-agent {one_line(report.agent_id)}"
    if report.removed is not None:
        yield f"Removed what an interrupted repair had left: {clean(report.removed)}."
    if not report.counts:
        yield f"{name}: nothing to repair; the transcript was not touched."
        return
    would = "would be repaired" if report.dry_run else "repaired"
    yield (
        f"{name}: {would}; {report.events:,} events kept byte for byte "
        f"({report.bytes_before:,} bytes before, {report.bytes_after:,} after)."
    )
    for treated in report.lines:
        yield f"  line {treated.line_number} at byte {treated.offset}: {_what(treated)}"
    more = sum(report.counts.values()) - len(report.lines)
    if more:
        yield f"  … and {more:,} more lines of the same kinds"
    if report.events_missing:
        yield f"Lost: {report.events_missing:,} events, as the numbers in the file tell."
    if report.kept_original is not None:
        yield f"The damaged original is kept as {clean(report.kept_original)}."


def _what(treated: Treated) -> str:
    bytes_ = f"{treated.dropped_bytes:,} bytes"
    if treated.treatment == "dropped":
        return f"left out ({bytes_}): {_DROPPED[treated.reason or 'unreadable']}"
    if treated.treatment == "completed":
        return "a whole event, which only lacked its newline"
    if treated.treatment == "unpadded":
        return f"kept without {bytes_} of NULs"
    others = f", {bytes_} between them left out" if treated.dropped_bytes else ""
    events = f"{treated.kept} event{'s' * (treated.kept != 1)}"
    return f"{events} taken apart{others}"
