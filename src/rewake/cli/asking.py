"""Asks the user whether a call may run.

The rule kept here: only a clear yes allows anything. A signal that comes while a question stands is
no answer: the call is not executed and the run ends as the signal says.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rewake.agent.permissions import Answer, Ask, Question
from rewake.cli.reporting import TextReporter
from rewake.cli.running import StoppedError
from rewake.cli.signals import Stopper
from rewake.cli.terminal import diff_lines, one_line, say, style_for

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

_ANSWERS: Final[dict[str, Answer]] = {
    "y": "yes",
    "yes": "yes",
    "a": "always",
    "always": "always",
    "n": "no",
    "no": "no",
}


def asker_for(reporter: TextReporter, stopper: Stopper) -> Ask | None:
    """Who asks, or None where there is no terminal to ask on."""
    if sys.stdin is None or not (sys.stdin.isatty() and reporter.notes.isatty()):
        return None
    return Asker(reporter, stopper, asyncio.get_running_loop())


@dataclass(slots=True)
class Asker:
    """Called in a worker thread; the question itself is asked in the event loop."""

    reporter: TextReporter
    stopper: Stopper
    loop: asyncio.AbstractEventLoop

    def __call__(self, question: Question) -> Answer:
        """The user's answer. Raises StoppedError when a signal or Ctrl-C came instead of one."""
        if self.stopper.reason is not None:  # it came while another agent's question stood
            raise StoppedError("The question was not asked.")
        asking = asyncio.run_coroutine_threadsafe(self._ask(question), self.loop)
        try:
            return asking.result()
        except concurrent.futures.CancelledError:
            raise StoppedError("The question was not answered.") from None

    async def _ask(self, question: Question) -> Answer:
        self._show(question)
        session = _session(self.reporter)
        task = asyncio.ensure_future(self._answer(session, question))
        forget = self.stopper.on_stop(lambda: _cancel(task))
        try:
            answer = await task
        finally:
            forget()
        if answer is None:
            self.stopper.stop("interrupted")
            raise asyncio.CancelledError
        return answer

    async def _answer(self, session: PromptSession[str], question: Question) -> Answer | None:
        """The answer; None for Ctrl-C, which must not leave the task as an exception."""
        rule = one_line(question.rule)
        text = f"Allow it? [y]es, [a]lways ({rule}), [n]o: "
        while True:
            try:
                said = await session.prompt_async(text, handle_sigint=False)
            except EOFError:
                return "no"
            except KeyboardInterrupt:
                return None
            answer = _ANSWERS.get(said.strip().lower())
            if answer is not None:
                return answer

    def _show(self, question: Question) -> None:
        stream = self.reporter.notes
        self.reporter.end_line()
        style = style_for(stream)
        title = f"{one_line(question.tool_name)}: {one_line(question.summary)}"
        if question.asker:
            title = f"[{one_line(question.asker)}] {title}"
        say(style.yellow(f"? {title}"), stream=stream)
        if question.preview.strip():
            say(diff_lines(question.preview, style), stream=stream)


def _cancel(task: asyncio.Future[Answer | None]) -> None:
    task.cancel()


def _session(reporter: TextReporter) -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.output import create_output

    return PromptSession(output=create_output(stdout=reporter.notes))
