"""`rewake check`: what is damaged in a session, where, what that means and what to do about it.

The rule kept here: only looking; and one session that can't be looked at costs its own report.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rewake.cli.jsonout import to_json
from rewake.cli.terminal import Style, clean, let_readers_leave, note, one_line, say, style_for
from rewake.compose.place import NEWEST, Place, find_session, place
from rewake.doctor.check import check
from rewake.doctor.findings import Finding, Report
from rewake.doctor.subject import Subject
from rewake.errors import ExitCode, UsageError
from rewake.log.layout import SessionPaths

_SUFFIX: Final = ".jsonl"


def check_sessions(
    wanted: str | None, cwd: Path | None, *, everything: bool, deep: bool, as_json: bool
) -> int:
    """Check one session or all of them; returns the exit status. Raises SessionNotFoundError."""
    let_readers_leave()
    if everything and wanted is not None:
        raise UsageError("--all takes no session.", remedy="Leave one of them out.")
    at = place(cwd or ".")
    if everything:
        reports = [check(subject, at.disk, deep=deep) for subject in _all(at)]
    else:
        reports = [check(find_subject(at, wanted), at.disk, deep=deep)]
    if as_json:
        say(to_json(_object(reports) if everything else reports[0]))
    else:
        _print(reports)
    return int(ExitCode.DONE if all(report.ok for report in reports) else ExitCode.DAMAGED)


def find_subject(at: Place, wanted: str | None) -> Subject:
    """A session by id, title or path; without one the newest. Raises SessionNotFoundError."""
    if wanted is None or not ("/" in wanted or wanted.endswith(_SUFFIX)):
        return Subject.of(find_session(at, NEWEST if wanted is None else wanted), at.disk)
    subject = Subject.at(Path(wanted).expanduser(), at.disk)
    subject.require()
    return subject


def _all(at: Place) -> Iterator[Subject]:
    """Every session of the home, oldest first, which for ids made by Rewake is their order."""

    def tell(path: Path, error: OSError) -> None:
        note(f"{path} can't be read: {error.strerror or error}.")

    def by_id(paths: SessionPaths) -> str:
        return paths.session_id

    for paths in sorted(at.layout.sessions(on_problem=tell), key=by_id):
        yield Subject.of(paths, at.disk)


def _object(reports: list[Report]) -> dict[str, object]:
    return {"ok": all(report.ok for report in reports), "sessions": reports}


def _print(reports: list[Report]) -> None:
    style = style_for(sys.stdout)
    for report in reports:
        for line in _lines(report, style):
            say(line)
        for agent in report.agents:
            if agent.findings and not agent.ok:
                for line in _lines(agent, style):
                    say(f"  {line}")
    if len(reports) != 1:
        damaged = sum(not report.ok for report in reports)
        say(f"{len(reports)} sessions checked, {damaged or 'none'} damaged.")


def _lines(report: Report, style: Style) -> Iterator[str]:
    name = style.bold(one_line(report.session_id) or "A transcript without a session")
    if report.agent_id is not None:
        name = style.bold(f"Sub-agent {one_line(report.agent_id)}")
    size = f"{report.events:,} event{'s' * (report.events != 1)}, {report.bytes:,} bytes"
    if report.agents:
        size += f", {len(report.agents):,} sub-agent{'s' * (len(report.agents) != 1)}"
    if report.ok:
        yield f"{name}: {style.green('healthy')} ({size})"
    else:
        yield f"{name}: {_summary(report)} ({size})"
        yield f"  {clean(report.path)}"
    for finding in report.findings:
        yield from _finding_lines(finding, report.path, style)
    listed = Counter(finding.kind for finding in report.findings)
    for kind, count in report.counts.items():
        more = count - sum(listed[known] for known in listed if known == kind)
        if more:
            yield f"  … {more:,} more: {_words(kind)}"


def _summary(report: Report) -> str:
    found = Counter(finding.severity for finding in report.findings)
    parts = [
        f"{found[severity]} {severity}{'s' * (found[severity] != 1)}"
        for severity in ("error", "warning")
        if found[severity]
    ]
    damaged = sum(not agent.ok for agent in report.agents)
    if damaged:
        parts.append(f"{damaged} damaged sub-agent{'s' * (damaged != 1)}")
    return ", ".join(parts)


def _finding_lines(finding: Finding, transcript: str, style: Style) -> Iterator[str]:
    paint = {"error": style.red, "warning": style.yellow, "info": style.dim}[finding.severity]
    where = f" in line {finding.line_number}" if finding.line_number is not None else ""
    if finding.offset is not None:
        where += f" at byte {finding.offset}"
    if finding.path != transcript:
        where = f" in {clean(finding.path)}"
    yield f"  {paint(finding.severity)}: {_words(finding.kind)}{where}: {one_line(finding.detail)}"
    if finding.severity != "info":
        yield f"    {one_line(finding.consequence)} {one_line(finding.remedy)}".rstrip()


def _words(kind: str) -> str:
    return kind.replace("_", " ")
