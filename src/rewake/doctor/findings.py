"""What `check` reports: findings, each with what it means for the user and what to do about it.

The rule kept here: an *error* is something that stands in the files and can't be used; a *warning*
is something that is lost, out of order or unsafe, which reading copes with; *info* is no damage.
Memory is bounded: of each kind the first are listed and all are counted.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final, Literal

import msgspec

Severity = Literal["error", "warning", "info"]
Kind = Literal[
    "missing_transcript",
    "unreadable_file",
    "version_too_new",
    "unloadable",
    "torn_tail",
    "cut_write",
    "corrupt_line",
    "checksum_mismatch",
    "nul_line",
    "nul_padding",
    "glued_records",
    "no_checksum",
    "unreadable_payload",
    "foreign_session",
    "wrong_directory",
    "no_session_line",
    "no_events",
    "duplicate_event",
    "conflicting_event",
    "id_not_rising",
    "seq_not_rising",
    "seq_gap",
    "missing_parent",
    "parent_not_before",
    "unexpected_parent",
    "orphan_outcome",
    "orphan_result",
    "orphan_amendment",
    "open_call",
    "missing_blob",
    "damaged_blob",
    "blobs_unchecked",
    "unusable_checkpoint",
    "missing_event",
    "missing_origin",
    "origin_unchecked",
    "checkpoint_differs",
    "bad_permissions",
    "foreign_owner",
    "leftover_file",
    "conflict_copy",
    "kept_original",
    "lock_problem",
    "being_written",
    "damaged_record",
]

LISTED_MAX: Final = 100
"""Findings of one kind that are listed; whoever has more has one cause for all of them."""

_REPAIR: Final = "Run `rewake repair` on it."
_BACKUP: Final = "Restore it from a backup, if there is one."
_NOTHING: Final = "Nothing needs to be done."
_REPORT: Final = "Please report it together with the file."

_MEANING: Final[dict[Kind, tuple[Severity, str, str]]] = {
    "missing_transcript": (
        "error",
        "There is nothing to load.",
        "Give the id of a session or the path of a transcript.",
    ),
    "unreadable_file": (
        "error",
        "What it holds can't be looked at, so nothing is known about it.",
        "Make the file readable and check the disk, then check again.",
    ),
    "version_too_new": (
        "error",
        "This Rewake refuses to open the session, so that it gets nothing wrong.",
        "Upgrade Rewake; nothing was changed.",
    ),
    "unloadable": ("error", "The session can't be resumed.", _REPAIR),
    "torn_tail": (
        "warning",
        "A write was cut short; nothing that was acknowledged is in it.",
        "Resume the session, or run `rewake repair` on it.",
    ),
    "cut_write": (
        "warning",
        "A write was cut short here; the next event continues the one before, so no event is lost.",
        "Run `rewake repair` on it if you want the line gone.",
    ),
    "corrupt_line": ("error", "The event that stood here is lost.", _REPAIR),
    "checksum_mismatch": (
        "error",
        "Bytes of this line have changed since it was written, so its event is not used.",
        "Restore the file from a backup if there is one, else run `rewake repair` on it.",
    ),
    "nul_line": (
        "error",
        "The machine went down before these bytes reached the disk; their events are lost.",
        _REPAIR,
    ),
    "nul_padding": ("warning", "The event is whole and is used; the NULs are ignored.", _REPAIR),
    "glued_records": (
        "error",
        "The events in this line are whole, but no reader sees them until they are taken apart.",
        "Run `rewake repair` on it, which gives each its own line.",
    ),
    "no_checksum": (
        "info",
        "The event is used, but nothing proves that it is unchanged.",
        _NOTHING,
    ),
    "unreadable_payload": (
        "warning",
        "The event keeps its place, but nothing of what it says is used.",
        "If another version of Rewake wrote it, use that one; the line is kept as it is.",
    ),
    "foreign_session": ("warning", "The line is ignored.", _REPAIR),
    "wrong_directory": (
        "error",
        "A resumed run would write lines that its own readers ignore.",
        "Rename the directory to the session's id.",
    ),
    "no_session_line": (
        "warning",
        "The project and the format's version of this session are not known.",
        _BACKUP,
    ),
    "no_events": ("info", "The session was made, but nothing was recorded in it.", _NOTHING),
    "duplicate_event": ("warning", "The event counts once, where it first stands.", _REPAIR),
    "conflicting_event": (
        "warning",
        "Only the first line with this id is used; the other one says something else.",
        "Look at both with `rewake show`; two writers or a merged copy made them.",
    ),
    "id_not_rising": (
        "warning",
        "Lines were moved or merged; finding an event by its id may take a pass over the file.",
        "Restore the file from a backup if the order matters; every line is still used.",
    ),
    "seq_not_rising": ("warning", "Lines were moved or merged; each is still used.", _NOTHING),
    "seq_gap": (
        "info",
        "A write that was cut short stood here, or an event of a branch that was left.",
        _NOTHING,
    ),
    "missing_parent": (
        "warning",
        "The event before it is lost; it is taken to follow the nearest earlier one.",
        _BACKUP,
    ),
    "parent_not_before": (
        "warning",
        "Its parent doesn't stand before it; it is taken to follow the nearest earlier event.",
        _BACKUP,
    ),
    "unexpected_parent": (
        "warning",
        "It doesn't continue the line before it, so what stands between may be left out.",
        "Look at the conversation with `rewake show` before you go on with it.",
    ),
    "orphan_outcome": ("warning", "It belongs to a call whose request is not here.", _NOTHING),
    "orphan_result": ("warning", "It answers no call and is left out of requests.", _NOTHING),
    "orphan_amendment": ("warning", "The message that it completes is not here.", _NOTHING),
    "open_call": (
        "info",
        "The call was interrupted, or runs right now.",
        "Resume the session: it gets a verdict with its evidence.",
    ),
    "missing_blob": ("error", "What it held can't be shown or restored.", _BACKUP),
    "damaged_blob": ("error", "What it held can't be shown or restored.", _BACKUP),
    "blobs_unchecked": (
        "info",
        "The blobs are in the project's directory, which doesn't belong to this file.",
        "Check the session by its id to look at them too.",
    ),
    "unusable_checkpoint": (
        "warning",
        "Resuming folds the whole transcript instead, which takes longer.",
        "Resume the session: it writes a new checkpoint.",
    ),
    "missing_event": (
        "warning",
        "A checkpoint names it as part of the conversation, which goes on without it.",
        _BACKUP,
    ),
    "missing_origin": (
        "error",
        "What was said before the session was forked is not part of it any more.",
        "Put the origin's directory back beside this one.",
    ),
    "origin_unchecked": (
        "info",
        "It was forked from another session, which isn't looked for outside of a home.",
        "Check the session by its id to see whether it can be resumed.",
    ),
    "checkpoint_differs": (
        "error",
        "The resumed state isn't what the events say.",
        _REPORT,
    ),
    "bad_permissions": (
        "warning",
        "Other users of this machine may read what you and the model said, or you can't write it.",
        "",
    ),
    "foreign_owner": (
        "warning",
        "It belongs to another user, who can change it and whom it may be hidden from.",
        "Give it back with `chown`.",
    ),
    "leftover_file": (
        "info",
        "A process was killed while it wrote it; nothing refers to it.",
        "Delete it once nothing writes the session.",
    ),
    "conflict_copy": (
        "warning",
        "A cloud sync kept another machine's transcript; its events may be missing in this one.",
        "Check the copy by its path, keep the one that you need, and move the other away.",
    ),
    "kept_original": (
        "info",
        "An earlier repair kept the transcript as it was before.",
        "Delete it when you don't need it any more.",
    ),
    "lock_problem": (
        "error",
        "The session can't be opened for writing.",
        "",
    ),
    "being_written": ("info", "What is checked here may be changing.", _NOTHING),
    "damaged_record": (
        "warning",
        "A list of agents shows less of one; its transcript tells everything.",
        "Delete the file; what a transcript tells is told without it.",
    ),
}


class Finding(msgspec.Struct, frozen=True):
    """One thing found. `offset` (bytes) and `line_number` (from 1) are None where it has no place."""

    kind: Kind
    severity: Severity
    path: str
    offset: int | None
    line_number: int | None
    detail: str
    consequence: str
    remedy: str


class Report(msgspec.Struct, frozen=True):
    """Everything found, in file order, `counts` by kind. `ok`: no errors and no warnings.

    `events` counts the readable events of the session, `bytes` the file's size. `agents` are the same
    of its sub-agents, of which `ok` speaks as well.
    """

    session_id: str
    path: str
    findings: tuple[Finding, ...]
    counts: dict[str, int]
    events: int
    bytes: int
    ok: bool
    agent_id: str | None = None
    agents: tuple[Report, ...] = ()


class Findings:
    """Collects the findings about one transcript and what lies around it."""

    def __init__(self, transcript: Path) -> None:
        self.transcript = transcript
        self.counts: Counter[str] = Counter()
        self._listed: list[Finding] = []

    def add(
        self,
        kind: Kind,
        detail: str,
        *,
        offset: int | None = None,
        line_number: int | None = None,
        path: Path | None = None,
        severity: Severity | None = None,
        remedy: str | None = None,
    ) -> None:
        """Note one; what isn't given is the kind's own, and the path the transcript's."""
        self.counts[kind] += 1
        if self.counts[kind] > LISTED_MAX:
            return
        usual, consequence, usual_remedy = _MEANING[kind]
        finding = Finding(
            kind,
            severity or usual,
            str(path or self.transcript),
            offset,
            line_number,
            detail,
            consequence,
            usual_remedy if remedy is None else remedy,
        )
        self._listed.append(finding)

    def report(self, session_id: str, events: int, size: int) -> Report:
        """The findings so far; those without a place come first."""
        listed = sorted(self._listed, key=lambda item: -1 if item.offset is None else item.offset)
        ok = all(item.severity == "info" for item in listed)
        path = str(self.transcript)
        return Report(session_id, path, tuple(listed), dict(self.counts), events, size, ok)
