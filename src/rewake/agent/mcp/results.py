"""From a server's answer to what the model is told and what is recorded.

The rule kept here: an answer is bounded whatever the server sends, and nothing is left out silently.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final

import msgspec

from rewake.agent.ports import BlobPort, ToolOutput
from rewake.model.content import Image, JsonObject, ResultBlock, Text
from rewake.model.events import Outcome

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

TEXT_CHARS_MAX: Final = 100_000  # about 25,000 tokens of a model's context
_BLOCKS_MAX: Final = 100
_IMAGES_MAX: Final = 10
_IMAGE_BYTES_MAX: Final = 5 << 20  # the limit of the large providers
_IMAGE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_STRUCTURED_BYTES_MAX: Final = 256 << 10


def output_of(answer: CallToolResult, blobs: BlobPort) -> ToolOutput:
    """What the model is told of a call, with the structured content among the outcome's details."""
    structured = _encoded(answer.structured_content)
    taker = _Taker(blobs)
    for block in answer.content[:_BLOCKS_MAX]:
        taker.take(block)
    if len(answer.content) > _BLOCKS_MAX:
        taker.say(f"[{len(answer.content) - _BLOCKS_MAX} more blocks are left out]")
    if not answer.content and structured is not None:
        taker.say(structured.decode())
    details: JsonObject = {}
    if structured is not None and len(structured) <= _STRUCTURED_BYTES_MAX:
        details["structured_content"] = answer.structured_content
    elif structured is not None:
        details["structured_content_bytes"] = len(structured)
    content = tuple(taker.blocks) or (Text("(no output)"),)
    return ToolOutput(content, is_error=answer.is_error, outcome=Outcome(details=details))


def _encoded(value: object) -> bytes | None:
    if value is None:
        return None
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return None


class _Taker:
    """Takes an answer's blocks as long as there is room."""

    def __init__(self, blobs: BlobPort) -> None:
        self.blocks: list[ResultBlock] = []
        self._blobs = blobs
        self._room = TEXT_CHARS_MAX
        self._images = 0

    def say(self, text: str) -> None:
        """Add a text, as much of it as there is room for."""
        kept = text[: self._room]
        self._room -= len(kept)
        if len(kept) < len(text):
            kept += f"\n[… {len(text) - len(kept)} more characters are left out]"
        if kept:
            self.blocks.append(Text(kept))

    def take(self, block: ContentBlock) -> None:
        """Add a block as the kind that it is."""
        match block.type:
            case "text":
                self.say(block.text)
            case "image":
                self._image(block.data, block.mime_type)
            case "audio":
                self.say(f"[audio ({block.mime_type}), which can't be shown]")
            case "resource_link":
                self.say(f"[resource {block.uri}: {block.name}]")
            case "resource":
                resource = block.resource
                text = getattr(resource, "text", None)
                kind = resource.mime_type or "binary"
                self.say(text if isinstance(text, str) else f"[resource {resource.uri} ({kind})]")

    def _image(self, data: str, media_type: str) -> None:
        if media_type not in _IMAGE_TYPES:
            self.say(f"[an image of the type {media_type[:40]}, which can't be shown]")
            return
        try:
            content = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            self.say("[an image that can't be read]")
            return
        if len(content) > _IMAGE_BYTES_MAX or self._images >= _IMAGES_MAX:
            self.say(f"[an image of {len(content)} bytes is left out]")
            return
        self._images += 1
        self.blocks.append(Image(media_type, self._blobs.put(content), len(content)))
