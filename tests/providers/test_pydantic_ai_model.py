"""Real client libraries against the strict double, over both protocols."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rewake.agent.ports import ModelRequest, Reply, ToolSpec
from rewake.agent.providers.pydantic_ai_model import PydanticAiModel
from rewake.errors import ModelError, PromptTooLongError
from rewake.model.content import (
    File,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from rewake.script import Turn, parse_turns
from rewake.state.view import ViewMessage
from rewake.testing.provider_server import (
    Failure,
    ProviderRequest,
    ProviderServer,
    provider_server,
)

MODELS = {"anthropic": "anthropic:claude-sonnet-5-5", "openai": "openai:gpt-6.1-sol"}
protocols = pytest.mark.parametrize("protocol", MODELS)
READ = ToolSpec("Read", "Read a file.", {"type": "object", "properties": {"p": {"type": "string"}}})
HELLO = (ViewMessage("m0", "user", (Text("hello"),)),)
PNG = b"\x89PNG\r\n\x1a\n"
FULL_TURN = (
    b'{"text": "I look \\ud83d\\ude00", "thinking": {"text": "hm", "signature": "sig"}, '
    b'"tool_calls": [{"name": "Read", "arguments": {"p": "a", "n": [1, 2.5, null]}}], '
    b'"usage": {"input_tokens": 100, "output_tokens": 7, "cache_read_tokens": 40}}'
)


class Blobs:
    """Two blobs, by name."""

    def put(self, data: bytes) -> str:
        raise AssertionError

    def get(self, sha256: str) -> bytes:
        return {"png": PNG, "text": b"some notes", "raw": b"\xff\xfe"}[sha256]


def ignore(_text: str) -> None:
    """Nobody listens."""


def opened(protocol: str, server: ProviderServer) -> PydanticAiModel:
    environ = {
        "ANTHROPIC_API_KEY": "key",
        "OPENAI_API_KEY": "key",
        "ANTHROPIC_BASE_URL": server.anthropic_url,
        "OPENAI_BASE_URL": server.openai_url,
    }
    return PydanticAiModel.named(MODELS[protocol], environ, Blobs())


def ask(
    protocol: str,
    server: ProviderServer,
    *conversations: tuple[ViewMessage, ...],
    on_text: Callable[[str], None] = ignore,
) -> list[Reply]:
    async def run() -> list[Reply]:
        model = opened(protocol, server)
        try:
            return [
                await model.request(ModelRequest("be good", messages, (READ,)), on_text)
                for messages in conversations
            ]
        finally:
            await model.close()
            await model.close()

    return asyncio.run(run())


def spoken(index: int, reply: Reply) -> ViewMessage:
    """An assistant message as a resumed session would have it: out of bytes, with the view's ids."""
    again = msgspec.convert(msgspec.json.decode(msgspec.json.encode(reply)), Reply)
    content = tuple(
        msgspec.structs.replace(block, provider_call_id=f"c{index}_{place}")
        if isinstance(block, ToolCall)
        else block
        for place, block in enumerate(again.content)
    )
    return ViewMessage(f"m{index}", "assistant", content, again.model, again.provider)


def answered(index: int, assistant: ViewMessage, *, is_error: bool = False) -> ViewMessage:
    results = tuple(
        ToolResult(block.provider_call_id, (Text(f"result {index}"),), is_error)
        for block in assistant.content
        if isinstance(block, ToolCall)
    )
    return ViewMessage(f"r{index}", "tool", results)


@protocols
def test_a_streamed_answer_comes_back_whole(protocol: str) -> None:
    pieces: list[str] = []
    with provider_server(parse_turns(FULL_TURN, "inline")) as server:
        (reply,) = ask(protocol, server, HELLO, on_text=pieces.append)
    assert "".join(pieces) == "I look 😀"
    assert len(pieces) > 1
    thinking, text, call = reply.content
    assert isinstance(thinking, Thinking)
    assert thinking.text == "hm"
    assert text == Text("I look 😀")
    assert call == ToolCall("call_1", "Read", {"p": "a", "n": [1, 2.5, None]})
    assert reply.stop_reason == "tool_use"
    assert reply.model == MODELS[protocol].partition(":")[2]
    assert reply.usage is not None
    assert reply.usage.cost_usd is not None
    assert msgspec.structs.replace(reply.usage, cost_usd=None) == Usage(100, 7, 40, 0)
    assert server.requests[0].violations == ()


@protocols
@pytest.mark.parametrize(
    ("stop", "expected"),
    [("length", "length"), ("content_filter", "content_filter"), ("end", "end")],
)
def test_the_reason_to_stop_is_kept(protocol: str, stop: str, expected: str) -> None:
    turns = parse_turns(f'{{"text": "x", "stop_reason": "{stop}"}}'.encode(), "inline")
    with provider_server(turns) as server:
        assert ask(protocol, server, HELLO)[0].stop_reason == expected


