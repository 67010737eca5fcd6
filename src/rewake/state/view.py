"""The view: the provider request made from a conversation, valid whatever the conversation holds.

The rules kept here, for any sequence of events at all:

- each tool call is answered exactly once, directly after its message, in call order; no result
  stands without its call; call ids are unique;
- no message and no block is empty, all text is valid Unicode, a thinking block is whole and signed;
- the first message is a user's, the last one is no answer, and the newest user prompt is there;
- between two compactions, the messages of one view are a prefix of the next one's: what is made up
  here depends only on facts that no later event changes.

Order: [session memory, summary] → messages. The system prompt is the loop's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from rewake.model.content import (
    ContentBlock,
    File,
    Image,
    JsonObject,
    ResultBlock,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from rewake.model.events import Message, Role
from rewake.model.ids import synthetic_id
from rewake.state.conversation import GO_ON, Conversation, Entry
from rewake.state.text import valid_json, valid_unicode

NO_RESULT: Final = (
    "[rewake] No result of this call was recorded. It may or may not have happened: "
    "look before you repeat it."
)
NO_OUTPUT: Final = "(no output)"
BEGINNING: Final = "[rewake] The conversation begins here."
_BAD_NAME_CHARS: Final = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_CHARS_MAX: Final = 64  # the bound that the OpenAI and the Anthropic protocol share


class ViewMessage(msgspec.Struct, frozen=True):
    """One message of a request. Tool results stand in a `tool` message directly after their calls.

    Every `provider_call_id` in a view is unique within it (the recorded ones repeat).
    """

    message_id: str
    role: Role
    content: tuple[ContentBlock, ...]
    model: str = ""
    provider: JsonObject | None = None


def view(conversation: Conversation) -> tuple[ViewMessage, ...]:
    """The messages of the next request."""
    messages = [*_opening(conversation)]
    for entry in conversation.entries:
        messages.extend(_messages_of(entry))
    if messages and messages[0].role != "user":
        beginning = synthetic_id("beginning", messages[0].message_id)
        messages.insert(0, ViewMessage(beginning, "user", (Text(BEGINNING),)))
    if messages and messages[-1].role == "assistant":
        # A session that asks records this word (see `Conversation`); here it only completes a look.
        going_on = synthetic_id("go on", messages[-1].message_id)
        messages.append(ViewMessage(going_on, "user", (Text(GO_ON),)))
    return tuple(messages)


def view_call_id(message_id: str, index: int) -> str:
    """The id of a call within a view: of its message and place, so unique and never changing.

    At most 40 characters of `[0-9a-zA-Z_-]`, which is what providers accept.
    """
    return f"{_BAD_NAME_CHARS.sub('', message_id).replace('-', '')[:32]}_{index}"


def _opening(conversation: Conversation) -> Iterator[ViewMessage]:
    """Session memory and summary, as frozen by the newest compaction."""
    texts = (
        ("What is known of this session so far", conversation.session_memory),
        ("Summary of the conversation before this point", conversation.summary),
    )
    blocks = tuple(
        Text(f"[rewake] {title}:\n\n{valid_unicode(text)}")
        for title, text in texts
        if text is not None and text.strip()
    )
    if blocks:
        opening = synthetic_id("opening", conversation.summary_id or "")
        yield ViewMessage(opening, "user", blocks)


def _messages_of(entry: Entry) -> Iterator[ViewMessage]:
    role = entry.message.role
    if role == "user":
        yield from _message(entry, _user_blocks(entry.message))
    elif role == "assistant":
        yield from _assistant(entry)
    # A `tool` message has given its results to the calls it answers; without a call it says nothing.


def _message(entry: Entry, content: tuple[ContentBlock, ...]) -> Iterator[ViewMessage]:
    if content:
        message = entry.message
        provider = valid_json(message.provider) if message.provider is not None else None
        yield ViewMessage(entry.message_id, message.role, content, message.model, provider)


def _user_blocks(message: Message) -> tuple[ContentBlock, ...]:
    return tuple(
        valid_block(block)
        for block in message.content
        if (isinstance(block, Text) and block.text.strip()) or isinstance(block, Image | File)
    )


def _assistant(entry: Entry) -> Iterator[ViewMessage]:
    calls = 0
    content: list[ContentBlock] = []
    for block in entry.message.content:
        if isinstance(block, ToolCall):
            content.append(_call(block, view_call_id(entry.message_id, calls)))
            calls += 1
        elif isinstance(block, Text) and block.text.strip():
            content.append(Text(valid_unicode(block.text)))
        elif isinstance(block, Thinking) and _is_whole(block):
            content.append(block)
    # A message with reasoning must begin with it; what preceded it here was not whole.
    if content and not isinstance(content[0], Thinking):
        content = [block for block in content if not isinstance(block, Thinking)]
    # Reasoning that leads to nothing is refused at the end of a message.
    while content and isinstance(content[-1], Thinking):
        content.pop()
    yield from _message(entry, tuple(content))
    if calls:
        yield _answers(entry, calls)


def _call(block: ToolCall, call_id: str) -> ToolCall:
    name = _BAD_NAME_CHARS.sub("_", block.name)[:_NAME_CHARS_MAX] or "unnamed"
    if block.arguments_text is not None:
        arguments = {"invalid_arguments": valid_unicode(block.arguments_text)}
    else:
        arguments = valid_json(block.arguments)
    return ToolCall(call_id, name, arguments)


def _is_whole(block: Thinking) -> bool:
    """Signed, not cut short, and unchanged by cleaning (a changed text would not fit its signature)."""
    redacted = block.provider is not None and block.provider.get("id") == "redacted_thinking"
    if not block.signature or not (block.text.strip() or redacted):
        return False
    return valid_unicode(block.text) == block.text and valid_json(block.provider) == block.provider


def _answers(entry: Entry, calls: int) -> ViewMessage:
    results = tuple(_result(entry, index) for index in range(calls))
    return ViewMessage(synthetic_id("answers", entry.message_id), "tool", results)


def _result(entry: Entry, index: int) -> ToolResult:
    call_id = view_call_id(entry.message_id, index)
    answer = entry.answers[index] if index < len(entry.answers) else None
    if answer is None:
        return ToolResult(call_id, (Text(NO_RESULT),), is_error=True)
    content = tuple(
        block
        for block in map(valid_block, answer.result.content)
        if not isinstance(block, Text) or block.text.strip()
    )
    return ToolResult(call_id, content or (Text(NO_OUTPUT),), answer.result.is_error)


def valid_block(block: ResultBlock) -> ResultBlock:
    """The block with valid Unicode in all its text."""
    if isinstance(block, Text):
        return Text(valid_unicode(block.text))
    media_type = valid_unicode(block.media_type)
    if isinstance(block, Image):
        return Image(media_type, valid_unicode(block.sha256), block.size)
    return File(valid_unicode(block.name), media_type, valid_unicode(block.sha256), block.size)
