"""Glob: files by the pattern of their path."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio.to_thread
import msgspec

from rewake.agent.ports import Prepared, ToolContext, ToolInputError, ToolOutput, ToolSpec
from rewake.agent.tools.arguments import parse
from rewake.agent.tools.paths import allowed_root, shown
from rewake.agent.tools.walk import Walk, name_pattern
from rewake.model.content import JsonObject, Text
from rewake.model.events import ReadOnlyIntent

_SECONDS_MAX: Final = 20
_FOUND_MAX: Final = 500


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`path` is the directory to search, the project by default."""

    pattern: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    root: Path
    pattern: re.Pattern[str]


class GlobTool:
    """Finds files by name; what Git ignores is left out."""

    read_only = True
    spec = ToolSpec(
        name="Glob",
        description=(
            "Finds files by a pattern of their path, such as src/**/*.py or *.{ts,tsx}. A pattern "
            "without a slash is matched in every directory. Files that Git ignores are left out. "
            f"Gives at most {_FOUND_MAX} paths, sorted."
        ),
        parameters={
            "type": "object",
            "properties": {
                "pattern": {"type": "string", "description": "The pattern of the path."},
                "path": {
                    "type": "string",
                    "description": "Directory to search. Default: the project's root.",
                },
            },
            "required": ["pattern"],
            "additionalProperties": False,
        },
    )

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:  # noqa: ARG002  # the port's
        given = parse("Glob", Arguments, arguments)
        root = allowed_root(given.path, context)
        pattern = given.pattern
        inside = f"{root}/"
        if pattern.startswith(inside):
            pattern = f"./{pattern[len(inside) :]}"
        elif pattern.startswith("/"):
            raise ToolInputError(f"{pattern} is not below {root}; give its directory as path.")
        try:
            plan = _Plan(root, name_pattern(pattern))
        except ValueError as error:
            raise ToolInputError(f"{error}.") from error
        where = shown(str(root), context)
        return Prepared(
            intent=ReadOnlyIntent(),
            subject=where,
            summary=f"Find {given.pattern} in {where}",
            data=plan,
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:
        plan = prepared.data
        if not isinstance(plan, _Plan):
            raise TypeError("this call was not prepared by Glob")
        return await anyio.to_thread.run_sync(_find, plan, context, abandon_on_cancel=True)


def _find(plan: _Plan, context: ToolContext) -> ToolOutput:
    if not plan.root.is_dir():
        message = f"{shown(str(plan.root), context)} is no directory."
        return ToolOutput((Text(message),), is_error=True)
    walk = Walk(plan.root, time.monotonic() + _SECONDS_MAX)
    found: list[str] = []
    for path in walk.files():
        relative = os.path.relpath(path, plan.root).replace(os.sep, "/")
        name = shown(path, context)
        if plan.pattern.match(relative) and not context.forbids("Glob", name):
            found.append(name)
            if len(found) == _FOUND_MAX:
                walk.stopped = f"only the first {_FOUND_MAX} are shown; narrow the pattern"
                break
    lines = [_printable(path) for path in found] or ["No file matches."]
    if walk.stopped:
        lines.append(f"[{walk.stopped}]")
    return ToolOutput((Text("\n".join(lines)),))


def _printable(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "replace")
