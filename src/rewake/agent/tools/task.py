"""Task, TaskOutput and TaskStop: work for sub-agents."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rewake.agent.agent_types import DEFAULT_TYPE, AgentType
from rewake.agent.ports import Prepared, Tool, ToolContext, ToolInputError, ToolOutput, ToolSpec
from rewake.agent.subagents import NotBegunError, Subagents
from rewake.agent.tools.arguments import parse
from rewake.agent.workers import Assignment
from rewake.model.content import JsonObject
from rewake.model.events import AgentIntent, ReadOnlyIntent

_AGENT_ID: JsonObject = {"type": "string", "description": "The agent's id, as Task gave it."}


def task_tools(agents: Subagents) -> tuple[Tool, ...]:
    """The tools by which a loop has sub-agents."""
    return TaskTool(agents), TaskOutputTool(agents), TaskStopTool(agents)


class TaskArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model gives; an `agent` of None is the usual one."""

    description: str
    prompt: str
    agent: str | None = None
    run_in_background: bool = False
    resume: str | None = None


class TaskTool:
    """Gives a task to a sub-agent and answers with its last word."""

    read_only = True  # of its own it has no effect

    def __init__(self, agents: Subagents) -> None:
        self._agents = agents
        self.spec = _task_spec(agents.rules.types)

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:  # noqa: ARG002  # the port's
        given = parse("Task", TaskArguments, arguments)
        if not given.prompt.strip():
            raise ToolInputError("The prompt is empty: say what the agent is to do.")
        try:
            assignment = self._assignment(call_id, given)
        except NotBegunError as error:
            raise ToolInputError(str(error)) from error
        kind, task = assignment.kind.name, assignment.task
        return Prepared(
            intent=AgentIntent(assignment.agent_id),
            subject=kind,
            summary=f"{kind}: {task}" + (" (in the background)" if assignment.background else ""),
            preview=given.prompt,
            data=assignment,
        )

    def _assignment(self, call_id: str, given: TaskArguments) -> Assignment:
        types = self._agents.rules.types
        kind = types.get(given.agent or DEFAULT_TYPE)
        agent_id, task = given.resume or "", given.description.strip()
        if agent_id:
            kind, before = self._agents.origin(agent_id)
            task = task or before
            if kind is None:
                raise NotBegunError(f"The type of agent {agent_id} is not defined any more.")
        if kind is None:
            listed = ", ".join(types)
            raise NotBegunError(f"There is no agent type {given.agent!r}. Types: {listed}.")
        return Assignment(
            agent_id=agent_id or self._agents.new_id(),
            call_id=call_id,
            task=task or kind.name,
            prompt=given.prompt,
            kind=kind,
            background=given.run_in_background,
            resumes=bool(agent_id),
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:  # noqa: ARG002  # the port's
        if not isinstance(prepared.data, Assignment):
            raise TypeError("this call was not prepared by Task")
        return await self._agents.assign(prepared.data)


def _task_spec(types: Mapping[str, AgentType]) -> ToolSpec:
    listed = "\n".join(f"- {kind.name}: {kind.description}" for kind in types.values())
    return ToolSpec(
        name="Task",
        description=(
            "Gives a task to a sub-agent, which works on it in a conversation of its own and answers "
            "with its last word. It knows nothing of this conversation: put everything that it needs "
            "into the prompt. Call it several times in one answer to have tasks done side by side. "
            f"Types of agents:\n{listed}"
        ),
        parameters={
            "type": "object",
            "properties": {
                "description": {"type": "string", "description": "The task in three to six words."},
                "prompt": {"type": "string", "description": "The whole task."},
                "agent": {
                    "type": "string",
                    "enum": list(types),
                    "description": f"The type of agent; {DEFAULT_TYPE} by default.",
                },
                "run_in_background": {
                    "type": "boolean",
                    "description": "Go on at once; you are told when it ends.",
                },
                "resume": {
                    "type": "string",
                    "description": (
                        "The id of an earlier agent: it gets the prompt as a further message and "
                        "goes on with all that it knows."
                    ),
                },
            },
            "required": ["description", "prompt"],
            "additionalProperties": False,
        },
    )


class OutputArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which agent, and whether to wait for its end."""

    agent_id: str
    wait: bool = False


class TaskOutputTool:
    """Says how far an agent in the background is, or what came of it."""

    read_only = True
    spec = ToolSpec(
        name="TaskOutput",
        description=(
            "Says how far an agent in the background is, or gives its last word when it has ended."
        ),
        parameters={
            "type": "object",
            "properties": {
                "agent_id": _AGENT_ID,
                "wait": {"type": "boolean", "description": "Wait until it has ended."},
            },
            "required": ["agent_id"],
            "additionalProperties": False,
        },
    )

    def __init__(self, agents: Subagents) -> None:
        self._agents = agents

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:  # noqa: ARG002  # the port's
        given = parse("TaskOutput", OutputArguments, arguments)
        return Prepared(ReadOnlyIntent(), "", f"Look at agent {given.agent_id}", data=given)

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:  # noqa: ARG002  # the port's
        if not isinstance(prepared.data, OutputArguments):
            raise TypeError("this call was not prepared by TaskOutput")
        return await self._agents.output(prepared.data.agent_id, wait=prepared.data.wait)


class StopArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which agent."""

    agent_id: str


class TaskStopTool:
    """Ends an agent in the background."""

    read_only = True
    spec = ToolSpec(
        name="TaskStop",
        description="Ends an agent in the background. What it has done stays done.",
        parameters={
            "type": "object",
            "properties": {"agent_id": _AGENT_ID},
            "required": ["agent_id"],
            "additionalProperties": False,
        },
    )

    def __init__(self, agents: Subagents) -> None:
        self._agents = agents

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:  # noqa: ARG002  # the port's
        given = parse("TaskStop", StopArguments, arguments)
        return Prepared(ReadOnlyIntent(), "", f"Stop agent {given.agent_id}", data=given)

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:  # noqa: ARG002  # the port's
        if not isinstance(prepared.data, StopArguments):
            raise TypeError("this call was not prepared by TaskStop")
        return await self._agents.stop(prepared.data.agent_id)
