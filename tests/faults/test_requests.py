"""Requests that a provider would refuse: parallel tools, orphans, killed and interrupted calls, Unicode."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.faults.conftest import assert_providers_take, lines_of, put
from tests.session.conftest import Open
from tests.session.helpers import die_at, said, transcript_of

import rewake
from rewake.screentext import fit, width
from rewake.state.text import clip

CALLS = [rewake.ToolCall(name, "Look", {"at": name}) for name in ("a", "b", "c")]


def looked(session: rewake.Session, *answered: int) -> None:
    """Three calls in one message, of which these get their results, in this order."""
    session.user("look")
    session.assistant(CALLS)
    actions = [session.action(call, intent=rewake.ReadOnlyIntent()) for call in CALLS]
    for action in actions:
        action.start()
    for number in answered:
        actions[number].complete(f"result {number}")


def results(session: rewake.Session) -> dict[str, str]:
    """What each call of the next request is answered with, by its argument."""
    blocks = [block for message in session.view() for block in message.content]
    calls = {b.provider_call_id: b for b in blocks if isinstance(b, rewake.ToolCall)}
    answers = [b for b in blocks if isinstance(b, rewake.ToolResult)]
    assert [answer.provider_call_id for answer in answers] == list(calls)
    return {
        str(calls[answer.provider_call_id].arguments["at"]): str(answer.content)
        for answer in answers
    }


def test_each_of_three_parallel_calls_has_its_own_result_whatever_ended_first(
    open_session: Open,
) -> None:
    with open_session(session_id="s") as session:
        looked(session, 2, 0, 1)
    with open_session(resume="s") as session:
        found = results(session)
        assert [f"result {n}" in found[name] for n, name in enumerate("abc")] == [True] * 3
        assert_providers_take(session)


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_lost_result_costs_only_its_own_call(open_session: Open, lost: int) -> None:
    with open_session(session_id="s") as session:
        looked(session, 0, 1, 2)
        session.assistant("seen")
    transcript = transcript_of(session)
    put(transcript, [li for li in lines_of(transcript) if f'"result {lost}"'.encode() not in li])
    with open_session(resume="s") as session:
        found = results(session)
        there = [f"result {n}" in found[name] for n, name in enumerate("abc")]
        assert there == [n != lost for n in range(3)]
        assert_providers_take(session)


@pytest.mark.parametrize("gone", ["look", '"role":"assistant"'])
def test_results_whose_message_is_gone_are_left_out(open_session: Open, gone: str) -> None:
    with open_session(session_id="s") as session:
        looked(session, 0, 1, 2)
    transcript = transcript_of(session)
    put(transcript, [line for line in lines_of(transcript) if gone.encode() not in line])
    with open_session(resume="s") as session:
        session.user("go on")
        assert "go on" in said(session)[-1]
        assert_providers_take(session)


KILLED = """
session = rewake.open_session(project, home=home, session_id="s")
session.user("go")
call = rewake.ToolCall("x", "Run")
session.assistant([rewake.Thinking("hm", signature=None), rewake.Thinking("", signature="s"), call])
session.action(call).start()
wait("here")
"""


def test_killed_during_a_tool_resumed_and_text_sent(
    open_session: Open, home: Path, project: Path
) -> None:
    assert die_at(KILLED, home, project) == "here"
    for number in range(2):
        with open_session(resume="s") as session:
            session.user(f"and now {number}?")
            assert said(session)[-1] == f"and now {number}?"
            assert_providers_take(session)


# --- Unicode ---------------------------------------------------------------------------------


def test_half_a_surrogate_pair_in_a_tool_argument_is_kept_and_never_sent(
    open_session: Open,
) -> None:
    with open_session(session_id="s") as session:
        session.user("go \ud83d")
        call = rewake.ToolCall("x\udc00", "Look", {"at": "a\ud83d", "\udfff": ["\udead"]})
        session.assistant([rewake.Text("so \udc00"), call])
        with session.action(call, intent=rewake.ReadOnlyIntent()) as action:
            action.complete("found \ud800")
        live = session.view()
    with open_session(resume="s") as session:
        assert session.view() == live
        assert_providers_take(session)
        json.dumps(str(session.view()), ensure_ascii=False).encode()
        (asked,) = [b for b in session.messages[1].message.content if type(b) is rewake.ToolCall]
        assert asked.arguments["at"] == "a\ud83d"


def test_binary_tool_output_is_kept_and_never_refused(open_session: Open) -> None:
    binary = bytes(range(256)).decode("utf-8", "replace") + "\x00" * 10
    with open_session(session_id="s") as session:
        session.user("go")
        session.assistant(CALLS[:1])
        with session.action(CALLS[0], intent=rewake.ReadOnlyIntent()) as action:
            action.complete(binary)
    with open_session(resume="s") as session:
        assert_providers_take(session)
        assert session.resumed is not None
        assert session.resumed.damage == ()


CLUSTERS = ["👩‍👩‍👧‍👦", "👍🏽", "🇩🇪", "é", "नि", "1️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_what_is_cut_short_for_a_list_is_not_cut_through_a_character(cluster: str) -> None:
    for before in range(12):
        text = "x" * before + cluster * 40
        for size in range(40, 72):
            kept = clip(text, size)
            assert kept.endswith("…")
            assert len(kept.encode()) <= size
            rest = kept.removesuffix("…").removeprefix("x" * before)
            assert rest == cluster * (len(rest) // len(cluster))


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_what_is_cut_to_a_screen_is_not_cut_through_a_character(cluster: str) -> None:
    for columns in range(1, 40):
        kept = fit(cluster * 40, columns).removesuffix("…")
        assert kept == cluster * (len(kept) // len(cluster))
        assert width(kept) < columns
