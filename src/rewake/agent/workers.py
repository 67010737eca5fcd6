"""One sub-agent at work: what it was asked, how far it has come, what is told of it in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import anyio

from rewake.agent.agent_types import AgentType
from rewake.agent.loop import Loop
from rewake.agent.ports import Prepared, Reply
from rewake.model.events import Outcome
from rewake.resume.sidechains import Sidechain, in_its_words, left_running, told

ProgressStatus = Literal["waiting", "running", "completed", "failed", "cancelled", "interrupted"]


@dataclass(frozen=True, slots=True)
class AgentProgress:
    """How far an agent has come, for who watches. `doing` is its newest call in a few words."""

    agent_id: str
    agent_type: str
    task: str
    status: ProgressStatus
    depth: int = 1
    steps: int = 0
    calls: int = 0
    doing: str = ""
    background: bool = False


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a Task call asks for. With `resumes` the agent is one that ended or was interrupted."""

    agent_id: str
    call_id: str
    task: str
    prompt: str
    kind: AgentType
    background: bool = False
    resumes: bool = False


@dataclass(slots=True)
class Worker:
    """One agent at work. It watches its own loop; `loop` is None before and after that runs."""

    assignment: Assignment
    depth: int
    told_progress: Callable[[AgentProgress], None]
    tell_user: Callable[[str], None]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)
    status: ProgressStatus = "waiting"
    is_stopped: bool = False
    loop: Loop | None = None
    steps: int = 0
    calls: int = 0
    doing: str = ""

    def progress(self) -> AgentProgress:
        """How far it has come."""
        what = self.assignment
        return AgentProgress(
            *(what.agent_id, what.kind.name, what.task, self.status, self.depth),
            *(self.steps, self.calls, self.doing, what.background),
        )

    def tell(self, status: ProgressStatus) -> None:
        """Say how far it has come."""
        self.status = status
        self.told_progress(self.progress())

    def on_request(self) -> None:
        """See `Observer`."""
        self.steps += 1
        self.tell(self.status)

    def on_text(self, text: str) -> None:
        """See `Observer`: what it says on the way is in its transcript."""

    def on_answer(self, reply: Reply) -> None:
        """See `Observer`."""

    def on_notice(self, text: str) -> None:
        """See `Observer`."""
        self.tell_user(f"[{self.assignment.kind.name}: {self.assignment.task}] {text}")

    def on_call(self, tool_name: str, prepared: Prepared) -> None:
        """See `CallObserver`."""
        self.calls += 1
        self.doing = f"{tool_name} {prepared.summary}"
        self.tell(self.status)

    def on_result(
        self,
        tool_name: str,
        text: str,
        *,
        is_error: bool,
        prepared: Prepared | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        """See `CallObserver`."""


def came_of(found: Sidechain) -> str:
    """What the model is told of an agent that is not at work."""
    if found.state in {"done", "failed"}:
        return told(found)
    if found.state == "unreadable":
        return f"The transcript of the agent {found.agent_id} can't be read: {found.reason}"
    if found.state in {"absent", "idle"}:
        return f"The agent {found.agent_id} was never given this task: nothing of it was done."
    steps = f"{found.steps} step{'s' * (found.steps != 1)}"
    return (
        f"The agent {found.agent_id} was cut short after {steps}. What it did is done. Task with "
        f"resume set to {found.agent_id} lets it go on where it stopped."
        f"{left_running(found)}{in_its_words(found)}"
    )
