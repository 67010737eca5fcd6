"""The branches of a session: the active one, and those that rewinds left.

The rule kept here: nothing is ever lost by going back. Every branch that was left is listed with its
newest event, and going back to that event takes it up again.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rewake.model import tree
from rewake.model.codec import decode_payload
from rewake.model.content import plain_text
from rewake.model.events import Event, Message, Spilled
from rewake.resume.lineage import Lineage
from rewake.state.text import clip

_TEXT_BYTES_MAX: Final = 200  # two lines of a terminal


class BranchInfo(msgspec.Struct, frozen=True):
    """One branch: where it left the others, its newest event, and its newest words.

    `messages` counts the messages of its own. `forked_at` is None for the branch from the root.
    """

    leaf_id: str
    forked_at: str | None
    first_id: str
    messages: int
    last_text: str
    last_timestamp: str
    is_active: bool


def branches(reader: Lineage) -> list[BranchInfo]:
    """All branches of the session's own transcript, the active one last. Reads the whole file."""
    links: list[tuple[str, str | None]] = []
    said: dict[str, tuple[str, str]] = {}
    for item in reader.forward():
        if not isinstance(item, Event):
            continue
        inherited = item.parent_id is not None and reader.is_inherited(item.parent_id)
        links.append((item.event_id, None if inherited else item.parent_id))
        if item.event_type == "message":
            message = message_of(item)
            text = plain_text(message.content) if message is not None else ""
            said[item.event_id] = (clip(text, _TEXT_BYTES_MAX), item.timestamp)
    drawn = tree.build(links)
    found = [
        _describe(drawn, branch.leaf_id, branch.first_id, branch.forked_at, said)
        for branch in tree.branches(drawn)
    ]
    if drawn.leaf is None:
        return found
    first = tree.path(drawn, drawn.leaf)[0]
    active = _describe(drawn, drawn.leaf, first, None, said)
    return [*found, msgspec.structs.replace(active, is_active=True)]


def message_of(event: Event) -> Message | None:
    """The message of an event; of one that was spilled, the preview, which has more than is shown."""
    payload = event.payload
    if isinstance(payload, Spilled):
        raw = bytes(payload.preview)
        payload = decode_payload(event.event_type, event.schema_version, raw)
    return payload if isinstance(payload, Message) else None


def _describe(
    drawn: tree.Tree,
    leaf_id: str,
    first_id: str,
    forked_at: str | None,
    said: dict[str, tuple[str, str]],
) -> BranchInfo:
    own = tree.path(drawn, leaf_id)
    own = own[own.index(first_id) :]
    messages = [event_id for event_id in own if event_id in said]
    text, timestamp = said[messages[-1]] if messages else ("", "")
    return BranchInfo(leaf_id, forked_at, first_id, len(messages), text, timestamp, is_active=False)


def newest_rewind(reader: Lineage) -> tuple[Event, str] | None:
    """The newest rewind as it stands, and the id of the leaf before it; None without one."""
    rewind: Event | None = None
    for item in reader.backward():
        if not isinstance(item, Event):
            continue
        if rewind is not None:
            return rewind, item.event_id
        if item.event_type == "rewind":  # its payload may be spilled
            rewind = item
    return None
