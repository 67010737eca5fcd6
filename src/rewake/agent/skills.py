"""Skills: what the agent can look up how to do, named in its instructions and read when needed.

The rules kept here: the system prompt holds a line a skill, in an order that doesn't change while a
session goes on, and what it says of itself can't be unseen or in the program's voice; the body comes with
a call; the nearest of several skills of one name is the one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from rewake.agent.ports import Prepared, ToolContext, ToolInputError, ToolOutput, ToolSpec
from rewake.agent.tools.arguments import parse
from rewake.agent.written import Origin, Problem, Root, Written, written
from rewake.memory.frame import inert
from rewake.model.content import JsonObject, Text
from rewake.model.events import ReadOnlyIntent

BODY_CHARS_MAX: Final = 60_000  # about 15,000 tokens
_DESCRIPTION_CHARS_MAX: Final = 1_024
_LISTED_CHARS_MAX: Final = 16_000  # about 4,000 tokens of every request
_NAME: Final = re.compile(r"[\w][\w.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill; `directory` holds what its body refers to."""

    name: str
    description: str
    body: str
    path: Path
    origin: Origin

    @property
    def directory(self) -> Path:
        """Where its files are."""
        return self.path.parent


@dataclass(frozen=True, slots=True)
class Skills:
    """What was found, the nearest root's first, and what can't be used."""

    skills: tuple[Skill, ...] = ()
    problems: tuple[Problem, ...] = ()

    def named(self, name: str) -> Skill | None:
        """The skill of that name."""
        return next((skill for skill in self.skills if skill.name == name), None)

    def listing(self) -> str:
        """What the system prompt says of them; empty where there are none."""
        if not self.skills:
            return ""
        lines: list[str] = []
        used = 0
        for skill in self.skills:
            line = f"- {skill.name}: {' '.join(inert(skill.description).split())}"
            used += len(line) + 1
            if used > _LISTED_CHARS_MAX:
                rest = ", ".join(one.name for one in self.skills[len(lines) :])
                lines.append(f"- also, without their descriptions here: {rest[:_LISTED_CHARS_MAX]}")
                break
            lines.append(line)
        return (
            "Skills are instructions for particular kinds of work. When one fits what is asked, call "
            "the tool Skill with its name before you begin. There are:\n" + "\n".join(lines)
        )


def load_skills(roots: Sequence[Root]) -> Skills:
    """The skills below the roots, which are given nearest first."""
    problems: list[Problem] = []
    found: dict[str, Skill] = {}
    for root in roots:
        for one in written(root, "skills", "SKILL.md", problems):
            skill = _skill(one, problems)
            if skill is None:
                continue
            if skill.name in found and found[skill.name].origin == skill.origin:
                first = found[skill.name].path
                problems.append(Problem(one.path, 0, f"{skill.name} is already in {first}"))
            found.setdefault(skill.name, skill)
    return Skills(tuple(found.values()), tuple(problems))


def _skill(one: Written, problems: list[Problem]) -> Skill | None:
    name = one.document.text("name") or (one.parts[-2] if len(one.parts) > 1 else "")
    description = one.document.text("description")
    if _NAME.fullmatch(name) is None:
        problems.append(Problem(one.path, 1, f"{name!r} is no name for a skill"))
        return None
    if not description:
        problems.append(Problem(one.path, 1, "the front matter has no description"))
        return None
    if len(description) > _DESCRIPTION_CHARS_MAX:
        description = description[: _DESCRIPTION_CHARS_MAX - 1] + "…"
    return Skill(name, description, one.document.body.strip(), one.path, one.origin)


def told(skill: Skill, arguments: str = "") -> str:
    """What the model is told of a skill that is used."""
    body = skill.body
    if len(body) > BODY_CHARS_MAX:
        left = len(body) - BODY_CHARS_MAX
        body = f"{body[:BODY_CHARS_MAX]}\n[{left} more characters: read {skill.path}]"
    given = f"\n\nArguments: {arguments}" if arguments else ""
    return f"Skill {skill.name}, whose files are in {skill.directory}:\n\n{body}{given}"


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`arguments` is what the skill shall be used on."""

    name: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class _Plan:
    skill: Skill
    arguments: str


class SkillTool:
    """Gives the model the body of a skill."""

    read_only = True
    spec = ToolSpec(
        name="Skill",
        description="Gives the instructions of one of the skills that the system prompt lists.",
        parameters={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The skill's name."},
                "arguments": {"type": "string", "description": "What to use it on, if anything."},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
    )

    def __init__(self, skills: Skills) -> None:
        self._skills = skills

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:  # noqa: ARG002  # the port's
        given = parse("Skill", Arguments, arguments)
        skill = self._skills.named(given.name)
        if skill is None:
            known = ", ".join(one.name for one in self._skills.skills)
            raise ToolInputError(f"There is no skill {given.name!r}. There are: {known}.")
        return Prepared(
            intent=ReadOnlyIntent(),
            subject=skill.name,
            summary=f"Use the skill {skill.name}",
            data=_Plan(skill, given.arguments),
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:  # noqa: ARG002  # the port's
        plan = prepared.data
        if not isinstance(plan, _Plan):
            raise TypeError("this call was not prepared by Skill")
        return ToolOutput((Text(told(plan.skill, plan.arguments)),))
