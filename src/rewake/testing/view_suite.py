"""The view-validity suite: is every request that you make of a session's events a valid one?

    class TestMyView(ViewSuite):
        def make_view(self, events):
            return my_messages(events)          # rewake.ViewMessage objects

The rules kept here are those of `rewake.state.view`, checked by looking at the messages alone, for
random sessions, damaged ones, and soups of events that no session could have written. Needs
Hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

import msgspec

from rewake.model import events as ev
from rewake.model.content import Text, ToolCall, ToolResult
from rewake.model.ids import IdGenerator
from rewake.session.wire import anthropic_messages, openai_messages
from rewake.state.view import ViewMessage
from rewake.testing.provider_rules import violations_anthropic, violations_openai
from rewake.testing.view_suite_hypothesis import hypothesis, st
from rewake.testing.view_suite_payloads import payloads
from rewake.testing.view_suite_simulation import Simulation

_PNG: Final = b"\x89PNG\r\n\x1a\n"  # the double looks at an image's shape, not into it


_PAYLOADS: Final = payloads(
    ev.Message,
    ev.Message,
    ev.ToolLifecycle,
    ev.MessageAmendment,
    ev.Checkpoint,
    ev.StateTransition,
)


@st.composite
def soups(draw: st.DrawFn) -> list[ev.Event]:
    """Events of random payloads whose references often hit something."""
    ids = IdGenerator(lambda: 1, lambda _bits: 1)
    known: list[str] = []
    found: list[ev.Event] = []
    for _ in range(draw(st.integers(1, 12))):
        payload = draw(_PAYLOADS)
        if known and isinstance(payload, ev.ToolLifecycle | ev.MessageAmendment):
            payload = msgspec.structs.replace(payload, message_id=draw(st.sampled_from(known)))
        if isinstance(payload, ev.ToolLifecycle):
            payload = msgspec.structs.replace(payload, index=draw(st.integers(-1, 2)))
        if known and isinstance(payload, ev.Checkpoint):
            some = tuple(draw(st.lists(st.sampled_from(known), max_size=4)))
            history = ev.History(None, some)
            payload = msgspec.structs.replace(payload, history=history)
        repeats = draw(st.booleans())
        event_id = draw(st.sampled_from(known)) if known and repeats else ids()
        known.append(event_id)
        name = ev.EVENT_TYPES[type(payload)]
        found.append(ev.Event(event_id, None, 0, "", "s", "r", name, 1, payload))
    return found


class ViewSuite:
    """The checks. `make_view` gets a transcript's events in file order; it must not change them.

    `examples_max` is how many sessions each check draws. `shrink`: whether the smallest one that
    fails is looked for, which takes a while.
    """

    examples_max: ClassVar[int] = 100
    shrink: ClassVar[bool] = True

    def make_view(self, events: Sequence[ev.Event]) -> Sequence[ViewMessage]:
        """The messages of the request that would follow these events."""
        raise NotImplementedError("say in make_view how your messages are made")

    def test_a_soup_of_random_events_gives_a_request_that_providers_accept(self) -> None:
        @self._examples
        @hypothesis.given(soups())
        def check(events: list[ev.Event]) -> None:
            _none(violations(self.make_view(events)))

        check()

    def test_a_damaged_session_gives_a_request_that_providers_accept(self) -> None:
        @self._examples
        @hypothesis.given(st.data())
        def check(data: st.DataObject) -> None:
            simulation = Simulation(data)
            simulation.run(data.draw(st.integers(1, 20)))
            events = data.draw(st.lists(st.sampled_from(simulation.events), max_size=30))
            _none(violations(self.make_view(events)))

        check()

    def test_every_call_is_answered_once_directly_after_it_and_in_order(self) -> None:
        @self._examples
        @hypothesis.given(st.data())
        def check(data: st.DataObject) -> None:
            simulation = Simulation(data)
            simulation.run(data.draw(st.integers(1, 20)))
            _none(unanswered(self.make_view(simulation.events)))

        check()

    def test_the_newest_prompt_is_there(self) -> None:
        @self._examples
        @hypothesis.given(st.data())
        def check(data: st.DataObject) -> None:
            simulation = Simulation(data)
            simulation.run(data.draw(st.integers(1, 20)))
            newest = simulation.state.conversation.newest_prompt
            entry = simulation.state.conversation.entry(newest) if newest is not None else None
            if entry is None or not any(
                isinstance(block, Text) and block.text.strip() for block in entry.message.content
            ):
                return
            shown = [message.message_id for message in self.make_view(simulation.events)]
            if newest not in shown:
                raise AssertionError(f"the newest prompt {newest} is not in the request: {shown}")

        check()

    def test_between_two_compactions_each_request_is_a_prefix_of_the_next(self) -> None:
        @self._examples
        @hypothesis.given(st.data())
        def check(data: st.DataObject) -> None:
            simulation = Simulation(data)
            sent: list[ViewMessage] = []
            for _ in range(data.draw(st.integers(1, 25))):
                seen = len(simulation.events)
                simulation.run(1)
                if any(_begins_anew(event) for event in simulation.events[seen:]):
                    sent = []
                if data.draw(st.booleans()):
                    simulation.record(ev.StateTransition("idle", "requesting"))
                    request = list(self.make_view(simulation.events))
                    if request[: len(sent)] != sent:
                        raise AssertionError(f"{request} doesn't begin with what was sent: {sent}")
                    sent = request

        check()

    def _examples(self, check: Callable[[], None]) -> Callable[[], None]:
        phases = [phase for phase in hypothesis.Phase if phase is not hypothesis.Phase.explain]
        if not self.shrink:
            phases.remove(hypothesis.Phase.shrink)
        return hypothesis.settings(
            max_examples=self.examples_max,
            phases=phases,
            deadline=None,
            suppress_health_check=[
                hypothesis.HealthCheck.too_slow,
                hypothesis.HealthCheck.data_too_large,
            ],
        )(check)


def violations(messages: Sequence[ViewMessage]) -> list[str]:
    """What the provider of either protocol would refuse in a request of these messages."""
    if not messages:
        return []
    tools = [{"type": "function", "function": {"name": "Edit", "parameters": {"type": "object"}}}]
    openai = {"model": "m", "messages": openai_messages(messages, _image), "tools": tools}
    anthropic = {
        "model": "m",
        "max_tokens": 100,
        "messages": anthropic_messages(messages, _image),
        "tools": [{"name": "Edit", "input_schema": {"type": "object"}}],
    }
    return violations_openai(openai) + violations_anthropic(anthropic)


def unanswered(messages: Sequence[ViewMessage]) -> list[str]:
    """A sentence for each call or answer that isn't where it must be."""
    found: list[str] = []
    waiting: list[str] = []
    seen: set[str] = set()
    for message in messages:
        answers = [b.provider_call_id for b in message.content if isinstance(b, ToolResult)]
        if answers != waiting:
            found.append(f"calls {waiting} are followed by answers {answers}")
        waiting = [b.provider_call_id for b in message.content if isinstance(b, ToolCall)]
        found += [f"the call id {call_id} is there twice" for call_id in waiting if call_id in seen]
        seen.update(waiting)
    return found + [f"the call {call_id} has no answer" for call_id in waiting]


def _image(_sha256: str) -> bytes:
    return _PNG


def _begins_anew(event: ev.Event) -> bool:
    payload = event.payload
    is_compaction = isinstance(payload, ev.Checkpoint) and payload.kind == "compaction"
    return is_compaction or isinstance(payload, ev.Rewind)


def _none(problems: list[str]) -> None:
    if problems:
        raise AssertionError("; ".join(problems))
