"""What the browser reads: rows, conversations, trees and diffs, as functions for its workers.

The rules kept here: nothing is recorded and no lock is taken, also while another process writes the
session; and a look into a session costs its active part, whatever is older.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rewake.browse.items import Item, items_of, notes_of
from rewake.browse.lanes import Lanes, lanes_of
from rewake.catalogue.listing import Listed, list_sessions
from rewake.compose.place import Place
from rewake.errors import StorageError
from rewake.log.blobs import BlobStore
from rewake.log.layout import SessionPaths
from rewake.model.events import Change, FileChangeIntent, FileState, Intent, ToolLifecycle
from rewake.resume.history import whole_history
from rewake.resume.lineage import Lineage
from rewake.resume.listing import SessionInfo
from rewake.resume.load import conversation_at, inflate, load


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation as it is shown: its items, oldest first, and what is wrong with it.

    `messages` counts what the model has of it.
    """

    items: tuple[Item, ...]
    problems: tuple[str, ...] = ()
    messages: int = 0


def paths_of(info: SessionInfo) -> SessionPaths:
    """The files of a listed session."""
    directory = Path(info.path).parent
    return SessionPaths(directory.parent.parent, directory.name)


def rows(at: Place, *, everywhere: bool, limit: int | None = None) -> Listed:
    """The newest sessions, and how many there are. One that is broken is a row with its problem."""
    root = None if everywhere else at.root
    return list_sessions(at.home, at.disk, root, limit=limit, on_problem=lambda _path, _error: None)


def talk(at: Place, info: SessionInfo, end_id: str | None = None) -> Talk:
    """The active conversation, or the one that ended with the event `end_id`. Raises RewakeError."""
    paths = paths_of(info)
    blobs = at.blobs(paths)
    with at.lineage(paths) as reader:
        if end_id is not None:
            conversation, _ = conversation_at(reader, blobs, end_id)
            return Talk(items_of(conversation, {}, is_running=False))
        loaded = load(reader, blobs)
    calls = loaded.state.world.calls
    items = items_of(loaded.state.conversation, calls, is_running=info.pid is not None)
    messages = len(loaded.state.conversation.entries)
    return Talk(items, notes_of(loaded.damage), messages)


def whole_talk(at: Place, info: SessionInfo) -> Talk:
    """The active conversation with all from before compactions. Reads the whole transcript.

    Raises RewakeError.
    """
    paths = paths_of(info)
    blobs = at.blobs(paths)
    with at.lineage(paths) as reader:
        loaded = load(reader, blobs)
        history = whole_history(reader, blobs)
    calls, is_running = loaded.state.world.calls, info.pid is not None
    summaries = {found.at: found.checkpoint.summary or "" for found in history.compactions}
    items = items_of(history.conversation, calls, is_running=is_running, summaries=summaries)
    return Talk(items, notes_of(loaded.damage))


def lanes(at: Place, info: SessionInfo) -> Lanes:
    """The session's branches with their prompts. Reads the whole transcript. Raises RewakeError."""
    with at.lineage(paths_of(info)) as reader:
        return lanes_of(reader)


def diffs(at: Place, info: SessionInfo, item: Item) -> tuple[str, ...]:
    """The unified diffs of what a call changed, or of what it was about to. Raises RewakeError."""
    call = item.call
    if call is None:
        return ()
    paths = paths_of(info)
    blobs = at.blobs(paths)
    changes = _intended(call.intent)
    if call.answer_id is not None:
        with at.lineage(paths) as reader:
            changes = _recorded(reader, blobs, call.answer_id)
    return tuple(_diff(change, blobs) for change in changes)


def _intended(intent: Intent | None) -> tuple[Change, ...]:
    return intent.changes if isinstance(intent, FileChangeIntent) else ()


def _recorded(reader: Lineage, blobs: BlobStore, event_id: str) -> tuple[Change, ...]:
    found = reader.find_many((event_id,)).found.get(event_id)
    payload = inflate(found, blobs)[0].payload if found is not None else None
    if not isinstance(payload, ToolLifecycle) or payload.outcome is None:
        return ()
    return payload.outcome.changes


def _diff(change: Change, blobs: BlobStore) -> str:
    from rewake.agent.tools.diff import unified_diff

    before, after = change.before, change.after
    if after.kind == "absent":
        return f"--- {change.path}\n+++ /dev/null\n(deleted)"
    if after.kind != "file":
        return f"+++ {change.path}\n({after.kind})"
    try:
        old = _content(before, blobs) if before.kind == "file" else None
        return unified_diff(change.path, old, _content(after, blobs))
    except StorageError as error:
        return f"+++ {change.path}\n({error.message})"


def _content(state: FileState, blobs: BlobStore) -> bytes:
    return blobs.get(state.sha256) if state.sha256 is not None else b""
