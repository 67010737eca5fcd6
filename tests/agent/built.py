"""The agent as it is put together for users, with a model that answers from a list."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
from tests.agent.doubles import ScriptedModel, Watch

import rewake
from rewake.agent.loop import Loop, RunResult
from rewake.compose.agents import AgentOptions, build_agent
from rewake.log.scan import Transcript
from rewake.model.content import JsonObject, ToolCall
from rewake.model.events import Event, ToolLifecycle
from rewake.settings.schema import Settings


class Built:
    """One run of the whole agent over a session."""

    def __init__(
        self,
        session: rewake.Session,
        model: ScriptedModel,
        settings: Settings | None = None,
        options: AgentOptions | None = None,
    ) -> None:
        self.session = session
        self.model = model
        self.watch = Watch()
        self.loop: Loop = build_agent(
            session,
            model,
            self.watch,
            settings or Settings(),
            options or AgentOptions(permission_mode="bypass"),
            cwd=Path(session.root),
        )

    def run(self, prompt: str | None = "go") -> RunResult:
        """One run to its end; a test that hangs fails."""

        async def guarded() -> RunResult:
            with anyio.fail_after(60):
                return await self.loop.run(prompt)

        return anyio.run(guarded)


def tool(name: str, **arguments: object) -> ToolCall:
    return ToolCall("call_1", name, dict(arguments))


def phases(session: rewake.Session, *statuses: str) -> list[ToolLifecycle]:
    """The lines of calls in the transcript that have one of these statuses."""
    assert session.transcript is not None
    session.flush()
    with Transcript(session.transcript) as reader:
        found = [item.payload for item in reader.forward() if isinstance(item, Event)]
    return [p for p in found if isinstance(p, ToolLifecycle) and p.status in statuses]


def terminal_of(session: rewake.Session) -> JsonObject:
    """What the transcript says of the end of the run."""
    assert session.transcript is not None
    last = json.loads(session.transcript.read_bytes().split(b"\n")[-2])
    assert last["event_type"] == "terminal"
    payload = last["payload"]
    assert isinstance(payload, dict)
    return payload
