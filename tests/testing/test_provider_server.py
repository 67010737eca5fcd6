"""The strict double: what it refuses, how it answers, how it fails."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewake.script import Turn, parse_turns
from rewake.testing.provider_rules import violations_anthropic, violations_openai
from rewake.testing.provider_server import (
    Failure,
    ProviderRequest,
    ProviderServer,
    provider_server,
)

OPENAI: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "stream_options": {"include_usage": True},
    "messages": [
        {"role": "system", "content": "be good"},
        {"role": "user", "content": [{"type": "text", "text": "look"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "a_1",
                    "type": "function",
                    "function": {"name": "Read", "arguments": '{"p": 1}'},
                },
                {"id": "a_2", "type": "function", "function": {"name": "Read", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a_1", "content": "one"},
        {"role": "tool", "tool_call_id": "a_2", "content": "two"},
        {"role": "user", "content": "and?"},
    ],
    "tools": [{"type": "function", "function": {"name": "Read", "parameters": {"type": "object"}}}],
}
ANTHROPIC: dict[str, Any] = {
    "model": "m",
    "max_tokens": 10,
    "system": [{"type": "text", "text": "be good", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": "look"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "I look"},
                {"type": "tool_use", "id": "a_1", "name": "Read", "input": {}},
                {"type": "tool_use", "id": "a_2", "name": "Read", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a_1", "content": "one"},
                {
                    "type": "tool_result",
                    "tool_use_id": "a_2",
                    "content": [{"type": "text", "text": "two"}],
                    "is_error": True,
                },
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "and?"}]},
    ],
    "tools": [{"name": "Read", "input_schema": {"type": "object"}}],
}


def changed(body: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy of `body` with the value at a dotted path set, or removed for `...`."""
    copy: Any = deepcopy(body)
    place = copy
    *folders, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for folder in folders:
        place = place[folder]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return dict(copy)