@protocols
def test_an_empty_answer_is_an_answer_without_content(protocol: str) -> None:
    with provider_server(lambda _request: Turn()) as server:
        assert ask(protocol, server, HELLO)[0].content == ()


@protocols
@pytest.mark.parametrize("written", ['{"p": ', "[1]", '"x"'])
def test_arguments_that_are_no_object_are_kept_as_text(protocol: str, written: str) -> None:
    line = {"tool_calls": [{"name": "Read", "arguments_text": written}]}
    with provider_server(parse_turns(json.dumps(line).encode(), "inline")) as server:
        (reply,) = ask(protocol, server, HELLO)
    assert reply.content == (ToolCall("call_1", "Read", {}, written),)


def test_signed_thinking_goes_back_to_anthropic_as_it_came() -> None:
    with provider_server(parse_turns(FULL_TURN, "inline")) as server:
        (reply,) = ask("anthropic", server, HELLO)
        first = spoken(1, reply)
        ask("anthropic", server, (*HELLO, first, answered(1, first)))
    back = server.requests[1].body["messages"][1]["content"][0]
    assert back == {"type": "thinking", "thinking": "hm", "signature": "sig"}
    assert server.requests[1].violations == ()


@pytest.mark.parametrize(("source", "target"), [("openai", "anthropic"), ("anthropic", "openai")])
def test_thinking_of_one_provider_never_goes_to_another(source: str, target: str) -> None:
    with provider_server(parse_turns(FULL_TURN, "inline")) as server:
        (reply,) = ask(source, server, HELLO)
        first = spoken(1, reply)
        ask(target, server, (*HELLO, first, answered(1, first)))
    assert b"hm" not in server.requests[1].raw
    assert server.requests[1].violations == ()


@protocols
def test_images_and_files_reach_the_model(protocol: str) -> None:
    call = ViewMessage("m1", "assistant", (ToolCall("c1", "Read", {}),))
    shown = ToolResult("c1", (Text("see"), Image("image/png", "png")), is_error=True)
    messages = (
        ViewMessage("m0", "user", (Text("look"), Image("image/png", "png"))),
        call,
        ViewMessage("r1", "tool", (shown,)),
        ViewMessage(
            "m2",
            "user",
            (File("notes", "text/plain", "text"), File("core", "application/x", "raw")),
        ),
    )
    with provider_server([]) as server:
        ask(protocol, server, messages)
    request = server.requests[0]
    assert request.violations == ()
    assert request.raw.count(b"iVBORw0KGgo=") == 2
    assert b"some notes" in request.raw
    assert b"core (application/x, 2 bytes, not shown)" in request.raw


def scripted(request: ProviderRequest) -> Turn:
    turn = request.turn
    calls = [{"name": "Read", "arguments": {"p": f"file {turn}", "é": turn / 7}}] * (turn % 3)
    line: dict[str, Any] = {"text": f"answer {turn}" if turn % 4 else "", "tool_calls": calls}
    if not calls and not line["text"]:
        line["text"] = "just talk"
    if turn % 5 == 0:
        line["thinking"] = {"text": f"thought {turn}", "signature": f"sig {turn}"}
    return parse_turns(json.dumps(line).encode(), "inline")[0]


def following(step: int, assistant: ViewMessage) -> list[ViewMessage]:
    """What a session puts after an assistant message: results, then at times user messages."""
    after: list[ViewMessage] = []
    if any(isinstance(block, ToolCall) for block in assistant.content):
        after.append(answered(step, assistant, is_error=step % 2 == 0))
    if not after or step % 6 == 0:
        after.append(ViewMessage(f"u{step}", "user", (Text("go on"), Image("image/png", "png"))))
    if step % 7 == 0:
        after.append(ViewMessage(f"v{step}", "user", (Text("and hurry"),)))
    return after


@protocols
def test_each_requests_messages_are_a_byte_prefix_of_the_next_ones(protocol: str) -> None:
    async def forty_steps(server: ProviderServer) -> None:
        messages = list(HELLO)
        model = opened(protocol, server)
        for step in range(40):
            if step % 10 == 9:  # another process goes on
                await model.close()
                model = opened(protocol, server)
            reply = await model.request(ModelRequest("be good", tuple(messages), (READ,)), ignore)
            assistant = spoken(step, reply)
            messages += [assistant, *following(step, assistant)]
        await model.close()

    with provider_server(scripted) as server:
        asyncio.run(forty_steps(server))
    assert len(server.requests) == 40
    sent = [part_of(request.raw, b'"messages":') for request in server.requests]
    for request, earlier, later in zip(server.requests, sent, sent[1:], strict=False):
        assert request.violations == ()
        assert later.startswith(earlier.removesuffix(b"]") + b",")
    fixed = [{**request.body, "messages": None} for request in server.requests]
    assert all(other == fixed[0] for other in fixed)


