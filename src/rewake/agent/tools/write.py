"""Write: a whole file, new or replaced."""

from __future__ import annotations

import msgspec

from rewake.agent.ports import Prepared, ToolContext, ToolInputError, ToolOutput, ToolSpec
from rewake.agent.tools import change
from rewake.agent.tools.arguments import parse
from rewake.agent.tools.paths import resolve
from rewake.model.content import JsonObject


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`content` is the whole new content; it is written as UTF-8."""

    file_path: str
    content: str


class WriteTool:
    """Creates a file with its directories, or replaces one that the model has read."""

    read_only = False
    spec = ToolSpec(
        name="Write",
        description=(
            "Writes a whole file: creates it together with missing directories, or replaces its "
            "content. An existing file must have been read before. Prefer Edit to change parts of "
            "an existing file."
        ),
        parameters={
            "type": "object",
            "properties": {
                "file_path": {
                    "type": "string",
                    "description": "Path of the file; relative paths start at the project's root.",
                },
                "content": {"type": "string", "description": "The whole content of the file."},
            },
            "required": ["file_path", "content"],
            "additionalProperties": False,
        },
    )

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:
        given = parse("Write", Arguments, arguments)
        target = resolve(given.file_path, context)
        now = change.current(target)
        change.require_read(target, now, context)
        try:
            data = given.content.encode()
        except UnicodeEncodeError as error:
            raise ToolInputError(
                f"content has a character that is no valid Unicode at position {error.start}; "
                "write it without."
            ) from error
        verb = "Create" if now.data is None else "Replace"
        asked, told = f"{verb} {target.shown}", f"{verb}d {target.shown}"
        return change.plan(call_id, target, now, data, asked=asked, told=told, context=context)

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:  # noqa: ARG002  # the port's
        # In this thread on purpose: a cancelled task must not leave a write going on behind it.
        return change.apply(prepared)
