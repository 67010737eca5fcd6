"""File history of a session: tracking what calls change, and taking it back.

The rules kept here: files change only while the session is held, with a journal, and what was done is
on record before anybody is told; a rewind that a crash cut short is finished before anything else.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from rewake.compose.place import Place, find_session, place
from rewake.errors import UsageError
from rewake.files.apply import Finished, Journal, Rewinder, Scope
from rewake.files.differ import FileDiff, diff_states
from rewake.files.history import Recorded, fold, paths_changed, recorded
from rewake.files.names import change as make_change
from rewake.files.names import same, same_content
from rewake.files.others import changed_by_others
from rewake.files.plan import RewindPlan, Step, make_plan
from rewake.files.track import Tracked, Tracker
from rewake.files.written import Directories
from rewake.log.blobs import BlobStore
from rewake.log.layout import SessionPaths, project_root, where
from rewake.log.scan import Transcript
from rewake.model.content import Usage
from rewake.model.events import (
    Change,
    Event,
    FileState,
    OtherIntent,
    Outcome,
    Rewind,
    ShellIntent,
)
from rewake.resume.branches import newest_rewind
from rewake.resume.chain import observe, path_of
from rewake.resume.evidence import Settlement
from rewake.resume.lineage import Lineage
from rewake.resume.listing import read_world
from rewake.resume.load import conversation_at, inflate
from rewake.session.core import Session
from rewake.state.world import OpenCall

_FILES: Final = "files"
_NOTED_PATHS_MAX: Final = 20


# --- tracking --------------------------------------------------------------------------------


class SessionTracker:
    """The tracker of one session and its sub-agents, as their calls use it. Safe for threads."""

    def __init__(
        self, tracker: Tracker, directories: Directories, on_notice: Callable[[str], None]
    ) -> None:
        self._tracker = tracker
        self._directories = directories
        self._on_notice = on_notice
        self._mutex = threading.Lock()

    def before(self, call_id: str) -> None:
        """See `FileTracker`."""
        with self._mutex:
            self._tracker.before(call_id)

    def after(self, call_id: str, outcome: Outcome) -> Outcome:
        """See `FileTracker`."""
        with self._mutex:
            tracked = self._tracker.after(call_id)
        for missing in tracked.not_covered:
            self._on_notice(missing.sentence())
        return with_tracked(outcome, tracked)

    def expect(self, call_id: str, changes: Sequence[Change]) -> None:
        """See `FileTracker`."""
        with self._mutex:
            self._tracker.expect(changes)
            self._directories.expect(call_id, changes)

    def made(self, call_id: str, outcome: Outcome) -> Outcome:
        """See `FileTracker`."""
        with self._mutex:
            self._tracker.watch(path_of(change) for change in outcome.changes)
            outcome = self._directories.made(call_id, outcome)
            earlier = self._tracker.claim(call_id, outcome.changes)
        if not earlier:
            return outcome
        return msgspec.structs.replace(outcome, changes=(*earlier, *outcome.changes))

    def recorded(self, call_id: str) -> None:
        """See `FileTracker`."""
        with self._mutex:
            self._tracker.recorded(call_id)


def with_tracked(outcome: Outcome, tracked: Tracked) -> Outcome:
    """The outcome with what the scans found added to what the call itself reports."""
    told = {change.path for change in outcome.changes}
    found = tuple(change for change in tracked.changes if change.path not in told)
    return msgspec.structs.replace(
        outcome,
        changes=(*outcome.changes, *found),
        details={**outcome.details, **tracked.details()},
    )


def track_files(session: Session, on_notice: Callable[[str], None] | None = None) -> None:
    """Have every later call of the session tracked: what it changes in files is on record with it.

    Costs two scans of the project around each call that may change anything. Sessions that are kept
    in memory only have no file history. `on_notice` hears of what isn't covered.
    """
    if session.transcript is None or not isinstance(session.blobs, BlobStore):
        return
    paths = SessionPaths(session.directory.parents[1], session.session_id)
    tracker = _tracker(
        session.root, paths, session.blobs, lambda: _paths_changed(session, session.root)
    )
    session.tracker = SessionTracker(
        tracker, Directories(paths.files, tracker.disk), on_notice or _silent
    )


def share_tracking(session: Session, other: Session) -> None:
    """Have the calls of `other`, which works in the same project at the same time, tracked with these.

    What both change at once is then on record once. Use it for a session's sub-agents.
    """
    other.tracker = session.tracker


def _silent(_text: str) -> None:
    """Nobody listens: what isn't covered stands in the outcome all the same."""


