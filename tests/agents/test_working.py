"""Sub-agents that work: side by side, nested, bounded, watched, permitted, paid for."""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from tests.agents.crew import Crew, TypedModel, bash, calls, says, task, write

import rewake
from rewake.agent.permissions import Answer, Question
from rewake.agent.ports import ModelRequest, Reply
from rewake.agent.tools import bash as bash_tool
from rewake.agent.turns import Place
from rewake.errors import ModelError
from rewake.model.content import ToolCall
from rewake.model.events import AgentEvent, AgentIntent, Message, ToolLifecycle
from rewake.model.ids import split_id
from rewake.resume import shell
from rewake.resume.running import end_commands
from rewake.settings.schema import Agents


def test_a_task_is_answered_with_the_last_word_of_its_agent(crew: Crew) -> None:
    model = TypedModel(
        main=[calls(task("look", "explorer")), says("ok")], explorer=[says("Found.")]
    )
    result = crew.run(model)
    assert (result.reason, result.response) == ("done", "ok")
    assert "Found." in model.heard("", 1)
    assert crew.ends() == [("spawned", "look"), ("completed", "look")]


def test_the_parents_transcript_holds_nothing_of_what_a_child_said_on_its_way(crew: Crew) -> None:
    secret = "only the child says this"
    model = TypedModel(
        main=[calls(task("look")), says("ok")],
        worker=[calls(bash(f"echo {secret}")), says("The end.")],
    )
    crew.run(model)
    assert secret not in crew.paths.transcript.read_text()
    assert secret in crew.paths.agent_transcript(crew.agent_ids()[0]).read_text()


def test_the_prompt_is_the_childs_own_first_message(crew: Crew) -> None:
    model = TypedModel(main=[calls(task("look", prompt="Look under the bed."))])
    crew.run(model)
    events = crew.events(crew.agent_ids()[0])
    prompts = [e.payload for e in events if isinstance(e.payload, Message)]
    assert prompts[0].role == "user"
    assert "Look under the bed." in model.heard("worker", 0)
    assert {event.agent_id for event in events} == set(crew.agent_ids())
    assert {event.session_id for event in events} == {"s"}


def test_tasks_of_one_answer_run_side_by_side(crew: Crew) -> None:
    met = []

    async def meet(request: ModelRequest) -> Reply:
        met.append(request)
        while len(met) < 3:
            await anyio.lowlevel.checkpoint()
        return says("We met.")

    asked = [task(str(number)) for number in range(3)]
    result = crew.run(TypedModel(main=[calls(*asked), says("ok")], worker=[meet]))
    assert result.response == "ok"
    assert len(met) == 3


def test_no_more_work_at_once_than_the_settings_allow(crew: Crew) -> None:
    at_once, most = 0, 0
    two_are_at_work = anyio.Event()

    async def work(request: ModelRequest) -> Reply:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        if at_once > 1:
            two_are_at_work.set()
        await two_are_at_work.wait()
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        at_once -= 1
        return says("Did it.")

    crew.agents = Agents(parallel_max=2)
    asked = [task(str(number)) for number in range(7)]
    crew.run(TypedModel(main=[calls(*asked)], worker=[work]))
    assert most == 2
    assert crew.ends().count(("completed", "3")) == 1


def test_agents_that_wait_for_their_own_agents_take_no_place(crew: Crew) -> None:
    crew.agents = Agents(parallel_max=1, depth_max=3)
    model = TypedModel(
        main=[calls(task("outer"), task("outer too"))],
        worker=[calls(task("inner", "explorer"), task("other", "explorer")), says("both")],
        explorer=[says("inner word")],
    )
    assert crew.run(model).reason == "done"
    assert len(crew.agent_ids()) == 6


@pytest.mark.parametrize(
    ("depth", "has_task"), [(0, [False]), (1, [True, False]), (2, [True, True, False])]
)
def test_agents_nest_to_the_depth_that_is_set(crew: Crew, depth: int, has_task: list[bool]) -> None:
    crew.agents = Agents(depth_max=depth)
    model = TypedModel(main=[calls(task("a"))], worker=[calls(task("b")), says("x")])
    crew.run(model)
    found = ["Task" in [spec.name for spec in one.tools] for one in model.requests]
    assert found[: len(has_task)] == has_task