OPENAI_REFUSED = {
    "an unanswered call": ("messages.4", {"role": "user", "content": "x"}, "must be followed"),
    "an unanswered call at the end": ("messages", OPENAI["messages"][:4], "must be followed"),
    "an orphan result": ("messages.3.tool_call_id", "nobody", "not waiting"),
    "a second result for one call": ("messages.4.tool_call_id", "a_1", "not waiting"),
    "two calls with one id": ("messages.2.tool_calls.1.id", "a_1", "duplicate"),
    "a call id used again later": (
        "messages",
        [*OPENAI["messages"], *OPENAI["messages"][2:5]],
        "duplicate",
    ),
    "a call id that is too long": ("messages.2.tool_calls.1.id", "x" * 41, "1 to 40"),
    "a tool name with a space": ("messages.2.tool_calls.0.function.name", "a b", "does not match"),
    "arguments that are no object": (
        "messages.2.tool_calls.0.function.arguments",
        "[1]",
        "JSON object",
    ),
    "no calls in a list of calls": ("messages.2.tool_calls", [], "too short"),
    "empty user text": ("messages.5.content", "", "empty"),
    "an empty part": ("messages.1.content.0.text", " ", "empty"),
    "no parts": ("messages.1.content", [], "non-empty"),
    "an empty result": ("messages.3.content", "", "empty"),
    "a system message in the middle": (
        "messages.5",
        {"role": "system", "content": "x"},
        "beginning",
    ),
    "an unknown role": ("messages.5.role", "robot", "not one of"),
    "an unknown field of a message": ("messages.5.timestamp", "now", "unexpected"),
    "an unknown field of the body": ("session_id", "x", "Unrecognized"),
    "a lone surrogate": ("messages.5.content", "a\ud800", "surrogates"),
    "no messages": ("messages", [], "non-empty"),
    "no model": ("model", ..., "model"),
    "an empty list of tools": ("tools", [], "too short"),
}
ANTHROPIC_REFUSED = {
    "an unanswered call": ("messages.2.content.1", {"type": "text", "text": "x"}, "without"),
    "an unanswered call at the end": ("messages", ANTHROPIC["messages"][:2], "without"),
    "an orphan result": ("messages.2.content.1.tool_use_id", "nobody", "unexpected"),
    "a result in a later message": (
        "messages.2",
        {"role": "user", "content": "wait"},
        "without",
    ),
    "a second result for one call": ("messages.2.content.1.tool_use_id", "a_1", "unexpected"),
    "text before the results": (
        "messages.2.content",
        [{"type": "text", "text": "x"}, *ANTHROPIC["messages"][2]["content"]],
        "before other content",
    ),
    "two calls with one id": ("messages.1.content.3.id", "a_1", "unique"),
    "a call id used again later": (
        "messages",
        [*ANTHROPIC["messages"], *ANTHROPIC["messages"][1:3]],
        "unique",
    ),
    "a call id with a slash": ("messages.1.content.3.id", "../x", "pattern"),
    "input that is no object": ("messages.1.content.3.input", "x", "dictionary"),
    "thinking without a signature": ("messages.1.content.0.signature", ..., "unsigned"),
    "thinking with an empty signature": ("messages.1.content.0.signature", "", "unsigned"),
    "thinking that isn't first": (
        "messages.1.content",
        [ANTHROPIC["messages"][1]["content"][i] for i in (1, 0, 2, 3)],
        "Expected `thinking`",
    ),
    "thinking by the user": (
        "messages.0.content",
        [{"type": "thinking", "thinking": "x", "signature": "s"}],
        "can only be in",
    ),
    "empty text": ("messages.3.content.0.text", "", "non-whitespace"),
    "only whitespace": ("messages.3.content.0.text", " \n", "non-whitespace"),
    "empty content": ("messages.3.content", [], "non-empty"),
    "an empty result": ("messages.2.content.0.content", "", "empty"),
    "a system message": ("messages.3.role", "system", "top-level `system`"),
    "an empty system prompt": ("system", "", "non-empty"),
    "an assistant first": ("messages", ANTHROPIC["messages"][1:], "first message"),
    "an assistant last": (
        "messages",
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        "end with a user",
    ),
    "an unknown role": ("messages.3.role", "tool", "neither"),
    "an unknown field of a message": ("messages.3.id", "x", "Extra inputs"),
    "an unknown field of a block": ("messages.3.content.0.id", "x", "Extra inputs"),
    "an unknown field of the body": ("session_id", "x", "Extra inputs"),
    "an unknown block": ("messages.3.content.0.type", "opaque", "expected tags"),
    "a lone surrogate": ("messages.3.content.0.text", "a\udfff", "surrogates"),
    "no max_tokens": ("max_tokens", ..., "max_tokens"),
    "two tools of one name": ("tools", ANTHROPIC["tools"] * 2, "unique"),
    "a fifth cache mark": (
        "messages.3.content",
        [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 4,
        "maximum of 4",
    ),
}


def test_a_valid_request_of_each_protocol_is_accepted() -> None:
    assert violations_openai(OPENAI) == []
    assert violations_anthropic(ANTHROPIC) == []


@pytest.mark.parametrize("case", OPENAI_REFUSED)
def test_openai_refuses(case: str) -> None:
    path, value, words = OPENAI_REFUSED[case]
    assert words in " ".join(violations_openai(changed(OPENAI, path, value)))


@pytest.mark.parametrize("case", ANTHROPIC_REFUSED)
def test_anthropic_refuses(case: str) -> None:
    path, value, words = ANTHROPIC_REFUSED[case]
    assert words in " ".join(violations_anthropic(changed(ANTHROPIC, path, value)))


def test_with_thinking_enabled_the_answered_turn_must_open_with_thinking() -> None:
    body = {**ANTHROPIC, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    assert violations_anthropic(body) == []
    bare = changed(body, "messages.1.content.0", ...)
    assert "must start with a thinking block" in " ".join(violations_anthropic(bare))


def test_signed_thinking_may_come_back_without_its_text() -> None:
    assert violations_anthropic(changed(ANTHROPIC, "messages.1.content.0.thinking", "")) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "type",
                    "text",
                    "tool_calls",
                    "id",
                    "function",
                    "name",
                    "arguments",
                    "tool_call_id",
                    "messages",
                    "model",
                    "max_tokens",
                    "system",
                    "tools",
                    "input",
                    "tool_use_id",
                    "thinking",
                    "signature",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON, JSON)
def test_the_rules_judge_any_json_and_never_raise(body: object, messages: object) -> None:
    for judged in (body, {"model": "m", "max_tokens": 1, "messages": messages}):
        assert isinstance(violations_openai(judged), list)
        assert isinstance(violations_anthropic(judged), list)


TURNS = parse_turns(
    b'{"text": "hello \\ud83d\\ude00", "thinking": {"text": "hm", "signature": "s"}, '
    b'"tool_calls": [{"name": "Read", "arguments": {"p": "x"}}], '
    b'"usage": {"input_tokens": 9, "output_tokens": 4, "cache_read_tokens": 2}}\n'
    b'{"error": {"status": 429, "message": "slow down", "times": 2}}\n'
    b'{"text": "second"}',
    "inline",
)
PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}


def post(server: ProviderServer, path: str, body: object) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, body=data)
        response = connection.getresponse()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
    finally:
        connection.close()


def asked(turn: int = 0, *, stream: bool = False) -> dict[str, Any]:
    said = [{"role": "assistant", "content": "x"}, {"role": "user", "content": "y"}] * turn
    messages = [{"role": "user", "content": "hi"}, *said]
    return {"model": "m", "max_tokens": 9, "stream": stream, "messages": messages}


