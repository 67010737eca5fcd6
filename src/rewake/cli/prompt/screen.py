"""The lower end of the terminal: what isn't final yet, the question, the prompt, the status line.

The rules kept here:

- Above it everything is printed once and belongs to the terminal's own scroll-back; only what is drawn
  here is ever drawn again, and it is never higher than the terminal.
- The prompt takes keys all the time. What was typed is lost by nothing: no answer, question or command.
- Nothing is written to the terminal but by one thread, the event loop's.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final

from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.history import History
from prompt_toolkit.layout import (
    ConditionalContainer,
    Container,
    Dimension,
    HSplit,
    Layout,
    VerticalAlign,
    Window,
)
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import BeforeInput, HighlightIncrementalSearchProcessor
from prompt_toolkit.output import ColorDepth, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from rewake.agent.permissions import Answer, Question, Refusal
from rewake.cli.prompt.keys import Keyboard, bindings_for
from rewake.cli.prompt.pastes import Pastes
from rewake.cli.prompt.question import Asked, Panel, arm
from rewake.cli.prompt.themes import Theme
from rewake.cli.terminal import GONE, fit, say, silence

MARK: Final = "> "
# A terminal that knows this shows what is between them at once (others ignore it).
_TOGETHER: Final = "\x1b[?2026h"
_SHOW: Final = "\x1b[?2026l"
_COMPLETIONS_ROWS: Final = 8
# As often as an eye can follow; an answer may come in hundreds of pieces a second.
_REDRAW_S: Final = 0.05
_QUEUED_SHOWN: Final = 3
# What the prompt, the status line and a line of the answer need at least.
_ROWS_RESERVED: Final = 3


@dataclass(frozen=True, slots=True)
class Parts:
    """What the screen shows and does for whoever owns the conversation."""

    live: Callable[[int, int], list[str]]
    status: Callable[[int], StyleAndTextTuples]
    keyboard: Keyboard
    theme: Theme
    history: History | None = None
    completer: Completer | None = None


class Screen:
    """One terminal. Use it within `open`; `print` may be called before and after, too."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.pastes = Pastes()
        self.queue: list[str] = []
        self._is_suspended = False
        self._held: list[str] | None = None
        self._arrived = asyncio.Event()
        self._left = False
        self._last_key_s = 0.0
        self._last_drawn: tuple[str, StyleAndTextTuples] = ("", [])
        self.draft = Buffer(
            multiline=True,
            history=parts.history,
            completer=parts.completer,
            complete_while_typing=True,
            tempfile_suffix=".md",
        )
        reason = Buffer(multiline=False)
        self.panel = Panel(reason, self.refresh, self._focus_reason, arm=self._arm)
        self.app = self._application(reason)
        self.app.key_processor.before_key_press += self._note_key

    # --- running -------------------------------------------------------------------------

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Take the terminal, and give it back in order."""
        running = asyncio.ensure_future(
            self.app.run_async(handle_sigint=False, set_exception_handler=False)
        )
        running.add_done_callback(self._ended)
        try:
            yield
        finally:
            if self.app.is_running and not running.done():
                self.app.exit()
            with contextlib.suppress(EOFError), self._while_it_is_there():
                await running
            if not sys.stdout.isatty():
                # It was closed meanwhile: what is still buffered for it must not fail at the exit.
                silence(sys.stdout)
                silence(sys.stderr)

    def _ended(self, running: asyncio.Future[None]) -> None:
        if not running.cancelled() and running.exception() is not None:
            self.leave()  # nobody can type any more

    @asynccontextmanager
    async def suspended(self) -> AsyncIterator[None]:
        """The terminal is somebody else's meanwhile: a list to choose from, an editor."""
        if not self.app.is_running or self._is_suspended:
            yield
            return
        async with in_terminal():
            self._is_suspended = True
            try:
                yield
            finally:
                self._is_suspended = False

    async def next_prompt(self) -> str | None:
        """What was sent first and is still waiting; None when the user leaves."""
        while not self.queue:
            if self._left:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        text = self.queue.pop(0)
        self.refresh()
        return text

    def send(self, text: str) -> None:
        """As if the user had typed it and pressed Enter."""
        self.queue.append(text)
        self._arrived.set()
        self.refresh()

    def put_draft(self, text: str) -> None:
        """Put a text into the prompt, before what is typed there already."""
        draft = self.draft.text
        self.draft.document = Document(f"{text}\n{draft}" if draft else text)
        self.refresh()

    def take_queue_back(self) -> None:
        """What was to be sent comes back into the prompt."""
        queued, self.queue = self.queue, []
        if queued:
            self.put_draft("\n".join(queued))

    async def edit_elsewhere(self) -> None:
        """Let the user write in their editor; what is printed meanwhile waits."""
        from rewake.cli.prompt.editor import edited

        whole = self.pastes.expand(self.draft.text)
        self._held = []
        try:
            async with self.suspended():
                text = await asyncio.to_thread(edited, whole)
        finally:
            held, self._held = self._held or [], None
            for printed in held:
                self.print(printed)
        if text is None:
            self.print("The editor failed: set EDITOR to one that is there.")
        else:
            self.draft.document = Document(text)

    def leave(self) -> None:
        """No prompt will be asked for any more."""
        self._left = True
        self.queue.clear()
        self._arrived.set()

    # --- showing -------------------------------------------------------------------------

    @property
    def columns(self) -> int:
        return max(self.app.output.get_size().columns, 1)

    @property
    def rows(self) -> int:
        return max(self.app.output.get_size().rows, 1)

    def refresh(self) -> None:
        """Draw again soon."""
        if self.app.is_running:
            self.app.invalidate()

    def print(self, text: str) -> None:
        """Print clean lines above, for good."""
        if self._held is not None:
            self._held.append(text)
            return
        if not self.app.is_running or self._is_suspended or self.app.is_done:
            say(text)
            return
        output = self.app.output
        with self._while_it_is_there():
            output.write_raw(_TOGETHER)
            self.app.renderer.erase()
            output.write_raw(text + "\n")
            self._draw()
            output.write_raw(_SHOW)
            output.flush()

    @contextmanager
    def _while_it_is_there(self) -> Iterator[None]:
        """A terminal that was closed costs what is shown, not the run."""
        try:
            yield
        except OSError as error:
            if error.errno not in GONE:
                raise
            silence(sys.stdout)
            self.leave()

    async def ask(self, question: Question, show: Callable[[], None]) -> Answer | Refusal | None:
        """The user's answer to a question, None where it was interrupted."""
        return await self.panel.ask(question, show)

    def _arm(self, asked: Asked) -> None:
        arming = asyncio.ensure_future(arm(asked, lambda: self._last_key_s, self._draw))
        asked.said.add_done_callback(lambda _: arming.cancel())

    def _draw(self) -> None:
        self.app._redraw()  # noqa: SLF001  # at once: what was erased, or must be seen, can't wait

    def _note_key(self, _: object) -> None:
        self._last_key_s = time.monotonic()

    def _focus_reason(self, wanted: bool) -> None:  # noqa: FBT001  # a callback of one meaning
        self.app.layout.focus(self.panel.reason if wanted else self.draft)

    # --- layout --------------------------------------------------------------------------

    def _application(self, reason: Buffer) -> Application[None]:
        output = create_output(stdout=sys.stdout)
        if isinstance(output, Vt100_Output):
            # The place of the cursor is not asked for: the answer would come between typed keys.
            output.enable_cpr = False
        search = SearchToolbar(ignore_case=True)
        typed = Window(
            BufferControl(
                self.draft,
                search_buffer_control=search.control,
                preview_search=True,
                input_processors=[HighlightIncrementalSearchProcessor()],
            ),
            height=self._draft_height,
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=_line_prefix,
        )
        is_asked = Condition(lambda: self.panel.asked is not None)
        gives_reason = Condition(
            lambda: self.panel.asked is not None and self.panel.asked.gives_reason
        )
        because = Window(
            BufferControl(reason, input_processors=[BeforeInput(MARK, "class:prompt")]),
            height=Dimension(min=1, max=3),
            wrap_lines=True,
            dont_extend_height=True,
        )
        parts: list[Container] = [
            _lines(self._live),
            _lines(self._queued, "class:queued"),
            ConditionalContainer(_lines(self._question), is_asked),
            ConditionalContainer(because, gives_reason),
            typed,
            search.container,
            CompletionsMenu(max_height=_COMPLETIONS_ROWS, scroll_offset=1, extra_filter=~is_asked),
            ConditionalContainer(
                _lines(self._status, "class:status"), Condition(lambda: self.rows >= _ROWS_RESERVED)
            ),
        ]
        theme = self._parts.theme
        app: Application[None] = Application(
            Layout(HSplit(parts, align=VerticalAlign.TOP), focused_element=typed),
            key_bindings=bindings_for(self, self._parts.keyboard, has_focus(self.draft)),
            style=Style.from_dict(theme.ui),
            color_depth=_color_depth(theme),
            output=output,
            erase_when_done=True,
            min_redraw_interval=_REDRAW_S,
        )
        # How long a lone Esc is waited on for the rest of a sequence, and of a chord.
        app.ttimeoutlen, app.timeoutlen = 0.05, 0.2
        return app

    def wear(self, theme: Theme) -> None:
        """Another theme, from now on."""
        self.app.style = Style.from_dict(theme.ui)
        self.refresh()

    def _draft_height(self) -> Dimension:
        return Dimension(min=1, max=max(self.rows // 2, 1))

    def _question(self) -> StyleAndTextTuples:
        return self.panel.text(self.columns, self.rows)

    def _status(self) -> StyleAndTextTuples:
        return self._parts.status(self.columns)

    def _queued(self) -> StyleAndTextTuples:
        room = max(self.columns - 2, 4)
        lines = [fit(f"↳ {text}", room) for text in self.queue[:_QUEUED_SHOWN]]
        if len(self.queue) > _QUEUED_SHOWN:
            lines.append(fit(f"↳ … {len(self.queue) - _QUEUED_SHOWN} more", room))
        return [("", "\n".join(lines))] if lines else []

    def _live(self) -> StyleAndTextTuples:
        """As many of the last lines as there is room for."""
        taken = _ROWS_RESERVED + self.draft.document.line_count + min(len(self.queue), 4)
        if self.panel.asked is not None:
            taken += 1 + len(self.panel.asked.options)
        room = max(self.rows - taken, 0)
        lines = self._parts.live(self.columns, room) if room else []
        text = "\n".join(lines[-room:]) if room else ""
        if text != self._last_drawn[0]:
            self._last_drawn = (text, to_formatted_text(ANSI(text)) if text else [])
        return self._last_drawn[1]


def _lines(text: Callable[[], StyleAndTextTuples], style: str = "") -> Window:
    """A window that is as high as its text, and gone where there is none."""
    control = FormattedTextControl(text)

    def height() -> Dimension:
        shown = text()
        count = 1 + sum(part[1].count("\n") for part in shown) if shown else 0
        return Dimension(min=0, preferred=count, max=count)

    return Window(control, height=height, style=style, dont_extend_height=True)


def _line_prefix(line: int, wrapped: int) -> StyleAndTextTuples:
    return [("class:prompt", MARK)] if line == 0 and wrapped == 0 else [("", " " * len(MARK))]


def _color_depth(theme: Theme) -> ColorDepth | None:
    import os

    if not theme.has_colour or os.environ.get("NO_COLOR"):
        return ColorDepth.DEPTH_1_BIT
    return ColorDepth.from_env()
