"""Rewinds of files by whoever looks at a session from outside: `rewake rewind`, the browser.

The rules kept here: a preview changes nothing; what interrupted calls have changed is on record before
anything is taken back; and why the session had ended stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rewake.compose.files import diff_of_plan, project_of
from rewake.compose.opening import open_for_notes
from rewake.compose.place import Place, place
from rewake.compose.rewinding import (
    newest_rewind_took_files,
    plan_rewind,
    plan_undo,
    rewind_files,
    undo_files_rewind,
)
from rewake.compose.sessions import open_session
from rewake.compose.settings import redacts
from rewake.files.differ import FileDiff
from rewake.files.plan import RewindPlan
from rewake.log.layout import SessionPaths
from rewake.session.core import Session


@dataclass(frozen=True, slots=True)
class TakenBack:
    """What was done, or would be (`rewind_id` None); `notices` are sentences about what else was."""

    root: Path
    plan: RewindPlan
    diffs: list[FileDiff]
    rewind_id: str | None = None
    notices: tuple[str, ...] = ()


def preview(
    at: Place,
    paths: SessionPaths,
    target_id: str | None,
    *,
    only: Iterable[str | Path] = (),
    force: bool = False,
) -> TakenBack:
    """What taking files back to `target_id` would do; None is for the undo of the newest rewind.

    Raises UsageError where there is no such event, SessionBusyError.
    """
    root = project_of(at, paths)
    with open_for_notes(place(root, at.home), paths) as session:
        if target_id is None:
            plan = plan_undo(session, force=force)
        else:
            plan = plan_rewind(session, target_id, only=only, force=force)
        return TakenBack(root, plan, diff_of_plan(session, plan), None, _unsettled(session))


def _unsettled(session: Session) -> tuple[str, ...]:
    calls = session.state.world.calls.values()
    count = sum(call.status == "started" for call in calls)
    if not count:
        return ()
    what = "A call was" if count == 1 else f"{count} calls were"
    return (
        f"{what} interrupted: what that changed is found out first, and then taken back as well.",
    )


def take_back(
    at: Place,
    paths: SessionPaths,
    target_id: str,
    *,
    conversation: bool = False,
    only: Iterable[str | Path] = (),
    force: bool = False,
) -> TakenBack:
    """Take files back to `target_id`, with `conversation` that as well. Durable on return.

    Raises UsageError, SessionBusyError, and StorageError (then nothing was changed).
    """
    root = project_of(at, paths)
    limits = list(only)
    with open_session(
        root,
        resume=paths.session_id,
        home=at.home,
        trace=False,
        resume_agents=True,
        redact=redacts(place(root, at.home)),
    ) as session:
        diffs = diff_of_plan(session, plan_rewind(session, target_id, only=limits, force=force))
        done = rewind_files(session, target_id, conversation=conversation, only=limits, force=force)
        _ends_as_before(session)
        return TakenBack(root, done.plan, diffs, done.rewind_id, _notices(session))


def take_again(at: Place, paths: SessionPaths, *, force: bool = False) -> TakenBack | None:
    """Undo the newest rewind, if it took files; None if it took none. Durable on return.

    Raises as `take_back` does.
    """
    with open_for_notes(at, paths) as session:
        if not newest_rewind_took_files(session):
            return None
    root = project_of(at, paths)
    with open_session(
        root,
        resume=paths.session_id,
        home=at.home,
        trace=False,
        resume_agents=True,
        redact=redacts(place(root, at.home)),
    ) as session:
        done = undo_files_rewind(session, force=force)
        _ends_as_before(session)
        if done is None:
            return None
        return TakenBack(root, done.plan, [], done.rewind_id, _notices(session))


def _notices(session: Session) -> tuple[str, ...]:
    return session.resumed.notices if session.resumed is not None else ()


def _ends_as_before(session: Session) -> None:
    """A rewind from outside changes nothing about how the run before it ended."""
    former = session.resumed.terminal if session.resumed is not None else None
    session.terminal(former.reason if former is not None else "interrupted")
