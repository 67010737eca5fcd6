"""What an OpenAI chat-completions server refuses; see `rewake.testing.provider_rules`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from rewake.model.content import JsonObject
from rewake.testing._rule_checks import extra_keys, is_text, matches, surrogates

# The longest id OpenAI takes ("string too long. Expected a string with maximum length 40").
_OPENAI_ID_LENGTH_MAX: Final = 40
_OPENAI_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_OPENAI_FIELDS: Final = frozenset(
    {
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "metadata",
        "modalities",
        "model",
        "moderation",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    }
)
_OPENAI_MESSAGE_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "system": frozenset({"role", "content", "name"}),
    "developer": frozenset({"role", "content", "name"}),
    "user": frozenset({"role", "content", "name"}),
    "assistant": frozenset({"role", "content", "name", "tool_calls", "refusal", "audio"}),
    "tool": frozenset({"role", "content", "tool_call_id"}),
}
_OPENAI_PARTS: Final = frozenset({"text", "image_url", "input_audio", "file", "refusal"})


def violations_openai(body: object) -> list[str]:
    """What a chat-completions server refuses in `body`, one sentence each; empty when nothing."""
    if not isinstance(body, dict):
        return ["The body must be a JSON object."]
    found = [
        f"Unrecognized request argument supplied: {key}" for key in extra_keys(body, _OPENAI_FIELDS)
    ]
    found += surrogates(body)
    if not is_text(body.get("model")):
        found.append("you must provide a model parameter")
    found += _openai_tools(body)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return [*found, "'messages' must be a non-empty array."]
    for index, message in enumerate(messages):
        found += _openai_message(f"messages[{index}]", message)
    found += _openai_order([item if isinstance(item, dict) else {} for item in messages])
    return found


def _openai_tools(body: JsonObject) -> Iterator[str]:
    if "tools" not in body:
        return
    tools = body["tools"]
    if not isinstance(tools, list) or not tools:
        yield "'tools': [] is too short."
        return
    names: list[object] = []
    for index, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or tool.get("type") != "function":
            yield f"tools[{index}] must be a function."
            continue
        names.append(function.get("name"))
        if not matches(_OPENAI_NAME, function.get("name")):
            yield f"tools[{index}].function.name does not match '^[a-zA-Z0-9_-]{{1,64}}$'."
        if not isinstance(function.get("parameters", {}), dict):
            yield f"tools[{index}].function.parameters must be a JSON Schema object."
    if len(names) != len({str(name) for name in names}):
        yield "Tool names must be unique."


def _openai_message(where: str, message: object) -> Iterator[str]:
    if not isinstance(message, dict):
        yield f"{where} must be an object."
        return
    role = message.get("role")
    fields = _OPENAI_MESSAGE_FIELDS.get(role) if isinstance(role, str) else None
    if fields is None:
        yield f"{where}.role: {role!r} is not one of {sorted(_OPENAI_MESSAGE_FIELDS)}."
        return
    for key in extra_keys(message, fields):
        yield f"{where}: additional properties are not allowed ({key!r} was unexpected)."
    content = message.get("content")
    if role == "assistant" and "tool_calls" in message:
        yield from _openai_calls(where, message["tool_calls"])
        if not content:
            return
    yield from _openai_content(where, content)


def _openai_content(where: str, content: object) -> Iterator[str]:
    if isinstance(content, str):
        if not content.strip():
            yield f"{where}.content must not be empty."
        return
    if not isinstance(content, list) or not content:
        yield f"{where}.content: expected a string or a non-empty array of parts."
        return
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in _OPENAI_PARTS:
            yield f"{where}.content[{index}].type: {kind!r} is not supported."
        elif kind == "text" and not is_text(part.get("text")):
            yield f"{where}.content[{index}].text must not be empty."


def _openai_calls(where: str, calls: object) -> Iterator[str]:
    if not isinstance(calls, list) or not calls:
        yield f"{where}.tool_calls: [] is too short."
        return
    for index, call in enumerate(calls):
        place = f"{where}.tool_calls[{index}]"
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or call.get("type") != "function":
            yield f"{place} must be a function call."
            continue
        call_id = call.get("id")
        if not is_text(call_id) or len(call_id) > _OPENAI_ID_LENGTH_MAX:
            yield f"{place}.id: expected a string of 1 to {_OPENAI_ID_LENGTH_MAX} characters."
        if not matches(_OPENAI_NAME, function.get("name")):
            yield f"{place}.function.name does not match '^[a-zA-Z0-9_-]{{1,64}}$'."
        if not _is_json_object(function.get("arguments")):
            yield f"{place}.function.arguments must be the text of a JSON object."


def _openai_order(messages: list[JsonObject]) -> Iterator[str]:
    seen: set[str] = set()
    waiting: list[str] = []
    conversation = False
    for index, message in enumerate(messages):
        where, role = f"messages[{index}]", message.get("role")
        if role == "tool":
            call_id = str(message.get("tool_call_id"))
            if call_id in waiting:
                waiting.remove(call_id)
            else:
                yield (
                    f"{where}: messages with role 'tool' must be a response to a preceding message "
                    f"with 'tool_calls' ({call_id!r} is not waiting for a result)."
                )
            continue
        yield from _unanswered(where, waiting)
        if role in ("system", "developer") and conversation:
            yield f"{where}: a system message must be at the beginning."
        conversation = conversation or role not in ("system", "developer")
        calls = message.get("tool_calls")
        waiting = [
            str(call.get("id"))
            for call in (calls if isinstance(calls, list) else [])
            if isinstance(call, dict)
        ]
        for call_id in waiting:
            if call_id in seen:
                yield f"{where}: duplicate tool call id {call_id!r}."
            seen.add(call_id)
    yield from _unanswered("the end", waiting)


def _unanswered(where: str, waiting: list[str]) -> Iterator[str]:
    if waiting:
        yield (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to "
            f"each 'tool_call_id'; without a response before {where}: {', '.join(waiting)}."
        )


def _is_json_object(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return isinstance(json.loads(value), dict)
    except ValueError:
        return False
