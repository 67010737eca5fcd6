"""Taking the files of a session back, and bringing them again.

The rules kept here: files change only while the session is held, with a journal, and what was done is
on record before anybody is told; a rewind that a crash cut short is finished before anything else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from rewake.errors import UsageError
from rewake.files.apply import Finished, Journal, Rewinder, Scope
from rewake.files.history import Recorded, fold, not_covered, recorded
from rewake.files.names import absolute
from rewake.files.names import change as make_change
from rewake.files.others import changed_by_others
from rewake.files.plan import RewindPlan, Step, make_plan
from rewake.log.blobs import BlobStore
from rewake.log.layout import SessionPaths
from rewake.log.scan import Transcript
from rewake.model.content import Usage
from rewake.model.events import Change, Event, FileState, Rewind
from rewake.resume.branches import newest_rewind
from rewake.resume.lineage import Ancestors, Lineage
from rewake.resume.load import conversation_at, inflate
from rewake.session.core import Session

_FILES: Final = "files"
_NOTED_PATHS_MAX: Final = 20


class FilesRewound(msgspec.Struct, frozen=True):
    """A rewind that was done: its id, and the plan that was followed.

    The id is empty where nothing had to be changed: nothing is on record then, so that an undo goes on
    meaning the rewind before.
    """

    rewind_id: str
    plan: RewindPlan


def plan_rewind(
    session: Session,
    target_id: str,
    *,
    only: Iterable[str | Path] = (),
    force: bool = False,
) -> RewindPlan:
    """What taking the files back to `target_id` (a message, or any event) would do. Changes nothing.

    A model's message counts together with its calls. `only` limits it to these paths; `force`
    overrules conflicts. Raises UsageError where there is no such event.
    """
    session.flush()
    with session.reader() as reader:
        _, target = conversation_at(reader, session.blobs, target_id)
        events = list(recorded(reader, session.blobs, root=session.root))
    return _plan(session, target.event_id, events, only=only, force=force)


def rewind_files(
    session: Session,
    target_id: str,
    *,
    conversation: bool = False,
    only: Iterable[str | Path] = (),
    force: bool = False,
    usage: Usage | None = None,
) -> FilesRewound:
    """Take back what was changed in files after `target_id`; with `conversation` that as well.

    Only paths that are as the agent left them are changed; the others are conflicts and stay, unless
    `force` is given. The model is told where its conversation goes on. `usage` is what a summary of a
    conversation that goes back cost. Durable on return. Raises UsageError, StorageError (then nothing
    was changed).
    """
    plan = plan_rewind(session, target_id, only=only, force=force)
    conversation_id = plan.target_id if conversation else None
    if not plan.changes and conversation_id is None:
        return FilesRewound("", plan)
    rewind_id = _apply(session, plan, conversation_id=conversation_id, usage=usage)
    return FilesRewound(rewind_id, plan)


def undo_files_rewind(session: Session, *, force: bool = False) -> FilesRewound | None:
    """Bring back what the newest rewind took back, if it took files; None if it took none.

    A conversation that went back with the files is brought back, too. An undo can be undone in the
    same way. Raises UsageError when nothing was rewound.
    """
    rewind, payload, left_id = _undone(session)
    if payload.scope == "conversation":
        return None
    plan = _plan_of_undo(session, rewind, left_id, force=force)
    conversation_id = left_id if payload.scope == "both" else None
    rewind_id = _apply(session, plan, conversation_id=conversation_id, undoes=rewind.event_id)
    return FilesRewound(rewind_id, plan)


def plan_undo(session: Session, *, force: bool = False) -> RewindPlan:
    """What undoing the newest rewind would do to files. Raises UsageError when nothing was rewound."""
    rewind, _, left_id = _undone(session)
    return _plan_of_undo(session, rewind, left_id, force=force)


def _undone(session: Session) -> tuple[Event, Rewind, str]:
    """The newest rewind and where it left from."""
    session.flush()
    with session.reader() as reader:
        found = _newest_rewind(reader, session)
    if found is None or not isinstance(found[0].payload, Rewind):
        raise UsageError("Nothing was rewound in this session.", remedy="There is no undo.")
    return found[0], found[0].payload, found[1]


def _plan_of_undo(session: Session, rewind: Event, left_id: str, *, force: bool) -> RewindPlan:
    with session.reader() as reader:
        events = list(recorded(reader, session.blobs, root=session.root))
    of_rewind = [event for event in events if event.event_id == rewind.event_id]
    return _plan_of(session, left_id, of_rewind, events, force=force)


def newest_rewind_took_files(session: Session) -> bool:
    """Whether the newest rewind changed files, so that its undo does, too."""
    session.flush()
    with session.reader() as reader:
        found = _newest_rewind(reader, session)
    payload = found[0].payload if found is not None else None
    return isinstance(payload, Rewind) and payload.scope != "conversation"


def _newest_rewind(reader: Lineage, session: Session) -> tuple[Event, str] | None:
    found = newest_rewind(reader)
    if found is None:
        return None
    rewind, left_id = found
    return inflate(rewind, session.blobs)[0], left_id


def _plan(
    session: Session,
    target_id: str,
    events: Sequence[Recorded],
    *,
    only: Iterable[str | Path],
    force: bool,
) -> RewindPlan:
    later = [event for event in events if event.event_id > target_id]
    return _plan_of(session, target_id, later, events, only=only, force=force)


def _plan_of(
    session: Session,
    target_id: str,
    later: Sequence[Recorded],
    events: Sequence[Recorded],
    *,
    only: Iterable[str | Path] = (),
    force: bool,
) -> RewindPlan:
    blobs = session.blobs
    own = frozenset(event.event_id for event in events)

    def others(wanted: Mapping[bytes, str]) -> Mapping[bytes, tuple[str, FileState]]:
        beside = session.directory.parent
        found = [
            SessionPaths(beside.parent, directory.name)
            for directory in sorted(beside.iterdir())
            if directory.name != session.session_id
        ]
        return changed_by_others(
            wanted, found, own, open_reader=_open_beside, blobs=blobs, root=session.root
        )

    return make_plan(
        target_id,
        fold(later),
        has_blob=blobs.has if isinstance(blobs, BlobStore) else lambda _sha256: True,
        others=others,
        only=[absolute(session.root, path) for path in only],
        force=force,
        not_covered=not_covered(events, target_id),
    )


def _open_beside(paths: SessionPaths) -> Lineage:
    return Lineage(Transcript(paths.transcript), Ancestors(paths))


def _rewinder(session: Session) -> Rewinder:
    blobs = session.blobs
    if not isinstance(blobs, BlobStore):
        raise UsageError(
            "A session that is kept in memory only has no file history.",
            remedy="Open it with a transcript.",
        )
    return Rewinder(session.directory / _FILES, blobs.disk, blobs.put, blobs.get)


def _apply(
    session: Session,
    plan: RewindPlan,
    *,
    conversation_id: str | None,
    undoes: str | None = None,
    usage: Usage | None = None,
) -> str:
    rewinder = _rewinder(session)
    scope: Scope = "both" if conversation_id is not None else "files"
    with session.recorder.held():
        leaf_id = _leaf(session)
        journal = Journal(
            operation_id=os.urandom(8).hex(),
            leaf_id=leaf_id,
            target_id=plan.target_id,
            scope=scope,
            conversation_id=conversation_id,
            undoes=undoes,
            changes=tuple(step.change() for step in plan.changes),
            conflicts=tuple(_conflict(step) for step in plan.conflicts),
        )
        rewinder.apply(journal, plan.changes)
        rewind_id = _record(session, journal, journal.changes, journal.conflicts, usage=usage)
        rewinder.done()
    return rewind_id


def _conflict(step: Step) -> Change:
    return make_change(step.path, step.actual, step.wanted)


def _record(
    session: Session,
    journal: Journal,
    changes: Sequence[Change],
    conflicts: Sequence[Change],
    *,
    usage: Usage | None = None,
) -> str:
    rewind_id = session.record_files_rewind(
        journal.target_id,
        changes,
        conflicts,
        conversation_id=journal.conversation_id,
        undoes=journal.undoes,
        usage=usage,
    )
    if journal.scope == "files" and changes:
        session.user(_note(changes, is_undo=journal.undoes is not None), source="rewake")
    return rewind_id


def _note(changes: Sequence[Change], *, is_undo: bool) -> str:
    """What the model must know where its conversation goes on: the files aren't as it left them."""
    paths = [change.path for change in changes]
    listed = ", ".join(paths[:_NOTED_PATHS_MAX])
    more = f" and {len(paths) - _NOTED_PATHS_MAX} more" if len(paths) > _NOTED_PATHS_MAX else ""
    did = "undid a rewind of files" if is_undo else "took files back to an earlier state"
    return f"The user {did}: {listed}{more}. Read them again before you go on."


def _leaf(session: Session) -> str:
    session.flush()
    with session.reader() as reader:
        for item in reader.backward():
            if isinstance(item, Event):
                return item.event_id
    return ""


def finish_rewind(session: Session) -> str | None:
    """At open: finish a rewind of files that a crash had cut short; a sentence about it, or None."""
    if not isinstance(session.blobs, BlobStore):
        return None
    rewinder = _rewinder(session)
    journal = rewinder.pending()
    if journal is None:
        return None
    if _is_recorded(session, journal):
        rewinder.done()
        return None
    finished: Finished = rewinder.finish(journal)
    if not finished.rolled_back:
        _record(session, journal, finished.changes, (*journal.conflicts, *finished.left))
    rewinder.done()
    return finished.sentence()


def _is_recorded(session: Session, journal: Journal) -> bool:
    session.flush()
    with session.reader() as reader:
        for item in reader.backward():
            if not isinstance(item, Event):
                continue
            if item.event_id <= journal.leaf_id:
                return False
            if item.event_type == "rewind":
                event, _ = inflate(item, session.blobs)
                if isinstance(event.payload, Rewind) and event.payload.scope != "conversation":
                    return True
    return False
