"""The tree of a session for people: the active branch as a line of prompts, others beside it.

The rule kept here: every message of the file stands in exactly one lane, so no branch is hidden;
and a lane hangs under the prompt after which it left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rewake.model import tree
from rewake.model.content import plain_text
from rewake.model.events import Event, ForkOrigin, Message
from rewake.resume.branches import message_of
from rewake.resume.lineage import Lineage
from rewake.state.text import clip

_TEXT_BYTES_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Said:
    """The beginning of a message."""

    text: str
    timestamp: str
    is_prompt: bool


@dataclass(slots=True)
class Stop:
    """A prompt in a lane, with the lanes that left after it."""

    event_id: str
    said: Said
    left: list[Lane] = field(default_factory=list)


@dataclass(slots=True)
class Lane:
    """One branch: its own prompts in order; `left` are lanes that left before the first of them.

    `leaf_id` is its newest event, `last` what was said last, `messages` counts all of its own.
    """

    leaf_id: str
    messages: int
    last: Said
    stops: list[Stop] = field(default_factory=list)
    left: list[Lane] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Lanes:
    """The active branch, None in an empty session; and where a fork came from."""

    active: Lane | None
    forked_from: ForkOrigin | None


def lanes_of(reader: Lineage) -> Lanes:
    """Draw the lanes of the session's own transcript. Reads all of it."""
    links: list[tuple[str, str | None]] = []
    said: dict[str, Said] = {}
    for item in reader.forward():
        if not isinstance(item, Event):
            continue
        above = item.parent_id is not None and reader.is_inherited(item.parent_id)
        links.append((item.event_id, None if above else item.parent_id))
        message = message_of(item) if item.event_type == "message" else None
        if message is not None:
            said[item.event_id] = _said(message, item.timestamp)
    drawn = tree.build(links)
    if drawn.leaf is None:
        return Lanes(None, reader.origin)
    leaves = [branch.leaf_id for branch in reversed(tree.branches(drawn))]
    return Lanes(_draw(drawn, drawn.leaf, leaves, said), reader.origin)


def _said(message: Message, timestamp: str) -> Said:
    text = clip(plain_text(message.content), _TEXT_BYTES_MAX)
    return Said(text, timestamp, message.role == "user" and not message.source)


def _draw(drawn: tree.Tree, active_leaf: str, leaves: list[str], said: Mapping[str, Said]) -> Lane:
    """The active lane takes its whole path, each other (newest first) what is still free."""
    owner: dict[str, Lane] = {}
    stops: dict[str, Stop] = {}
    active, _ = _lane(drawn, active_leaf, said, owner, stops)
    for leaf in leaves:
        lane, own = _lane(drawn, leaf, said, owner, stops)
        at = drawn.parents[own[0]]
        parent = owner[at] if at is not None else active
        if lane.messages == 0:
            # A rewind that was taken back at once, or the end of a run: nothing was said there.
            owner.update(dict.fromkeys(own, parent))
            continue
        while at is not None and at not in stops and owner[at] is parent:
            at = drawn.parents[at]
        stop = stops.get(at) if at is not None and owner[at] is parent else None
        (stop.left if stop is not None else parent.left).append(lane)
    return active


def _lane(
    drawn: tree.Tree,
    leaf: str,
    said: Mapping[str, Said],
    owner: dict[str, Lane],
    stops: dict[str, Stop],
) -> tuple[Lane, list[str]]:
    """The lane that ends in a leaf, and the events that nobody owned before."""
    own: list[str] = []
    at: str | None = leaf
    while at is not None and at not in owner:
        own.append(at)
        at = drawn.parents[at]
    own.reverse()
    messages = [event_id for event_id in own if event_id in said]
    last = said[messages[-1]] if messages else Said("", "", is_prompt=False)
    lane = Lane(leaf, len(messages), last)
    for event_id in own:
        owner[event_id] = lane
        if event_id in said and said[event_id].is_prompt:
            stops[event_id] = Stop(event_id, said[event_id])
            lane.stops.append(stops[event_id])
    return lane, own
