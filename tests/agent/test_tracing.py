"""What the trace is told of requests: only what is new, and how each of them ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from rewake.agent.ports import ModelRequest, Reply
from rewake.agent.tracing import TracedModel
from rewake.model.content import JsonObject, Text
from rewake.state.view import ViewMessage


class Heard:
    """Notes, kept."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, JsonObject]] = []

    def note(self, kind: str, data: JsonObject) -> None:
        self.notes.append((kind, data))


class Answers:
    """A model that answers, or raises."""

    name = "script:x"
    context_tokens = None

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error

    async def request(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        if self.error is not None:
            raise self.error
        return Reply((Text("hello"),), "end")

    async def close(self) -> None:
        """Nothing to release."""


def message(name: str, text: str = "go on") -> ViewMessage:
    return ViewMessage(name, "user", (Text(text),))


def asked(model: TracedModel, *messages: ViewMessage) -> None:
    request = ModelRequest(system="s", messages=messages, tools=(), turn=0)
    asyncio.run(model.request(request, lambda _: None))


def told(heard: Heard) -> list[tuple[object, object]]:
    return [
        (data["messages_repeated"], len(data["new_messages"]))
        for kind, data in heard.notes
        if kind == "request"
    ]


def test_a_request_that_goes_on_tells_only_its_new_messages() -> None:
    heard = Heard()
    model = TracedModel(Answers(), heard)
    asked(model, message("a"))
    asked(model, message("a"), message("b"), message("c"))
    assert told(heard) == [(0, 1), (1, 2)]


def test_a_shorter_request_whose_last_message_is_the_same_is_told_whole() -> None:
    heard = Heard()
    model = TracedModel(Answers(), heard)
    asked(model, message("a"), message("b"), message("kept"))
    asked(model, message("summary"), message("kept"))
    assert told(heard) == [(0, 3), (0, 2)]


@pytest.mark.parametrize("error", [asyncio.CancelledError(), RuntimeError("x")])
def test_a_request_that_was_interrupted_has_its_time_in_the_trace(error: BaseException) -> None:
    heard = Heard()
    with pytest.raises(type(error)):
        asked(TracedModel(Answers(error), heard), message("a"))
    kind, data = heard.notes[-1]
    assert (kind, data["error"]) == ("response", type(error).__name__)
    assert data["duration_ms"] >= 0
