"""All messages of the active branch, those from before compactions and from before a fork too.

The rule kept here: reading is all that happens, and what can't be read costs only itself; `load`
reports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rewake.model import tree
from rewake.model.events import Checkpoint, Event, Rewind, SessionStart
from rewake.resume.lineage import Lineage
from rewake.resume.load import BlobReader, inflate
from rewake.state.conversation import Conversation, Entry
from rewake.state.fold import FOLD_VERSION


@dataclass(frozen=True, slots=True)
class Compaction:
    """A place where the model's request was shortened: before the message at index `at`."""

    at: int
    event: Event
    checkpoint: Checkpoint


@dataclass(slots=True)
class History:
    """What was said, oldest first."""

    conversation: Conversation = field(default_factory=Conversation)
    compactions: list[Compaction] = field(default_factory=list)

    @property
    def entries(self) -> list[Entry]:
        """The messages."""
        return self.conversation.entries


def whole_history(reader: Lineage, blobs: BlobReader, end: int | None = None) -> History:
    """Fold the branch that ends in the leaf (of the first `end` bytes) without leaving anything out."""
    links = ((event.event_id, _own_parent(reader, event)) for event in _events(reader, end))
    drawn = tree.build(links)
    path = set(tree.path(drawn, drawn.leaf))
    history = History()
    for event in _events(reader, end):
        if event.event_id not in path:
            continue
        path.discard(event.event_id)  # a line that repeats an id counts once
        whole, _ = inflate(event, blobs)
        above = _inherited_id(reader, whole)
        if above is not None:
            history = _history_above(reader, above, blobs)
        _apply(history, whole)
    return history


def _apply(history: History, event: Event) -> None:
    payload = event.payload
    if not isinstance(payload, Checkpoint):
        history.conversation.apply(event, fold_version=FOLD_VERSION)
    elif payload.kind == "compaction":
        history.compactions.append(Compaction(len(history.entries), event, payload))


def _events(reader: Lineage, end: int | None) -> Iterator[Event]:
    """The session's own events in the order of the file."""
    session_id: str | None = None
    for item in reader.forward():
        if end is not None and item.offset >= end:
            return
        if not isinstance(item, Event):
            continue
        session_id = session_id or item.session_id
        if item.session_id == session_id:
            yield item


# --- forks -----------------------------------------------------------------------------------


def _own_parent(reader: Lineage, event: Event) -> str | None:
    """What hangs under an ancestor's event is a root here."""
    parent = event.parent_id
    return None if parent is not None and reader.is_inherited(parent) else parent


def _inherited_id(reader: Lineage, event: Event) -> str | None:
    """The ancestor's event that this one goes on from, if it does."""
    if reader.origin is None:
        return None
    if isinstance(event.payload, SessionStart):
        return reader.origin.event_id
    if isinstance(event.payload, Rewind) and _own_parent(reader, event) != event.parent_id:
        return event.parent_id
    return None


def _history_above(reader: Lineage, event_id: str, blobs: BlobReader) -> History:
    located = reader.locate_in_ancestors(event_id)
    if located is None:
        return History()
    above, target = located
    return whole_history(above, blobs, target.offset + len(target.line) + 1)