def test_an_explorer_has_tools_that_only_read(crew: Crew) -> None:
    model = TypedModel(
        main=[calls(task("look", "explorer"))],
        explorer=[calls(write("a.txt", "x")), says("I can't.")],
    )
    crew.run(model)
    names = {spec.name for one in model.requests if one.agent for spec in one.tools}
    assert names == {"Read", "Grep", "Glob"}
    assert not (crew.project / "a.txt").exists()


def test_a_verifier_must_end_with_a_verdict(crew: Crew) -> None:
    model = TypedModel(
        main=[calls(task("check", "verifier")), says("ok")],
        verifier=[says("Looks good."), says("I ran it.\n\nVerdict: failed")],
    )
    crew.run(model)
    assert "Your answer has no verdict" in model.heard("verifier", 1)
    (ended,) = _ended_tasks(crew)
    assert ended.outcome is not None
    assert ended.outcome.details["verdict"] == "failed"


def test_a_verifier_that_gives_none_in_the_end_has_failed(crew: Crew) -> None:
    model = TypedModel(main=[calls(task("check", "verifier")), says("ok")])
    crew.run(model)
    assert "did not finish: unfinished" in model.heard()
    assert crew.ends()[-1] == ("failed", "check")
    (row,) = rewake.agents("s", project=crew.project, home=crew.home)
    assert row.status == "failed"


def test_what_children_change_is_a_change_of_the_session(crew: Crew) -> None:
    (crew.project / "old.txt").write_text("before\n")
    model = TypedModel(
        main=[calls(task("change"))],
        worker=[
            calls(write("new.txt", "1\n")),
            calls(write("new.txt", "2\n"), bash("echo after > old.txt")),
        ],
    )
    crew.run(model)
    (event,) = [
        e.payload for e in crew.events() if isinstance(e.payload, AgentEvent) and e.payload.changes
    ]
    changed = {change.path: change for change in event.changes}
    assert set(changed) == {str(crew.project / "old.txt"), str(crew.project / "new.txt")}
    with crew.open() as session:
        prompt = session.messages[0].message_id
        rewake.rewind_files(session, prompt)
    assert (crew.project / "old.txt").read_text() == "before\n"
    assert not (crew.project / "new.txt").exists()


def test_ids_order_the_lines_of_parent_and_children(crew: Crew) -> None:
    asked = [task(str(number)) for number in range(8)]
    crew.agents = Agents(parallel_max=8)
    crew.run(TypedModel(main=[calls(*asked)], worker=[calls(bash("true")), says("x")]))
    per_file = [crew.events(), *(crew.events(agent_id) for agent_id in crew.agent_ids())]
    everything = [event.event_id for events in per_file for event in events]
    assert len(set(everything)) == len(everything)
    for events in per_file:
        ids = [split_id(event.event_id) for event in events]
        assert ids == sorted(ids, key=lambda one: one or (0, 0))


def test_a_question_names_the_agent_that_asks(crew: Crew) -> None:
    asked: list[Question] = []

    def ask(question: Question) -> Answer:
        asked.append(question)
        return "yes"

    crew.ask, crew.mode = ask, "default"
    crew.run(TypedModel(main=[calls(task("tidy up"))], worker=[calls(bash("true")), says("x")]))
    assert [(question.tool_name, question.asker) for question in asked] == [
        ("Bash", "worker: tidy up")
    ]


def test_always_said_to_one_agent_holds_for_all(crew: Crew) -> None:
    asked: list[Question] = []

    def ask(question: Question) -> Answer:
        asked.append(question)
        return "always"

    crew.ask, crew.mode = ask, "default"
    tasks = [task(str(number)) for number in range(3)]
    model = TypedModel(main=[calls(*tasks)], worker=[calls(bash("true")), says("x")])
    assert crew.run(model).reason == "done"
    assert len(asked) == 1


def test_plan_mode_lets_explorers_look_and_workers_do_nothing(crew: Crew) -> None:
    crew.mode = "plan"
    model = TypedModel(
        main=[calls(task("do"), task("look", "explorer"))],
        worker=[calls(write("a.txt", "x")), says("I may not.")],
        explorer=[calls(ToolCall("call_1", "Glob", {"pattern": "*"})), says("Seen.")],
    )
    crew.run(model)
    assert not (crew.project / "a.txt").exists()
    assert "Seen." in model.heard()


