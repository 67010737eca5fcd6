"""What a rewind of files would do or has done, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rewake.files.differ import FileDiff
from rewake.files.plan import RewindPlan, Step
from rewake.screentext import one_line


def preview_lines(
    plan: RewindPlan, diffs: Sequence[FileDiff], root: Path, verb: str = "to be taken back"
) -> Iterator[str]:
    """What happens to each path, with its count of lines, what is kept, and what isn't covered."""
    count = len(plan.changes)
    yield f"{count} path{'' if count == 1 else 's'} {verb} in {one_line(str(root))}."
    counts = {diff.path: diff for diff in diffs}
    for step in plan.changes:
        yield f"  {step.act:<8} {one_line(_name(step, root))}{_count(counts, step)}"
    for step in plan.conflicts:
        yield f"  kept     {one_line(_name(step, root))}: {one_line(step.reason)}"
    for told in plan.not_covered:
        yield f"Not covered: {one_line(told)}"


def _name(step: Step, root: Path) -> str:
    return step.shown.removeprefix(f"{root}/")


def _count(counts: Mapping[str, FileDiff], step: Step) -> str:
    diff = counts.get(step.shown)
    if diff is None:
        return ""
    return " (binary)" if diff.binary else f" (+{diff.added} -{diff.removed})"
