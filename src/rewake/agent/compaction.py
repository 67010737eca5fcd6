"""When a conversation no longer fits its model: what to keep and what to sum up.

The rules kept here: what is kept is named by message ids; the newest user prompt is always kept; a
single long turn can be compacted too; and a summary that can't be had from the model is replaced by
session memory, so that compaction always makes progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from rewake.model.content import Image, Text, ToolResult
from rewake.model.ids import synthetic_id
from rewake.state.conversation import Conversation, Entry
from rewake.state.text import estimate_tokens
from rewake.state.view import ViewMessage, view

# Used where a provider doesn't say; every current coding model has at least this much.
CONTEXT_TOKENS_DEFAULT: Final = 128_000
# Leaves room for the answer and for one step's tool results.
_COMPACT_AT: Final = 0.75
# Enough for the last few steps in full, small enough that the next compaction isn't soon.
_KEEP: Final = 0.2
# Less than this isn't worth a model call and the loss of the provider's cache.
_GAIN_MIN: Final = 0.1
# What providers count for an image of ordinary size.
_IMAGE_TOKENS: Final = 1_600
_MESSAGE_TOKENS: Final = 8  # roles and separators

INSTRUCTION: Final = """\
[rewake] The conversation is about to be shortened. Write a summary that lets you go on without the \
messages above: what the user wants, what has been done and where, decisions and their reasons, what \
failed, what is left, and exact names, paths, commands and numbers that are still needed. Answer with \
the summary only; do not call a tool."""

LEAVING: Final = """\
[rewake] The user goes back to an earlier point of this conversation and leaves what came after it: \
everything from the message that begins with {beginning!r}. Write a short summary, at most ten lines, \
of what was tried and done in that part and what was learnt from it, with exact names and paths, so \
that it isn't tried again in vain. Answer with the summary only; do not call a tool."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens: the model's window, and the size of a request from which to compact.

    `ratio` is how many of the provider's tokens one of the offline estimate is, at least 1.
    """

    window: int
    compact_at: int
    ratio: float = 1.0

    @classmethod
    def of(cls, context_tokens: int | None, compact_at: int | None, ratio: float = 1.0) -> Budget:
        """From what the model and the settings say."""
        window = context_tokens or CONTEXT_TOKENS_DEFAULT
        return cls(window, compact_at or int(window * _COMPACT_AT), ratio)

    @property
    def keep(self) -> int:
        """How much may be kept, in tokens of the offline estimate."""
        return int(self.compact_at * _KEEP / self.ratio)


def context_tokens(conversation: Conversation, fixed: int) -> int:
    """Tokens of the next request: the provider's own count as far as it goes, estimated after it.

    `fixed` is the estimate of system prompt and tools. The usage of messages from before the newest
    compaction doesn't count: it is the size of a request that will not be made again.
    """
    entries = conversation.entries
    start = 0
    if conversation.kept_through is not None:
        kept = [i for i, e in enumerate(entries) if e.message_id == conversation.kept_through]
        start = kept[0] + 1 if kept else 0
    for place in range(len(entries) - 1, start - 1, -1):
        usage = entries[place].message.usage
        if usage is not None and usage.input_tokens:
            answers = sum(_answer_tokens(entry) for entry in entries[place : place + 1])
            later = sum(entry_tokens(entry) for entry in entries[place + 1 :])
            return usage.input_tokens + usage.output_tokens + answers + later
    return fixed + view_tokens(view(conversation))


def view_tokens(messages: Sequence[ViewMessage]) -> int:
    """The offline estimate for the messages of a request."""
    return sum(_message_tokens(message) for message in messages)


def _message_tokens(message: ViewMessage) -> int:
    total = _MESSAGE_TOKENS
    for block in message.content:
        if isinstance(block, Text):
            total += estimate_tokens(block.text)
        elif isinstance(block, Image):
            total += _IMAGE_TOKENS
        elif isinstance(block, ToolResult):
            total += _MESSAGE_TOKENS + sum(_block_tokens(part) for part in block.content)
        else:
            total += estimate_tokens(msgspec.json.encode(block, enc_hook=repr).decode())
    return total


def _block_tokens(block: object) -> int:
    return estimate_tokens(block.text) if isinstance(block, Text) else _IMAGE_TOKENS


def entry_tokens(entry: Entry) -> int:
    """The offline estimate for a message and the answers to its calls."""
    alone = Conversation()
    alone.entries = [entry]
    return view_tokens(view(alone))


def _answer_tokens(entry: Entry) -> int:
    answers = [answer for answer in entry.answers if answer is not None]
    return sum(_block_tokens(block) for answer in answers for block in answer.result.content)


def to_keep(conversation: Conversation, budget: Budget) -> list[str]:
    """The ids of the messages to keep: the newest ones that fit, and the newest prompt.

    What is kept begins at a message that isn't a `tool` message, so no result loses its call.
    """
    room = budget.keep
    kept: list[Entry] = []
    for entry in reversed(conversation.entries):
        room -= entry_tokens(entry)
        if room < 0:
            break
        kept.append(entry)
    while kept and kept[-1].message.role == "tool":
        kept.pop()
    ids = [entry.message_id for entry in reversed(kept)]
    prompt = conversation.newest_prompt
    if prompt is not None and prompt not in ids:
        ids.insert(0, prompt)
    return ids


def leaves_out(conversation: Conversation, budget: Budget) -> list[Entry]:
    """The messages that a compaction would drop. Without any it would only repeat itself."""
    kept = set(to_keep(conversation, budget))
    return [entry for entry in conversation.entries if entry.message_id not in kept]


def is_worth_it(conversation: Conversation, budget: Budget) -> bool:
    """Whether a compaction would gain something, and not be due again after the next step.

    Where system prompt, tools and what must be kept fill the budget by themselves, it would not.
    """
    gained = sum(entry_tokens(entry) for entry in leaves_out(conversation, budget))
    return gained * budget.ratio >= budget.compact_at * _GAIN_MIN


def summary_request(
    messages: tuple[ViewMessage, ...], instruction: str = INSTRUCTION
) -> tuple[ViewMessage, ...]:
    """The view with the request for a summary at its end (so the provider's cache is used)."""
    last = messages[-1].message_id if messages else ""
    return (*messages, ViewMessage(synthetic_id("summary", last), "user", (Text(instruction),)))


def shortened(messages: tuple[ViewMessage, ...]) -> tuple[ViewMessage, ...]:
    """The newer half of a view that was too long even to be summed up: shorter, and still valid."""
    half = messages[(len(messages) + 1) // 2 :]
    while half and half[0].role != "user":
        half = half[1:]
    return half