def test_an_agent_stops_at_its_own_limit_of_steps_and_can_go_on(crew: Crew) -> None:
    crew.agents = Agents(max_steps=2)
    model = TypedModel(
        main=[calls(task("long")), says("ok")],
        worker=[calls(bash("true")), calls(bash("true")), says("At last.")],
    )
    crew.run(model)
    assert "did not finish: max steps" in model.heard()
    assert crew.ends()[-1] == ("failed", "long")
    again = TypedModel(
        main=[says("x"), says("x"), calls(task("", prompt="Go on.", resume=crew.agent_ids()[0]))],
        worker=[says("x")] * 2 + [says("At last.")],
    )
    crew.run(again, "More.")
    assert "At last." in again.heard()
    assert crew.ends()[-1] == ("completed", "long")


def test_what_children_cost_counts_for_the_limit_of_the_run(crew: Crew) -> None:
    crew.max_cost_usd = 1.0
    model = TypedModel(
        main=[calls(task("spend"), cost=0.1), says("never")],
        worker=[calls(bash("true"), cost=0.5)] * 9,
    )
    result = crew.run(model)
    assert result.reason == "max_cost"
    assert result.usage.cost_usd == pytest.approx(1.1)
    assert model.asked("worker") == 2
    assert model.asked() == 1


def test_a_childs_model_error_is_what_its_task_answers(crew: Crew) -> None:
    model = TypedModel(
        main=[calls(task("look")), says("Pity.")],
        worker=[ModelError("The model said no.", status=400)],
    )
    assert crew.run(model).response == "Pity."
    assert "The model said no." in model.heard()
    assert crew.ends()[-1][0] == "failed"
    assert _ended_tasks(crew)[0].status == "failed"


def test_a_defect_in_a_child_is_what_its_task_answers(crew: Crew) -> None:
    model = TypedModel(
        main=[calls(task("look")), says("Pity.")], worker=[ZeroDivisionError("by 0")]
    )
    assert crew.run(model).response == "Pity."
    assert "ZeroDivisionError" in model.heard()
    assert crew.ends()[-1][0] == "failed"


def test_an_unknown_type_is_refused_with_those_there_are(crew: Crew) -> None:
    model = TypedModel(main=[calls(task("x", "wizard")), says("ok")])
    crew.run(model)
    assert "explorer, worker, verifier" in model.heard()
    assert not crew.paths.agents.exists()


def test_a_finished_agent_gets_a_further_prompt_in_its_own_transcript(crew: Crew) -> None:
    crew.run(TypedModel(main=[calls(task("count"))], worker=[says("One.")]))
    (agent_id,) = crew.agent_ids()
    model = TypedModel(
        main=[says("x")] * 2 + [calls(task("", prompt="And now?", resume=agent_id)), says("ok")],
        worker=[says("x"), says("Two.")],
    )
    crew.run(model, "Ask it more.")
    assert crew.agent_ids() == [agent_id]
    assert "One." in model.heard("worker")
    assert "And now?" in model.heard("worker")
    assert "Two." in model.heard()
    statuses = [status for status, _ in crew.ends()]
    assert statuses == ["spawned", "completed", "resumed", "completed"]


def test_an_agent_that_is_not_there_cannot_be_resumed(crew: Crew) -> None:
    model = TypedModel(main=[calls(task("", resume="nobody")), says("ok")])
    crew.run(model)
    assert "There is no agent 'nobody'" in model.heard()


def test_who_watches_hears_of_each_agents_way(crew: Crew) -> None:
    crew.run(TypedModel(main=[calls(task("walk"))], worker=[calls(bash("true")), says("x")]))
    seen = [(one.status, one.steps, one.calls) for one in crew.progress]
    assert seen[0] == ("waiting", 0, 0)
    assert seen[-1] == ("completed", 2, 1)
    assert ("running", 1, 1) in seen


def test_a_session_that_is_kept_in_memory_has_agents_too(crew: Crew) -> None:
    model = TypedModel(main=[calls(task("look")), says("ok")], worker=[says("Found.")])

    async def guarded() -> str:
        with rewake.open_session(crew.project, home=crew.home, durability="memory") as session:
            directory = session.directory
            result = await crew.loop(session, model).run("Go.")
        assert not directory.exists()
        return result.response

    assert anyio.run(guarded) == "ok"
    assert "Found." in model.heard()
    assert not crew.home.exists()


