"""What works beside the loop: attendants before requests, gates at the end, guards around calls."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from tests.agent.doubles import DoubleTool, ScriptedModel, agent, calls, text

import rewake
from rewake.agent.ports import Prepared, Tool, ToolOutput
from rewake.errors import StorageError


@dataclass
class Notes:
    """An attendant that says what it hears of."""

    session: rewake.Session
    heard: list[str | None] = field(default_factory=list)

    async def on_prompt(self, prompt: str | None) -> None:
        self.heard.append(prompt)
        self.session.user("A note on that.", source="memory")

    async def before_request(self) -> None:
        self.heard.append("request")


@dataclass
class Reasons:
    """A gate that holds back once per reason."""

    reasons: list[str]

    async def holds_back(self) -> str | None:
        return self.reasons.pop(0) if self.reasons else None


@dataclass
class Warden:
    """A guard that refuses the tools it is told to and signs the others' results."""

    refused: str = ""

    async def before(self, tool: Tool, prepared: Prepared) -> str | None:
        return "Not this one." if tool.spec.name == self.refused else None

    async def after(self, tool: Tool, prepared: Prepared, output: ToolOutput) -> ToolOutput:
        return replace(output, content=(*output.content, rewake.Text("seen")))


def test_what_an_attendant_says_is_in_the_request_that_follows(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(calls("look"), text("Done.")), [DoubleTool("look")])
    notes = Notes(session)
    used.loop.attendants = (notes,)
    used.run("Hi")
    assert notes.heard == ["Hi", "request", "request"]
    assert used.model.heard(0) == ["Hi", "A note on that."]


def test_a_gate_sends_the_model_back_until_it_has_no_reason_left(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(text("Done."), text("Really."), text("Now.")))
    used.loop.gates = (Reasons(["Two things are open."]), Reasons(["One is open."]))
    result = used.run("Hi")
    assert (result.reason, result.response, result.steps) == ("done", "Now.", 3)
    assert "Two things are open." in used.model.heard(1)
    assert "One is open." in used.model.heard(2)


def test_gates_hold_a_run_back_only_so_often(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(*[text("Done.")] * 9))
    used.loop.gates = (Reasons(["Again."] * 9),)
    assert used.run("Hi").steps == 1 + used.loop.held_back_max
    assert used.run("More").steps == 1 + used.loop.held_back_max


def test_a_guard_refuses_a_call_before_it_is_recorded_as_started(session: rewake.Session) -> None:
    tool = DoubleTool("change")
    used = agent(session, ScriptedModel(calls("change"), text("Done.")), [tool])
    used.loop.executor.guards = (Warden("change"),)
    used.run("Hi")
    assert tool.ran == []
    assert "Not this one." in used.model.heard()[-1]


def test_what_a_guard_adds_is_recorded_and_told(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(calls("look"), text("Done.")), [DoubleTool("look")])
    used.loop.executor.guards = (Warden(),)
    used.run("Hi")
    assert used.model.heard()[-1].endswith("seen")


def test_a_fact_that_an_attendant_can_not_record_ends_the_run(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(text("Done.")))
    notes = Notes(session)

    async def fails(prompt: str | None) -> None:
        raise StorageError("The disk is full.", path="x", remedy="Make room.")

    notes.on_prompt = fails  # type: ignore[method-assign]  # the double of a full disk
    used.loop.attendants = (notes,)
    assert used.run("Hi").reason == "storage_error"
    assert used.model.requests == []


@pytest.mark.parametrize("kind", ["gates", "attendants"])
def test_a_loop_without_them_is_as_before(session: rewake.Session, kind: str) -> None:
    used = agent(session, ScriptedModel(text("Done.")))
    assert getattr(used.loop, kind) == ()
    assert used.run("Hi").steps == 1