def _paths_changed(session: Session, root: Path) -> Iterable[bytes]:
    session.flush()
    with session.reader() as reader:
        return paths_changed(reader, session.blobs, root=root)


def _tracker(
    root: Path,
    paths: SessionPaths,
    blobs: BlobStore,
    extra: Callable[[], Iterable[bytes]] = tuple,
) -> Tracker:
    disk = blobs.disk
    bulk = BlobStore(blobs.directory, disk, durable=False)
    return Tracker(
        root,
        paths.files,
        blobs,
        disk=disk,
        own=paths.project.parents[1],
        extra=extra,
        bulk=(bulk, lambda: disk.sync_file_system(blobs.directory)) if blobs.durable else None,
        sync=blobs.durable,
    )


def settle_tracked(
    at: Place,
    paths: SessionPaths,
    blobs: BlobStore,
    calls: Mapping[str, OpenCall],
    settlements: Sequence[Settlement],
) -> list[Settlement]:
    """The settlements of interrupted calls, with the files that those calls changed.

    What was there before is known from the scan that preceded the call; the newest call that may have
    changed something gets the difference.
    """
    directories = Directories(paths.files, at.disk)
    outcomes = directories.recovered({item.call_id: item.outcome for item in settlements})
    settled = [
        msgspec.structs.replace(item, outcome=outcomes[item.call_id]) for item in settlements
    ]
    newest: int | None = None
    for index, item in enumerate(settled):
        call = calls[item.call_id]
        is_tracked = isinstance(call.intent, ShellIntent | OtherIntent)
        if is_tracked and call.status == "started" and item.resolution.verdict != "not_applied":
            newest = index
    if newest is None:
        return settled
    tracked = _tracker(at.root, paths, blobs).recover()
    item = settled[newest]
    settled[newest] = msgspec.structs.replace(item, outcome=with_tracked(item.outcome, tracked))
    return settled


# --- taking files back -----------------------------------------------------------------------


class FilesRewound(msgspec.Struct, frozen=True):
    """A rewind that was done: its id, and the plan that was followed."""

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
    rewind_id = _apply(session, plan, conversation_id=conversation_id, usage=usage)
    return FilesRewound(rewind_id, plan)


def undo_files_rewind(session: Session, *, force: bool = False) -> FilesRewound | None:
    """Bring back what the newest rewind took back, if it took files; None if it took none.

    A conversation that went back with the files is brought back, too. An undo can be undone in the
    same way. Raises UsageError when nothing was rewound.
    """
    session.flush()
    with session.reader() as reader:
        found = _newest_rewind(reader, session)
        if found is None:
            raise UsageError("Nothing was rewound in this session.", remedy="There is no undo.")
        rewind, left_id = found
        events = list(recorded(reader, session.blobs, root=session.root))
    payload = rewind.payload
    if not isinstance(payload, Rewind) or payload.scope == "conversation":
        return None
    of_rewind = [event for event in events if event.event_id == rewind.event_id]
    plan = _plan_of(session, left_id, of_rewind, events, force=force)
    conversation_id = left_id if payload.scope == "both" else None
    rewind_id = _apply(session, plan, conversation_id=conversation_id, undoes=rewind.event_id)
    return FilesRewound(rewind_id, plan)


def newest_rewind_took_files(session: Session) -> bool:
    """Whether the newest rewind changed files, so that its undo does, too."""
    session.flush()
    with session.reader() as reader:
        found = _newest_rewind(reader, session)
    payload = found[0].payload if found is not None else None
    return isinstance(payload, Rewind) and payload.scope != "conversation"


