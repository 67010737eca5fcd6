"""Content blocks of messages and of tool results.

The rule kept here: a block is a frozen value with a `type` tag, and a block of a type or shape that
this version doesn't know stays in its message as an `Opaque` with its bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

# JSON as it came from outside. Values are frozen by a round trip through bytes at submission.
JsonObject = dict[str, Any]


class Block(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", gc=False):
    """Base of all content blocks."""


class Text(Block, frozen=True, tag="text"):
    """Plain text (Markdown as the model wrote it)."""

    text: str


class Thinking(Block, frozen=True, tag="thinking"):
    """A model's reasoning. Only with its `signature` may it go back to the provider, unchanged."""

    text: str
    signature: str | None = None
    provider: JsonObject | None = None


class ToolCall(Block, frozen=True, tag="tool_call"):
    """A call that the model asks for.

    `provider_call_id` is data: providers repeat ids and choose any text for them. `arguments_text`
    is set instead of `arguments` when what the model wrote is no JSON object.
    """

    provider_call_id: str
    name: str
    arguments: JsonObject = msgspec.field(default_factory=dict)
    arguments_text: str | None = None


class Image(Block, frozen=True, tag="image"):
    """An image, kept as a blob: `sha256` names its bytes, `size` counts them."""

    media_type: str
    sha256: str
    size: int = 0


class File(Block, frozen=True, tag="file"):
    """A file given to the model, kept as a blob."""

    name: str
    media_type: str
    sha256: str
    size: int = 0


class ToolResult(Block, frozen=True, tag="tool_result"):
    """The answer to a call inside a `tool` message of a loop that doesn't use `Session.action`."""

    provider_call_id: str
    content: tuple[Text | Image | File, ...] = ()
    is_error: bool = False


class Opaque(msgspec.Struct, frozen=True):
    """A block that this version can't read: its JSON text, byte for byte."""

    raw: bytes


KnownBlock = Text | Thinking | ToolCall | ToolResult | Image | File
ContentBlock = KnownBlock | Opaque
ResultBlock = Text | Image | File

if TYPE_CHECKING:
    Content = tuple[ContentBlock, ...]
else:
    # An Opaque has no tag for the decoder to know it by: the codec puts it in by itself.
    Content = tuple[KnownBlock, ...]


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens of one model call as the provider counted them; `input_tokens` includes cached ones.

    `cost_usd` is US dollars, None where the price isn't known.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            sum(costs) if costs else None,
        )


def plain_text(blocks: tuple[ContentBlock, ...] | tuple[ResultBlock, ...]) -> str:
    """The text blocks joined by newlines; other blocks have no text."""
    if len(blocks) == 1 and type(blocks[0]) is Text:
        return blocks[0].text  # nearly always, and this runs for every event
    return "\n".join([block.text for block in blocks if isinstance(block, Text)])
