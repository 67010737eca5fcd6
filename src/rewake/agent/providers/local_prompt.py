"""What an embedded model is shown, what it may answer, and how its answer is read.

The rule kept here: an answer is one JSON object, either `{"text": …}` or `{"tool": …,
"arguments": {…}}`, and the grammar made of the tools' schemas lets nothing else through. So a call
is always valid against its tool's parameters; `const`, `enum` and `maxLength` are honoured.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from rewake.agent.ports import ModelRequest, ToolSpec
from rewake.model.content import JsonObject, Text, ToolCall, ToolResult, plain_text
from rewake.state.view import ViewMessage

_FORM: Final = (
    'Answer with one JSON object. To say something: {"text": "..."}. '
    'To use a tool: {"tool": "NAME", "arguments": {...}}.'
)
_TEXT_OPENING: Final = '{"text": "'
# The longest escape that can be cut in two, a surrogate pair: \ud83d\ude00.
_ESCAPE_CHARS_MAX: Final = 12
_HIGH_SURROGATES: Final = range(0xD800, 0xDC00)
_KEPT_KEYWORDS: Final = (
    "type", "const", "enum", "minLength", "maxLength", "pattern", "minimum", "maximum", "$ref",
)  # fmt: skip

# Three turns that the bundled model copies the form from; found by trying: without them it talks
# about edits instead of making them, with only one it repeats its words.
_EXAMPLES: Final[tuple[tuple[str, str], ...]] = (
    ("user", "Replace COLOR in paint.txt with a nice color."),
    (
        "assistant",
        (
            '{"tool": "Edit", "arguments": {"file_path": "paint.txt", '
            '"edits": [{"old_string": "COLOR", "new_string": "sky blue"}]}}'
        ),
    ),
    ("user", "Result of Edit: paint.txt was changed."),
    ("assistant", '{"text": "I wrote sky blue in paint.txt."}'),
    ("user", "Put a warm welcome in door.txt where it says HERE."),
    (
        "assistant",
        (
            '{"tool": "Edit", "arguments": {"file_path": "door.txt", '
            '"edits": [{"old_string": "HERE", "new_string": "Welcome, it is good to see you!"}]}}'
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a model can cope with. Lengths are in characters, `window_bytes` in bytes of prompt.

    `tiny`: one call per user prompt, required parameters only, worked examples, a clipped prompt.
    """

    tiny: bool
    context_tokens: int
    answer_tokens: int
    text_chars_min: int
    text_chars: int
    string_chars: int
    items: int
    window_bytes: int | None = None
    message_bytes: int | None = None


# 135M parameters: beyond a few sentences it only repeats itself, and each 1,000 bytes of prompt cost
# about two seconds of one core. A byte is a token at the very worst, so the window always fits.
TINY: Final = Limits(
    tiny=True,
    context_tokens=4096,
    answer_tokens=256,
    text_chars_min=16,  # else it stops after "I wrote " at times
    text_chars=240,
    string_chars=240,
    items=1,
    window_bytes=3000,
    message_bytes=800,
)
OWN: Final = Limits(
    tiny=False,
    context_tokens=16384,
    answer_tokens=4096,
    text_chars_min=0,
    text_chars=8000,
    string_chars=8000,
    items=32,
)


def chat_messages(request: ModelRequest, limits: Limits) -> list[dict[str, str]]:
    """The request as a chat for the model's template; the oldest messages go when there is no room."""
    system = "\n".join(
        [_clip(request.system, limits.message_bytes), _FORM, *map(_tool_line, request.tools)]
    )
    offered = {tool.name for tool in request.tools}
    examples = _EXAMPLES if limits.tiny and "Edit" in offered else ()
    spoken = _merged([_spoken(message, limits) for message in request.messages])
    if limits.window_bytes is not None:
        spoken = _newest(spoken, limits.window_bytes - len(system.encode()))
    return [
        {"role": role, "content": text} for role, text in (("system", system), *examples, *spoken)
    ]


def grammar(request: ModelRequest, limits: Limits) -> str:
    """The grammar of the one JSON object that may be answered, as llguidance text."""
    text = {"type": "string", "minLength": limits.text_chars_min, "maxLength": limits.text_chars}
    choices = [_object({"text": text})]
    if not (limits.tiny and _is_answered(request.messages)):
        choices += [
            _object({"tool": {"const": tool.name}, "arguments": bounded(tool.parameters, limits)})
            for tool in request.tools
        ]
    # Without this a small model pads the JSON with newlines until its tokens are used up.
    layout = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    schema = {"x-guidance": layout, "anyOf": choices}
    return f"%llguidance {{}}\nstart: %json {json.dumps(schema)}"


