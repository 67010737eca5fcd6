"""Shows a run while it goes on.

The rule kept here: with `-p`, stdout carries the answer and nothing else; whatever tells about the
run goes to stderr. Interactively both are the same terminal.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from typing import Final, TextIO

from rewake.agent.ports import Prepared, Reply
from rewake.agent.workers import AgentProgress
from rewake.cli.prompt.calls import subject
from rewake.cli.terminal import StreamCleaner, clean, fit, one_line, say, style_for
from rewake.model.content import ToolCall, plain_text
from rewake.model.events import Outcome

_COLUMNS: Final = 100
_RESULT_LINES: Final = 3
_WAITING: Final = "… waiting for the model"
_ERROR_COLUMNS: Final = 500  # a reason with its remedy must not be cut


@dataclass(slots=True)
class TextReporter:
    """Prose for people. With `streams`, the answer is shown as it comes."""

    answers: TextIO = field(default_factory=lambda: sys.stdout)
    notes: TextIO = field(default_factory=lambda: sys.stderr)
    streams: bool = False
    _cleaner: StreamCleaner = field(default_factory=StreamCleaner)
    _in_line: bool = False
    _is_waiting: bool = False
    _running: list[Prepared] = field(default_factory=list)

    def on_request(self) -> None:
        """On a terminal, a line that the first word of the answer takes the place of."""
        if self.notes.isatty() and os.environ.get("TERM") != "dumb":
            self.end_line()
            say(style_for(self.notes).dim(_WAITING), stream=self.notes, end="")
            self._is_waiting = True

    def on_text(self, text: str) -> None:
        """A piece of the answer."""
        if self.streams:
            self._write(self._cleaner.feed(text))

    def on_answer(self, reply: Reply) -> None:
        """The answer is complete. What comes with tool calls is a remark on the way."""
        if self.streams:
            self._write(self._cleaner.finish())
            self.end_line()
        elif any(isinstance(block, ToolCall) for block in reply.content):
            remark = plain_text(tuple(reply.content)).strip()
            if remark:
                self.note(remark)

    def on_notice(self, text: str) -> None:
        """A retry, a compaction."""
        self.note(text)

    def on_call(self, tool_name: str, prepared: Prepared) -> None:
        """A call that is about to run."""
        self.end_line()
        self._running.append(prepared)
        style = style_for(self.notes)
        about = fit(subject(tool_name, prepared), _COLUMNS)
        say(f"{style.cyan('●')} {style.bold(one_line(tool_name))} {about}", stream=self.notes)

    def on_result(
        self,
        tool_name: str,
        text: str,
        *,
        is_error: bool,
        prepared: Prepared | None = None,
        outcome: Outcome | None = None,  # noqa: ARG002  # the port's; what it says is in the text
    ) -> None:
        """The first lines of what the model is told; of a call that never ran, its name first."""
        self.end_line()
        style = style_for(self.notes)
        was_shown = any(one is prepared for one in self._running)
        self._running = [one for one in self._running if one is not prepared]
        if not was_shown:
            say(f"{style.red('●')} {style.bold(one_line(tool_name))}", stream=self.notes)
        lines = [line for line in clean(text).split("\n") if line.strip()]
        columns = _ERROR_COLUMNS if is_error else _COLUMNS
        shown = [fit(line, columns) for line in lines[:_RESULT_LINES]]
        if is_error and not shown:
            shown = [f"{one_line(tool_name)} failed"]
        if len(lines) > _RESULT_LINES:
            shown.append(f"… {len(lines) - _RESULT_LINES} more lines")
        paint = style.red if is_error else style.dim
        for line in shown:
            say(f"  {style.dim('│')} {paint(line)}", stream=self.notes)

    def on_agent(self, progress: AgentProgress) -> None:
        """A sub-agent that begins or has ended, a line each; what it does between is in its record."""
        if progress.status == "waiting" or (progress.status == "running" and progress.steps):
            return
        self.end_line()
        style = style_for(self.notes)
        name = f"{'  ' * progress.depth}{progress.agent_type}: {progress.task}"
        if progress.status == "running":
            said = f"◌ {fit(name, _COLUMNS)}"
        else:
            steps = f"{progress.steps} step{'s' * (progress.steps != 1)}"
            calls = f"{progress.calls} call{'s' * (progress.calls != 1)}"
            said = f"◉ {fit(name, _COLUMNS)}: {progress.status}, {steps}, {calls}"
        say(style.dim(said), stream=self.notes)

    def note(self, text: str) -> None:
        """A remark of Rewake's own or of the model on its way."""
        self.end_line()
        say(style_for(self.notes).dim(clean(text)), stream=self.notes)

    def warn(self, text: str) -> None:
        """Something that the user should not miss."""
        self.end_line()
        say(style_for(self.notes).yellow(clean(text)), stream=self.notes)

    def answer(self, text: str) -> None:
        """The final answer, unless it was shown as it came."""
        if not self.streams:
            self.end_line()
            say(clean(text), stream=self.answers)

    def end_line(self) -> None:
        """Whatever comes next begins a line."""
        self._stop_waiting()
        if self._in_line:
            say(stream=self.answers)
            self._in_line = False

    def _write(self, text: str) -> None:
        if text:
            self._stop_waiting()
            say(text, stream=self.answers, end="")
            self._in_line = not text.endswith("\n")

    def _stop_waiting(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            say("\r\x1b[K", stream=self.notes, end="")


class JsonReporter(TextReporter):
    """For JSON: the answer is in the result on stdout; remarks still go to stderr."""

    def on_request(self) -> None:
        """Events may go to the same terminal: there is no line of its own to wait in."""

    def answer(self, text: str) -> None:
        """It is in the result."""