@pytest.mark.parametrize("protocol", PATHS)
def test_a_refused_request_gets_400_with_the_reasons_and_is_kept(protocol: str) -> None:
    with provider_server(TURNS) as server:
        status, _, body = post(server, PATHS[protocol], {"model": "m", "messages": []})
    assert status == 400
    assert "messages" in json.loads(body)["error"]["message"]
    assert server.requests[0].violations
    assert server.requests[0].raw == b'{"model": "m", "messages": []}'


def test_bytes_that_are_no_utf8_are_refused() -> None:
    with provider_server(TURNS) as server:
        status, _, body = post(server, PATHS["openai"], b'{"model": "\xff"}')
    assert status == 400
    assert "could not parse" in json.loads(body)["error"]["message"]


def test_whole_answers_have_the_shape_of_the_protocol() -> None:
    with provider_server(TURNS) as server:
        openai = json.loads(post(server, PATHS["openai"], asked())[2])
        anthropic = json.loads(post(server, PATHS["anthropic"], asked())[2])
    message = openai["choices"][0]["message"]
    assert message["content"] == "hello 😀"
    assert message["tool_calls"][0]["function"] == {"name": "Read", "arguments": '{"p": "x"}'}
    assert openai["usage"]["prompt_tokens"] == 9
    assert [block["type"] for block in anthropic["content"]] == ["thinking", "text", "tool_use"]
    assert anthropic["content"][0]["signature"] == "s"
    assert anthropic["content"][2]["input"] == {"p": "x"}
    assert anthropic["usage"]["input_tokens"] == 7


@pytest.mark.parametrize("protocol", PATHS)
def test_a_script_answers_by_the_assistant_messages_in_the_request(protocol: str) -> None:
    with provider_server(TURNS) as server:
        path = PATHS[protocol]
        statuses = [post(server, path, asked(1))[0] for _ in range(3)]
        second = post(server, path, asked(1))[2]
        past = post(server, path, asked(7))[2]
    assert statuses == [429, 429, 200]
    assert b"second" in second
    assert b"done" in past


@pytest.mark.parametrize("protocol", PATHS)
def test_injected_failures_come_once_each_in_order(protocol: str) -> None:
    with provider_server(TURNS) as server:
        server.inject(
            Failure(status=429, retry_after_s=7), Failure(status=529), Failure("context_length")
        )
        path = PATHS[protocol]
        limited, overloaded, long, fine = [post(server, path, asked()) for _ in range(4)]
    assert (limited[0], limited[1]["retry-after"]) == (429, "7")
    assert overloaded[0] == 529
    assert long[0] == 400
    error = json.loads(long[2])["error"]
    assert (
        error.get("code") == "context_length_exceeded" or "prompt is too long" in error["message"]
    )
    assert fine[0] == 200


@pytest.mark.parametrize("protocol", PATHS)
def test_a_dropped_stream_ends_without_its_end(protocol: str) -> None:
    with provider_server(TURNS) as server:
        server.inject(Failure("drop", after_events=3))
        with pytest.raises(http.client.IncompleteRead) as cut:
            post(server, PATHS[protocol], asked(stream=True))
    assert cut.value.partial.count(b"data: ") == 3


def test_models_are_listed_and_other_paths_are_not_found() -> None:
    with provider_server(TURNS) as server:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
        connection.request("GET", "/v1/models")
        listed = json.loads(connection.getresponse().read())
        connection.close()
        missing = post(server, "/v1/nothing", {})[0]
    assert listed["data"][0]["id"] == "scripted"
    assert missing == 404


def test_stopping_ends_a_delayed_answer_at_once() -> None:
    asked_for = threading.Event()

    def answer(request: ProviderRequest) -> Turn:
        asked_for.set()
        return Turn(text="late", delay_ms=600_000)

    with provider_server(answer) as server:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
        connection.request("POST", PATHS["openai"], body=json.dumps(asked()))
        assert asked_for.wait(10)
    assert connection.getresponse().status == 200
    connection.close()


def test_the_command_prints_its_urls_and_logs_requests(tmp_path: Path) -> None:
    script, log = tmp_path / "turns.jsonl", tmp_path / "log.jsonl"
    script.write_text('{"text": "from a file"}\n')
    command = [sys.executable, "-m", "rewake.testing.provider_server", "--script", str(script)]
    with subprocess.Popen(
        [*command, "--log", str(log)], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as process:
        assert process.stdout is not None
        openai, anthropic = process.stdout.readline(), process.stdout.readline()
        url = anthropic.strip().removeprefix("ANTHROPIC_BASE_URL=")
        assert openai == f"OPENAI_BASE_URL={url}/v1\n"
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
        connection.request("POST", PATHS["anthropic"], body=json.dumps(asked()))
        answer = connection.getresponse().read()
        connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    assert b"from a file" in answer
    assert json.loads(log.read_text())["body"]["messages"][0]["content"] == "hi"
