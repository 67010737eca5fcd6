"""`rewake skills` and `/skills`: what users have written for the agent, and what is wrong with it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rewake.cli.terminal import let_readers_leave, note, one_line, say, style_for
from rewake.compose.extensions import load_written
from rewake.compose.place import place

if TYPE_CHECKING:
    from rewake.agent.commands import AnyCommand
    from rewake.agent.skills import Skill
    from rewake.agent.written import Problem

_NAME_COLUMNS = 19


def list_skills(cwd: Path | None, *, as_json: bool) -> int:
    """Print them; returns the exit status."""
    let_readers_leave()
    if not as_json:
        print_skills(cwd or Path())
        return 0
    from rewake.cli.jsonout import print_json

    skills, commands, problems = _found(cwd or Path())
    print_json(
        {
            "skills": [_object(one.name, one) for one in skills],
            "commands": [
                {**_object(one.name, one), "argument_hint": one.argument_hint or None}
                for one in commands
            ],
            "problems": [
                {"path": str(one.path), "line": one.line or None, "message": one.message}
                for one in problems
            ],
        }
    )
    return 0


def print_skills(cwd: Path) -> None:
    """Print a line each, and the problems on stderr."""
    style = style_for(sys.stdout)
    skills, commands, problems = _found(cwd)
    for title, found in (("Skills", skills), ("Commands", commands)):
        if not found:
            continue
        say(style.bold(title))
        for one in found:
            name = one_line(f"/{one.name}")
            say(f"  {name:<{_NAME_COLUMNS}} {one_line(one.description)}")
    if not skills and not commands:
        say(
            "There are none. Skills are in .rewake/skills/NAME/SKILL.md, commands in "
            ".rewake/commands/NAME.md."
        )
    for problem in problems:
        note(one_line(str(problem)))


def _found(cwd: Path) -> tuple[tuple[Skill, ...], tuple[AnyCommand, ...], tuple[Problem, ...]]:
    at = place(cwd)
    skills, commands = load_written(at.home, at.root)
    if skills is None or commands is None:
        return (), (), ()
    of_skills = {skill.path for skill in skills.skills}
    written = tuple(one for one in commands.commands if one.path not in of_skills)
    return skills.skills, written, (*skills.problems, *commands.problems)


def _object(name: str, one: Skill | AnyCommand) -> dict[str, str]:
    return {
        "name": name,
        "description": one.description,
        "path": str(one.path),
        "origin": one.origin,
    }
