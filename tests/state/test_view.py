"""The view, by examples; that it is valid for any events at all is tests/conformance/test_view.py."""

from __future__ import annotations

from hypothesis import given
from tests.model.strategies import TEXTS

from rewake.model import events as ev
from rewake.model.content import Text, Thinking, ToolCall, ToolResult
from rewake.model.ids import IdGenerator
from rewake.state.conversation import Conversation
from rewake.state.fold import SessionState
from rewake.state.view import BEGINNING, NO_RESULT, view


def fold(events: list[ev.Event]) -> Conversation:
    state = SessionState()
    for event in events:
        state.apply(event)
    return state.conversation


def message(role: ev.Role, *blocks: object) -> ev.Message:
    return ev.Message(role, blocks)  # type: ignore[arg-type]  # blocks of any kind, also wrong ones


def events_of(*payloads_: ev.KnownPayload) -> list[ev.Event]:
    ids = IdGenerator(lambda: 1, lambda _bits: 1)
    return [
        ev.Event(ids(), None, 0, "", "s", "r", ev.EVENT_TYPES[type(payload)], 1, payload)
        for payload in payloads_
    ]


def test_repeated_and_hostile_call_ids_become_unique_and_safe() -> None:
    calls = [ToolCall("call_1", "Edit"), ToolCall("call_1", "Edit"), ToolCall("../x", "Edit")]
    messages = view(fold(events_of(message("user", Text("hi")), message("assistant", *calls))))
    ids = [block.provider_call_id for block in messages[1].content if isinstance(block, ToolCall)]
    answered = [
        block.provider_call_id for block in messages[2].content if isinstance(block, ToolResult)
    ]
    assert len(set(ids)) == 3
    assert answered == ids
    assert all(call_id.replace("_", "").isalnum() and len(call_id) <= 40 for call_id in ids)


def test_a_result_without_a_call_is_left_out() -> None:
    orphan = message("tool", ToolResult("call_9", (Text("lost"),)))
    assert "lost" not in str(view(fold(events_of(orphan, message("user", Text("hi"))))))


def test_a_conversation_that_begins_with_the_model_gets_a_beginning() -> None:
    messages = view(fold(events_of(message("assistant", Text("hello")))))
    assert [m.role for m in messages] == ["user", "assistant", "user"]
    assert messages[0].content == (Text(BEGINNING),)


def test_thinking_goes_back_only_whole_and_signed() -> None:
    said = message("assistant", Thinking("a"), Thinking("b", "signed"), Text("c"), Thinking("d"))
    messages = view(fold(events_of(message("user", Text("hi")), said)))
    assert messages[1].content == (Thinking("b", "signed"), Text("c"))


def test_thinking_that_does_not_open_its_message_is_left_out() -> None:
    said = message("assistant", Thinking("unsigned"), Text("a"), Thinking("b", "signed"), Text("c"))
    messages = view(fold(events_of(message("user", Text("hi")), said)))
    assert messages[1].content == (Text("a"), Text("c"))


def test_an_answer_that_was_sent_never_changes_and_the_verdict_comes_later() -> None:
    asked = events_of(message("user", Text("hi")), message("assistant", ToolCall("c", "Edit")))
    state = SessionState()
    for event in (*asked, *events_of(ev.StateTransition("idle", "requesting"))):
        state.apply(event)
    sent = view(state.conversation)
    assert NO_RESULT in str(sent[-1])
    late = ev.ToolLifecycle(
        "Edit",
        "resolved",
        call_id="x",
        message_id=asked[1].event_id,
        result=ev.Result((Text("it was applied"),)),
        resolution=ev.Resolution("applied"),
    )
    state.apply(ev.Event("late", None, 9, "", "s", "r", "tool_lifecycle", 1, late))
    grown = view(state.conversation)
    assert grown[: len(sent)] == sent
    assert grown[-1].role == "user"
    assert "it was applied" in str(grown[-1])


@given(TEXTS)
def test_whatever_a_model_writes_comes_back_as_valid_unicode(text: str) -> None:
    call = ToolCall(text, text, {text: [text]})
    said = message("assistant", Text(text), call)
    str(view(fold(events_of(message("user", Text("x" + text)), said)))).encode("utf-8")
