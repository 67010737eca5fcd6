"""What can be completed at the prompt: commands, `@files`, sessions, themes.

The rule kept here: what is offered is clean, and what takes longer than a key press is looked up in a
worker thread.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from rewake.cli.prompt.files import FileIndex
from rewake.cli.prompt.mentions import mention_of
from rewake.cli.prompt.themes import THEMES
from rewake.cli.slash import descriptions
from rewake.cli.terminal import fit, one_line

_FILE: Final = re.compile(r'(?<!\S)@(?:"(?P<quoted>[^"\n]*)|(?P<plain>(?:\\.|[^\s\\"])*))\Z')
_COMMAND: Final = re.compile(r"\s*/(?P<word>[\w:.-]*)\Z")
_ARGUMENT: Final = re.compile(r"\s*/(?P<word>resume|theme) (?P<argument>\S*)\Z")
_META_COLUMNS: Final = 60


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing to choose: what is put in, and what is said of it."""

    text: str
    about: str = ""


class PromptCompleter(Completer):
    """`words` are commands that users have written, `sessions` those of the project."""

    def __init__(
        self,
        files: FileIndex,
        words: Callable[[], Sequence[Choice]],
        sessions: Callable[[], Sequence[Choice]],
    ) -> None:
        self._files = files
        self._words = words
        self._sessions = sessions

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """All at once, for whoever can wait."""
        del complete_event
        return self._completions(document.text_before_cursor)

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """From a worker thread."""
        del complete_event
        before = document.text_before_cursor
        if "@" not in before and "/" not in before:
            return
        for completion in await asyncio.to_thread(self._completions, before):
            yield completion

    def _completions(self, before: str) -> list[Completion]:
        file = _FILE.search(before)
        if file is not None:
            return self._of_files(file)
        argument = _ARGUMENT.fullmatch(before)
        if argument is not None:
            choices = self._sessions() if argument["word"] == "resume" else _themes()
            return _of_choices(choices, argument["argument"])
        command = _COMMAND.fullmatch(before)
        if command is None:
            return []
        built_in = [Choice(name, about) for name, about in descriptions().items()]
        return _of_choices([*built_in, *self._words()], command["word"])

    def _of_files(self, file: re.Match[str]) -> list[Completion]:
        quoted = file["quoted"]
        letters = quoted if quoted is not None else re.sub(r"\\(.)", r"\1", file["plain"])
        found = self._files.find(letters)
        # A name that would need cleaning can't be typed either.
        return [
            Completion(mention_of(path), -len(file[0]), display=fit(path, _META_COLUMNS))
            for path in found
            if one_line(path) == path and '"' not in path
        ]


def _of_choices(choices: Sequence[Choice], typed: str) -> list[Completion]:
    lowered = typed.lower()
    begin = [one for one in choices if one.text.lower().startswith(lowered)]
    among = [
        one
        for one in choices
        if one not in begin
        and lowered
        and (lowered in one.text.lower() or lowered in one.about.lower())
    ]
    return [
        Completion(
            one_line(one.text),
            -len(typed),
            display=fit(one.text, _META_COLUMNS),
            display_meta=fit(one.about, _META_COLUMNS),
        )
        for one in [*begin, *among]
    ]


def _themes() -> list[Choice]:
    return [Choice(name) for name in THEMES]
