"""Who else hears of an event; what fails there stops nothing."""

from __future__ import annotations

from typing import Any

import pytest

from rewake.errors import UsageError
from rewake.model.content import Text, Usage
from rewake.model.events import Event, Message
from rewake.record.sinks import KeptOpen, SinkProblem

HELLO = Message("user", (Text("hello"),))


class ListSink:
    def __init__(self) -> None:
        self.heard: list[tuple[Event, bytes]] = []
        self.closed = False

    def record(self, event: Event, line: bytes) -> None:
        self.heard.append((event, line))

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class BrokenSink:
    def record(self, event: Event, line: bytes) -> None:
        raise RuntimeError("no network")

    def flush(self) -> None:
        raise RuntimeError("no network")

    def close(self) -> None:
        raise RuntimeError("no network")


def test_a_sink_hears_of_each_line_once_and_in_order(world: Any) -> None:
    sink = ListSink()
    recorder = world.recorder("disk", sinks=(sink,))
    for _ in range(3):
        recorder.submit(HELLO)
    assert sink.heard == []
    recorder.commit()
    assert b"".join(line for _, line in sink.heard) == world.path.read_bytes()
    assert [event.event_id for event, _ in sink.heard] == [e.event_id for e in world.events()]
    recorder.close()
    assert sink.closed


def test_at_a_commit_a_sink_hears_of_an_event_when_it_is_durable(world: Any) -> None:
    recorder = world.recorder("disk", on_recorded=lambda _: world.disk.calls.append("heard"))
    recorder.submit(HELLO, barrier=True)
    assert world.disk.calls == ["write", "sync", "heard"]


def test_a_callback_hears_the_message_as_its_line_says_it(world: Any) -> None:
    heard: list[Any] = []
    recorder = world.recorder("process", on_recorded=heard.append)
    message = recorder.submit(Message("assistant", (Text("hi"),)), defer=True)
    recorder.amend(message.event_id, usage=Usage(1, 2))
    assert [event.payload for event in heard] == [event.payload for event in world.events()]
    assert heard[0].payload.usage == Usage(1, 2)


def test_a_sink_that_fails_is_reported_once_and_stops_nobody(world: Any) -> None:
    sink, reported = ListSink(), list[SinkProblem]()
    recorder = world.recorder(sinks=(BrokenSink(), sink), on_problem=reported.append)
    for _ in range(3):
        recorder.submit(HELLO)
    recorder.close()
    assert len(world.check_chain()) == len(sink.heard) == 3
    assert len(reported) == 1
    (problem,) = recorder.problems
    assert (problem.sink, problem.message) == ("BrokenSink", "RuntimeError: no network")
    assert problem.count == 4


def test_a_sink_that_is_shared_is_reported_by_its_own_name(world: Any) -> None:
    recorder = world.recorder(sinks=(KeptOpen(BrokenSink()),))
    recorder.submit(HELLO)
    recorder.close()
    (problem,) = recorder.problems
    assert problem.sink == "BrokenSink"


def test_a_callback_can_not_record(world: Any) -> None:
    refused: list[Exception] = []

    def record_more(_event: Event) -> None:
        try:
            recorder.submit(HELLO)
        except UsageError as error:
            refused.append(error)

    recorder = world.recorder(on_recorded=record_more)
    recorder.submit(HELLO)
    recorder.submit(HELLO)
    assert len(world.check_chain()) == len(refused) == 2


def test_an_interrupted_callback_loses_nothing_of_the_transcript(world: Any) -> None:
    def interrupt(_event: Event) -> None:
        raise KeyboardInterrupt

    recorder = world.recorder(on_recorded=interrupt)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            recorder.submit(HELLO)
    assert len(world.check_chain()) == 2