def _ended_tasks(crew: Crew) -> list[ToolLifecycle]:
    found = [event.payload for event in crew.events() if isinstance(event.payload, ToolLifecycle)]
    started = {one.call_id for one in found if isinstance(one.intent, AgentIntent)}
    ends = {"completed", "failed", "resolved"}
    return [one for one in found if one.call_id in started and one.status in ends]


def test_commands_that_an_agent_leaves_running_are_told_of_with_its_answer(crew: Crew) -> None:
    model = TypedModel(
        main=[calls(task("serve")), says("end")],
        worker=[calls(bash("exec sleep 60", run_in_background=True)), says("It is up.")],
    )
    try:
        crew.run(model)
        heard = model.heard("", 1)
        assert "It is up." in heard
        assert "still run in the background" in heard
        assert "(exec sleep 60)" in heard
    finally:
        end_commands(crew.paths.outputs)


def test_what_an_agents_command_changed_during_its_last_answer_is_on_record(crew: Crew) -> None:
    async def last_word(request: ModelRequest) -> Reply:
        (output,) = crew.paths.outputs.iterdir()
        await anyio.to_thread.run_sync(shell.wait, output)
        return says("It is done.")

    model = TypedModel(
        main=[calls(task("build")), says("end")],
        worker=[calls(bash("echo x > built", run_in_background=True)), last_word],
    )
    crew.run(model)
    (ended,) = [event for event in crew.events() if getattr(event.payload, "changes", ())]
    assert isinstance(ended.payload, AgentEvent)
    assert [change.path for change in ended.payload.changes] == [str(crew.project / "built")]


def test_a_session_kept_in_memory_ends_the_commands_of_its_agents_too(crew: Crew) -> None:
    crew.durability = "memory"
    model = TypedModel(
        main=[calls(task("serve")), says("end")],
        worker=[calls(bash("exec sleep 60", run_in_background=True)), says("It is up.")],
    )

    async def run() -> int:
        with crew.open() as session:
            await crew.loop(session, model).run("Go.")
            (output,) = (session.directory / "outputs").iterdir()
            assert shell.state_of(output).state == "running"
            return os.open(output / shell.ALIVE, os.O_RDONLY)

    alive = anyio.run(run)
    try:
        fcntl.flock(alive, fcntl.LOCK_SH | fcntl.LOCK_NB)  # whatever lives of the command holds it
    finally:
        os.close(alive)


def test_commands_of_several_agents_are_ended_side_by_side(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_one = bash_tool._stop
    all_at_once = threading.Barrier(3, timeout=30)

    def stop(process: subprocess.Popen[bytes]) -> None:
        all_at_once.wait()
        stop_one(process)

    monkeypatch.setattr(bash_tool, "_stop", stop)
    running = [calls(bash("echo begun >> begun; exec sleep 60"))]
    model = TypedModel(main=[calls(*(task(name) for name in "abc"))], worker=running)

    async def run() -> None:
        with crew.open() as session:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(crew.loop(session, model).run, "Go.")
                with anyio.fail_after(60):
                    while not _has_lines(crew.project / "begun", 3):  # noqa: ASYNC110  # a file tells nobody
                        await anyio.sleep(0.01)
                tasks.cancel_scope.cancel()

    anyio.run(run)
    assert not all_at_once.broken


def _has_lines(path: Path, count: int) -> bool:
    return path.exists() and len(path.read_text().split()) == count


def test_an_agent_that_waits_again_holds_no_place_meanwhile() -> None:
    """Its first task came back and waits for the place, its second waits for another's work."""

    async def run() -> int:
        places = anyio.Semaphore(1)
        waiting, other = Place(places), Place(places)
        await waiting.take()
        took, lent = anyio.Event(), anyio.Event()

        async def first() -> None:
            async with waiting.lent():
                await other.take()
                took.set()

        async def second() -> None:
            await took.wait()
            await anyio.wait_all_tasks_blocked()
            async with waiting.lent():
                other.leave()
                with anyio.fail_after(30):
                    await places.acquire()  # whoever works for it gets the place
                lent.set()
                places.release()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            tasks.start_soon(second)
        assert lent.is_set()
        waiting.leave()
        return places.value

    assert anyio.run(run) == 1