def part_of(raw: bytes, key: bytes) -> bytes:
    """The bytes of the JSON value after `key`."""
    start = raw.index(key) + len(key)
    text = raw[start:].decode()
    return text[: json.JSONDecoder().raw_decode(text)[1]].encode()


ERRORS: dict[str, tuple[Failure, type[ModelError], int | None, bool]] = {
    "bad request": (Failure(status=400), ModelError, 400, False),
    "wrong key": (Failure(status=401), ModelError, 401, False),
    "no permission": (Failure(status=403), ModelError, 403, False),
    "no such model": (Failure(status=404), ModelError, 404, False),
    "time-out": (Failure(status=408), ModelError, 408, True),
    "conflict": (Failure(status=409), ModelError, 409, True),
    "too large": (Failure(status=413), PromptTooLongError, 413, False),
    "too many requests": (Failure(status=429, retry_after_s=60), ModelError, 429, True),
    "server error": (Failure(status=500), ModelError, 500, True),
    "unavailable": (Failure(status=503), ModelError, 503, True),
    "overloaded": (Failure(status=529), ModelError, 529, True),
    "context length": (Failure("context_length"), PromptTooLongError, 400, False),
    "context length of another server": (
        Failure(status=400, message="the request exceeds the available context size"),
        PromptTooLongError,
        400,
        False,
    ),
    "dropped before the stream": (Failure("drop"), ModelError, None, True),
    "dropped in the stream": (Failure("drop", after_events=3), ModelError, None, True),
}


@protocols
@pytest.mark.parametrize("case", ERRORS)
def test_a_failure_says_whether_to_retry_and_is_tried_once(protocol: str, case: str) -> None:
    failure, kind, status, retryable = ERRORS[case]
    with provider_server([Turn(text="fine")]) as server:
        server.inject(failure)
        with pytest.raises(ModelError) as failed:
            ask(protocol, server, HELLO)
        assert len(server.requests) == 1
    assert type(failed.value) is kind
    assert (failed.value.status, failed.value.retryable) == (status, retryable)
    assert MODELS[protocol] in str(failed.value)


@protocols
def test_an_error_inside_a_stream_counts_as_what_it_stands_for(protocol: str) -> None:
    with provider_server([]) as server:
        server.inject(Failure("stream_error", status=529, message="Overloaded", after_events=2))
        with pytest.raises(ModelError, match="Overloaded") as failed:
            ask(protocol, server, HELLO)
    assert failed.value.retryable


@protocols
def test_a_refusal_is_shown_in_the_providers_words(protocol: str) -> None:
    with provider_server([]) as server:
        server.inject(Failure(status=400, message="that makes no sense"))
        with pytest.raises(ModelError, match=r"failed with status 400: that makes no sense Ask in"):
            ask(protocol, server, HELLO)


@protocols
def test_a_server_that_is_gone_is_worth_another_try(protocol: str) -> None:
    with provider_server([]) as server:
        pass
    with pytest.raises(ModelError) as failed:
        ask(protocol, server, HELLO)
    assert failed.value.retryable


@protocols
def test_a_request_can_be_cancelled_while_it_waits(protocol: str) -> None:
    arrived = threading.Event()

    def slow(request: ProviderRequest) -> Turn:
        arrived.set()
        return Turn(text="late", delay_ms=600_000)

    async def give_up(server: ProviderServer) -> None:
        model = opened(protocol, server)
        task = asyncio.create_task(model.request(ModelRequest("", HELLO), ignore))
        await asyncio.to_thread(arrived.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await model.close()

    with provider_server(slow) as server:
        asyncio.run(give_up(server))


def test_a_process_that_asked_a_model_ends_without_a_warning(tmp_path: Path) -> None:
    program = """
import asyncio, os, pathlib, sys
from rewake.agent.ports import ModelRequest
from rewake.agent.providers import open_model
from rewake.model.content import Text
from rewake.state.view import ViewMessage
async def main():
    for name in ("anthropic:claude-sonnet-5-5", "openai:gpt-6.1-sol"):
        model, _ = open_model(name, environ=os.environ, settings_model=None, blobs=None, cwd=None)
        request = ModelRequest("s", (ViewMessage("m", "user", (Text("hi"),)),))
        print((await model.request(request, len)).content[0].text)
        await model.close()
asyncio.run(main())
"""
    with provider_server([]) as server:
        environ = {
            "ANTHROPIC_API_KEY": "k",
            "OPENAI_API_KEY": "k",
            "ANTHROPIC_BASE_URL": server.anthropic_url,
            "OPENAI_BASE_URL": server.openai_url,
            "HOME": str(tmp_path),
        }
        ended = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env=environ,
        )
    assert ended.stdout == "done\ndone\n"
    assert ended.stderr == ""
