"""Words at the prompt that users have written themselves: commands in Markdown, skills.

The rules kept here: built-in words win; what a command asks for (rules, a model) holds for its own run
and no longer; and a command that comes with a project loosens no permissions and chooses nobody whom
what is said would go to.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rewake.agent.tracing import TracedModel
from rewake.cli.terminal import one_line
from rewake.compose.extensions import load_written
from rewake.compose.place import place
from rewake.errors import RewakeError
from rewake.model.content import ContentBlock, Text

if TYPE_CHECKING:
    from rewake.agent.commands import AnyCommand, Commands
    from rewake.cli.opening import Agent

_DESCRIPTION_COLUMNS = 60


@dataclass(frozen=True, slots=True)
class Word:
    """A word that can be typed at the prompt, without its slash."""

    name: str
    argument_hint: str
    description: str


def words_at(cwd: Path) -> tuple[Word, ...]:
    """The words that users have written for the project at `cwd`, in order of their names."""
    at = place(cwd)
    _, commands = load_written(at.home, at.root)
    if commands is None:
        return ()
    words = [Word(one.name, one.argument_hint, one.description) for one in commands.commands]
    return tuple(sorted(words, key=lambda word: word.name))


def help_lines(words: Sequence[Word]) -> list[str]:
    """A line a word, as /help has them."""
    lines = []
    for word in words:
        typed = one_line(f"/{word.name} {word.argument_hint}".rstrip())
        said = one_line(word.description)
        if len(said) > _DESCRIPTION_COLUMNS:
            said = f"{said[: _DESCRIPTION_COLUMNS - 1]}…"
        lines.append(f"{typed:<19} {said}")
    return lines


def command_in(text: str, commands: Commands | None) -> tuple[AnyCommand, str] | None:
    """The written command that a prompt begins with, and its arguments."""
    if commands is None or not text.startswith("/"):
        return None
    word, *rest = text[1:].split(maxsplit=1)
    command = commands.named(word) if text[1:2].strip() else None
    return (command, rest[0].strip() if rest else "") if command is not None else None


@asynccontextmanager
async def as_typed(
    agent: Agent, prompt: str | Sequence[ContentBlock] | None
) -> AsyncIterator[tuple[str | Sequence[ContentBlock] | None, str]]:
    """The prompt that a typed one stands for, and what was typed; its wishes hold within."""
    first = prompt[0] if prompt and not isinstance(prompt, str) else prompt
    text = first.text if isinstance(first, Text) else first
    found = _command(agent, text.strip()) if isinstance(text, str) else None
    if found is None or not isinstance(text, str):
        # Files that were attached are no part of what was typed.
        yield prompt, text if isinstance(text, str) and text is not prompt else ""
        return
    command, arguments = found
    expanded = command.expanded(arguments)
    async with AsyncExitStack() as stack:
        _allow(agent, command, stack)
        await _choose_model(agent, command, stack)
        rest = () if prompt is None or isinstance(prompt, str) else tuple(prompt[1:])
        yield (Text(expanded), *rest) if rest else expanded, text


def _command(agent: Agent, text: str) -> tuple[AnyCommand, str] | None:
    if not text.startswith("/"):
        return None
    root = agent.session.root
    return command_in(text, load_written(place(root).home, root)[1])


def _allow(agent: Agent, command: AnyCommand, stack: AsyncExitStack) -> None:
    if not command.rules:
        return
    notice = agent.loop.observer.on_notice
    if command.origin == "project" or agent.is_guarded:
        why = (
            "comes with the project"
            if command.origin == "project"
            else "could do what is forbidden"
        )
        notice(
            f"/{command.name} {why}, so its allowed-tools don't count: {', '.join(command.rules)}."
        )
        return
    try:
        stack.enter_context(agent.loop.executor.permissions.also_allowing(command.rules))
    except RewakeError as error:
        notice(f"The allowed-tools of /{command.name} can't be used: {error}")


async def _choose_model(agent: Agent, command: AnyCommand, stack: AsyncExitStack) -> None:
    if not command.model or command.model in {"inherit", agent.loop.model.name}:
        return
    from rewake.agent.providers.choose import may_come_with_a_project, open_model

    loop = agent.loop
    usual = loop.model.name
    if command.origin == "project" and not may_come_with_a_project(command.model, usual):
        loop.observer.on_notice(
            f"/{command.name} comes with the project, so its model {command.model} doesn't count;"
            f" {usual} answers."
        )
        return
    try:
        model, about = open_model(
            command.model,
            environ=os.environ,
            settings_model=None,
            blobs=agent.session.blobs,
            cwd=loop.executor.context.cwd,
        )
    except RewakeError as error:
        loop.observer.on_notice(f"The model of /{command.name} can't be used: {error}")
        return
    before = loop.model
    # The trace goes on as it was.
    loop.model = replace(before, model=model) if isinstance(before, TracedModel) else model

    async def put_back() -> None:
        loop.model = before
        await model.close()

    stack.push_async_callback(put_back)
    loop.observer.on_notice(about)
