"""Chooses the front for the terminal at hand, and tells it of the project that it is for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from rewake.cli.expanding import words_at
from rewake.cli.opening import working_directory
from rewake.cli.options import AgentChoices
from rewake.cli.prompt.front import Front, LineFront
from rewake.cli.settled import settings_of
from rewake.cli.signals import Stopper
from rewake.cli.terminal import can_browse
from rewake.compose.place import place
from rewake.log.git import branch_name

if TYPE_CHECKING:
    from rewake.cli.prompt.completion import Choice

_COMPLETED_SESSIONS: Final = 50


def front_for(choices: AgentChoices, stopper: Stopper) -> Front:
    """The front for this terminal. Raises SettingsError."""
    if not can_browse():
        return LineFront(stopper)
    from rewake.cli.prompt.completion import PromptCompleter
    from rewake.cli.prompt.conversing import ScreenFront
    from rewake.cli.prompt.files import FileIndex
    from rewake.cli.prompt.mentions import dropped
    from rewake.cli.prompt_history import history_file, kept_prompts

    at = place(working_directory(choices))
    settings = settings_of(choices, at).settings
    path = history_file(at.home) if choices.persist else None
    redact = at.redact if settings.redact_transcript is True else None
    history = kept_prompts(path, redact) if path is not None else None

    return ScreenFront(
        stopper,
        history,
        PromptCompleter(FileIndex(at.root), lambda: _written(at.root), lambda: _known(at.root)),
        lambda pasted: dropped(pasted, at.root),
        place=lambda: _where(at.root),
        theme=settings.theme,
    )


def _written(root: Path) -> list[Choice]:
    from rewake.cli.prompt.completion import Choice

    return [Choice(word.name, word.description) for word in words_at(root)]


def _known(root: Path) -> list[Choice]:
    """The newest sessions of the project."""
    from rewake.cli.prompt.completion import Choice
    from rewake.cli.sessions import newest

    found, _, _ = newest(root, everywhere=False, limit=_COMPLETED_SESSIONS)
    return [Choice(info.session_id, info.title or info.first_prompt) for info in found]


def _where(root: Path) -> str:
    branch = branch_name(root)
    return f"{root.name} ({branch})" if branch else root.name
