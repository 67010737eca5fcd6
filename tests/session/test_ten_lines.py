"""Ten lines around a home-made loop: sync, from threads, from asyncio."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import threading
from pathlib import Path

import pytest
from tests.session.conftest import Open
from tests.session.helpers import events_of, loaded, said, statuses_of, text_of, transcript_of

import rewake

WRITE = rewake.ToolCall("call_1", "write", {"text": "new"})


def toy_model(view: tuple[rewake.ViewMessage, ...]) -> list[rewake.Text | rewake.ToolCall]:
    if any(message.role == "tool" for message in view):
        return [rewake.Text("It is written.")]
    return [WRITE]


def test_a_home_made_loop_is_durable_in_ten_lines(home: Path, project: Path) -> None:
    target = project / "a.txt"
    with rewake.open_session(project, home=home) as session:
        session.user("Write it.")
        while True:
            reply = toy_model(session.view())
            session.assistant(reply)
            calls = [block for block in reply if isinstance(block, rewake.ToolCall)]
            if not calls:
                break
            for call in calls:
                with session.action(call, intent=rewake.FileChange(target, None, "new")) as action:
                    target.write_text("new")
                    action.complete("Written.")
        session.terminal("done")
    found = rewake.resume(session.session_id, project=project, home=home)
    assert [entry.message.role for entry in found.messages] == ["user", "assistant", "assistant"]
    assert (found.pending, found.uncertain, found.damage) == ((), (), ())
    assert found.terminal is not None
    assert found.terminal.reason == "done"


def test_the_public_names_stay_what_they_are_once_everything_is_imported() -> None:
    importlib.import_module("rewake.resume.load")
    assert callable(rewake.resume)


def test_the_next_run_goes_on_in_the_same_transcript(open_session: Open) -> None:
    with open_session() as session:
        session.user("one")
        session.assistant("two")
    before = transcript_of(session).read_bytes()
    with open_session(resume=session.session_id) as again:
        again.user("three")
        assert said(again) == ["one", "two", "three"]
    assert transcript_of(again) == transcript_of(session)
    assert transcript_of(again).read_bytes().startswith(before)
    runs = [event for event in events_of(transcript_of(again)) if event.event_type == "run"]
    assert [event.payload.generation for event in runs] == [1, 2]  # type: ignore[union-attr]  # runs have one


def test_every_parent_is_the_line_before_it_over_several_runs(open_session: Open) -> None:
    with open_session() as session:
        session.user("one")
    for number in range(3):
        with open_session(resume=session.session_id) as again:
            again.user(f"more {number}")
    events = events_of(transcript_of(session))
    assert [event.parent_id for event in events[1:]] == [event.event_id for event in events[:-1]]
    assert [event.seq for event in events] == list(range(len(events)))


def test_many_threads_record_every_message_once_and_in_one_chain(open_session: Open) -> None:
    def work(session: rewake.Session, name: int) -> None:
        for number in range(20):
            session.user(f"{name}.{number}")
            with session.action("tool", f"call_{number}") as action:
                action.complete(f"{name}.{number}")

    with open_session() as session:
        threads = [threading.Thread(target=work, args=(session, name)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        live = session.state.as_json()
    events = events_of(transcript_of(session))
    assert [event.parent_id for event in events[1:]] == [event.event_id for event in events[:-1]]
    texts = [text_of(message) for message in session.view()]
    assert sorted(texts) == sorted(f"{name}.{number}" for name in range(8) for number in range(20))
    for name in range(8):
        mine = [text for text in texts if text.startswith(f"{name}.")]
        assert mine == [f"{name}.{number}" for number in range(20)]
    assert loaded(transcript_of(session)).state.as_json() == live


def test_the_async_twin_makes_the_same_promises(open_session: Open, project: Path) -> None:
    target = project / "a.txt"

    async def run() -> rewake.Session:
        async with rewake.AsyncSession(open_session()) as session:
            await session.user("Write it.")
            while True:
                reply = toy_model(await session.view())
                await session.assistant(reply)
                if WRITE not in reply:
                    return session.sync
                intent = rewake.FileChange(target, None, "new")
                async with session.action(WRITE, intent=intent) as action:
                    assert statuses_of(transcript_of(session.sync)) == ["requested", "started"]
                    target.write_text("new")
                    await action.complete("Written.")

    session = asyncio.run(run())
    assert statuses_of(transcript_of(session)) == ["requested", "started", "completed"]
    assert [e.message.role for e in session.messages] == ["user", "assistant", "assistant"]


def test_concurrent_tasks_of_the_async_twin_keep_their_answers_apart(open_session: Open) -> None:
    async def one(session: rewake.AsyncSession, call: rewake.ToolCall) -> None:
        async with session.action(call) as action:
            await action.complete(f"answer to {call.name}")

    async def run() -> rewake.Session:
        async with rewake.AsyncSession(open_session()) as session:
            await session.user("go")
            calls = [rewake.ToolCall("call_1", f"tool_{number}") for number in range(5)]
            await session.assistant(calls)
            await asyncio.gather(*(one(session, call) for call in calls))
            return session.sync

    session = asyncio.run(run())
    (entry,) = [entry for entry in session.messages if entry.answers]
    told = [answer.result.content[0] for answer in entry.answers if answer is not None]
    assert told == [rewake.Text(f"answer to tool_{number}") for number in range(5)]


NAMES = "user assistant append amend transition metadata terminal checkpoint rewind action view"
PAIRS = [
    (getattr(rewake.Session, name), getattr(rewake.AsyncSession, name)) for name in NAMES.split()
]


@pytest.mark.parametrize(("sync", "twin"), PAIRS, ids=lambda method: method.__name__)
def test_the_async_twin_takes_what_its_namesake_takes(sync: object, twin: object) -> None:
    assert callable(sync)
    assert callable(twin)
    of_sync, of_twin = inspect.signature(sync), inspect.signature(twin)
    assert list(of_twin.parameters) == list(of_sync.parameters)


def test_a_message_that_cannot_be_recorded_changes_nothing(open_session: Open) -> None:
    with open_session() as session:
        session.user("one")
        size = len(events_of(transcript_of(session)))
        call = rewake.ToolCall("call_1", "tool", {"number": float("nan")})
        with pytest.raises(rewake.InvalidValueError):
            session.assistant([call])
        assert len(events_of(transcript_of(session))) == size
        session.user("two")
        assert said(session) == ["one", "two"]


def test_usage_that_arrives_late_counts_as_if_it_had_come_with_the_message(
    open_session: Open,
) -> None:
    with open_session() as session:
        first = session.assistant("one")
        session.amend(first, usage=rewake.Usage(10, 5))  # still waits: it lands on the line
        second = session.assistant("two")
        session.commit()
        session.amend(second, usage=rewake.Usage(20, 5))  # written already: a line of its own
    names = [event.event_type for event in events_of(transcript_of(session))]
    assert names.count("message_amendment") == 1
    found = loaded(transcript_of(session)).state
    usages = [entry.message.usage for entry in found.conversation.entries]
    assert usages == [rewake.Usage(10, 5), rewake.Usage(20, 5)]
    assert found.world.usage == rewake.Usage(30, 10)


def test_what_view_showed_a_provider_survives_a_kill_right_after_it(open_session: Open) -> None:
    session = open_session(durability="disk")
    session.user("go")
    session.assistant([WRITE], usage=rewake.Usage(1, 1))
    with session.action(WRITE, intent=rewake.ReadOnlyIntent()) as action:
        action.complete("seen")
    shown = session.view()
    on_disk = loaded(transcript_of(session))  # what a process that starts now would find
    session.close()
    assert [e.message_id for e in on_disk.state.conversation.entries] == [
        message.message_id for message in shown if message.role != "tool"
    ]
    assert on_disk.state.conversation.unanswered() == []