def bounded(schema: JsonObject, limits: Limits) -> JsonObject:
    """`schema` with an end to every string and list, and without what doesn't constrain."""
    kept: JsonObject = {key: schema[key] for key in _KEPT_KEYWORDS if key in schema}
    if "const" in kept or "enum" in kept:
        return kept
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            return {"anyOf": [bounded(choice, limits) for choice in schema[keyword]]}
    match kept.get("type"):
        case "string":
            longest = min(schema.get("maxLength", limits.string_chars), limits.string_chars)
            return {**kept, "maxLength": longest}
        case "array":
            most = schema.get("maxItems", limits.items)
            items = bounded(schema.get("items", {"type": "string"}), limits)
            return {
                "type": "array",
                "items": items,
                "minItems": min(schema.get("minItems", 1 if limits.tiny else 0), most),
                "maxItems": most,
            }
        case "object":
            required = schema.get("required", [])
            properties = {
                name: bounded(inner, limits)
                for name, inner in schema.get("properties", {}).items()
                if name in required or not limits.tiny
            }
            return {**_object(properties), "required": [n for n in properties if n in required]}
        case _:
            return kept


def text_so_far(raw: str) -> str:
    """The text that a partly generated answer has said so far; empty while it isn't a text."""
    if not raw.startswith(_TEXT_OPENING):
        return ""
    said = raw[len(_TEXT_OPENING) - 1 :]
    try:
        text, _ = json.JSONDecoder().raw_decode(said)
        return str(text)
    except ValueError:
        pass  # not closed yet
    for cut in range(_ESCAPE_CHARS_MAX):
        try:
            text = json.loads(said[: len(said) - cut] + '"')
        except ValueError:
            continue
        held = 1 if text and ord(text[-1]) in _HIGH_SURROGATES else 0
        return str(text[: len(text) - held])
    return ""


def read_answer(raw: str) -> Text | ToolCall | None:
    """The block that an answer means; None for a call that was cut off."""
    try:
        answer = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        # Cut off by the token limit, or a grammar that llama.cpp couldn't use: keep what was said.
        text = text_so_far(raw) or ("" if raw.startswith("{") else raw)
        return Text(text) if text.strip() else None
    if isinstance(answer, dict) and "tool" in answer:
        return ToolCall("call_1", answer["tool"], answer["arguments"])
    text = str(answer.get("text", "")) if isinstance(answer, dict) else raw
    return Text(text) if text.strip() else None


def _object(properties: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _is_answered(messages: Sequence[ViewMessage]) -> bool:
    """Whether a tool has answered since the newest user prompt."""
    roles = [message.role for message in messages]
    return "tool" in roles and "user" not in roles[len(roles) - 1 - roles[::-1].index("tool") :]


def _tool_line(tool: ToolSpec) -> str:
    names = ", ".join(tool.parameters.get("properties", {}))
    first = tool.description.strip().split("\n")[0].split(". ")[0]
    return f"{tool.name}({names}): {first}"


def _spoken(message: ViewMessage, limits: Limits) -> tuple[str, str]:
    if message.role == "assistant":
        said: list[str] = []
        for block in message.content:
            if isinstance(block, Text):
                said.append(json.dumps({"text": block.text}, ensure_ascii=False))
            elif isinstance(block, ToolCall):
                call = {"tool": block.name, "arguments": block.arguments}
                said.append(json.dumps(call, ensure_ascii=False))
        return "assistant", _clip("\n".join(said), limits.message_bytes)
    results = [block for block in message.content if isinstance(block, ToolResult)]
    if results:
        lines = [
            ("Error: " if block.is_error else "Result: ") + plain_text(block.content)
            for block in results
        ]
        return "user", _clip("\n".join(lines), limits.message_bytes)
    return "user", _clip(plain_text(message.content), limits.message_bytes)


def _merged(spoken: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Neighbours of one role joined, since many chat templates demand that roles alternate."""
    merged: list[tuple[str, str]] = []
    for role, text in spoken:
        if merged and merged[-1][0] == role:
            merged[-1] = (role, f"{merged[-1][1]}\n\n{text}")
        else:
            merged.append((role, text))
    return merged


def _newest(spoken: list[tuple[str, str]], room: int) -> list[tuple[str, str]]:
    """The newest messages that fit into `room` bytes, at least the last, never opening mid-answer."""
    kept: list[tuple[str, str]] = []
    for role, text in reversed(spoken):
        room -= len(text.encode())
        if kept and room < 0:
            break
        kept.insert(0, (role, text))
    while len(kept) > 1 and kept[0][0] == "assistant":
        kept.pop(0)
    return kept


def _clip(text: str, limit: int | None) -> str:
    data = text.encode()
    if limit is None or len(data) <= limit:
        return text
    return data[:limit].decode(errors="ignore") + " …"
