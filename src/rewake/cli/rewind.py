"""`rewake rewind`: take the conversation, files or both back to a message, or take that back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rewake.cli.jsonout import to_json
from rewake.cli.terminal import diff_lines, one_line, say, style_for
from rewake.compose.opening import open_for_notes
from rewake.compose.place import find_session, place
from rewake.errors import UsageError
from rewake.files.differ import FileDiff
from rewake.files.plan import RewindPlan, Step
from rewake.model.content import JsonObject


@dataclass(frozen=True, slots=True)
class RewindChoices:
    """What goes back: the conversation by default. `only` limits files to these paths."""

    conversation: bool = False
    files: bool = False
    both: bool = False
    dry_run: bool = False
    force: bool = False
    only: tuple[str, ...] = ()
    undo: bool = False

    @property
    def takes_files(self) -> bool:
        """Whether files are to go back."""
        return self.files or self.both


def rewind_session(
    session: str, to: str | None, cwd: Path | None, choices: RewindChoices, *, as_json: bool
) -> int:
    """Go back, and say how to take that back; returns the exit status.

    With the conversation alone nothing else changes: no run begins, and calls that were interrupted
    wait for a resume. With files they are settled first, since they may have changed some.

    Raises UsageError when the message isn't there, SessionBusyError, SessionNotFoundError, and
    StorageError when files can't be changed (then none is).
    """
    _check(to, choices)
    if choices.takes_files:
        return _rewind_files(session, to or "", cwd, choices, as_json=as_json)
    at = place(cwd or ".")
    paths = find_session(at, session)
    with open_for_notes(at, paths) as opened:
        if choices.undo:
            from rewake.compose.files import newest_rewind_took_files

            if newest_rewind_took_files(opened):
                opened.close()
                return _undo_files(session, cwd, choices, as_json=as_json)
        rewind_id = opened.undo_rewind() if to is None else opened.rewind(to)
        messages = len(opened.messages)
    if as_json:
        done = {"session_id": paths.session_id, "rewind_id": rewind_id, "messages": messages}
        say(to_json(done))
        return 0
    say(
        f"The conversation of {paths.session_id} is back at {messages} message"
        f"{'s' * (messages != 1)}; files are as they were."
    )
    say(f"To take that back: rewake rewind {paths.session_id} --undo")
    return 0


def _check(to: str | None, choices: RewindChoices) -> None:
    if choices.undo == (to is not None):
        raise UsageError(
            "Where to go back to isn't clear.", remedy="Give either --to MESSAGE or --undo."
        )
    if choices.conversation + choices.files + choices.both > 1:
        raise UsageError(
            "What goes back isn't clear.", remedy="Give one of --files, --conversation and --both."
        )
    of_files = choices.dry_run or choices.only or (choices.force and not choices.undo)
    if of_files and not choices.takes_files:
        raise UsageError(
            "--dry-run, --only and --force are for files.", remedy="Add --files or --both."
        )
    if choices.undo and choices.takes_files:
        raise UsageError(
            "An undo takes back what the rewind took.",
            remedy="Leave out --files and --both with --undo.",
        )


# --- files -----------------------------------------------------------------------------------


def _rewind_files(
    session: str, to: str, cwd: Path | None, choices: RewindChoices, *, as_json: bool
) -> int:
    from rewake.compose.files import diff_of_plan, plan_rewind, project_of, rewind_files
    from rewake.compose.sessions import open_session

    at = place(cwd or ".")
    paths = find_session(at, session)
    root = project_of(at, paths)
    here = (cwd or Path()).resolve()
    only = [here / path for path in choices.only]
    if choices.dry_run:
        with open_for_notes(place(root, at.home), paths) as opened:
            plan = plan_rewind(opened, to, only=only, force=choices.force)
            diffs = diff_of_plan(opened, plan)
        shown = _Shown(paths.session_id, plan, diffs, None, root)
        return _show(shown, choices, as_json=as_json)
    with open_session(root, resume=paths.session_id, home=at.home, trace=False) as opened:
        plan = plan_rewind(opened, to, only=only, force=choices.force)
        diffs = diff_of_plan(opened, plan)
        done = rewind_files(opened, to, conversation=choices.both, only=only, force=choices.force)
        opened.terminal("interrupted")
        notices = opened.resumed.notices if opened.resumed is not None else ()
    shown = _Shown(paths.session_id, done.plan, diffs, done.rewind_id, root, notices)
    return _show(shown, choices, as_json=as_json)


def _undo_files(session: str, cwd: Path | None, choices: RewindChoices, *, as_json: bool) -> int:
    from rewake.compose.files import project_of, undo_files_rewind
    from rewake.compose.sessions import open_session

    at = place(cwd or ".")
    paths = find_session(at, session)
    root = project_of(at, paths)
    with open_session(root, resume=paths.session_id, home=at.home, trace=False) as opened:
        done = undo_files_rewind(opened, force=choices.force)
        opened.terminal("interrupted")
    if done is None:
        raise UsageError("The newest rewind took no files.", remedy="Try --undo once more.")
    shown = _Shown(paths.session_id, done.plan, [], done.rewind_id, root)
    return _show(shown, choices, as_json=as_json)


# --- showing ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shown:
    """What was done, or would be (`rewind_id` None)."""

    session_id: str
    plan: RewindPlan
    diffs: list[FileDiff]
    rewind_id: str | None
    root: Path
    notices: tuple[str, ...] = ()


def _show(shown: _Shown, choices: RewindChoices, *, as_json: bool) -> int:
    if as_json:
        say(to_json(_object(shown)))
        return 0
    for line in _lines(shown):
        say(line)
    if choices.dry_run:
        style = style_for(sys.stdout)
        for diff in shown.diffs:
            for line in diff_lines(diff.text, style).split("\n"):
                say(line)
    elif shown.rewind_id is not None:
        say(f"To take that back: rewake rewind {shown.session_id} --undo")
    return 0


def _lines(shown: _Shown) -> Iterator[str]:
    yield from map(one_line, shown.notices)
    verb = "taken back" if shown.rewind_id is not None else "to be taken back"
    yield from preview_lines(shown.plan, shown.diffs, shown.root, verb)
    if any(step.is_forceable for step in shown.plan.conflicts):
        yield "What was kept can be taken back, too, with --force; --undo brings it again."


def preview_lines(
    plan: RewindPlan, diffs: list[FileDiff], root: Path, verb: str = "to be taken back"
) -> Iterator[str]:
    """A plan as lines: what happens to each path, with its count of lines, and what is kept."""
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


def _count(counts: dict[str, FileDiff], step: Step) -> str:
    diff = counts.get(step.shown)
    if diff is None:
        return ""
    return " (binary)" if diff.binary else f" (+{diff.added} -{diff.removed})"


def _object(shown: _Shown) -> JsonObject:
    counts = {diff.path: diff for diff in shown.diffs}
    return {
        "session_id": shown.session_id,
        "rewind_id": shown.rewind_id,
        "target_id": shown.plan.target_id,
        "is_possible": shown.plan.is_possible,
        "changes": [_step_object(step, counts) for step in shown.plan.changes],
        "conflicts": [
            {**_step_object(step, counts), "why": step.why, "session_id": step.session_id}
            for step in shown.plan.conflicts
        ],
        "not_covered": list(shown.plan.not_covered),
        "notices": list(shown.notices),
    }


def _step_object(step: Step, counts: dict[str, FileDiff]) -> JsonObject:
    diff = counts.get(step.shown)
    found: JsonObject = {"path": step.shown, "act": step.act}
    if diff is not None:
        found |= {"added": diff.added, "removed": diff.removed, "binary": diff.binary}
    return found
