"""Agents in the background: told of once, waited for, looked at, stopped, taken up again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import pytest
from tests.agents.crew import Crew, TypedModel, bash, calls, says, task
from tests.agents.test_waking import die

from rewake.agent.ports import ModelRequest, Reply
from rewake.model.content import ToolCall, plain_text
from rewake.model.events import Message, Terminal
from rewake.state.world import World


def output(agent_id: str, **more: object) -> ToolCall:
    return ToolCall("call_1", "TaskOutput", {"agent_id": agent_id, **more})


def stop(agent_id: str) -> ToolCall:
    return ToolCall("call_1", "TaskStop", {"agent_id": agent_id})


def asks_about(
    crew: Crew, make: Callable[[str], ToolCall]
) -> Callable[[ModelRequest], Awaitable[Reply]]:
    async def answer(request: ModelRequest) -> Reply:
        (agent_id,) = crew.agent_ids()
        return calls(make(agent_id))

    return answer


async def forever(request: ModelRequest) -> Reply:
    await anyio.sleep_forever()
    return says("never")


def news(crew: Crew) -> list[str]:
    messages = [e.payload for e in crew.events() if isinstance(e.payload, Message)]
    return [plain_text(one.content) for one in messages if one.source == "agent"]


def test_the_call_ends_at_once_and_the_run_waits_for_its_agent(crew: Crew) -> None:
    released = anyio.Event()

    async def work(request: ModelRequest) -> Reply:
        await released.wait()
        return says("Found it.")

    async def goes_on(request: ModelRequest) -> Reply:
        released.set()
        return says("I have nothing else to do.")

    model = TypedModel(
        main=[calls(task("look", run_in_background=True)), goes_on, says("All is told.")],
        worker=[work],
    )
    result = crew.run(model)
    assert result.response == "All is told."
    assert "works in the background" in model.heard("", 1)
    assert "Found it." not in model.heard("", 1)
    assert "Found it." in model.heard("", 2)
    assert len(news(crew)) == 1


def test_an_end_is_told_once(crew: Crew) -> None:
    model = TypedModel(
        main=[calls(task("look", run_in_background=True)), calls(bash("true")), says("x")],
        worker=[says("Found.")],
    )
    crew.run(model)
    crew.run(TypedModel(main=[says("y")] * 9), "More.")
    assert len(news(crew)) == 1
    world = World()
    for event in crew.events():
        world.apply(event)
    assert world.open_agents == {}


def test_what_is_asked_for_with_task_output_is_not_told_again(crew: Crew) -> None:
    asked = anyio.Event()

    async def wait(request: ModelRequest) -> Reply:
        asked.set()
        return calls(output(crew.agent_ids()[0], wait=True))

    async def work(request: ModelRequest) -> Reply:
        await asked.wait()
        return says("Found.")

    model = TypedModel(
        main=[calls(task("look", run_in_background=True)), wait, says("x")], worker=[work]
    )
    crew.run(model)
    assert "Found." in model.heard("", 2)
    assert news(crew) == []


def test_task_output_tells_how_far_an_agent_is(crew: Crew) -> None:
    model = TypedModel(
        main=[
            calls(task("look", run_in_background=True)),
            calls(bash("true")),
            asks_about(crew, output),
            asks_about(crew, stop),
            says("x"),
        ],
        worker=[forever],
    )
    crew.run(model)
    assert "is at work: 1 steps, 0 calls" in model.heard("", 3)


def test_task_stop_ends_an_agent_and_what_it_did_stays(crew: Crew) -> None:
    model = TypedModel(
        main=[
            calls(task("look", run_in_background=True)),
            calls(bash("until [ -s counter ]; do sleep 0.01; done")),
            asks_about(crew, stop),
            says("x"),
        ],
        worker=[calls(bash("echo done >> counter")), forever],
    )
    result = crew.run(model)
    assert result.reason == "done"
    assert "was stopped after" in model.heard()
    assert crew.counted() == ["done"]
    assert [status for status, _ in crew.ends()] == ["spawned", "cancelled", "reported"]
    assert news(crew) == []


def test_a_run_that_need_not_wait_interrupts_its_agents(crew: Crew) -> None:
    crew.waits = False
    model = TypedModel(
        main=[calls(task("look", run_in_background=True)), says("Enough.")], worker=[forever]
    )
    assert crew.run(model).response == "Enough."
    assert crew.ends()[-1][0] == "interrupted"
    ends = [e.payload for e in crew.events(crew.agent_ids()[0]) if isinstance(e.payload, Terminal)]
    assert [end.reason for end in ends] == ["interrupted"]


def test_an_interrupted_agent_in_the_background_is_told_with_the_next_prompt(crew: Crew) -> None:
    crew.waits = False
    crew.run(TypedModel(main=[calls(task("look", run_in_background=True))], worker=[forever]))
    again = TypedModel(main=[says("x")] * 3)
    crew.run(again, "And?")
    assert "cut short" in again.heard()
    assert again.asked("worker") == 0


def test_many_agents_in_the_background_are_all_told(crew: Crew) -> None:
    asked = [task(str(number), run_in_background=True) for number in range(6)]
    model = TypedModel(main=[calls(*asked), says("x"), says("y")], worker=[says("Found.")])
    assert crew.run(model).reason == "done"
    assert len(news(crew)) == 6


def test_cancelled_with_an_agent_in_the_background(crew: Crew) -> None:
    async def main() -> None:
        with crew.open() as session:
            loop = crew.loop(
                session,
                TypedModel(
                    main=[calls(task("look", run_in_background=True)), forever], worker=[forever]
                ),
            )
            running = asyncio.ensure_future(loop.run("Go."))
            while len(crew.progress) < 3:
                await anyio.lowlevel.checkpoint()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert running.cancelled()
            loop.result("interrupted", session.state.world.usage)

    anyio.run(main)
    assert crew.ends()[-1][0] == "interrupted"


def test_steps_only_rise_while_agents_end_beside(crew: Crew) -> None:
    asked = [task(str(number), run_in_background=True) for number in range(4)]
    model = TypedModel(
        main=[calls(*asked), *[calls(bash("true"))] * 6, says("x")],
        worker=[calls(bash("true")), says("Found.")],
    )
    crew.run(model)
    steps = [event.step for event in crew.events()]
    assert steps == sorted(steps)


def test_an_end_is_told_once_also_when_the_process_dies_right_after_it(crew: Crew) -> None:
    model = TypedModel(
        main=[calls(task("look", run_in_background=True)), says("I wait."), says("x")],
        worker=[after_a_moment],
    )
    crew.run(model)
    transcript = crew.paths.transcript
    lines = transcript.read_bytes().splitlines(keepends=True)
    (told,) = [at for at, line in enumerate(lines) if b'"source":"agent"' in line]
    transcript.write_bytes(b"".join(lines[: told + 1]))
    crew.run(TypedModel(main=[says("y")] * 9), "More.")
    assert len(news(crew)) == 1


async def after_a_moment(request: ModelRequest) -> Reply:
    for _ in range(20):  # until the main agent has nothing to do but to wait
        await anyio.lowlevel.checkpoint()
    return says("Found it.")


def test_a_run_waits_for_agents_in_the_background_as_often_as_it_has_any(crew: Crew) -> None:
    rounds = 5  # more than a gate may send the model back for what is missing
    told = [anyio.Event() for _ in range(rounds)]
    asked = iter(told)

    async def work(request: ModelRequest) -> Reply:
        await next(asked).wait()
        return says("Found it.")

    def waits(number: int) -> Callable[[ModelRequest], Awaitable[Reply]]:
        async def answer(request: ModelRequest) -> Reply:
            told[number].set()
            return says(f"I wait for number {number}.")

        return answer

    answers = [calls(task("look", run_in_background=True)) for _ in told]
    waiting = [waits(number) for number in range(rounds)]
    script = [one for pair in zip(answers, waiting, strict=True) for one in pair]
    result = crew.run(TypedModel(main=[*script, says("All is told.")], worker=[work]))
    assert (result.reason, result.response) == ("done", "All is told.")
    assert len(news(crew)) == rounds


@pytest.mark.parametrize(
    ("is_gone", "said"),
    [
        pytest.param(True, "did NOT begin", id="before it began"),
        pytest.param(False, "Found it.", id="after it had answered"),
    ],
)
def test_killed_before_its_call_had_ended_only_the_calls_verdict_tells_of_it(
    crew: Crew, *, is_gone: bool, said: str
) -> None:
    asks = calls(task("look", run_in_background=True))
    crew.run(TypedModel(main=[asks, says("I wait.")], worker=[says("Found it.")]))
    transcript = crew.paths.transcript
    lines = transcript.read_bytes().splitlines(keepends=True)
    (spawned,) = [at for at, line in enumerate(lines) if b'"status":"spawned"' in line]
    transcript.write_bytes(b"".join(lines[: spawned + 1]))
    if is_gone:
        crew.paths.agent_transcript(crew.agent_ids()[0]).unlink()
    model = TypedModel(main=[says("x"), says("y")])
    crew.run(model, None)
    assert model.heard().count(said) == 1
    assert news(crew) == []
    world = World()
    for event in crew.events():
        world.apply(event)
    assert world.open_agents == {}


def test_an_agent_whose_conversation_was_left_does_not_go_on_until_that_is_undone(
    crew: Crew,
) -> None:
    die(crew, TypedModel(main=[says("first")]), "One.")
    before = [event.event_id for event in crew.events() if isinstance(event.payload, Message)][-1]

    async def dies_once_it_works(request: ModelRequest) -> Reply:
        while not crew.counted():  # noqa: ASYNC110  # a file tells nobody
            await anyio.sleep(0.01)
        os._exit(1)

    asks = calls(task("look", run_in_background=True))
    model = TypedModel(
        main=[says("first"), asks, dies_once_it_works],
        worker=[calls(bash("echo 1 >> counter")), forever],
    )
    die(crew, model, "Two.")
    with crew.open(resumes_agents=False) as session:
        session.rewind(before)
    left = TypedModel(main=[says("x")] * 9, worker=[says("y")] * 9)
    crew.run(left, "Three.")
    assert (left.asked("worker"), news(crew)) == (0, [])
    with crew.open(resumes_agents=False) as session:
        session.undo_rewind()
    again = TypedModel(main=[says("x")] * 9, worker=[says("y"), says("y"), says("Found it.")])
    crew.run(again, "Four.")
    assert again.asked("worker") > 0
    assert len(news(crew)) == 1
