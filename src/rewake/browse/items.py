"""A conversation cut into what a reader looks at one by one: prompts, answers, tool calls, notes.

The rule kept here: an item is plain data and may hold any text; cleaning is done where it is drawn
(`draw.py`), so nothing that was recorded is lost on the way there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from rewake.model.content import (
    ContentBlock,
    File,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    plain_text,
)
from rewake.model.events import Intent, Verdict
from rewake.resume.load import Damage
from rewake.state.conversation import Answer, Conversation, Entry
from rewake.state.world import OpenCall

Kind = Literal["prompt", "answer", "thinking", "call", "result", "note", "summary"]
CallState = Literal["done", "error", "running", "open"]

# What names the object of a call, in the order in which it is looked for.
_OBJECT_KEYS: Final = ("file_path", "path", "command", "pattern", "query", "url", "description")


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call: what it was about, how it ended, and which event answered it."""

    name: str
    about: str
    arguments: str
    state: CallState
    verdict: Verdict | None = None
    result: str = ""
    answer_id: str | None = None
    intent: Intent | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to look at. `message_id` is where a fork or a rewind from here would go to."""

    key: str
    message_id: str
    kind: Kind
    timestamp: str
    text: str = ""
    who: str = ""
    call: Call | None = None

    @property
    def is_foldable(self) -> bool:
        """Whether only its first line is shown until it is unfolded."""
        return self.kind in {"call", "thinking", "result", "summary"}


def items_of(
    conversation: Conversation,
    calls: Mapping[str, OpenCall],
    *,
    is_running: bool,
    summaries: Mapping[int, str] | None = None,
) -> tuple[Item, ...]:
    """All items, oldest first. `calls` are those without an end; `is_running` if somebody is at it.

    `summaries` are those of compactions by the place of the entry before which each stands; without
    them the conversation's own is the first item.
    """
    unfinished = {(call.message_id, call.index): call for call in calls.values()}
    if summaries is None:
        summaries = {0: conversation.summary} if conversation.summary is not None else {}
    items: list[Item] = []
    for place, entry in enumerate(conversation.entries):
        if place in summaries:
            key = f"summary.{place}"
            items.append(Item(key, entry.message_id, "summary", entry.timestamp, summaries[place]))
        items.extend(_items(entry, unfinished, is_running=is_running))
    return tuple(items)


def notes_of(damage: Iterable[Damage]) -> tuple[str, ...]:
    """One sentence for each damaged place."""
    return tuple(str(item) for item in damage)


def _items(
    entry: Entry, unfinished: Mapping[tuple[str | None, int], OpenCall], *, is_running: bool
) -> Iterable[Item]:
    place = 0
    for number, block in enumerate(entry.message.content):
        key = f"{entry.message_id}.{number}"
        if isinstance(block, ToolCall):
            answer = entry.answers[place] if place < len(entry.answers) else None
            known = unfinished.get((entry.message_id, place))
            call = _call(block, answer, known, is_running=is_running)
            yield Item(key, entry.message_id, "call", entry.timestamp, call=call)
            place += 1
            continue
        kind, text = _said(entry, block)
        if text.strip():
            who = entry.message.source or entry.message.model or entry.message.role
            yield Item(key, entry.message_id, kind, entry.timestamp, text, who)


def _said(entry: Entry, block: ContentBlock) -> tuple[Kind, str]:
    message = entry.message
    match block:
        case Text():
            if message.role == "assistant":
                return "answer", block.text
            return (
                "prompt" if message.role == "user" and not message.source else "note"
            ), block.text
        case Thinking():
            return "thinking", block.text
        case ToolResult():
            # The answer to a known call is shown with that call.
            return "result", "" if entry.answers_to is not None else plain_text(block.content)
        case Image() | File():
            name = f"{block.name}, " if isinstance(block, File) else ""
            return "note", f"({name}{block.media_type}, {block.size:,} bytes)"
        case _:
            return "note", ""


def _call(
    block: ToolCall, answer: Answer | None, known: OpenCall | None, *, is_running: bool
) -> Call:
    arguments = block.arguments_text
    if arguments is None:
        arguments = json.dumps(block.arguments, ensure_ascii=False, indent=2)
    intent = known.intent if known is not None else None
    about = _about(block)
    if answer is None:
        state: CallState = "running" if is_running and known is not None else "open"
        return Call(block.name, about, arguments, state, intent=intent)
    return Call(
        block.name,
        about,
        arguments,
        "error" if answer.result.is_error else "done",
        answer.verdict,
        plain_text(answer.result.content),
        answer.event_id,
        intent,
    )


def _about(block: ToolCall) -> str:
    for key in _OBJECT_KEYS:
        value = block.arguments.get(key)
        if isinstance(value, str) and value:
            return value
    if block.arguments_text is not None:
        return block.arguments_text
    return json.dumps(block.arguments, ensure_ascii=False) if block.arguments else ""
