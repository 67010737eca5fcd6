"""The calls of an answer: which run, in which order, and what the model is told of each."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.agent.doubles import Body, DoubleTool, ScriptedModel, agent, calls, text

import rewake
from rewake.agent.permissions import Permissions
from rewake.agent.ports import ModelRequest, Reply, ToolContext, ToolOutput
from rewake.errors import StorageError
from rewake.log.scan import Transcript
from rewake.model.content import ToolCall
from rewake.model.events import Event, Intent, ToolLifecycle
from rewake.session.action import FileChange


def phases(session: rewake.Session) -> list[tuple[str, str]]:
    assert session.transcript is not None
    session.flush()
    with Transcript(session.transcript) as reader:
        found = [item.payload for item in reader.forward() if isinstance(item, Event)]
    return [(p.tool_name, p.status) for p in found if isinstance(p, ToolLifecycle)]


def barrier(parties: int) -> Body:
    """A body that ends only once this many calls are in it at the same time."""
    inside: list[str] = []
    everybody = anyio.Event()

    async def body(call_id: str) -> str:
        inside.append(call_id)
        if len(inside) == parties:
            everybody.set()
        await everybody.wait()
        return f"done {inside.index(call_id)}"

    return body


def test_calls_that_only_read_run_side_by_side(session: rewake.Session) -> None:
    one = DoubleTool("one", read_only=True)
    answers = calls("read", "read", "read")

    async def meet(request: ModelRequest) -> Reply:
        one._body = barrier(3)
        return answers

    model = ScriptedModel(meet, text("end"))
    one.spec = DoubleTool("read").spec
    assert agent(session, model, [one]).run().reason == "done"
    assert sorted(model.heard()[2].split()) == ["0", "1", "2", "done", "done", "done"]


def test_calls_with_effects_run_one_by_one_in_their_order(session: rewake.Session) -> None:
    active = 0
    order: list[str] = []

    def body(name: str) -> Body:
        async def run(call_id: str) -> str:
            nonlocal active
            active += 1
            assert active == 1
            await anyio.lowlevel.checkpoint()
            order.append(name)
            active -= 1
            return name

        return run

    tools = [DoubleTool(name, body(name)) for name in ("a", "b", "c")]
    used = agent(session, ScriptedModel(calls("c", "a", "b", "a"), text("end")), tools)
    assert used.run().reason == "done"
    assert order == ["c", "a", "b", "a"]
    statuses = [status for _, status in phases(session)]
    assert statuses == ["requested"] * 4 + ["started", "completed"] * 4


def test_reads_on_both_sides_of_an_effect_do_not_pass_it(session: rewake.Session) -> None:
    order: list[str] = []

    def body(name: str) -> Body:
        async def run(call_id: str) -> str:
            await anyio.lowlevel.checkpoint()
            order.append(name)
            return name

        return run

    tools = [
        DoubleTool("read", body("read"), read_only=True),
        DoubleTool("write", body("write")),
    ]
    names = ("read", "read", "write", "read", "write")
    assert agent(session, ScriptedModel(calls(*names)), tools).run().reason == "done"
    assert tuple(order) == names


def test_results_stand_in_the_order_of_the_calls_whatever_ends_first(
    session: rewake.Session,
) -> None:
    second_done = anyio.Event

    async def run(request: ModelRequest) -> Reply:
        ended = second_done()

        async def first(call_id: str) -> str:
            await ended.wait()
            return "first"

        async def second(call_id: str) -> str:
            ended.set()
            return "second"

        tools[0]._body, tools[1]._body = first, second
        return calls("first", "second")

    tools = [DoubleTool("first", read_only=True), DoubleTool("second", read_only=True)]
    model = ScriptedModel(run, text("end"))
    agent(session, model, tools).run()
    assert model.heard()[2] == "\nfirst\nsecond"


def test_an_unknown_tool_is_told_with_those_there_are(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(calls("nonsense"), text("end")), [DoubleTool("look")])
    assert used.run().reason == "done"
    assert "There is no tool 'nonsense'. Tools: look." in used.model.heard()[-1]
    assert phases(session) == [("nonsense", "requested"), ("nonsense", "failed")]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (ToolCall("x", "look", arguments_text="{not json"), "no JSON object"),
        (ToolCall("x", "look", {"bad": 1}), "bad is no argument"),
    ],
)
def test_arguments_that_cannot_be_used_are_told_and_nothing_is_started(
    session: rewake.Session, call: ToolCall, told: str
) -> None:
    tool = DoubleTool("look")
    used = agent(session, ScriptedModel(calls(call), text("end")), [tool])
    assert used.run().reason == "done"
    assert told in used.model.heard()[-1]
    assert tool.ran == []
    assert phases(session) == [("look", "requested"), ("look", "failed")]


@pytest.mark.parametrize("read_only", [True, False])
def test_a_tool_that_breaks_while_it_checks_its_arguments_costs_only_its_call(
    session: rewake.Session, *, read_only: bool
) -> None:
    def fail(arguments: dict[str, object]) -> None:
        raise PermissionError("can't look")

    tools = [DoubleTool("broken", read_only=read_only, prepare=fail), DoubleTool("fine")]
    used = agent(session, ScriptedModel(calls("broken", "broken", "fine"), text("end")), tools)
    assert used.run().reason == "done"
    told = used.model.heard()[-1]
    assert told.count("PermissionError: can't look") == 2
    assert told.endswith("ok")
    assert ("broken", "started") not in phases(session)


def test_a_denied_call_is_told_and_not_started(session: rewake.Session) -> None:
    tool = DoubleTool("write")
    used = agent(
        session,
        ScriptedModel(calls("write"), text("end")),
        [tool],
        permissions=Permissions("default"),
    )
    assert used.run().reason == "done"
    assert "needs the user's permission" in used.model.heard()[-1]
    assert (tool.ran, phases(session)) == ([], [("write", "requested"), ("write", "failed")])


async def break_down(call_id: str) -> str:
    raise RuntimeError("broken tool")


def test_a_tool_that_raises_without_evidence_is_unknown(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(calls("odd"), text("end")), [DoubleTool("odd", break_down)])
    assert used.run().reason == "done"
    assert "RuntimeError: broken tool" in used.model.heard()[-1]
    assert "NOT KNOWN" in used.model.heard()[-1]
    assert phases(session)[-1] == ("odd", "resolved")


@pytest.mark.parametrize(
    ("content", "told"), [("new", "WAS applied"), (None, "NOT applied"), ("ne", "PARTLY")]
)
def test_the_file_decides_about_a_tool_that_raised_while_writing_it(
    session: rewake.Session, project: Path, content: str | None, told: str
) -> None:
    target = project / "a"

    def intent(context: ToolContext) -> Intent:
        return session.frozen_intent(FileChange(target, None, "new"))

    async def body(call_id: str) -> str:
        if content is not None:
            target.write_text(content)
        raise OSError("lost the disk")

    tool = DoubleTool("edit", body, intent=intent)
    used = agent(session, ScriptedModel(calls("edit"), text("end")), [tool])
    assert used.run().reason == "done"
    assert told in used.model.heard()[-1]
    known = session.read_hash(str(target))
    assert (known is not None) is (content == "new")


def test_one_read_that_raises_does_not_touch_its_neighbours(session: rewake.Session) -> None:
    tools = [DoubleTool("bad", break_down, read_only=True), DoubleTool("good", read_only=True)]
    used = agent(session, ScriptedModel(calls("good", "bad", "good"), text("end")), tools)
    assert used.run().reason == "done"
    assert used.model.heard()[-1].startswith("\nok\n")
    assert used.model.heard()[-1].endswith("\nok")


def test_an_error_output_is_an_answer_like_any_other(session: rewake.Session) -> None:
    async def body(call_id: str) -> ToolOutput:
        return ToolOutput((rewake.Text("exit 1"),), is_error=True)

    used = agent(session, ScriptedModel(calls("t"), text("end")), [DoubleTool("t", body)])
    assert used.run().reason == "done"
    assert used.watch.results == [("t", "exit 1", True)]
    assert phases(session)[-1] == ("t", "failed")


def test_an_output_that_says_nothing_is_told_as_such(session: rewake.Session) -> None:
    async def body(call_id: str) -> ToolOutput:
        return ToolOutput(())

    used = agent(session, ScriptedModel(calls("t"), text("end")), [DoubleTool("t", body)])
    assert used.run().reason == "done"
    assert used.model.heard()[-1] == "\n(no output)"


def test_a_tool_that_cannot_keep_a_fact_ends_the_run_before_the_next_effect(
    session: rewake.Session,
) -> None:
    async def body(call_id: str) -> str:
        raise StorageError("disk full", path="/x", remedy="Free some space.")

    tools = [DoubleTool("full", body), DoubleTool("next")]
    used = agent(session, ScriptedModel(calls("full", "next"), text("end")), tools)
    result = used.run()
    assert (result.reason, tools[1].ran) == ("storage_error", [])
    assert len(used.model.requests) == 1


def test_an_outcome_that_no_line_can_hold_settles_its_call_by_evidence(
    session: rewake.Session,
) -> None:
    async def body(call_id: str) -> ToolOutput:
        outcome = rewake.Outcome(details={"number": float("nan")})
        return ToolOutput((rewake.Text("odd"),), outcome=outcome)

    used = agent(session, ScriptedModel(calls("t"), text("end")), [DoubleTool("t", body)])
    assert used.run().reason == "done"
    assert phases(session)[-1] == ("t", "resolved")


def test_the_same_provider_id_in_every_turn_gets_the_right_answers(
    session: rewake.Session,
) -> None:
    numbers = iter(range(100))

    async def body(call_id: str) -> str:
        return f"answer {next(numbers)}"

    tool = DoubleTool("t", body)
    model = ScriptedModel(*(calls("t", "t") for _ in range(5)), text("end"))
    assert agent(session, model, [tool]).run().reason == "done"
    answers = [said.split("\n")[1:] for said in model.heard() if "answer" in said]
    assert answers == [[f"answer {2 * n}", f"answer {2 * n + 1}"] for n in range(5)]
    assert len(set(tool.ran)) == 10
