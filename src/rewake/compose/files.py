"""The file history of a session: what programs ask of it, and the door to tracking and taking back.

The rule kept here: questions only read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from rewake.compose.place import Place, find_session, place
from rewake.compose.rewinding import (
    FilesRewound,
    finish_rewind,
    newest_rewind_took_files,
    plan_rewind,
    rewind_files,
    undo_files_rewind,
)
from rewake.compose.tracking import settle_tracked, share_tracking, track_files
from rewake.errors import UsageError
from rewake.files.differ import FileDiff, diff_states
from rewake.files.history import fold, recorded
from rewake.files.names import absolute, same, same_content
from rewake.files.plan import RewindPlan, Step
from rewake.log.blobs import BlobStore
from rewake.log.layout import SessionPaths, project_root, where
from rewake.log.scan import Transcript
from rewake.model.events import Event
from rewake.resume.chain import observe
from rewake.resume.lineage import Lineage
from rewake.resume.listing import read_world
from rewake.resume.load import conversation_at
from rewake.session.core import Session

__all__ = [
    "FilesRewound",
    "changed_outside",
    "diff_of_plan",
    "file_changes",
    "finish_rewind",
    "newest_rewind_took_files",
    "plan_rewind",
    "project_of",
    "rewind_files",
    "settle_tracked",
    "share_tracking",
    "track_files",
    "undo_files_rewind",
]


def project_of(at: Place, paths: SessionPaths) -> Path:
    """The directory of a session's files: where it worked last, else the one given, if that is its
    project's, else where that was.

    Raises UsageError if that is gone.
    """
    with Transcript(paths.transcript) as reader:
        run = read_world(reader, at.blobs(paths)).run
    there = Path(run.cwd) if run is not None and run.cwd else None
    if there is not None and os.path.isdir(there):  # noqa: PTH112  # never raises
        root = project_root(there)
        if paths.project in at.layout.project_directories(root):
            return root
    if paths.project in at.layout.project_directories(at.root):
        return at.root
    for root in where(paths):
        if os.path.isdir(root):  # noqa: PTH112  # the same
            return root
    raise UsageError(
        f"The project of session {paths.session_id} is not where it was.",
        remedy="Say where it is with --cwd.",
    )


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
    of that id did (the id of its result will do, too). A model's message counts together with its calls. Raises SessionNotFoundError,
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
            events = [event for event in events if call in {event.call_id, event.event_id}]
            if not events and not _has_call(reader, call):
                raise UsageError(
                    f"This session has no call {call}.",
                    remedy="`rewake show ID --json` has the ids of the results.",
                )
        root = next(iter(_roots(reader)), at.root)
    folded = fold(events)
    return [
        diff_states(path, _shown(path, root), one.before, one.after, blobs.get)
        for path, one in sorted(folded.items())
        if not same(one.before, one.after)
    ]


def _has_call(reader: Lineage, call: str) -> bool:
    """Whether it is one of the session's calls or of its origins', also one that changed nothing."""
    at: Lineage | None = reader
    while at is not None:
        for item in at.forward():
            if isinstance(item, Event) and call in {
                item.event_id,
                getattr(item.payload, "call_id", None),
            }:
                return True
        at = at.ancestor()
    return False


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
    asked = absolute(session.root, path)
    session.flush()
    with session.reader() as reader:
        events = recorded(reader, session.blobs, root=session.root)
        left = {at: change.after for event in events for at, change in event.changes}
    # A link is asked about itself only where the agent made it; else it is another name of a file.
    named = asked if asked in left else os.path.realpath(asked)
    actual = observe(named)
    known = session.read_hash(os.fsdecode(named))
    if known is not None:
        return actual.sha256 != known
    return named in left and not same_content(left[named], actual)
