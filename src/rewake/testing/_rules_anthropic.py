"""What the Anthropic messages API refuses; see `rewake.testing.provider_rules`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from rewake.model.content import JsonObject
from rewake.testing._rule_checks import extra_keys, is_text, matches, surrogates

# Anthropic's limit on cache breakpoints in one request.
_CACHE_BREAKPOINTS_MAX: Final = 4
_ANTHROPIC_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ANTHROPIC_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")

_ANTHROPIC_FIELDS: Final = frozenset(
    {
        "cache_control",
        "container",
        "context_management",
        "inference_geo",
        "max_tokens",
        "mcp_servers",
        "messages",
        "metadata",
        "model",
        "output_config",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
    }
)
# Per block: the role that may send it (None: both) and its fields.
_ANTHROPIC_BLOCKS: Final[Mapping[str, tuple[str | None, frozenset[str]]]] = {
    "text": (None, frozenset({"type", "text", "cache_control", "citations"})),
    "image": ("user", frozenset({"type", "source", "cache_control"})),
    "document": (
        "user",
        frozenset({"type", "source", "cache_control", "title", "context", "citations"}),
    ),
    "tool_use": ("assistant", frozenset({"type", "id", "name", "input", "cache_control"})),
    "tool_result": (
        "user",
        frozenset({"type", "tool_use_id", "content", "is_error", "cache_control"}),
    ),
    "thinking": ("assistant", frozenset({"type", "thinking", "signature"})),
    "redacted_thinking": ("assistant", frozenset({"type", "data"})),
}


def violations_anthropic(body: object) -> list[str]:
    """What the messages API refuses in `body`, one sentence each; empty when nothing."""
    if not isinstance(body, dict):
        return ["The body must be a JSON object."]
    found = [
        f"{key}: Extra inputs are not permitted" for key in extra_keys(body, _ANTHROPIC_FIELDS)
    ]
    found += surrogates(body)
    if not is_text(body.get("model")):
        found.append("model: Field required")
    limit = body.get("max_tokens")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        found.append("max_tokens: an integer of at least 1 is required")
    found += _anthropic_system(body.get("system", "absent"))
    found += _anthropic_tools(body.get("tools", []))
    breakpoints = json.dumps(body).count('"cache_control": {')
    if breakpoints > _CACHE_BREAKPOINTS_MAX:
        found.append(
            f"A maximum of 4 blocks with cache_control may be provided. Found {breakpoints}."
        )
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return [*found, "messages: at least one message is required"]
    for index, message in enumerate(messages):
        found += _anthropic_message(f"messages.{index}", message)
    blocks = [_blocks(message) for message in messages]
    roles = [message.get("role") if isinstance(message, dict) else None for message in messages]
    if roles[0] != "user":
        found.append('messages: first message must use the "user" role')
    if roles[-1] == "assistant":
        found.append("The conversation must end with a user message (no assistant prefill).")
    found += _anthropic_pairs(roles, blocks)
    thinking = body.get("thinking")
    if isinstance(thinking, dict) and thinking.get("type") == "enabled":
        found += _anthropic_last_turn_thinks(roles, blocks)
    return found


def _anthropic_system(system: object) -> Iterator[str]:
    if isinstance(system, str):
        if not system.strip():
            yield "system: text content blocks must be non-empty"
        return
    if not isinstance(system, list):
        yield "system: expected a string or text blocks"
        return
    for index, block in enumerate(system):
        if not isinstance(block, dict) or block.get("type") != "text":
            yield f"system.{index}: only text blocks are allowed"
        elif not is_text(block.get("text")):
            yield f"system.{index}: text content blocks must be non-empty"


def _anthropic_tools(tools: object) -> Iterator[str]:
    if not isinstance(tools, list):
        yield "tools: expected a list"
        return
    names = []
    for index, tool in enumerate(tools):
        if not isinstance(tool, dict):
            yield f"tools.{index}: expected an object"
            continue
        names.append(str(tool.get("name")))
        if not matches(_ANTHROPIC_NAME, tool.get("name")):
            yield f"tools.{index}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        schema = tool.get("input_schema")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            yield f"tools.{index}.input_schema.type: Field required to be 'object'"
    if len(names) != len(set(names)):
        yield "tools: Tool names must be unique."


def _anthropic_message(where: str, message: object) -> Iterator[str]:
    if not isinstance(message, dict):
        yield f"{where}: expected an object"
        return
    for key in extra_keys(message, frozenset({"role", "content"})):
        yield f"{where}.{key}: Extra inputs are not permitted"
    role, content = message.get("role"), message.get("content")
    if role == "system":
        yield f"{where}.role: use the top-level `system` parameter for system prompts"
        return
    if role not in ("user", "assistant"):
        yield f"{where}.role: {role!r} is neither 'user' nor 'assistant'"
        return
    if isinstance(content, str):
        if not content.strip():
            yield f"{where}: all messages must have non-empty content"
        return
    if not isinstance(content, list) or not content:
        yield f"{where}: all messages must have non-empty content"
        return
    for index, block in enumerate(content):
        yield from _anthropic_block(f"{where}.content.{index}", role, block)
    kinds = [block.get("type") for block in _blocks(message)]
    thinks = [kind in ("thinking", "redacted_thinking") for kind in kinds]
    if any(thinks) and not thinks[0]:
        yield f"{where}.content.0.type: Expected `thinking`, but found `{kinds[0]}`"


def _anthropic_block(where: str, role: str, block: object) -> Iterator[str]:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(block, dict) or not isinstance(kind, str) or kind not in _ANTHROPIC_BLOCKS:
        yield f"{where}: Input tag {kind!r} does not match any of the expected tags"
        return
    only_role, fields = _ANTHROPIC_BLOCKS[kind]
    if only_role not in (None, role):
        yield f"{where}: `{kind}` blocks can only be in `{only_role}` messages"
    for key in extra_keys(block, fields):
        yield f"{where}.{kind}.{key}: Extra inputs are not permitted"
    match kind:
        case "text" if not is_text(block.get("text")):
            yield f"{where}: text content blocks must contain non-whitespace text"
        case "tool_use":
            yield from _anthropic_tool_use(where, block)
        case "tool_result":
            yield from _anthropic_result_content(where, block)
        case "image" | "document" if not isinstance(block.get("source"), dict):
            yield f"{where}.{kind}.source: Field required"
        case "thinking" | "redacted_thinking":
            yield from _anthropic_thinking(where, block)


def _anthropic_thinking(where: str, block: JsonObject) -> Iterator[str]:
    # A signed block may come back without its text: that is how omitted reasoning is delivered.
    if block["type"] == "redacted_thinking":
        if not is_text(block.get("data")):
            yield f"{where}.redacted_thinking.data: Field required"
        return
    if not is_text(block.get("signature")):
        yield f"{where}.thinking.signature: Field required; an unsigned block is invalid"
    if not isinstance(block.get("thinking"), str):
        yield f"{where}.thinking.thinking: Field required"


def _anthropic_tool_use(where: str, block: JsonObject) -> Iterator[str]:
    if not matches(_ANTHROPIC_ID, block.get("id")):
        yield f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if not matches(_ANTHROPIC_NAME, block.get("name")):
        yield f"{where}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
    if not isinstance(block.get("input"), dict):
        yield f"{where}.tool_use.input: Input should be a valid dictionary"


def _anthropic_result_content(where: str, block: JsonObject) -> Iterator[str]:
    content = block.get("content")
    if not isinstance(block.get("is_error", False), bool):
        yield f"{where}.tool_result.is_error: Input should be a valid boolean"
    if isinstance(content, str) and content.strip():
        return
    if not isinstance(content, list) or not content:
        yield f"{where}.tool_result.content: must not be empty"
        return
    for index, item in enumerate(content):
        kind = item.get("type") if isinstance(item, dict) else None
        if kind not in ("text", "image", "document"):
            yield f"{where}.tool_result.content.{index}: {kind!r} is not allowed here"
        elif kind == "text" and not is_text(item.get("text")):
            yield f"{where}.tool_result.content.{index}: text content blocks must be non-empty"


def _anthropic_pairs(roles: list[object], blocks: list[list[JsonObject]]) -> Iterator[str]:
    seen: set[str] = set()
    waiting: list[str] = []
    for index, (role, content) in enumerate(zip(roles, blocks, strict=True)):
        results = [block for block in content if block.get("type") == "tool_result"]
        if results != content[: len(results)]:
            yield f"messages.{index}: tool_result blocks must come before other content"
        for block in results:
            call_id = str(block.get("tool_use_id"))
            if call_id not in waiting:
                yield (
                    f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: "
                    f"{call_id}. Each `tool_result` block must have a corresponding `tool_use` "
                    "block in the previous message, answered once."
                )
                continue
            waiting.remove(call_id)
        if waiting:
            yield (
                f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(waiting)}."
            )
        calls = [block for block in content if block.get("type") == "tool_use"]
        waiting = [str(block.get("id")) for block in calls] if role == "assistant" else []
        for call_id in waiting:
            if call_id in seen:
                yield f"messages.{index}: `tool_use` ids must be unique ({call_id})"
            seen.add(call_id)
    if waiting:
        yield f"`tool_use` ids were found without `tool_result` blocks: {', '.join(waiting)}."


def _anthropic_last_turn_thinks(
    roles: list[object], blocks: list[list[JsonObject]]
) -> Iterator[str]:
    """With thinking enabled, the assistant message whose calls are being answered must open with it."""
    if "assistant" not in roles:
        return
    index = len(roles) - 1 - roles[::-1].index("assistant")
    kinds = [block.get("type") for block in blocks[index]]
    if "tool_use" in kinds and kinds[0] not in ("thinking", "redacted_thinking"):
        yield (
            f"messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
            f"`{kinds[0]}`. When `thinking` is enabled, a final `assistant` message must start with "
            "a thinking block."
        )


def _blocks(message: object) -> list[JsonObject]:
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, dict)]
