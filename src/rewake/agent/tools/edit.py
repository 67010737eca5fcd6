"""Edit: exact replacements in a file that the model has read, all in one write."""

from __future__ import annotations

import msgspec

from rewake.agent.ports import Prepared, ToolContext, ToolInputError, ToolOutput, ToolSpec
from rewake.agent.tools import change
from rewake.agent.tools import text as text_files
from rewake.agent.tools.arguments import parse
from rewake.agent.tools.paths import missing, resolve
from rewake.agent.tools.replace import Edit, replace
from rewake.model.content import JsonObject


class Replacement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One replacement as a model writes it."""

    old_string: str
    new_string: str
    replace_all: bool = False


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Either `edits`, or a single pair at the top level, which many models know from elsewhere."""

    file_path: str
    edits: list[Replacement] = []
    old_string: str | None = None
    new_string: str | None = None
    replace_all: bool = False


class EditTool:
    """Replaces exact text; all edits of a call are applied together or not at all."""

    read_only = False
    spec = ToolSpec(
        name="Edit",
        description=(
            "Replaces exact pieces of text in a file that was read before. Each old_string must "
            "occur exactly once (or set replace_all) and is matched against the file as it is now, "
            "so edits must not overlap. All edits are applied in one step, or none. Write plain "
            "newlines; the file's line endings and encoding are kept."
        ),
        parameters={
            "type": "object",
            "properties": {
                "file_path": {
                    "type": "string",
                    "description": "Path of the file; relative paths start at the project's root.",
                },
                "edits": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "properties": {
                            "old_string": {
                                "type": "string",
                                "description": "Text to replace, exactly as in the file, without "
                                "the line numbers of Read.",
                            },
                            "new_string": {"type": "string", "description": "Text to put there."},
                            "replace_all": {
                                "type": "boolean",
                                "description": "Replace every occurrence. Default: false.",
                            },
                        },
                        "required": ["old_string", "new_string"],
                        "additionalProperties": False,
                    },
                },
            },
            "required": ["file_path", "edits"],
            "additionalProperties": False,
        },
    )

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:
        given = parse("Edit", Arguments, arguments)
        edits = _edits(given)
        target = resolve(given.file_path, context)
        now = change.current(target)
        if now.data is None:
            raise ToolInputError(f"{missing(target, context)} Use Write to create a file.")
        change.require_read(target, now, context)
        decoded = text_files.decode(now.data)
        if decoded is None:
            raise ToolInputError(f"{target.shown} is binary; Edit changes text files only.")
        data, count = replace(decoded, edits)
        what = f"{target.shown}: {count} replacement{'s' if count != 1 else ''}"
        return change.plan(
            call_id, target, now, data, asked=f"Edit {what}", told=f"Edited {what}", context=context
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:  # noqa: ARG002  # the port's
        # In this thread on purpose: a cancelled task must not leave a write going on behind it.
        return change.apply(prepared)


def _edits(given: Arguments) -> list[Edit]:
    edits = [Edit(one.old_string, one.new_string, one.replace_all) for one in given.edits]
    if given.old_string is not None and given.new_string is not None:
        edits.append(Edit(given.old_string, given.new_string, given.replace_all))
    elif given.old_string is not None or given.new_string is not None:
        raise ToolInputError("Give both old_string and new_string, or a list of edits.")
    if not edits:
        raise ToolInputError("Give at least one edit with old_string and new_string.")
    return edits
