"""Rewake's own view, through the public view suite; and views that the suite catches."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from rewake.model.content import ToolResult
from rewake.model.events import Event
from rewake.resume.load import load
from rewake.state.fold import SessionState
from rewake.state.view import ViewMessage, view
from rewake.testing.view_suite import ViewSuite
from rewake.testing.view_suite_simulation import NoBlobs, Source


class TestTheViewOfALoadedSession(ViewSuite):
    def make_view(self, events: Sequence[Event]) -> Sequence[ViewMessage]:
        places = [msgspec.structs.replace(event, offset=at) for at, event in enumerate(events)]
        return view(load(Source(places), NoBlobs()).state.conversation)


class TestTheViewOfAFold(ViewSuite):
    """In file order, without the tree: hostile, but never an invalid request."""

    def make_view(self, events: Sequence[Event]) -> Sequence[ViewMessage]:
        state = SessionState()
        for event in events:
            state.apply(event)
        return view(state.conversation)

    # A rewind can't be folded without its target, so these two rules hold for loaded sessions only.
    test_the_newest_prompt_is_there = None  # type: ignore[assignment]  # see above
    test_between_two_compactions_each_request_is_a_prefix_of_the_next = None  # type: ignore[assignment]  # see above


class BrokenView(TestTheViewOfALoadedSession):
    __test__ = False
    shrink = False


class WithAnEmptyMessage(BrokenView):
    def make_view(self, events: Sequence[Event]) -> Sequence[ViewMessage]:
        return [*super().make_view(events), ViewMessage("empty", "user", ())]


class WithoutAnswers(BrokenView):
    def make_view(self, events: Sequence[Event]) -> Sequence[ViewMessage]:
        return [message for message in super().make_view(events) if message.role != "tool"]


class AnswersReversed(BrokenView):
    def make_view(self, events: Sequence[Event]) -> Sequence[ViewMessage]:
        return [
            msgspec.structs.replace(message, content=message.content[::-1])
            if isinstance(message.content[0], ToolResult)
            else message
            for message in super().make_view(events)
        ]


class WithoutPrompts(BrokenView):
    def make_view(self, events: Sequence[Event]) -> Sequence[ViewMessage]:
        return [message for message in super().make_view(events) if message.role != "user"]


class Numbered(BrokenView):
    """Ids made of positions from the end: every message changes with every request."""

    def make_view(self, events: Sequence[Event]) -> Sequence[ViewMessage]:
        made = super().make_view(events)
        return [
            msgspec.structs.replace(message, message_id=str(len(made) - at))
            for at, message in enumerate(made)
        ]


CAUGHT: dict[str, type[ViewSuite]] = {
    "test_a_soup_of_random_events_gives_a_request_that_providers_accept": WithAnEmptyMessage,
    "test_a_damaged_session_gives_a_request_that_providers_accept": WithoutAnswers,
    "test_every_call_is_answered_once_directly_after_it_and_in_order": AnswersReversed,
    "test_the_newest_prompt_is_there": WithoutPrompts,
    "test_between_two_compactions_each_request_is_a_prefix_of_the_next": Numbered,
}


def test_every_check_has_a_view_that_it_catches() -> None:
    assert set(CAUGHT) == {name for name in dir(ViewSuite) if name.startswith("test_")}


@pytest.mark.parametrize("check", CAUGHT)
def test_a_broken_view_is_caught(check: str) -> None:
    with pytest.raises(AssertionError):
        getattr(CAUGHT[check](), check)()
