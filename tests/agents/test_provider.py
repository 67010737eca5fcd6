"""Sub-agents over the real client library and a double that refuses what providers refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import anyio
import pytest
from tests.agents.crew import Crew, TypedModel

from rewake.agent.loop import RunResult
from rewake.agent.ports import ModelRequest, Reply
from rewake.agent.providers.pydantic_ai_model import PydanticAiModel
from rewake.script import ScriptedCall, Turn, agent_in, who_it_is
from rewake.testing.provider_server import provider_server

MODELS = {"anthropic": "anthropic:claude-sonnet-5-5", "openai": "openai:gpt-6.1-sol"}


def task(name: str, agent: str) -> ScriptedCall:
    return ScriptedCall("Task", {"description": name, "prompt": f"Do {name}.", "agent": agent})


TURNS = (
    Turn("I delegate.", (task("one", "worker"), task("two", "explorer"))),
    Turn("All done."),
    Turn("", (ScriptedCall("Bash", {"command": "echo 1 >> counter"}),), agent="worker"),
    Turn("", (task("below", "explorer"),), agent="worker"),
    Turn("Worked.", agent="worker"),
    Turn("", (ScriptedCall("Glob", {"pattern": "*"}),), agent="explorer"),
    Turn("Seen.", agent="explorer"),
)


class Passing(TypedModel):
    """Hands every request to the model that is opened with the session."""

    def __init__(self, model: PydanticAiModel) -> None:
        super().__init__()
        self._model = model

    async def request(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        return await self._model.request(request, on_text)


@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
def test_every_request_of_parent_and_children_is_accepted(
    crew: Crew, protocol: Literal["anthropic", "openai"]
) -> None:
    with provider_server(TURNS) as server:
        environ = {
            "ANTHROPIC_API_KEY": "k",
            "OPENAI_API_KEY": "k",
            "ANTHROPIC_BASE_URL": server.anthropic_url,
            "OPENAI_BASE_URL": server.openai_url,
        }

        async def run() -> RunResult:
            with crew.open() as session, anyio.fail_after(60):
                model = PydanticAiModel.named(MODELS[protocol], environ, session.blobs)
                try:
                    return await crew.loop(session, Passing(model)).run("Go.")
                finally:
                    await model.close()

        result = anyio.run(run)
    assert (result.reason, result.response) == ("done", "All done.")
    assert [request.violations for request in server.requests if request.violations] == []
    assert {request.agent for request in server.requests} == {"", "worker", "explorer"}
    assert crew.counted() == ["1"]
    assert len(crew.agent_ids()) == 3


def test_who_asks_is_told_by_the_system_prompt() -> None:
    assert agent_in(f"Be good.\n\n{who_it_is('my-type')}: another agent …") == "my-type"
    assert agent_in("You are a sub-agent of some kind.") == ""
