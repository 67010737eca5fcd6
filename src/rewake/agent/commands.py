"""Commands that users write in Markdown: a word at the prompt that stands for a longer prompt.

The rules kept here: what an argument holds is never read as a placeholder; no command is run while a
text is expanded; and a file that comes with a project loosens no permissions by itself, which is for
whoever runs it to see to (`WrittenCommand.origin`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rewake.agent.skills import Skill, Skills, told
from rewake.agent.written import Origin, Problem, Root, Written, written

_PLACEHOLDER: Final = re.compile(r"(?P<kept>\\)?\$(?:ARGUMENTS\b|(?P<number>[1-9])(?!\d))")
_NAME: Final = re.compile(r"[\w][\w.-]{0,63}(?::[\w][\w.-]{0,63}){0,6}")
_DESCRIPTION_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class WrittenCommand:
    """One command. `name` has no slash; `rules` and `model` are for the run that it begins."""

    name: str
    description: str
    body: str
    path: Path
    origin: Origin
    argument_hint: str = ""
    rules: tuple[str, ...] = ()
    model: str = ""

    def expanded(self, arguments: str) -> str:
        """The prompt that it stands for, with these arguments.

        `$ARGUMENTS` is all of them, `$1` to `$9` one word each, split as a shell would; a backslash
        before a placeholder keeps it. Arguments that the text has no place for follow it.
        """
        words = _words(arguments)
        places = 0

        def filled(match: re.Match[str]) -> str:
            nonlocal places
            if match["kept"]:
                return match[0][1:]
            places += 1
            number = match["number"]
            if number is None:
                return arguments
            return words[int(number) - 1] if int(number) <= len(words) else ""

        text = _PLACEHOLDER.sub(filled, self.body)
        return f"{text}\n\nArguments: {arguments}" if arguments and not places else text


@dataclass(frozen=True, slots=True)
class SkillCommand:
    """A skill that the user runs by its name."""

    skill: Skill

    @property
    def name(self) -> str:
        """As it is typed, without the slash."""
        return self.skill.name

    @property
    def description(self) -> str:
        """What the skill is for."""
        return self.skill.description

    argument_hint = ""
    rules: tuple[str, ...] = ()
    model = ""

    @property
    def path(self) -> Path:
        """Where it is written."""
        return self.skill.path

    @property
    def origin(self) -> Origin:
        """Whose it is."""
        return self.skill.origin

    def expanded(self, arguments: str) -> str:
        """The skill's body, for the model to go by."""
        return f"Use this skill now.\n\n{told(self.skill, arguments)}"


AnyCommand = WrittenCommand | SkillCommand


@dataclass(frozen=True, slots=True)
class Commands:
    """What was found, by name, and what can't be used."""

    commands: tuple[AnyCommand, ...] = ()
    problems: tuple[Problem, ...] = ()

    def named(self, name: str) -> AnyCommand | None:
        """The command of that name, without its slash."""
        return next((command for command in self.commands if command.name == name), None)


def load_commands(roots: Sequence[Root], skills: Skills) -> Commands:
    """The commands below the roots, which are given nearest first, and the skills as commands."""
    problems: list[Problem] = []
    found: dict[str, AnyCommand] = {}
    for root in roots:
        for one in written(root, "commands", None, problems):
            command = _command(one, problems)
            if command is not None:
                found.setdefault(command.name, command)
    for skill in skills.skills:
        found.setdefault(skill.name, SkillCommand(skill))
    return Commands(tuple(found.values()), tuple(problems))


def _command(one: Written, problems: list[Problem]) -> WrittenCommand | None:
    *directories, file = one.parts
    name = ":".join([*directories, file.removesuffix(".md")])
    if _NAME.fullmatch(name) is None:
        problems.append(Problem(one.path, 0, f"/{name} can't be typed as a command"))
        return None
    document = one.document
    body = document.body.strip()
    if not body:
        problems.append(Problem(one.path, 0, "it is empty"))
        return None
    return WrittenCommand(
        name=name,
        description=(document.text("description") or body.partition("\n")[0])[
            :_DESCRIPTION_CHARS_MAX
        ],
        body=body,
        path=one.path,
        origin=one.origin,
        argument_hint=document.text("argument-hint"),
        rules=document.texts("allowed-tools"),
        model=document.text("model"),
    )


def _words(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:  # a quote that has no end
        return arguments.split()
