"""How the two protocols write an answer, whole or as server-sent events, and an error.

The rule kept here: the bytes depend only on the turn and the request, so a replayed test sees the
same stream; non-ASCII is escaped, so a lone surrogate in a script reaches the client as it would
from a real model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, Literal, assert_never

from rewake.model.content import JsonObject, Usage
from rewake.model.events import StopReason
from rewake.script import ScriptedCall, Turn

Protocol = Literal["openai", "anthropic"]

# Pieces a text is streamed in: enough to see that deltas are joined, few enough to read in a log.
_PIECES: Final = 4
_BAD_REQUEST: Final = 400
_TOO_LARGE: Final = 413

_OPENAI_FINISH: Final[dict[StopReason, str]] = {
    "end": "stop",
    "tool_use": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
    "interrupted": "stop",
    "error": "stop",
}
_ANTHROPIC_STOP: Final[dict[StopReason, str]] = {
    "end": "end_turn",
    "tool_use": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
    "interrupted": "end_turn",
    "error": "end_turn",
}
_ANTHROPIC_ERRORS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_OPENAI_ERRORS: Final = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}


def pieces(text: str) -> list[str]:
    """`text` cut into a few parts, none empty; joined they are `text`."""
    size = max(1, -(-len(text) // _PIECES))
    return [text[start : start + size] for start in range(0, len(text), size)]


def too_long_message(protocol: Protocol) -> str:
    """What the service says when a request exceeds the model's context."""
    if protocol == "anthropic":
        return "prompt is too long: 208310 tokens > 200000 maximum"
    return (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        "131072 tokens. Please reduce the length of the messages."
    )


def error_body(protocol: Protocol, status: int, message: str) -> JsonObject:
    """The body of an error response, typed and coded as the service does for this status."""
    if protocol == "anthropic":
        kind = _ANTHROPIC_ERRORS.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}
    fallback = "invalid_request_error" if status < 500 else "server_error"  # noqa: PLR2004 - the HTTP class
    kind, code = _OPENAI_ERRORS.get(status, (fallback, None))
    if status in (_BAD_REQUEST, _TOO_LARGE) and "context length" in message:
        code = "context_length_exceeded"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def whole_answer(protocol: Protocol, turn: Turn, number: int, model: str) -> JsonObject:
    """The body of an answer that isn't streamed; `number` counts the answers of this server."""
    if protocol == "anthropic":
        return {
            "id": f"msg_{number:04d}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [_anthropic_whole(block) for block in _anthropic_blocks(turn)],
            "stop_reason": _ANTHROPIC_STOP[turn.stop()],
            "stop_sequence": None,
            "usage": _anthropic_usage(turn.usage or Usage()),
        }
    message: JsonObject = {"role": "assistant", "content": turn.text or None, "refusal": None}
    if turn.thinking is not None:
        message["reasoning_content"] = turn.thinking.text
    if turn.tool_calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": _openai_function(call)}
            for call_id, call in zip(turn.call_ids(), turn.tool_calls, strict=True)
        ]
    choice = {"index": 0, "message": message, "finish_reason": _OPENAI_FINISH[turn.stop()]}
    return {
        **_openai_head(number, model, "chat.completion"),
        "choices": [choice],
        "usage": _openai_usage(turn.usage or Usage()),
    }


def streamed_answer(
    protocol: Protocol, turn: Turn, number: int, model: str, *, with_usage: bool
) -> Iterator[bytes]:
    """The server-sent events of an answer, one event an item."""
    match protocol:
        case "anthropic":
            for event in _anthropic_events(turn, number, model):
                yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        case "openai":
            for chunk in _openai_chunks(turn, number, model, with_usage=with_usage):
                yield f"data: {json.dumps(chunk)}\n\n".encode()
            yield b"data: [DONE]\n\n"
        case _:
            assert_never(protocol)


def _openai_head(number: int, model: str, kind: str) -> JsonObject:
    return {"id": f"chatcmpl-{number:04d}", "object": kind, "created": 1, "model": model}


def _arguments_text(call: ScriptedCall) -> str:
    return json.dumps(call.arguments) if call.arguments_text is None else call.arguments_text


def _openai_function(call: ScriptedCall) -> JsonObject:
    return {"name": call.name, "arguments": _arguments_text(call)}


def _openai_usage(usage: Usage) -> JsonObject:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
    }


def _openai_chunks(
    turn: Turn, number: int, model: str, *, with_usage: bool
) -> Iterator[JsonObject]:
    head = _openai_head(number, model, "chat.completion.chunk")

    def chunk(delta: JsonObject, finish: str | None = None) -> JsonObject:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    if turn.thinking is not None:
        for piece in pieces(turn.thinking.text):
            yield chunk({"reasoning_content": piece})
    for piece in pieces(turn.text):
        yield chunk({"content": piece})
    for index, (call_id, call) in enumerate(zip(turn.call_ids(), turn.tool_calls, strict=True)):
        opening = {
            "index": index,
            "id": call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }
        yield chunk({"tool_calls": [opening]})
        for piece in pieces(_arguments_text(call)):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, _OPENAI_FINISH[turn.stop()])
    if with_usage:
        yield {**head, "choices": [], "usage": _openai_usage(turn.usage or Usage())}


def _anthropic_usage(usage: Usage) -> JsonObject:
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": usage.input_tokens - cached,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    }


def _anthropic_blocks(turn: Turn) -> Iterator[tuple[JsonObject, list[JsonObject]]]:
    """Each block as it starts, and the deltas that fill it."""
    if turn.thinking is not None:
        deltas: list[JsonObject] = [
            {"type": "thinking_delta", "thinking": piece} for piece in pieces(turn.thinking.text)
        ]
        if turn.thinking.signature is not None:
            deltas.append({"type": "signature_delta", "signature": turn.thinking.signature})
        yield {"type": "thinking", "thinking": "", "signature": ""}, deltas
    if turn.text:
        yield (
            {"type": "text", "text": ""},
            [{"type": "text_delta", "text": piece} for piece in pieces(turn.text)],
        )
    for call_id, call in zip(turn.call_ids(), turn.tool_calls, strict=True):
        yield (
            {"type": "tool_use", "id": call_id, "name": call.name, "input": {}},
            [
                {"type": "input_json_delta", "partial_json": piece}
                for piece in pieces(_arguments_text(call))
            ],
        )


def _anthropic_whole(started: tuple[JsonObject, list[JsonObject]]) -> JsonObject:
    block, deltas = started
    filled = dict(block)
    partial = ""
    for delta in deltas:
        match delta["type"]:
            case "input_json_delta":
                partial += delta["partial_json"]
            case "signature_delta":
                filled["signature"] = delta["signature"]
            case kind:
                field = kind.removesuffix("_delta")
                filled[field] += delta[field]
    if block["type"] == "tool_use":
        filled["input"] = json.loads(partial)
    return filled


def _anthropic_events(turn: Turn, number: int, model: str) -> Iterator[JsonObject]:
    usage = _anthropic_usage(turn.usage or Usage())
    message: JsonObject = {
        "id": f"msg_{number:04d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    yield {"type": "message_start", "message": message}
    for index, (block, deltas) in enumerate(_anthropic_blocks(turn)):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": _ANTHROPIC_STOP[turn.stop()], "stop_sequence": None},
        "usage": {"output_tokens": usage["output_tokens"]},
    }
    yield {"type": "message_stop"}