def project_of(at: Place, paths: SessionPaths) -> Path:
    """The directory of a session's files: where it worked last, else the one given, if that is its
    project's, else where that was.

    Raises UsageError if that is gone.
    """
    with Transcript(paths.transcript) as reader:
        run = read_world(reader, at.blobs(paths)).run
    there = Path(run.cwd) if run is not None and run.cwd else None
    if there is not None and there.is_dir():
        root = project_root(there)
        if paths.project in at.layout.project_directories(root):
            return root
    if paths.project in at.layout.project_directories(at.root):
        return at.root
    for root in where(paths):
        if root.is_dir():
            return root
    raise UsageError(
        f"The project of session {paths.session_id} is not where it was.",
        remedy="Say where it is with --cwd.",
    )


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
        only=[_absolute(session.root, path) for path in only],
        force=force,
        not_covered=tuple(dict.fromkeys(told for event in later for told in event.not_covered)),
    )


def _open_beside(paths: SessionPaths) -> Lineage:
    from rewake.resume.lineage import Ancestors

    return Lineage(Transcript(paths.transcript), Ancestors(paths))


def _absolute(root: Path, path: str | Path) -> bytes:
    """The path as histories name it: real directories, the last part as it is."""
    joined = os.path.normpath(os.path.join(root, path))  # noqa: PTH118  # must not lose surrogates
    parent, name = os.path.split(joined)
    return os.fsencode(os.path.join(os.path.realpath(parent), name))  # noqa: PTH118  # the same


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


# --- questions -------------------------------------------------------------------------------


def file_changes(
    session: str,
    *,
    since: str | None = None,
    until: str | None = None,
    call: str | None = None,
    project: str | Path = ".",
    home: str | Path | None = None,
) -> list[FileDiff]:
    """What a session changed in files, path by path, between two of its events; reads only.

    Without `since` from its beginning, without `until` up to its end; with `call` only what the call
    of that id did. A model's message counts together with its calls. Raises SessionNotFoundError,
    UsageError.
    """
    at = place(project, home)
    paths = find_session(at, session)
    blobs = at.blobs(paths)
    with at.lineage(paths) as reader:
        after = _event(reader, blobs, since)
        end = _event(reader, blobs, until)
        events = list(recorded(reader, blobs, after=after, until=end))
        if call is not None:
            events = [event for event in events if event.call_id == call]
        root = next(iter(_roots(reader)), at.root)
    folded = fold(events)
    return [
        diff_states(path, _shown(path, root), one.before, one.after, blobs.get)
        for path, one in sorted(folded.items())
        if not same(one.before, one.after)
    ]


def _roots(reader: Lineage) -> Iterable[Path]:
    for item in reader.forward():
        if isinstance(item, Event) and item.event_type == "session":
            told = getattr(item.payload, "project", {}).get("root")
            if isinstance(told, str):
                yield Path(told)
        return


def _shown(path: bytes, root: Path) -> str:
    prefix = os.fsencode(root) + b"/"
    return path.removeprefix(prefix).decode("utf-8", "replace")


def _event(reader: Lineage, blobs: BlobStore, wanted: str | None) -> str:
    return "" if wanted is None else conversation_at(reader, blobs, wanted)[1].event_id


def diff_of_plan(session: Session, plan: RewindPlan) -> list[FileDiff]:
    """What a plan would change, and each conflict as it would be if it were forced."""
    blobs = session.blobs
    root = session.root
    return [
        diff_states(
            step.path, _shown(step.path, root), step.actual, step.wanted, _reader(step, blobs.get)
        )
        for step in (*plan.changes, *plan.conflicts)
    ]


def _reader(step: Step, read: Callable[[str], bytes]) -> Callable[[str], bytes]:
    """Contents from blobs, and what is there now from the file itself."""

    def get(sha256: str) -> bytes:
        if sha256 == step.actual.sha256:
            with open(step.path, "rb") as file:  # noqa: PTH123  # a path in bytes
                return file.read()
        return read(sha256)

    return get


def changed_outside(session: Session, path: str | Path) -> bool:
    """Whether a file isn't as this session last left or read it, by content; touching changes nothing.

    False for a file that the session has neither read nor changed.
    """
    absolute = _absolute(session.root, path)
    actual = observe(absolute)
    session.flush()
    with session.reader() as reader:
        events = recorded(reader, session.blobs, root=session.root)
        left = [change.after for event in events for at, change in event.changes if at == absolute]
    known = session.read_hash(os.fsdecode(absolute))
    if known is not None:
        return actual.sha256 != known
    return bool(left) and not same_content(left[-1], actual)
