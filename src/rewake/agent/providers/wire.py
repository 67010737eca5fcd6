"""Between the view's messages and pydantic-ai's, both ways.

The rule kept here: one `ModelRequest` or `ModelResponse` per message of the view, made from that
message alone (a result's tool name, which its call fixes, aside). What only the provider
understands (signatures, ids, details) is kept beside the blocks and goes back as it came, to the
provider that it came from and no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pydantic_ai import messages as pa
from pydantic_ai.models import Model as PaModel
from pydantic_core import to_jsonable_python

from rewake.agent.ports import BlobPort, Reply
from rewake.errors import InvalidValueError, StorageError
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
    Usage,
)
from rewake.model.events import StopReason
from rewake.state.view import ViewMessage

# Stands for reasoning that the provider sends without its text (redacted, encrypted or omitted).
HIDDEN_REASONING: Final = "(reasoning that the provider keeps to itself)"
# Known otherwise, and not part of what goes back.
_DETAILS_NOT_KEPT: Final = frozenset({"finish_reason", "timestamp"})
_FINISH: Final[dict[str | None, StopReason]] = {
    "stop": "end",
    "tool_call": "tool_use",
    "length": "length",
    "content_filter": "content_filter",
    "error": "error",
    None: "end",
}


def wire_messages(
    messages: Sequence[ViewMessage], model: PaModel, blobs: BlobPort
) -> list[pa.ModelMessage]:
    """The view's messages as pydantic-ai's, one for one. A missing blob is said to be lost."""
    tool_names: dict[str, str] = {}
    mapped: list[pa.ModelMessage] = []
    for message in messages:
        if message.role == "assistant":
            mapped.append(_response(message, model))
            tool_names |= {
                block.provider_call_id: block.name
                for block in message.content
                if isinstance(block, ToolCall)
            }
        elif message.role == "tool":
            results = [block for block in message.content if isinstance(block, ToolResult)]
            mapped.append(pa.ModelRequest([_return(block, tool_names, blobs) for block in results]))
        else:
            mapped.append(pa.ModelRequest([pa.UserPromptPart(_user(message.content, blobs))]))
    return mapped


def _user(content: tuple[ContentBlock, ...], blobs: BlobPort) -> str | list[pa.UserContent]:
    items: list[pa.UserContent] = [
        item
        for block in content
        if isinstance(block, (Text, Image, File))
        for item in _items(block, blobs)
    ]
    return items[0] if len(items) == 1 and isinstance(items[0], str) else items


def _items(block: ResultBlock, blobs: BlobPort) -> Iterator[str | pa.BinaryContent]:
    try:
        yield from _contents(block, blobs)
    except (StorageError, InvalidValueError):
        # Lost content must not cost every request from here on.
        name = f"file {block.name}" if isinstance(block, File) else "image"
        yield f"[rewake] The content of this {name} is lost."


def _contents(block: ResultBlock, blobs: BlobPort) -> Iterator[str | pa.BinaryContent]:
    match block:
        case Text():
            yield block.text
        case Image():
            yield pa.BinaryContent(blobs.get(block.sha256), media_type=block.media_type)
        case File(media_type="application/pdf"):
            yield f"File {block.name}:"
            yield pa.BinaryContent(blobs.get(block.sha256), media_type=block.media_type)
        case File():
            data = blobs.get(block.sha256)
            try:
                yield f"File {block.name}:\n\n{data.decode()}"
            except UnicodeDecodeError:
                yield f"File {block.name} ({block.media_type}, {len(data)} bytes, not shown)."


def _return(block: ToolResult, tool_names: dict[str, str], blobs: BlobPort) -> pa.ToolReturnPart:
    items = [item for part in block.content for item in _items(part, blobs)]
    content: Any = items
    if all(isinstance(item, str) for item in items):
        content = "\n".join(str(item) for item in items)
    return pa.ToolReturnPart(
        tool_name=tool_names.get(block.provider_call_id, "unknown"),
        content=content,
        tool_call_id=block.provider_call_id,
        outcome="failed" if block.is_error else "success",
    )


def _response(message: ViewMessage, model: PaModel) -> pa.ModelResponse:
    kept = message.provider or {}
    own = kept.get("provider_name")
    # What another provider signed means nothing to this one.
    foreign = own is None or own != model.system
    extras = {} if foreign else kept.get("parts", {})
    counts: dict[str, int] = {}
    parts: list[pa.ModelResponsePart] = []
    for block in message.content:
        kind = type(block).__name__
        extra = extras.get(f"{kind}:{counts.get(kind, 0)}", {})
        counts[kind] = counts.get(kind, 0) + 1
        match block:
            case Text():
                parts.append(pa.TextPart(block.text, **extra))
            case ToolCall():
                parts.append(
                    pa.ToolCallPart(block.name, block.arguments, block.provider_call_id, **extra)
                )
            case Thinking() if not foreign and block.signature:
                parts.append(_thinking(block))
            case _:
                continue
    return pa.ModelResponse(
        parts,
        model_name=message.model or None,
        provider_name=own,
        canonical_system=kept.get("canonical_system"),
        provider_details=kept.get("details"),
    )


def _thinking(block: Thinking) -> pa.ThinkingPart:
    kept = block.provider or {}
    return pa.ThinkingPart(
        "" if kept.get("hidden") else block.text,
        id=kept.get("id"),
        signature=block.signature,
        provider_name=kept.get("provider_name"),
        provider_details=kept.get("provider_details"),
    )


def reply_of(response: pa.ModelResponse) -> Reply:
    """The response as a Reply, with all that its provider needs back."""
    content: list[Text | Thinking | ToolCall] = []
    extras: JsonObject = {}
    counts: dict[str, int] = {}
    for part in response.parts:
        # Provider-side tools and files can't be here: no request of Rewake asks for them.
        if not isinstance(part, (pa.TextPart, pa.ToolCallPart, pa.ThinkingPart)):
            continue
        block = _block(part)
        if block is None:
            continue
        content.append(block)
        kind = type(block).__name__
        if not isinstance(block, Thinking) and (extra := _extra(part)):
            extras[f"{kind}:{counts.get(kind, 0)}"] = extra
        counts[kind] = counts.get(kind, 0) + 1
    details = response.provider_details or {}
    provider: JsonObject = {
        "provider_name": response.provider_name,
        "canonical_system": response.canonical_system,
        "response_id": response.provider_response_id,
        "details": {key: details[key] for key in details if key not in _DETAILS_NOT_KEPT},
        "parts": extras,
    }
    kept = {key: value for key, value in provider.items() if value}
    return Reply(
        tuple(content),
        _stop_reason(response, content),
        _usage(response),
        response.model_name or "",
        to_jsonable_python(kept) or None,
    )


def _block(
    part: pa.TextPart | pa.ToolCallPart | pa.ThinkingPart,
) -> Text | Thinking | ToolCall | None:
    if isinstance(part, pa.ToolCallPart):
        return _call(part)
    if isinstance(part, pa.TextPart):
        return Text(part.content) if part.content else None
    if not part.content and not part.signature:
        return None
    kept = _extra(part) | ({} if part.content else {"hidden": True})
    return Thinking(part.content or HIDDEN_REASONING, part.signature or None, kept or None)


def _call(part: pa.ToolCallPart) -> ToolCall:
    if not part.args:
        return ToolCall(part.tool_call_id, part.tool_name)
    try:
        arguments = part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):  # what pydantic-ai raises for text that is no JSON object
        return ToolCall(part.tool_call_id, part.tool_name, arguments_text=str(part.args))
    return ToolCall(part.tool_call_id, part.tool_name, arguments)


def _extra(part: pa.TextPart | pa.ToolCallPart | pa.ThinkingPart) -> JsonObject:
    fields = {
        "id": part.id,
        "provider_name": part.provider_name,
        "provider_details": part.provider_details,
    }
    # The provider's name alone says nothing that the message doesn't; a signed thinking needs it.
    if not isinstance(part, pa.ThinkingPart) and not (part.id or part.provider_details):
        return {}
    found: JsonObject = to_jsonable_python({k: v for k, v in fields.items() if v is not None})
    return found


def _stop_reason(response: pa.ModelResponse, content: Sequence[object]) -> StopReason:
    reason = _FINISH[response.finish_reason]
    calls = any(isinstance(block, ToolCall) for block in content)
    return "tool_use" if calls and reason == "end" else reason


def _usage(response: pa.ModelResponse) -> Usage:
    usage = response.usage
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cost_usd=_cost_usd(response),
    )


def _cost_usd(response: pa.ModelResponse) -> float | None:
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        return None  # a model, provider or usage that the price list doesn't know
