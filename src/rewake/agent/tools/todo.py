"""TodoWrite: the model's own list of what is left to do."""

from __future__ import annotations

import msgspec

from rewake.agent.ports import Prepared, ToolContext, ToolOutput, ToolSpec
from rewake.agent.tools.arguments import parse
from rewake.model.content import JsonObject, Text
from rewake.model.events import Outcome, ReadOnlyIntent, Todo


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole list; it replaces the one before."""

    todos: list[Todo]


class TodoWriteTool:
    """Replaces the todo list, which is a fold of such calls and survives a resume."""

    read_only = True
    spec = ToolSpec(
        name="TodoWrite",
        description=(
            "Replaces the todo list. Use it to plan work of several steps and to keep track: give "
            "the whole list each time, with one item in_progress, and mark items completed as soon "
            "as they are done."
        ),
        parameters={
            "type": "object",
            "properties": {
                "todos": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "content": {"type": "string", "description": "What is to be done."},
                            "status": {
                                "type": "string",
                                "enum": ["pending", "in_progress", "completed", "cancelled"],
                            },
                        },
                        "required": ["content", "status"],
                        "additionalProperties": False,
                    },
                }
            },
            "required": ["todos"],
            "additionalProperties": False,
        },
    )

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:  # noqa: ARG002  # the port's
        todos = tuple(parse("TodoWrite", Arguments, arguments).todos)
        count = f"{len(todos)} item{'s' if len(todos) != 1 else ''}"
        return Prepared(
            intent=ReadOnlyIntent(),
            subject="",
            summary=f"Set the todo list: {count}",
            serial_keys=("todos",),  # the last of several lists must be the last to be recorded
            data=todos,
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:  # noqa: ARG002  # the port's
        todos = prepared.data
        if not isinstance(todos, tuple):
            raise TypeError("this call was not prepared by TodoWrite")
        left = sum(todo.status in {"pending", "in_progress"} for todo in todos)
        return ToolOutput(
            (
                Text(
                    f"The todo list has {len(todos)} item{'s' * (len(todos) != 1)}, {left} of them open."
                ),
            ),
            outcome=Outcome(todos=todos),
        )
