"""The view: for any sequence of events, damaged and hostile ones too, a provider accepts it."""

from __future__ import annotations

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.model.strategies import TEXTS, payloads
from tests.state.simulate import Simulation

from rewake.model import events as ev
from rewake.model.content import Text, Thinking, ToolCall, ToolResult
from rewake.model.ids import IdGenerator
from rewake.session.wire import anthropic_messages, openai_messages
from rewake.state.conversation import Conversation
from rewake.state.fold import SessionState
from rewake.state.view import BEGINNING, NO_RESULT, ViewMessage, view
from rewake.testing.provider_rules import violations_anthropic, violations_openai

MANY = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def violations(messages: tuple[ViewMessage, ...]) -> list[str]:
    """What either protocol's provider would refuse in a request of these messages."""
    if not messages:
        return []
    tools = [{"type": "function", "function": {"name": "Edit", "parameters": {"type": "object"}}}]
    openai = {"model": "m", "messages": openai_messages(messages), "tools": tools}
    anthropic = {
        "model": "m",
        "max_tokens": 100,
        "messages": anthropic_messages(messages),
        "tools": [{"name": "Edit", "input_schema": {"type": "object"}}],
    }
    return violations_openai(openai) + violations_anthropic(anthropic)


def fold(events: list[ev.Event]) -> Conversation:
    state = SessionState()
    for event in events:
        state.apply(event)
    return state.conversation


@st.composite
def soups(draw: st.DrawFn) -> list[ev.Event]:
    """Events of random payloads whose references often hit something."""
    ids = IdGenerator(lambda: 1, lambda _bits: 1)
    known: list[str] = []
    found: list[ev.Event] = []
    kinds = (ev.Message, ev.Message, ev.ToolLifecycle, ev.MessageAmendment, ev.Checkpoint)
    for _ in range(draw(st.integers(1, 12))):
        payload = draw(payloads(*kinds, ev.StateTransition))
        if known and isinstance(payload, ev.ToolLifecycle | ev.MessageAmendment):
            payload = msgspec.structs.replace(payload, message_id=draw(st.sampled_from(known)))
        if isinstance(payload, ev.ToolLifecycle):
            payload = msgspec.structs.replace(payload, index=draw(st.integers(-1, 2)))
        if known and isinstance(payload, ev.Checkpoint):
            some = tuple(draw(st.lists(st.sampled_from(known), max_size=4)))
            history = ev.History(None, some)
            payload = msgspec.structs.replace(payload, history=history)
        event_id = draw(st.sampled_from(known)) if known and draw(st.booleans()) else ids()
        known.append(event_id)
        name = ev.EVENT_TYPES[type(payload)]
        found.append(ev.Event(event_id, None, 0, "", "s", "r", name, 1, payload))
    return found


@MANY
@given(soups())
def test_a_soup_of_random_events_gives_a_request_that_providers_accept(
    events: list[ev.Event],
) -> None:
    assert violations(view(fold(events))) == []


@MANY
@given(st.data())
def test_a_damaged_session_gives_a_request_that_providers_accept(data: st.DataObject) -> None:
    simulation = Simulation(data)
    simulation.run(data.draw(st.integers(1, 20)))
    events = data.draw(st.lists(st.sampled_from(simulation.events), max_size=30))
    assert violations(view(fold(events))) == []


@MANY
@given(st.data())
def test_an_undamaged_session_has_its_newest_prompt_and_every_call_answered(
    data: st.DataObject,
) -> None:
    simulation = Simulation(data)
    for _ in range(data.draw(st.integers(1, 20))):
        simulation.run(1)
        messages = view(simulation.state.conversation)
        assert violations(messages) == []
        newest = simulation.state.conversation.newest_prompt
        entry = simulation.state.conversation.entry(newest) if newest is not None else None
        if entry is not None and any(
            isinstance(block, Text) and block.text.strip() for block in entry.message.content
        ):
            assert newest in [message.message_id for message in messages]


@MANY
@given(st.data())
def test_between_two_compactions_each_request_is_a_prefix_of_the_next(
    data: st.DataObject,
) -> None:
    simulation = Simulation(data)
    sent: tuple[ViewMessage, ...] = ()
    for _ in range(data.draw(st.integers(1, 25))):
        seen = len(simulation.events)
        simulation.run(1)
        if any(
            isinstance(event.payload, ev.Rewind)
            or (isinstance(event.payload, ev.Checkpoint) and event.payload.kind == "compaction")
            for event in simulation.events[seen:]
        ):
            sent = ()
        if data.draw(st.booleans()):
            simulation.record(ev.StateTransition("idle", "requesting"))
            request = view(simulation.state.conversation)
            assert request[: len(sent)] == sent
            sent = request


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
