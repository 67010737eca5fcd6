"""The two kinds of terminal that a conversation can be held on.

The rule kept here: a terminal that can move its cursor has the prompt at hand all the time; one that
can't (`TERM=dumb`) gets lines, one after the other, and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from rewake.agent.permissions import Ask
from rewake.cli.asking import asker_for
from rewake.cli.opening import Agent
from rewake.cli.prompt.lines import read_line
from rewake.cli.reporting import TextReporter
from rewake.cli.running import Content
from rewake.cli.signals import Stopper


class Front(Protocol):
    """What a conversation needs of a terminal."""

    @property
    def reporter(self) -> TextReporter:
        """Who shows a run."""
        ...

    def open(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Take the terminal; give it back at the end."""
        ...

    async def next_prompt(self, draft: str) -> str | None:
        """The next prompt that says something; None when the user leaves or a signal ends it.

        `draft` stands there already, to be changed.
        """
        ...

    def said(self, text: str) -> None:
        """A prompt is taken up: show it among what was said."""
        ...

    def expanded(self, text: str) -> str:
        """The prompt with what stands in it only as a mark."""
        ...

    def typed(self, text: str) -> str:
        """The prompt without what was pasted."""
        ...

    def working(self) -> contextlib.AbstractContextManager[None]:
        """Around what the model is asked for."""
        ...

    def suspended(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Around what has the terminal for itself."""
        ...

    def asker(self, keep: Callable[[str], str]) -> Ask | None:
        """Who asks for permission; `keep` keeps a rule and says so."""
        ...

    def attend(self, agent: Agent, prepare: Callable[[str], Awaitable[Content]]) -> None:
        """A session is at hand: its loop and its numbers are watched from now on."""
        ...

    @property
    def theme(self) -> str:
        """The theme's name."""
        ...

    def wear(self, name: str) -> None:
        """Take on a theme."""
        ...


@dataclass(slots=True)
class LineFront:
    """A terminal that only shows lines."""

    stopper: Stopper
    reporter: TextReporter = field(
        default_factory=lambda: TextReporter(answers=sys.stdout, notes=sys.stdout, streams=True)
    )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Nothing to take."""
        yield

    async def next_prompt(self, draft: str) -> str | None:
        if draft:
            self.reporter.note(f"The prompt was: {draft}")
        while self.stopper.reason is None:
            reading = asyncio.ensure_future(read_line("> "))
            forget = self.stopper.on_stop(partial(_cancel, reading))
            try:
                text = await reading
            except asyncio.CancelledError:
                if not reading.cancelled():
                    raise
                return None
            finally:
                forget()
            if text is None or text.strip():
                return text
        return None

    def said(self, text: str) -> None:
        """It stands where it was typed."""

    def expanded(self, text: str) -> str:
        return text

    def typed(self, text: str) -> str:
        return text

    @contextmanager
    def working(self) -> Iterator[None]:
        """The reporter says it all."""
        yield

    @asynccontextmanager
    async def suspended(self) -> AsyncIterator[None]:
        """It is never taken."""
        yield

    def asker(self, keep: Callable[[str], str]) -> Ask | None:
        return asker_for(self.reporter, self.stopper, keep)

    def attend(self, agent: Agent, prepare: Callable[[str], Awaitable[Content]]) -> None:
        """There is no place to show numbers in."""

    @property
    def theme(self) -> str:
        return "none"

    def wear(self, name: str) -> None:
        """It has no colours."""


def _cancel(task: asyncio.Future[str | None]) -> None:
    task.cancel()
