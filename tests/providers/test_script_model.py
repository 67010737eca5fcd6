"""`script:FILE`: the turn asked for decides the answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rewake.agent.ports import ModelRequest, Reply
from rewake.agent.providers.script import ScriptModel
from rewake.errors import ModelError, PromptTooLongError, UsageError
from rewake.model.content import Text, Thinking, ToolCall, Usage


def model(folder: Path, *lines: str) -> ScriptModel:
    path = folder / "turns.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return ScriptModel(path)


def ask(scripted: ScriptModel, turn: int, heard: list[str] | None = None) -> Reply:
    pieces = [] if heard is None else heard
    return asyncio.run(scripted.request(ModelRequest("", (), turn=turn), pieces.append))


def test_the_turn_of_the_request_names_the_line(tmp_path: Path) -> None:
    scripted = model(tmp_path, '{"text": "one"}', "", "# a comment", '{"text": "two"}')
    assert ask(scripted, 1).content == (Text("two"),)
    assert ask(scripted, 0).content == (Text("one"),)
    assert ask(scripted, 0).content == (Text("one"),)


def test_past_the_end_the_answer_is_done(tmp_path: Path) -> None:
    assert ask(model(tmp_path, '{"text": "one"}'), 9).content == (Text("done"),)
    assert ask(model(tmp_path, ""), 0).content == (Text("done"),)


def test_calls_without_an_id_have_the_same_ids_in_every_turn(tmp_path: Path) -> None:
    line = '{"tool_calls": [{"name": "A"}, {"name": "B", "id": "../x"}, {"name": "C"}]}'
    scripted = model(tmp_path, line, line)
    ids = [[block.provider_call_id for block in ask(scripted, turn).content] for turn in (0, 1)]  # type: ignore[union-attr]  # all are calls
    assert ids == [["call_1", "../x", "call_3"]] * 2


def test_a_turn_carries_thinking_text_calls_and_usage(tmp_path: Path) -> None:
    scripted = model(
        tmp_path,
        '{"text": "hi", "thinking": {"text": "hm", "signature": "s"}, "tool_calls": '
        '[{"name": "Read", "arguments": {"p": 1}}, {"name": "Bad", "arguments_text": "{"}], '
        '"usage": {"input_tokens": 5, "output_tokens": 2}}',
    )
    reply = ask(scripted, 0)
    assert reply.content == (
        Thinking("hm", "s"),
        Text("hi"),
        ToolCall("call_1", "Read", {"p": 1}),
        ToolCall("call_2", "Bad", {}, "{"),
    )
    assert reply.usage == Usage(5, 2)
    assert reply.stop_reason == "tool_use"


def test_a_line_may_name_its_stop_reason(tmp_path: Path) -> None:
    assert ask(model(tmp_path, '{"text": "cut", "stop_reason": "length"}'), 0).stop_reason == (
        "length"
    )
    assert ask(model(tmp_path, '{"text": "whole"}'), 0).stop_reason == "end"


def test_text_streams_in_pieces(tmp_path: Path) -> None:
    heard: list[str] = []
    text = "a text that is long enough to come in several pieces"
    ask(model(tmp_path, f'{{"text": "{text}"}}'), 0, heard)
    assert "".join(heard) == text
    assert len(heard) > 1


def test_lines_for_a_sub_agent_are_skipped(tmp_path: Path) -> None:
    scripted = model(tmp_path, '{"agent": "scout", "text": "not me"}', '{"text": "me"}')
    assert ask(scripted, 0).content == (Text("me"),)


def test_an_error_line_fails_its_times_and_then_gives_way(tmp_path: Path) -> None:
    scripted = model(
        tmp_path,
        '{"text": "one"}',
        '{"error": {"status": 529, "message": "overloaded", "times": 2}}',
        '{"error": {"status": 401}}',
        '{"text": "two"}',
    )
    assert ask(scripted, 0).content == (Text("one"),)
    seen = []
    for _ in range(3):
        with pytest.raises(ModelError) as failed:
            ask(scripted, 1)
        seen.append((failed.value.status, failed.value.retryable))
    assert seen == [(529, True), (529, True), (401, False)]
    assert ask(scripted, 1).content == (Text("two"),)
    assert ask(scripted, 2).content == (Text("done"),)


@pytest.mark.parametrize(
    ("status", "retryable"), [(408, 1), (409, 1), (429, 1), (500, 1), (400, 0)]
)
def test_a_status_says_whether_to_retry(tmp_path: Path, status: int, retryable: int) -> None:
    with pytest.raises(ModelError) as failed:
        ask(model(tmp_path, f'{{"error": {{"status": {status}, "message": "no"}}}}'), 0)
    assert failed.value.retryable == bool(retryable)
    assert not isinstance(failed.value, PromptTooLongError)


@pytest.mark.parametrize("status", [400, 413])
@pytest.mark.parametrize("words", ["maximum context length is 10", "prompt is too long"])
def test_a_refused_length_is_a_prompt_too_long(tmp_path: Path, status: int, words: str) -> None:
    with pytest.raises(PromptTooLongError):
        ask(model(tmp_path, f'{{"error": {{"status": {status}, "message": "{words}"}}}}'), 0)


def test_a_delay_can_be_cancelled(tmp_path: Path) -> None:
    scripted = model(tmp_path, '{"text": "late", "delay_ms": 600000}')

    async def give_up() -> None:
        async with asyncio.timeout(0.01):
            await scripted.request(ModelRequest("", ()), print)

    with pytest.raises(TimeoutError):
        asyncio.run(give_up())


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"text": 1}', '{"txt": "typo"}', '{"tool_calls": [{"arguments": {}}]}']
)
def test_a_bad_line_is_named_with_its_file_and_number(tmp_path: Path, line: str) -> None:
    with pytest.raises(UsageError, match=r"turns\.jsonl, line 2"):
        model(tmp_path, '{"text": "fine"}', line)


def test_a_missing_script_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be read"):
        ScriptModel(tmp_path / "none.jsonl")


def test_a_line_separator_inside_a_string_does_not_end_the_line(tmp_path: Path) -> None:
    assert ask(model(tmp_path, '{"text": "a\u2028b"}'), 0).content == (Text("a\u2028b"),)
