"""Types of sub-agents that users define in Markdown: `agents/NAME.md`.

The rule kept here: a file that can't be used is a problem with its place, and the rest is used all the
same; what a file says can take tools away and never permits anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rewake.agent.agent_types import BUILT_IN, AgentType
from rewake.agent.written import Problem, Root, Written, written
from rewake.memory.frame import inert

_KIND: Final = "agents"
_NAME: Final = re.compile(r"[\w][\w.-]{0,63}")
_DESCRIPTION_CHARS_MAX: Final = 1_024
_PROMPT_CHARS_MAX: Final = 60_000  # about 15,000 tokens of every request
_MAX_STEPS: Final = 10_000
# Files written for other agents name models that mean nothing here; such an agent has its parent's.
_PARENTS_MODEL: Final = frozenset({"", "inherit", "default", "sonnet", "opus", "haiku"})


def load_types(roots: Sequence[Root]) -> tuple[dict[str, AgentType], tuple[Problem, ...]]:
    """The built-in types and those in `agents/*.md` below the roots, which are given nearest first.

    The nearest of one name is the one, before a built-in of that name too. A file that can't be used
    is a problem and never an error.
    """
    problems: list[Problem] = []
    found: dict[str, AgentType] = {}
    for root in roots:
        for one in written(root, _KIND, None, problems):
            kind = _type_in(one, problems)
            if kind is None:
                continue
            if kind.name in found and found[kind.name].path not in {None, one.path}:
                where = found[kind.name].path
                problems.append(Problem(one.path, 0, f"{kind.name} is defined nearer, in {where}"))
                continue
            found[kind.name] = kind
    return {**BUILT_IN, **found}, tuple(problems)


def _type_in(one: Written, problems: list[Problem]) -> AgentType | None:
    document = one.document

    def refuse(key: str, message: str) -> None:
        problems.append(Problem(one.path, _line_of(one.path, key), message))

    name = document.text("name") or one.path.stem
    description = " ".join(inert(document.text("description")).split())
    prompt = document.body.strip()
    steps = document.fields.get("max_steps")
    if _NAME.fullmatch(name) is None:
        refuse("name", f"{name!r} is no name for a type of agents: use letters, digits, - and _")
    elif not description:
        refuse("description", "it has no description, by which an agent chooses it")
    elif not prompt:
        refuse("", "it has no body, which is what the agent is told")
    elif len(prompt) > _PROMPT_CHARS_MAX:
        refuse("", f"its body is longer than {_PROMPT_CHARS_MAX} characters")
    elif steps is not None and not _is_count(steps):
        refuse("max_steps", f"max_steps is no number from 1 to {_MAX_STEPS}: {steps!r}")
    else:
        model = document.text("model")
        return AgentType(
            name=name,
            description=description[:_DESCRIPTION_CHARS_MAX],
            prompt=prompt,
            tools=() if document.fields.get("tools") == [] else _tools(document.texts("tools")),
            model=None if model in _PARENTS_MODEL else model,
            max_steps=steps if isinstance(steps, int) else None,
            path=one.path,
            is_foreign=one.origin == "project",
        )
    return None


def _tools(named: tuple[str, ...]) -> tuple[str, ...] | None:
    return named if named and "*" not in named else None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MAX_STEPS


def _line_of(path: Path, key: str) -> int:
    """The line of a field in the file, 1 where it has none; the file was read a moment ago."""
    try:
        lines = path.read_text("utf-8", errors="replace").split("\n")
    except OSError:
        return 1
    return next((at for at, line in enumerate(lines, 1) if key and line.startswith(f"{key}:")), 1)
