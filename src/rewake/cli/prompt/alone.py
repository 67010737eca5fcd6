"""A question on a terminal on which nothing else is going on: that of `rewake -p`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style

from rewake.agent.permissions import Answer, Question, Refusal
from rewake.cli.prompt.question import Panel, arm, bind
from rewake.cli.prompt.themes import theme_named


async def ask_alone(
    question: Question, stream: TextIO, show: Callable[[], None]
) -> Answer | Refusal | None:
    """The answer; None for Ctrl-C. `show` prints what the question is about."""
    app, panel, last_key_s = _application(stream)
    arming: list[asyncio.Future[None]] = []

    def shown() -> None:
        show()
        asked = panel.asked
        if asked is not None:
            draw = app._redraw  # noqa: SLF001  # at once: it must be seen before it takes a key
            arming.append(asyncio.ensure_future(arm(asked, last_key_s, draw)))

    running = asyncio.ensure_future(app.run_async(handle_sigint=False, set_exception_handler=False))
    asking = asyncio.ensure_future(panel.ask(question, shown))
    try:
        await asyncio.wait({running, asking}, return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else None
    finally:
        asking.cancel()
        for task in arming:
            task.cancel()
        if app.is_running and not running.done():
            app.exit()
        await asyncio.wait({running})


def _application(stream: TextIO) -> tuple[Application[None], Panel, Callable[[], float]]:
    output = create_output(stdout=stream)
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False
    reason = Buffer(multiline=False)
    last_key = [0.0]

    def text() -> StyleAndTextTuples:
        size = output.get_size()
        return panel.text(size.columns, size.rows)

    def focus(wanted: bool) -> None:  # noqa: FBT001  # a callback of one meaning
        app.layout.focus(because if wanted else listed)

    def draw() -> None:
        app.invalidate()

    def interrupt() -> None:
        if panel.asked is not None:
            panel.asked.answer(None)

    listed = Window(FormattedTextControl(text, focusable=True), dont_extend_height=True)
    because = Window(
        BufferControl(reason, input_processors=[BeforeInput("> ", "class:prompt")]),
        dont_extend_height=True,
        wrap_lines=True,
    )
    panel = Panel(reason, draw, focus)
    gives_reason = Condition(lambda: panel.asked is not None and panel.asked.gives_reason)
    bindings = KeyBindings()
    bind(bindings, panel, interrupt)
    app: Application[None] = Application(
        Layout(HSplit([listed, ConditionalContainer(because, gives_reason)]), listed),
        key_bindings=bindings,
        style=Style.from_dict(theme_named(None).ui),
        output=output,
        erase_when_done=True,
    )
    app.ttimeoutlen, app.timeoutlen = 0.05, 0.2

    def note_key(_: object) -> None:
        last_key[0] = time.monotonic()

    app.key_processor.before_key_press += note_key
    return app, panel, lambda: last_key[0]
