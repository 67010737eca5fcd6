"""A fork that takes the project's files along, so that two lines of work go on side by side.

The rules kept here: the copy is whole before the fork exists, and is taken away when that can't be
made; neither the session that is forked nor its project is written to; and the model is told that it
works somewhere else now.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rewake.compose.files import project_of
from rewake.compose.opening import open_fork
from rewake.compose.place import Place
from rewake.compose.recording import Options
from rewake.files.apply import in_order
from rewake.files.beside import Beside
from rewake.files.history import COPIED_FROM, Recorded, fold, recorded, relocated
from rewake.files.place import Placer
from rewake.files.plan import RewindPlan, make_plan
from rewake.log.blobs import BlobStore
from rewake.log.disk import storage_error
from rewake.log.layout import SessionPaths
from rewake.resume.chain import path_of
from rewake.resume.load import conversation_at
from rewake.session.core import Session


def open_fork_with_files(
    at: Place,
    origin: SessionPaths,
    target_id: str | None,
    session_id: str | None,
    options: Options,
    *,
    directory: Path,
) -> Session:
    """See `open_fork`; the fork works in `directory`, a copy of the origin's files.

    With `target_id` the files there go back to how they were at that event; what somebody else has
    changed since stays as it is, and is named in the message that tells the model where it works.
    Raises UsageError (nothing was made), StorageError (what was made is gone again).
    """
    root = project_of(at, origin)
    blobs = at.blobs(origin)
    with at.lineage(origin) as reader:
        target = None
        if target_id is not None:
            target = conversation_at(reader, blobs, target_id)[1].event_id
        events = list(recorded(reader, blobs, root=root))
    beside = Beside(root, directory, at.home)
    beside.check()
    here = beside.directory
    try:
        beside.make(path for event in events for path, _ in event.changes)
        later = [event for event in events if target is not None and event.event_id > target]
        changes = [relocated(one, root, beside.tree) for one in later]
        plan = _taken_back(target or "", changes, blobs, beside.tree)
        beside.place()
        session = open_fork(
            replace(at, root=here),
            origin,
            target_id,
            session_id,
            replace(options, cwd=str(here)),
            project={COPIED_FROM: str(root)},
        )
    except BaseException:
        beside.remove()
        raise
    try:
        at.layout.add_place(origin.project, here, at.disk, sync=options.sync)
        session.user(_words(root, beside, plan), source="rewake")
    except BaseException:
        session.close()
        raise
    return session


def _taken_back(
    target_id: str, later: Sequence[Recorded], blobs: BlobStore, here: Path
) -> RewindPlan:
    """Take the copy's files back by these changes. Needs no journal: the copy is all or nothing."""
    inside = os.fsencode(here)
    plan = make_plan(
        target_id, fold(later), has_blob=blobs.has, others=lambda _wanted: {}, only=[inside]
    )
    try:
        with Placer(os.urandom(8).hex(), blobs.get) as placer:
            for change in in_order(step.change() for step in plan.changes):
                placer.put(path_of(change), change.after)
            placer.sync()
    except OSError as error:
        raise storage_error(error, here, "take files back in") from error
    return plan


def _words(root: Path, beside: Beside, plan: RewindPlan) -> str:
    """What the model must know where its conversation goes on."""
    here = beside.directory
    when = "at this point of the conversation" if plan.target_id else "there a moment ago"
    kept = ", ".join(
        step.shown.replace(os.fspath(beside.tree), os.fspath(here), 1) for step in plan.conflicts
    )
    words = [
        "The user forked this conversation together with the project's files.",
        f"Work in {here} from now on; {root} belongs to the session that was forked.",
        f"The files are as they were {when}. Read them again before you change them.",
        f"Changed by somebody else since, and left as they are: {kept}." if kept else "",
        beside.sentence(),
    ]
    return " ".join(filter(None, words))
