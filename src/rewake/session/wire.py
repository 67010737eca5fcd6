"""Views as the messages of the two common provider protocols, and their answers as blocks.

For programs that call a provider's client themselves. The rule kept here: one message of the view
gives the same wire messages every time, so requests only grow at their end.

Protocols: OpenAI chat completions (`messages`), Anthropic messages (`messages`).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from rewake.errors import InvalidValueError, StorageError
from rewake.model.content import (
    ContentBlock,
    File,
    Image,
    JsonObject,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    plain_text,
)
from rewake.model.events import StopReason
from rewake.state.view import ViewMessage

ReadBlob = Callable[[str], bytes]

_REDACTED: Final = "redacted_thinking"
"""The id by which the view knows reasoning that has no text and goes back all the same."""


_OPENAI_STOP: Final[dict[str, StopReason]] = {
    "stop": "end",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "length",
    "content_filter": "content_filter",
}
_ANTHROPIC_STOP: Final[dict[str, StopReason]] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tool_use",
    "max_tokens": "length",
    "refusal": "content_filter",
}


# --- to the provider -------------------------------------------------------------------------


def openai_messages(
    view: Iterable[ViewMessage], read_blob: ReadBlob | None = None
) -> list[JsonObject]:
    """The view for OpenAI's chat completions. Images need `read_blob` (`Session.blobs.get`)."""
    messages: list[JsonObject] = []
    for message in view:
        if message.role == "tool":
            messages.extend(_openai_result(block) for block in _results(message))
        elif message.role == "assistant":
            messages.append(_openai_assistant(message))
        else:
            messages.append({"role": "user", "content": _openai_user(message, read_blob)})
    return messages


def _results(message: ViewMessage) -> list[ToolResult]:
    return [block for block in message.content if isinstance(block, ToolResult)]


def _openai_result(block: ToolResult) -> JsonObject:
    text = plain_text(block.content) or "(not text)"
    return {"role": "tool", "tool_call_id": block.provider_call_id, "content": text}


def _openai_assistant(message: ViewMessage) -> JsonObject:
    said: JsonObject = {"role": "assistant", "content": plain_text(message.content) or None}
    calls = [block for block in message.content if isinstance(block, ToolCall)]
    if calls:
        said["tool_calls"] = [
            {
                "id": call.provider_call_id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": json.dumps(call.arguments, separators=(",", ":")),
                },
            }
            for call in calls
        ]
    return said


def _openai_user(message: ViewMessage, read_blob: ReadBlob | None) -> str | list[JsonObject]:
    if all(isinstance(block, Text) for block in message.content):
        return plain_text(message.content)
    parts: list[JsonObject] = []
    for block in message.content:
        data = _image(block, read_blob)
        if isinstance(block, Image) and data is not None:
            url = f"data:{block.media_type};base64,{data}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        else:
            parts.append({"type": "text", "text": _as_text(block)})
    return parts


def anthropic_messages(
    view: Iterable[ViewMessage], read_blob: ReadBlob | None = None
) -> list[JsonObject]:
    """The view for Anthropic's messages. Images need `read_blob` (`Session.blobs.get`)."""
    return [
        {
            "role": "assistant" if message.role == "assistant" else "user",
            "content": [_anthropic_block(block, read_blob) for block in message.content],
        }
        for message in view
    ]


def _anthropic_block(block: ContentBlock, read_blob: ReadBlob | None) -> JsonObject:
    if isinstance(block, ToolCall):
        return {
            "type": "tool_use",
            "id": block.provider_call_id,
            "name": block.name,
            "input": block.arguments,
        }
    if isinstance(block, ToolResult):
        return {
            "type": "tool_result",
            "tool_use_id": block.provider_call_id,
            "content": [_anthropic_block(part, read_blob) for part in block.content],
            "is_error": block.is_error,
        }
    if isinstance(block, Thinking):
        return _anthropic_thinking(block)
    data = _image(block, read_blob)
    if isinstance(block, Image) and data is not None:
        source = {"type": "base64", "media_type": block.media_type, "data": data}
        return {"type": "image", "source": source}
    return {"type": "text", "text": _as_text(block)}


