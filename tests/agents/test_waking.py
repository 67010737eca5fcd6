"""Interrupted agents: what the parent is told of them, and how they go on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from tests.agents.crew import Crew, TypedModel, bash, calls, says, task, write

import rewake
from rewake.agent.ports import ModelRequest, Reply
from rewake.errors import UncertainError
from rewake.log.disk import Disk
from rewake.model.events import (
    AgentEvent,
    AgentIntent,
    Message,
    OtherIntent,
    RunStart,
    Terminal,
    ToolLifecycle,
)
from rewake.session.core import Session


def die(crew: Crew, model: TypedModel, prompt: str | None = "Go.") -> None:
    """A run in a process of its own, which `killed` ends on the spot."""
    pid = os.fork()
    if pid == 0:
        try:
            crew.run(model, prompt)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


async def killed(request: ModelRequest) -> Reply:
    os._exit(1)


def interrupted(crew: Crew) -> str:
    """A session whose worker was killed after its first step; the id of the worker."""
    die(
        crew,
        TypedModel(main=[calls(task("work"))], worker=[calls(bash("echo 1 >> counter")), killed]),
    )
    (agent_id,) = crew.agent_ids()
    return agent_id


def test_an_agent_goes_on_from_where_it_was_killed(crew: Crew) -> None:
    agent_id = interrupted(crew)
    model = TypedModel(main=[says("x"), says("All done.")], worker=[says("x"), says("Finished.")])
    result = crew.run(model, None)
    assert result.response == "All done."
    assert crew.counted() == ["1"]
    assert crew.agent_ids() == [agent_id]
    assert "Finished." in model.heard()
    assert [status for status, _ in crew.ends()] == [
        "spawned",
        "interrupted",
        "resumed",
        "completed",
    ]


def test_the_call_is_completed_and_not_settled(crew: Crew) -> None:
    interrupted(crew)
    crew.run(TypedModel(main=[says("x")] * 2, worker=[says("x"), says("Finished.")]), None)
    tasks = [
        e.payload
        for e in crew.events()
        if isinstance(e.payload, ToolLifecycle) and e.payload.tool_name == "Task"
    ]
    assert [one.status for one in tasks] == ["requested", "started", "completed"]


def test_an_agent_that_had_answered_is_not_asked_again(crew: Crew) -> None:
    async def answered_then_killed(request: ModelRequest) -> Reply:
        return says("My answer.")

    # Killed when the parent would be asked again: the child has ended, the parent hasn't noted it.
    die(
        crew,
        TypedModel(
            main=[calls(task("a"), task("b", "explorer"))],
            worker=[answered_then_killed],
            explorer=[_killed_once_another_has_ended(crew)],
        ),
    )
    model = TypedModel(main=[says("x"), says("ok")], explorer=[says("Seen.")])
    crew.run(model, None)
    assert model.asked("worker") == 0
    assert "My answer." in model.heard()
    assert "Seen." in model.heard()


def _killed_once_another_has_ended(crew: Crew) -> Callable[[ModelRequest], Awaitable[Reply]]:
    async def answer(request: ModelRequest) -> Reply:
        while not any(one.status == "completed" for one in crew.progress):
            await anyio.lowlevel.checkpoint()
        os._exit(1)

    return answer


def test_a_library_without_the_option_gets_a_verdict_that_says_how_to_go_on(crew: Crew) -> None:
    agent_id = interrupted(crew)
    with crew.open(resumes_agents=False) as session:
        assert session.resumed is not None
        (verdict,) = session.resumed.uncertain
        assert verdict.resolution.verdict == "partial"
        assert verdict.resolution.evidence["agent_id"] == agent_id
        assert [agent.agent_id for agent in session.resumed.agents] == [agent_id]
        assert f"resume set to {agent_id}" in str(verdict.result)
    model = TypedModel(
        main=[says("x"), calls(task("", prompt="Go on.", resume=agent_id)), says("ok")],
        worker=[says("x"), says("Finished.")],
    )
    crew.run(model, "And now?")
    assert "Finished." in model.heard()
    assert crew.counted() == ["1"]


def test_the_call_of_a_conversation_that_was_left_is_settled(crew: Crew) -> None:
    agent_id = interrupted(crew)
    with crew.open() as session:
        session.rewind(session.messages[0].message_id)
    model = TypedModel(main=[says("ok")] * 3)
    crew.run(model, "Something else.")
    assert model.asked("worker") == 0
    with crew.open() as session:
        assert not [c for c in session.state.world.calls.values() if c.tool_name == "Task"]
    assert "completed" not in [status for status, _ in crew.ends()]
    assert crew.agent_ids() == [agent_id]


def test_interrupted_with_its_parent_cancelled(crew: Crew) -> None:
    async def forever(request: ModelRequest) -> Reply:
        await anyio.sleep_forever()
        return says("never")

    async def main() -> None:
        with crew.open() as session:
            model = TypedModel(
                main=[calls(task("a"), task("b"))],
                worker=[calls(bash("echo 1 >> counter")), forever],
            )
            loop = crew.loop(session, model)
            running = asyncio.ensure_future(loop.run("Go."))
            while model.asked("worker") < 4:
                await anyio.lowlevel.checkpoint()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert running.cancelled()
            loop.result("interrupted", session.state.world.usage)

    anyio.run(main)
    assert sorted(status for status, _ in crew.ends())[:2] == ["interrupted", "interrupted"]
    for agent_id in crew.agent_ids():
        (end,) = [e.payload for e in crew.events(agent_id) if isinstance(e.payload, Terminal)]
        assert end.reason == "interrupted"
    model = TypedModel(main=[says("x"), says("ok")])
    crew.run(model, "Never mind.")
    assert model.asked("worker") == 0
    assert "Task with resume" in model.heard()


def test_cancelled_while_it_was_taken_up_again(crew: Crew) -> None:
    interrupted(crew)

    async def forever(request: ModelRequest) -> Reply:
        await anyio.sleep_forever()
        return says("never")

    async def main() -> None:
        with crew.open() as session:
            model = TypedModel(worker=[says("x"), forever])
            loop = crew.loop(session, model)
            running = asyncio.ensure_future(loop.run(None))
            while not model.requests:
                await anyio.lowlevel.checkpoint()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert running.cancelled()
            loop.result("interrupted", session.state.world.usage)
            assert session.state.world.calls == {}

    anyio.run(main)
    assert crew.ends()[-1][0] == "interrupted"


def test_what_it_changed_before_it_was_killed_can_be_taken_back(crew: Crew) -> None:
    die(
        crew,
        TypedModel(
            main=[calls(task("work"))],
            worker=[calls(write("a.txt", "1\n"), bash("echo 2 > b.txt")), killed],
        ),
    )
    with crew.open() as session:
        changed = {
            Path(change.path).name
            for event in crew.events()
            if isinstance(event.payload, AgentEvent)
            for change in event.payload.changes
        }
        assert changed == {"a.txt", "b.txt"}
        rewake.rewind_files(session, session.messages[0].message_id)
    assert not (crew.project / "a.txt").exists()
    assert not (crew.project / "b.txt").exists()


def test_a_sidechain_that_can_not_be_read_costs_only_its_agent(crew: Crew) -> None:
    agent_id = interrupted(crew)
    path = crew.paths.agent_transcript(agent_id)
    path.unlink()
    path.mkdir()
    with crew.open() as session:
        assert session.resumed is not None
        assert any("can't be taken up" in notice for notice in session.resumed.notices)
        (verdict,) = session.resumed.uncertain
        assert verdict.resolution.verdict == "unknown"
    assert crew.run(TypedModel(main=[says("x"), says("ok")]), "Go on.").response == "ok"


@pytest.mark.parametrize("garbage", [b"", b"\0" * 100, b'{"event_id":"x"', b"null\n[1]\n"])
def test_a_damaged_end_of_a_sidechain_is_put_right(crew: Crew, garbage: bytes) -> None:
    agent_id = interrupted(crew)
    with crew.paths.agent_transcript(agent_id).open("ab") as file:
        file.write(garbage)
    model = TypedModel(main=[says("x"), says("ok")], worker=[says("x"), says("Finished.")])
    assert crew.run(model, None).response == "ok"
    assert "Finished." in model.heard()


def test_a_sidechain_whose_lines_are_all_damaged_does_not_prove_that_nothing_was_done(
    crew: Crew,
) -> None:
    agent_id = interrupted(crew)
    path = crew.paths.agent_transcript(agent_id)
    path.write_bytes(path.read_bytes().replace(b'"seq":', b'"Seq":'))  # no checksum is right now
    with crew.open() as session:
        assert session.resumed is not None
        assert any("can't be taken up" in notice for notice in session.resumed.notices)
        (verdict,) = session.resumed.uncertain
        assert (verdict.resolution.verdict, verdict.result.is_error) == ("unknown", True)
    model = TypedModel(main=[says("x"), says("ok")])
    assert crew.run(model, "Go on.").response == "ok"
    assert "NOT KNOWN" in model.heard()
    assert crew.ends()[-1][0] == "failed"


def test_a_link_that_leads_nowhere_in_place_of_a_sidechain_proves_nothing(crew: Crew) -> None:
    agent_id = interrupted(crew)
    path = crew.paths.agent_transcript(agent_id)
    path.unlink()
    path.symlink_to(path)
    with crew.open() as session:
        assert session.resumed is not None
        (verdict,) = session.resumed.uncertain
        assert verdict.resolution.verdict == "unknown"


def test_commands_are_listed_although_a_sidechain_can_not_be_read(crew: Crew) -> None:
    agent_id = interrupted(crew)
    crew.paths.agent_transcript(agent_id).unlink()
    crew.paths.agent_transcript(agent_id).mkdir()
    crew.run(TypedModel(main=[says("x"), calls(bash("true", run_in_background=True))]), "Go on.")
    found = rewake.shell_commands("s", project=crew.project, home=crew.home)
    assert [command.command for command in found] == ["true"]


def test_a_sidechain_that_is_gone_never_began(crew: Crew) -> None:
    agent_id = interrupted(crew)
    crew.paths.agent_transcript(agent_id).unlink()
    model = TypedModel(main=[says("x"), says("ok")])
    crew.run(model, None)
    assert "did NOT begin" in model.heard()
    assert crew.ends()[-1][0] == "cancelled"


def test_a_child_that_no_evidence_settles_stops_a_resume_that_wants_certainty(crew: Crew) -> None:
    with crew.open() as session:
        call_id = _started_task(session)
        sidechains = session.sidechains
        assert sidechains is not None
        child = sidechains.spawn(session, task="pay", agent_id="child", call_id=call_id)
        child.user("Pay.")
        child.assistant((rewake.ToolCall("c", "Pay"),))
        child.action(rewake.ToolCall("c", "Pay"), intent=OtherIntent("pay")).start()
        child.close()
    before = crew.paths.transcript.read_bytes()
    with pytest.raises(UncertainError):
        crew.open(on_unknown="stop")
    assert crew.paths.transcript.read_bytes() == before
    with crew.open() as session:
        assert session.state.world.open_agents["child"].status == "interrupted"


def test_an_agent_of_an_agent_is_waked_before_it(crew: Crew) -> None:
    die(
        crew,
        TypedModel(
            main=[calls(task("outer"))],
            worker=[calls(task("inner", "explorer"))],
            explorer=[killed],
        ),
    )
    outer, inner = crew.agent_ids()
    model = TypedModel(
        main=[says("x"), says("ok")], worker=[says("x"), says("outer")], explorer=[says("inner")]
    )
    crew.run(model, None)
    assert [status for status, _ in crew.ends(outer)] == [
        "spawned",
        "interrupted",
        "resumed",
        "completed",
    ]
    assert "inner" in model.heard("worker")
    assert crew.events(inner)[0].agent_id == inner


def test_each_run_of_a_child_says_where_it_runs(crew: Crew) -> None:
    agent_id = interrupted(crew)
    crew.run(TypedModel(main=[says("x")] * 2, worker=[says("x")] * 2), None)
    runs = [e.payload for e in crew.events(agent_id) if isinstance(e.payload, RunStart)]
    assert [run.generation for run in runs] == [1, 2, 3]


def test_a_disk_that_is_full_for_a_child_ends_the_run(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ = Disk.write

    def full(disk: Disk, descriptor: int, data: bytes) -> int:
        if b"Only the child says this." in data:
            raise OSError(28, "No space left on device")
        return write_(disk, descriptor, data)

    monkeypatch.setattr(Disk, "write", full)
    model = TypedModel(
        main=[calls(task("work")), says("never")], worker=[says("Only the child says this.")]
    )
    result = crew.run(model)
    assert result.reason == "storage_error"
    assert model.asked() == 1
    monkeypatch.undo()
    again = TypedModel(main=[says("x"), says("ok")], worker=[says("Finished.")])
    assert crew.run(again, None).response == "ok"
    assert "Finished." in again.heard()


def test_a_disk_that_is_full_for_one_child_stops_those_beside_it(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ = Disk.write

    def full(disk: Disk, descriptor: int, data: bytes) -> int:
        if b"Only the child says this." in data:
            raise OSError(28, "No space left on device")
        return write_(disk, descriptor, data)

    async def goes_on_for_ever(request: ModelRequest) -> Reply:
        await anyio.sleep_forever()
        return says("never")

    monkeypatch.setattr(Disk, "write", full)
    model = TypedModel(
        main=[calls(task("work"), task("check", "explorer"))],
        worker=[says("Only the child says this.")],
        explorer=[calls(bash("true")), goes_on_for_ever],
    )
    assert crew.run(model).reason == "storage_error"
    monkeypatch.undo()
    again = TypedModel(
        main=[says("x"), says("ok")],
        worker=[says("Finished.")],
        explorer=[says("Checked.")] * 3,
    )
    assert crew.run(again, None).response == "ok"
    assert "Finished." in again.heard()
    assert "Checked." in again.heard()


def test_a_full_disk_under_an_agent_in_the_background_ends_the_run(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ = Disk.write

    def full(disk: Disk, descriptor: int, data: bytes) -> int:
        if b"Only the child says this." in data:
            raise OSError(28, "No space left on device")
        return write_(disk, descriptor, data)

    monkeypatch.setattr(Disk, "write", full)
    model = TypedModel(
        main=[calls(task("work", run_in_background=True)), says("x"), says("never")],
        worker=[says("Only the child says this.")],
    )
    assert crew.run(model).reason == "storage_error"


def test_a_message_of_the_child_is_never_one_of_the_parent(crew: Crew) -> None:
    interrupted(crew)
    crew.run(TypedModel(main=[says("x")] * 2, worker=[says("x")] * 2), None)
    parents = {e.event_id for e in crew.events() if isinstance(e.payload, Message)}
    (agent_id,) = crew.agent_ids()
    childs = {e.event_id for e in crew.events(agent_id) if isinstance(e.payload, Message)}
    assert not parents & childs


def _started_task(session: Session) -> str:
    session.user("Go.")
    session.assistant((task("pay"),))
    action = session.action(task("pay"), intent=AgentIntent("child"))
    action.start()
    return action.call_id


def test_a_word_of_the_user_on_another_call_leaves_agents_to_go_on(crew: Crew) -> None:
    with crew.open() as session:
        session.user("Go.")
        pay, work = rewake.ToolCall("p", "Pay"), task("work")
        session.assistant((pay, work))
        session.action(pay, intent=OtherIntent("pay")).start()
        action = session.action(work, intent=AgentIntent("child"))
        action.start()
        child = rewake.spawn_agent(
            session, "work", agent_type="worker", agent_id="child", call_id=action.call_id
        )
        child.user("Work.")
    with crew.open() as session:
        unknown = [c for c in session.state.world.calls.values() if c.status == "unknown"]
    rewake.resolve("s", unknown[0].call_id, "applied", project=crew.project, home=crew.home)
    model = TypedModel(main=[says("x"), says("ok")], worker=[says("Finished.")])
    assert crew.run(model, None).response == "ok"
    assert "Finished." in model.heard()
