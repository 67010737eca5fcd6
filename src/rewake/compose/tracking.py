"""Tracking what the calls of a session change in files, and what interrupted calls have changed.

The rule kept here: one tracker serves a session and its sub-agents, in any thread, one scan at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from rewake.compose.place import Place
from rewake.files.history import paths_changed
from rewake.files.track import Tracked, Tracker
from rewake.files.written import Directories
from rewake.log.blobs import BlobStore
from rewake.log.layout import SessionPaths
from rewake.model.events import Change, OtherIntent, Outcome, ShellIntent
from rewake.resume.chain import path_of
from rewake.resume.evidence import Settlement
from rewake.session.core import Session
from rewake.state.world import OpenCall


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

    def goes_on(self, call_id: str) -> None:
        """See `FileTracker`."""
        with self._mutex:
            self._tracker.goes_on(call_id)

    def is_open(self, call_id: str) -> bool:
        """See `FileTracker`."""
        with self._mutex:
            return self._tracker.is_open(call_id)

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
