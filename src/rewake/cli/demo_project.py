"""The scratch project of `rewake demo`, and the one place that the embedded model may edit in it.

The embedded model has 135 million parameters: it can decide to edit and find the words, but not copy
a path and a line exactly. So for it alone the demo narrows Edit by its schema to one file and one
old text (`--demo-project`, a hidden option of `-p`); which words go there is the model's own choice.
Everything else is the real thing: the tool, the session, the kill. The output says so.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rewake.agent.ports import Prepared, Tool, ToolContext, ToolSpec
from rewake.agent.tools.edit import EditTool
from rewake.model.content import JsonObject

FILE_NAME: Final = "greeting.txt"
OLD: Final = "GREETING"
CONTENT: Final = f"{OLD}\n\nWritten by an agent that was killed while it wrote the line above.\n"
PROMPT: Final = f"Replace {OLD} in {FILE_NAME} with a friendly greeting."

_PARAMETERS: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "file_path": {"type": "string", "const": FILE_NAME},
        "edits": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "old_string": {"type": "string", "const": OLD},
                    "new_string": {"type": "string", "maxLength": 80},
                },
                "required": ["old_string", "new_string"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["file_path", "edits"],
    "additionalProperties": False,
}


def make_project(directory: Path) -> Path:
    """Write the project's only file; returns its path."""
    path = directory / FILE_NAME
    path.write_text(CONTENT)
    return path


def narrowed_tools() -> tuple[Tool, ...]:
    """Edit alone, and only in its one place."""
    return (NarrowedEdit(),)


class NarrowedEdit(EditTool):
    """Edit with a schema that leaves one thing open: the new words."""

    spec = ToolSpec(EditTool.spec.name, EditTool.spec.description, _PARAMETERS)

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:
        # The prompt names all that may be changed, so the file counts as read as it is now.
        return super().prepare(call_id, arguments, replace(context, files=_AsItIs()))


@dataclass(frozen=True, slots=True)
class _AsItIs:
    def read_hash(self, path: str) -> str | None:
        """The hash of what is there."""
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
