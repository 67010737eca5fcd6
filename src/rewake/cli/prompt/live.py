"""Shows a run above the prompt while it goes on: the answer as it streams, calls as lines.

The rules kept here: what is final is printed once and for all; only the unfinished end of an answer
and the calls that run are drawn again, and no more often than the machine can bear.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rewake.agent.ports import Prepared, Reply
from rewake.agent.workers import AgentProgress
from rewake.cli.prompt import calls
from rewake.cli.prompt.themes import Theme
from rewake.cli.reporting import TextReporter
from rewake.cli.terminal import StreamCleaner, Style, clean, fit, width
from rewake.model.events import AgentIntent, Outcome, ShellIntent

if TYPE_CHECKING:
    from rewake.cli.prompt.blocks import Piece, Splitter
    from rewake.cli.prompt.paint import Painter

_SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SPINNER_PER_S: Final = 10
# Drawing may take this share of the time: a tail that is slow to draw is drawn less often.
_REST: Final = 3.0
_OUTPUT_FROM_S: Final = 1.0
_OUTPUT_BYTES: Final = 2048
_OUTPUT_LINES: Final = 2
# More than this isn't drawn as Markdown again and again: its end is shown as text.
_TAIL_CHARS_MAX: Final = 16_000
_AT_WORK: Final = frozenset({"waiting", "running"})


@dataclass(slots=True)
class _Call:
    tool_name: str
    prepared: Prepared
    since_s: float


@dataclass(slots=True)
class _AgentLine:
    progress: AgentProgress
    since_s: float


@dataclass(slots=True)
class _Answer:
    """An answer that is being given."""

    splitter: Splitter
    cleaner: StreamCleaner = field(default_factory=StreamCleaner)
    drawn: list[str] = field(default_factory=list)
    is_stale: bool = False
    columns: int = 0
    next_s: float = 0.0


@dataclass(slots=True)
class LiveReporter(TextReporter):
    """A reporter over a screen. `put` prints above the prompt, `refresh` has the live part drawn."""

    put: Callable[[str], None] = print
    refresh: Callable[[], None] = lambda: None
    columns: Callable[[], int] = lambda: 100
    happened: Callable[[], None] = lambda: None
    theme: Theme | None = None
    style: Style = field(default_factory=lambda: Style(enabled=False))
    session_directory: Path | None = None
    is_working: bool = False
    _painter: Painter | None = None
    _answer: _Answer | None = None
    _calls: list[_Call] = field(default_factory=list)
    _agents: dict[str, _AgentLine] = field(default_factory=dict)
    _waiting_since_s: float | None = None
    _since_s: float = 0.0
    # What stands above: a blank line separates different kinds of things.
    _last: str = ""
    _previewed: str = ""

    # --- what the loop tells -------------------------------------------------------------

    def on_request(self) -> None:
        """The wait begins."""
        self._waiting_since_s = time.monotonic()
        self._changed()

    def on_text(self, text: str) -> None:
        """What is final of the answer is printed, the rest drawn."""
        self._waiting_since_s = None
        if self._answer is None:
            from rewake.cli.prompt.blocks import Splitter

            self._answer = _Answer(Splitter())
        answer = self._answer
        self._put_pieces(answer.splitter.feed(answer.cleaner.feed(text)))
        answer.is_stale = True
        self.refresh()

    def on_answer(self, reply: Reply) -> None:  # noqa: ARG002  # it was shown as it came
        """The end of the answer is final."""
        self._finish_answer()
        self._waiting_since_s = None
        self._changed()

    def on_notice(self, text: str) -> None:
        """A retry, a compaction."""
        self.note(text)

    def on_call(self, tool_name: str, prepared: Prepared) -> None:
        """A line while it runs."""
        self._waiting_since_s = None
        self._calls.append(_Call(tool_name, prepared, time.monotonic()))
        self._changed()

    def on_result(
        self,
        tool_name: str,
        text: str,
        *,
        is_error: bool,
        prepared: Prepared | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        """The lines that stay."""
        call = next((one for one in self._calls if one.prepared is prepared), None)
        self._calls = [one for one in self._calls if one is not call]
        was_previewed = prepared is not None and self._previewed == prepared.preview
        lines = calls.ended(
            tool_name,
            text,
            is_error=is_error,
            prepared=prepared,
            outcome=outcome,
            elapsed_s=time.monotonic() - call.since_s if call is not None else None,
            columns=self.columns(),
            style=self.style,
            with_diff=not was_previewed,
        )
        self._put("call", "\n".join(lines))
        self._changed()

    def on_agent(self, progress: AgentProgress) -> None:
        """A line for each sub-agent while it is at work, and one that stays when it has ended."""
        known = self._agents.pop(progress.agent_id, None)
        if progress.status in _AT_WORK:
            since_s = known.since_s if known is not None else time.monotonic()
            self._agents[progress.agent_id] = _AgentLine(progress, since_s)
        elif progress.background or progress.depth > 1:
            # Of the others the result of their Task call tells.
            elapsed_s = time.monotonic() - known.since_s if known is not None else None
            self._put("call", calls.agent_ended(progress, elapsed_s, self.columns(), self.style))
        self._changed()

    # --- what others say -----------------------------------------------------------------

    def note(self, text: str) -> None:
        """A remark of Rewake's own."""
        self._finish_answer()
        self._put("note", self._each_line(self.style.dim, text))

    def warn(self, text: str) -> None:
        """Something that the user should not miss."""
        self._finish_answer()
        self._put("note", self._each_line(self.style.yellow, text))

    def prompt(self, text: str) -> None:
        """What the user said."""
        first, *rest = clean(text).split("\n")
        lines = [f"> {first}", *(f"  {line}" for line in rest)]
        self._put("prompt", "\n".join(map(self.style.bold, lines)))

    def question(self, title: str, preview: str) -> None:
        """What a question is about."""
        self._previewed = preview
        lines = [self.style.yellow(f"? {fit(title, max(self.columns() - 2, 4))}")]
        said = preview.strip()
        is_in_title = title.endswith(f" {said}") and width(title) + 2 <= self.columns()
        if said and not is_in_title:
            lines += calls.diff(preview, self.columns(), self.style)
        self._put("question", "\n".join(lines))

    def answer(self, text: str) -> None:
        """It was shown as it came."""

    def end_line(self) -> None:
        """Everything ends its line."""
        self._finish_answer()

    def begin(self) -> None:
        """A run begins."""
        self.is_working, self._since_s = True, time.monotonic()
        self._changed()

    def end(self) -> None:
        """The run is over; what it had begun to say stays, as far as it got."""
        self._finish_answer()
        self.is_working = False
        self._waiting_since_s = None
        self._calls.clear()
        self._agents.clear()
        self._changed()

    # --- drawing -------------------------------------------------------------------------

    def live(self, columns: int, rows: int) -> list[str]:
        """What is drawn again and again, the end of it if there is too much."""
        if not self.is_working:
            return []
        below = self._working(columns, rows)
        room = rows - len(below)
        answer = self._drawn_answer(columns) if room > 0 else []
        return [*answer[-room:], *below] if room > 0 else below

    def _working(self, columns: int, rows: int) -> list[str]:
        now = time.monotonic()
        mark = _SPINNER[int(now * _SPINNER_PER_S) % len(_SPINNER)]
        lines: list[str] = []
        for call in self._calls:
            if isinstance(call.prepared.intent, AgentIntent):
                continue  # the agent's own line says more
            elapsed_s = now - call.since_s
            took = calls.seconds(elapsed_s) if elapsed_s >= 1 else ""
            room = max(columns - len(took) - 2, 8)
            said = calls.title(call.tool_name, call.prepared, room, self.style, "●")
            lines.append(f"{said}  {self.style.dim(took)}".rstrip())
            if elapsed_s >= _OUTPUT_FROM_S:
                lines += [
                    f"  {self.style.dim('│ ' + line)}" for line in self._output(call, columns)
                ]
        for agent in self._agents.values():
            took = calls.seconds(now - agent.since_s)
            lines.append(calls.agent_at_work(agent.progress, took, columns, self.style))
        what = "waiting for the model" if self._waiting_since_s is not None else "working"
        took = calls.seconds(now - (self._waiting_since_s or self._since_s))
        lines.append(self.style.dim(fit(f"{mark} {what} {took} · Esc interrupts", columns - 1)))
        return lines[-rows:]

    def _output(self, call: _Call, columns: int) -> list[str]:
        """The last lines that a command has written so far."""
        intent = call.prepared.intent
        if not isinstance(intent, ShellIntent) or self.session_directory is None:
            return []
        path = self.session_directory / intent.output_directory / "stdout"
        try:
            with path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - _OUTPUT_BYTES, 0))
                data = file.read(_OUTPUT_BYTES)
        except OSError:
            return []  # it hasn't begun, or keeps its output elsewhere
        lines = clean(data.decode("utf-8", "replace")).split("\n")
        shown = [line for line in lines if line.strip()][-_OUTPUT_LINES:]
        return [fit(line, max(columns - 5, 4)) for line in shown]

    def _drawn_answer(self, columns: int) -> list[str]:
        answer = self._answer
        if answer is None:
            return []
        began_s = time.monotonic()
        if (answer.is_stale and began_s >= answer.next_s) or answer.columns != columns:
            answer.drawn = self._paint(_tail(answer.splitter), columns)
            answer.is_stale, answer.columns = False, columns
            ended_s = time.monotonic()
            answer.next_s = ended_s + _REST * (ended_s - began_s)
        return answer.drawn

    def _paint(self, pieces: list[Piece], columns: int) -> list[str]:
        if not pieces:
            return []
        if self._painter is None:
            from rewake.cli.prompt.paint import Painter
            from rewake.cli.prompt.themes import theme_named

            self._painter = Painter(self.theme or theme_named(None))
        return self._painter.lines(pieces, columns)

    def wear(self, theme: Theme, style: Style) -> None:
        """Other colours from now on."""
        self.theme, self.style, self._painter = theme, style, None

    def _finish_answer(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            pieces = answer.splitter.feed(answer.cleaner.finish())
            self._put_pieces(pieces + answer.splitter.finish())

    def _put_pieces(self, pieces: list[Piece]) -> None:
        lines = self._paint(pieces, self.columns())
        if lines:
            self._put("answer", "\n".join(lines))

    def _put(self, kind: str, text: str) -> None:
        is_apart = self._last not in {"", kind} or kind == "prompt"
        gap = "\n" if is_apart and self._last else ""
        self._last = kind
        self.put(gap + text)

    def _each_line(self, paint: Callable[[str], str], text: str) -> str:
        return "\n".join(paint(line) for line in clean(text).split("\n"))

    def _changed(self) -> None:
        self.happened()
        self.refresh()


def _tail(splitter: Splitter) -> list[Piece]:
    """What isn't final of an answer; of a great deal, the end."""
    is_long, end = splitter.unfinished(_TAIL_CHARS_MAX)
    if not is_long:
        return splitter.rest()
    from rewake.cli.prompt.blocks import Code

    return [Code(tuple(end[-_TAIL_CHARS_MAX // 4 :].split("\n")), "text", gap=True)]
