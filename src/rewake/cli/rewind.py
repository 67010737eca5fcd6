"""`rewake rewind`: take the conversation, files or both back to a message, or take that back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rewake.cli.jsonout import to_json
from rewake.cli.terminal import diff_lines, one_line, say, style_for
from rewake.compose.opening import open_for_notes
from rewake.compose.place import find_session, place
from rewake.errors import UsageError
from rewake.files.differ import FileDiff
from rewake.files.plan import Step
from rewake.files.preview import preview_lines
from rewake.model.content import JsonObject

if TYPE_CHECKING:
    from rewake.compose.taking_back import TakenBack


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
    if choices.undo:
        from rewake.compose.taking_back import take_again

        if choices.dry_run:
            return _rewind_files(session, None, cwd, choices, as_json=as_json)
        done = take_again(at, paths, force=choices.force)
        if done is not None:
            return _show(paths.session_id, done, choices, as_json=as_json)
    with open_for_notes(at, paths) as opened:
        rewind_id = opened.undo_rewind() if to is None else opened.rewind(to)
        messages = len(opened.messages)
    if as_json:
        back = {"session_id": paths.session_id, "rewind_id": rewind_id, "messages": messages}
        say(to_json(back))
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
    of_files = choices.only or ((choices.force or choices.dry_run) and not choices.undo)
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
    session: str, to: str | None, cwd: Path | None, choices: RewindChoices, *, as_json: bool
) -> int:
    from rewake.compose.taking_back import preview, take_back

    at = place(cwd or ".")
    paths = find_session(at, session)
    here = (cwd or Path()).resolve()
    only = [here / path for path in choices.only]
    if choices.dry_run or to is None:
        done = preview(at, paths, to, only=only, force=choices.force)
    else:
        done = take_back(at, paths, to, conversation=choices.both, only=only, force=choices.force)
    return _show(paths.session_id, done, choices, as_json=as_json)


# --- showing ---------------------------------------------------------------------------------


def _show(session_id: str, done: TakenBack, choices: RewindChoices, *, as_json: bool) -> int:
    if as_json:
        say(to_json(_object(session_id, done)))
        return 0
    for line in _lines(done):
        say(line)
    if choices.both:
        say(f"The conversation {'would go' if choices.dry_run else 'went'} back as well.")
    if choices.dry_run:
        style = style_for(sys.stdout)
        for diff in done.diffs:
            for line in diff_lines(diff.text, style).split("\n"):
                say(line)
    elif done.rewind_id:
        say(f"To take that back: rewake rewind {session_id} --undo")
    return 0


def _lines(done: TakenBack) -> Iterator[str]:
    yield from map(one_line, done.notices)
    verb = "taken back" if done.rewind_id is not None else "to be taken back"
    yield from preview_lines(done.plan, done.diffs, done.root, verb)
    if any(step.is_forceable for step in done.plan.conflicts):
        yield "What was kept can be taken back, too, with --force; --undo brings it again."


def _object(session_id: str, shown: TakenBack) -> JsonObject:
    counts = {diff.path: diff for diff in shown.diffs}
    return {
        "session_id": session_id,
        "rewind_id": shown.rewind_id or None,
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
