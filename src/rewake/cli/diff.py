"""`rewake diff`: what a session changed in files, as statistics and as unified diffs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from rewake.cli.jsonout import to_json
from rewake.cli.terminal import diff_lines, one_line, say, style_for
from rewake.compose.files import file_changes
from rewake.files.differ import FileDiff, totals

_BAR_MAX: Final = 40


@dataclass(frozen=True, slots=True)
class DiffChoices:
    """Which stretch of the session, or which call; `stat` leaves out the diffs themselves."""

    since: str | None = None
    until: str | None = None
    call: str | None = None
    stat: bool = False


def show_diff(session: str, cwd: Path | None, choices: DiffChoices, *, as_json: bool) -> int:
    """Print it; returns the exit status. Raises SessionNotFoundError, UsageError."""
    diffs = file_changes(
        session,
        since=choices.since,
        until=choices.until,
        call=choices.call,
        project=cwd or ".",
    )
    if as_json:
        _, added, removed = totals(diffs)
        listed = [msgspec.to_builtins(diff) for diff in diffs]
        if choices.stat:
            for one in listed:
                del one["text"]
        say(to_json({"files": listed, "added": added, "removed": removed}))
        return 0
    print_diffs(diffs, stat=choices.stat)
    return 0


def print_diffs(diffs: list[FileDiff], *, stat: bool = False) -> None:
    """Print unified diffs, or with `stat` a line for each file and one for all."""
    style = style_for(sys.stdout)
    if stat:
        files, added, removed = totals(diffs)
        for diff in diffs:
            say(_stat_line(diff))
        say(f"{files} file{'' if files == 1 else 's'} changed, +{added} -{removed} lines")
        return
    for diff in diffs:
        for line in diff_lines(diff.text, style).split("\n"):
            say(line)


def _stat_line(diff: FileDiff) -> str:
    """Like `git diff --stat`: the name, the count, a bar."""
    name = one_line(diff.shown)
    if diff.binary or diff.problem:
        return f" {name} | {'binary' if diff.binary else one_line(diff.problem)} ({diff.kind})"
    changed = diff.added + diff.removed
    scale = min(1.0, _BAR_MAX / changed) if changed else 0.0
    bar = "+" * round(diff.added * scale) + "-" * round(diff.removed * scale)
    return f" {name} | {changed} {bar} ({diff.kind})"
