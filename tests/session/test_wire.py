"""Answers of the two common protocols as blocks, and back in the next request."""

from __future__ import annotations

from typing import Any

import pytest
from tests.session.conftest import Open

import rewake
from rewake.model.content import Text, Thinking, ToolCall, Usage
from rewake.model.events import ReadOnlyIntent
from rewake.session.wire import anthropic_messages, from_anthropic, from_openai, openai_messages

TOOL_USE = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a"}}
REASONING = [
    {"type": "redacted_thinking", "data": "c2VjcmV0"},
    {"type": "thinking", "thinking": "It is in a.", "signature": "s1"},
]


def answered(session: rewake.Session, reply: dict[str, Any]) -> None:
    session.user("Where is it?")
    session.assistant(**reply)
    for block in reply["content"]:
        if isinstance(block, ToolCall):
            with session.action(block, intent=ReadOnlyIntent()) as action:
                action.complete("it is here")


@pytest.mark.parametrize("reasoning", [REASONING, REASONING[:1], REASONING[1:]])
def test_reasoning_before_a_call_goes_back_as_it_came(
    open_session: Open, reasoning: list[dict[str, str]]
) -> None:
    reply = from_anthropic({"content": [*reasoning, TOOL_USE], "stop_reason": "tool_use"})
    with open_session() as session:
        answered(session, reply)
        _, assistant, result = anthropic_messages(session.view())
    assert assistant["content"][:-1] == reasoning
    assert assistant["content"][-1]["input"] == TOOL_USE["input"]
    assert result["content"][0]["tool_use_id"] == assistant["content"][-1]["id"]


def test_an_answer_of_anthropic_s_protocol() -> None:
    usage = {"input_tokens": 1, "cache_read_input_tokens": 10, "output_tokens": 5}
    reply = {"content": [{"type": "text", "text": "Hi."}, {"type": "server_tool_use"}]}
    assert from_anthropic({**reply, "usage": usage, "model": "m", "stop_reason": "end_turn"}) == {
        "content": [Text("Hi.")],
        "usage": Usage(11, 5, 10, 0),
        "model": "m",
        "stop_reason": "end",
    }


def test_an_answer_of_openai_s_protocol() -> None:
    calls = [
        {"id": "c1", "function": {"name": "Read", "arguments": '{"file_path": "a"}'}},
        {"id": "c2", "function": {"name": "Read", "arguments": "[1"}},
    ]
    message = {"content": "Look:", "tool_calls": calls}
    usage = {
        "prompt_tokens": 20,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    choice = {"message": message, "finish_reason": "tool_calls"}
    assert from_openai({"choices": [choice], "usage": usage, "model": "m"}) == {
        "content": [
            Text("Look:"),
            ToolCall("c1", "Read", {"file_path": "a"}),
            ToolCall("c2", "Read", arguments_text="[1"),
        ],
        "usage": Usage(20, 3, 8),
        "model": "m",
        "stop_reason": "tool_use",
    }


def test_openai_s_protocol_has_no_place_for_reasoning(open_session: Open) -> None:
    reply = {"content": [Thinking("Hm.", "s"), Text("Look:"), ToolCall("c1", "Read", {})]}
    with open_session() as session:
        answered(session, reply)
        _, assistant, result = openai_messages(session.view())
    assert assistant["content"] == "Look:"
    assert result["tool_call_id"] == assistant["tool_calls"][0]["id"]
    assert result["content"] == "it is here"
