"""Asks the user whether a call may run.

The rules kept here: only a clear yes allows anything. A signal that comes while a question stands is
no answer: the call is not executed and the run ends as the signal says. And "always" is kept, so that
the next session doesn't ask the same again.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from rewake.agent.permissions import Answer, Ask, Question, Refusal
from rewake.cli.reporting import TextReporter
from rewake.cli.running import StoppedError
from rewake.cli.signals import Stopper
from rewake.cli.terminal import diff_lines, one_line, say, style_for

_ANSWERS: Final[dict[str, Answer]] = {
    "y": "yes",
    "yes": "yes",
    "a": "always",
    "always": "always",
    "n": "no",
    "no": "no",
}
Said = Answer | Refusal | None
"""An answer; None for Ctrl-C instead of one."""


def asker_for(reporter: TextReporter, stopper: Stopper, keep: Callable[[str], str]) -> Ask | None:
    """Who asks, or None where there is no terminal to ask on.

    `keep` keeps a rule that the user wants for always, and says what became of it.
    """
    if sys.stdin is None or not (sys.stdin.isatty() and reporter.notes.isatty()):
        return None
    ask = _by_line if os.environ.get("TERM", "dumb") == "dumb" else _by_key
    return Asker(
        lambda question: ask(question, reporter),
        stopper,
        asyncio.get_running_loop(),
        keep,
        reporter.note,
    )


@dataclass(slots=True)
class Asker:
    """Called in a worker thread; the question itself is asked in the event loop."""

    ask: Callable[[Question], Awaitable[Said]]
    stopper: Stopper
    loop: asyncio.AbstractEventLoop
    keep: Callable[[str], str]
    note: Callable[[str], None]

    def __call__(self, question: Question) -> Answer | Refusal:
        """The user's answer. Raises StoppedError when a signal or Ctrl-C came instead of one."""
        if self.stopper.reason is not None:  # it came while another agent's question stood
            raise StoppedError("The question was not asked.")
        asking = asyncio.run_coroutine_threadsafe(self._answered(question), self.loop)
        try:
            return asking.result()
        except concurrent.futures.CancelledError:
            raise StoppedError("The question was not answered.") from None

    async def _answered(self, question: Question) -> Answer | Refusal:
        task = asyncio.ensure_future(self.ask(question))
        forget = self.stopper.on_stop(lambda: _cancel(task))
        try:
            answer = await task
        finally:
            forget()
        if answer is None:
            self.stopper.stop("interrupted")
            raise asyncio.CancelledError
        if answer == "always":
            self.note(self.keep(question.rule))
        return answer


def _cancel(task: asyncio.Future[Said]) -> None:
    task.cancel()


async def _by_key(question: Question, reporter: TextReporter) -> Said:
    from rewake.cli.prompt.alone import ask_alone

    return await ask_alone(question, reporter.notes, lambda: _show(question, reporter))


async def _by_line(question: Question, reporter: TextReporter) -> Said:
    """On a terminal that shows only lines."""
    from rewake.cli.prompt.lines import read_line

    _show(question, reporter)
    while True:
        said = await read_line(f"Allow it? [y]es, [a]lways ({one_line(question.rule)}), [n]o: ")
        if said is None:
            return "no"
        answer = _ANSWERS.get(said.strip().lower())
        if answer is not None:
            return answer


def _show(question: Question, reporter: TextReporter) -> None:
    stream = reporter.notes
    reporter.end_line()
    style = style_for(stream)
    asker = f"{one_line(question.asker)}: " if question.asker else ""
    title = f"{asker}{one_line(question.tool_name)}: {one_line(question.summary)}"
    say(style.yellow(f"? {title}"), stream=stream)
    if question.preview.strip():
        say(diff_lines(question.preview, style), stream=stream)