def _anthropic_thinking(block: Thinking) -> JsonObject:
    kept = block.provider or {}
    if kept.get("id") == _REDACTED:
        return {"type": _REDACTED, "data": block.signature}
    text = "" if kept.get("hidden") else block.text  # what stands there was not the provider's
    return {"type": "thinking", "thinking": text, "signature": block.signature}


def _as_text(block: ContentBlock) -> str:
    if isinstance(block, Text):
        return block.text
    if isinstance(block, File):
        return f"[file {block.name}: {block.media_type}, {block.size} bytes]"
    if isinstance(block, Image):
        return f"[image: {block.media_type}, {block.size} bytes]"
    return "[not shown]"


def _image(block: ContentBlock, read_blob: ReadBlob | None) -> str | None:
    """An image's content in base64; None where it is lost, which must not cost the whole request."""
    if not isinstance(block, Image) or read_blob is None:
        return None
    try:
        data = read_blob(block.sha256)
    except (StorageError, InvalidValueError):
        return None
    return base64.b64encode(data).decode("ascii")


# --- from the provider -----------------------------------------------------------------------


def from_openai(response: Mapping[str, Any]) -> JsonObject:
    """Keyword arguments for `Session.assistant` from a chat completion (as a dictionary)."""
    choice = response["choices"][0]
    message = choice["message"]
    content: list[ContentBlock] = []
    if message.get("content"):
        content.append(Text(message["content"]))
    content.extend(_openai_call(call) for call in message.get("tool_calls") or ())
    usage = response.get("usage")
    return {
        "content": content,
        "usage": _openai_usage(usage) if usage else None,
        "model": response.get("model") or "",
        "stop_reason": _OPENAI_STOP.get(choice.get("finish_reason") or ""),
    }


def _openai_call(call: Mapping[str, Any]) -> ToolCall:
    function = call["function"]
    text = function.get("arguments") or "{}"
    try:
        arguments = json.loads(text)
    except ValueError:
        arguments = None
    if isinstance(arguments, dict):
        return ToolCall(call.get("id") or "", function["name"], arguments)
    return ToolCall(call.get("id") or "", function["name"], arguments_text=text)


def _openai_usage(usage: Mapping[str, Any]) -> Usage:
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return Usage(usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0, cached)


def from_anthropic(response: Mapping[str, Any]) -> JsonObject:
    """Keyword arguments for `Session.assistant` from an Anthropic message (as a dictionary)."""
    usage = response.get("usage")
    return {
        "content": _anthropic_content(response.get("content") or ()),
        "usage": _anthropic_usage(usage) if usage else None,
        "model": response.get("model") or "",
        "stop_reason": _ANTHROPIC_STOP.get(response.get("stop_reason") or ""),
    }


def _anthropic_content(blocks: Sequence[Mapping[str, Any]]) -> list[ContentBlock]:
    content: list[ContentBlock] = []
    for block in blocks:
        match block.get("type"):
            case "text":
                content.append(Text(block["text"]))
            case "tool_use":
                content.append(ToolCall(block["id"], block["name"], dict(block["input"])))
            case "thinking":
                content.append(Thinking(block["thinking"], block.get("signature")))
            case "redacted_thinking":
                # An answer that calls tools must go back with its reasoning, readable or not.
                content.append(Thinking("", block["data"], {"id": _REDACTED}))
            case _:
                # Server-side blocks are not ours to repeat; the answer's text stands without them.
                continue
    return content


def _anthropic_usage(usage: Mapping[str, Any]) -> Usage:
    """Anthropic counts cached tokens apart; ours are part of the input."""
    read = usage.get("cache_read_input_tokens") or 0
    written = usage.get("cache_creation_input_tokens") or 0
    fresh = usage.get("input_tokens") or 0
    return Usage(fresh + read + written, usage.get("output_tokens") or 0, read, written)
