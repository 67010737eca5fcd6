"""All messages of the active branch, those from before compactions too.

The rule kept here: reading is all that happens, and what can't be read costs only itself; `load`
reports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rewake.log.scan import Transcript
from rewake.model import tree
from rewake.model.events import Checkpoint, Event
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

    entries: list[Entry] = field(default_factory=list)
    compactions: list[Compaction] = field(default_factory=list)


def whole_history(reader: Transcript, blobs: BlobReader) -> History:
    """Fold the branch that ends in the leaf without leaving anything out."""
    drawn = tree.build((event.event_id, event.parent_id) for event in _events(reader))
    path = set(tree.path(drawn, drawn.leaf))
    conversation = Conversation()
    history = History(conversation.entries)
    for event in _events(reader):
        if event.event_id not in path:
            continue
        path.discard(event.event_id)  # a line that repeats an id counts once
        whole, _ = inflate(event, blobs)
        payload = whole.payload
        if not isinstance(payload, Checkpoint):
            conversation.apply(whole, fold_version=FOLD_VERSION)
        elif payload.kind == "compaction":
            history.compactions.append(Compaction(len(conversation.entries), whole, payload))
    return history


def _events(reader: Transcript) -> Iterator[Event]:
    session_id: str | None = None
    for item in reader.forward():
        if not isinstance(item, Event):
            continue
        session_id = session_id or item.session_id
        if item.session_id == session_id:
            yield item
