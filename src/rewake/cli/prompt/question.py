"""A question that one key answers.

The rules kept here: a key answers only what was on the screen when it was pressed, so a question
listens once it has been shown and nothing was typed for a moment; until then keys go where they were
going. And only a clear yes allows anything.
"""

from __future__ import annotations

import asyncio
import select
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rewake.agent.permissions import Answer, Question, Refusal
from rewake.cli.terminal import fit, one_line, width

if TYPE_CHECKING:
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyBindings

QUIET_S: Final = 0.25
"""Nothing may have been typed for so long before a question takes a key."""
# Below this many rows the options share one line.
_ROWS_FOR_LIST: Final = 14
_ROWS_FOR_ANY: Final = 4


@dataclass(frozen=True, slots=True)
class Option:
    """One answer: the key that gives it, how it is called in a list and in a word."""

    key: str
    label: str
    word: str
    answer: Answer | None


def options_for(question: Question) -> tuple[Option, ...]:
    """The answers to a question about a call; the last one lets the user say why not."""
    rule = one_line(question.rule)
    return (
        Option("y", "Yes, this once", "yes", "yes"),
        Option("a", f"Always {rule}", f"always {rule}", "always"),
        Option("n", "No", "no", "no"),
        Option("r", "No, and say what to do instead", "reason", None),
    )


@dataclass(slots=True, eq=False)
class Asked:
    """A question on the screen. `said` is the answer once there is one; None: interrupted."""

    question: Question
    options: tuple[Option, ...]
    said: asyncio.Future[Answer | Refusal | None]
    chosen: int = 0
    is_shown: bool = False
    is_armed: bool = False
    gives_reason: bool = False

    def answer(self, answer: Answer | Refusal | None) -> None:
        """Give the answer, unless there is one."""
        if not self.said.done():
            self.said.set_result(answer)


@dataclass(slots=True)
class Panel:
    """Where questions stand, one at a time. `changed` is called when it should be drawn anew, `arm`
    for a question that is to listen once nothing was typed for a moment.
    """

    reason: Buffer
    changed: Callable[[], None]
    focus: Callable[[bool], None]
    asked: Asked | None = None
    arm: Callable[[Asked], None] = lambda _asked: None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def ask(self, question: Question, show: Callable[[], None]) -> Answer | Refusal | None:
        """The answer, once those who asked before have theirs. `show` prints what it is about."""
        async with self._turn:
            said: asyncio.Future[Answer | Refusal | None]
            said = asyncio.get_running_loop().create_future()
            self.asked = Asked(question, options_for(question), said)
            show()
            self.arm(self.asked)
            self.changed()
            try:
                return await said
            finally:
                self.asked = None
                self.focus(False)
                self.reason.reset()
                self.changed()

    # --- what the keys do ----------------------------------------------------------------

    def press(self, key: str) -> bool:
        """A letter: take the option that it stands for; False if it stands for none.

        Whoever presses another one is writing something, and what follows is no answer either.
        """
        asked = self.asked
        if asked is None:
            return False
        for place, option in enumerate(asked.options):
            if option.key == key.lower():
                asked.chosen = place
                self.choose()
                return True
        asked.is_armed = False
        self.arm(asked)
        return False

    def move(self, by: int) -> None:
        """Another option."""
        if self.asked is not None:
            self.asked.chosen = (self.asked.chosen + by) % len(self.asked.options)
            self.changed()

    def choose(self) -> None:
        """Take the option at hand."""
        asked = self.asked
        if asked is None:
            return
        answer = asked.options[asked.chosen].answer
        if answer is not None:
            asked.answer(answer)
            return
        asked.gives_reason = True
        self.focus(True)
        self.changed()

    def send_reason(self) -> None:
        """No, with what was typed."""
        if self.asked is not None:
            reason = self.reason.text.strip()
            self.asked.answer(Refusal(reason) if reason else "no")

    def back(self) -> None:
        """From the reason to the options."""
        if self.asked is not None:
            self.asked.gives_reason = False
            self.focus(False)
            self.changed()

    # --- how it looks --------------------------------------------------------------------

    def text(self, columns: int, rows: int) -> StyleAndTextTuples:
        """The question and its answers, in as many lines as there is room for."""
        asked = self.asked
        if asked is None:
            return []
        room = max(columns - 2, 4)
        asker = f"{one_line(asked.question.asker)} asks: " if asked.question.asker else ""
        title = f"{asker}Allow {one_line(asked.question.tool_name)}?"
        head = ("class:question", fit(title, room))
        if asked.gives_reason:
            return [("class:question", fit("No. What should be done instead?", room))]
        if not asked.is_shown:
            return [head]
        if rows < _ROWS_FOR_LIST or columns < 2 * _ROWS_FOR_LIST:
            line = _in_one_line(asked, room)
            return line if rows <= _ROWS_FOR_ANY else [head, ("", "\n"), *line]
        lines: StyleAndTextTuples = [head]
        for place, option in enumerate(asked.options):
            style, mark = ("class:option", " ")
            if place == asked.chosen and asked.is_armed:
                style, mark = ("class:option.current", "❯")  # noqa: RUF001  # the sign that lists to choose from have
            label = fit(f"[{option.key}] {option.label}", max(room - 2, 1))
            lines += [("", "\n"), (style, f"{mark} {label}")]
        return lines


def _in_one_line(asked: Asked, room: int) -> StyleAndTextTuples:
    words = [f"[{option.key}]{option.word[1:]}" for option in asked.options]
    if sum(width(word) + 1 for word in words) + 1 > room:
        words = [f"[{option.key}]" for option in asked.options]
    parts: StyleAndTextTuples = []
    for place, word in enumerate(words):
        is_chosen = place == asked.chosen and asked.is_armed
        style = "class:option.current" if is_chosen else "class:option"
        parts += [(style, f"❯{word}" if is_chosen else word), ("", " ")]  # noqa: RUF001  # as in a list
    return parts


async def arm(asked: Asked, last_key_s: Callable[[], float], draw: Callable[[], None]) -> None:
    """Let the question listen, once nobody is in the middle of typing something else.

    `last_key_s` says when the last key came (`time.monotonic`), `draw` draws at once.
    """
    since_s = time.monotonic()
    while not asked.is_armed:
        quiet_s = time.monotonic() - max(since_s, last_key_s())
        if quiet_s < QUIET_S:
            await asyncio.sleep(QUIET_S - quiet_s)
            continue
        asked.is_shown = True
        draw()  # it must be seen before it takes a key
        # A key that is waiting now may have been pressed before that.
        if not _has_input():
            asked.is_armed = True
            draw()
        await asyncio.sleep(0)


def _has_input() -> bool:
    try:
        return bool(select.select([sys.stdin], [], [], 0)[0])
    except (OSError, ValueError):
        return False  # it was closed: nobody types


def bind(  # noqa: C901  # a list of small functions
    bindings: KeyBindings, panel: Panel, interrupt: Callable[[], None]
) -> None:
    """The keys of a question that listens."""
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyPressEvent
    from prompt_toolkit.keys import Keys

    @Condition
    def listens() -> bool:
        asked = panel.asked
        if asked is None or asked.said.done():
            return False  # what is typed after the answer is no part of it
        return asked.is_armed and not asked.gives_reason

    @Condition
    def takes_reason() -> bool:
        asked = panel.asked
        return asked is not None and asked.gives_reason and not asked.said.done()

    @bindings.add(Keys.Any, filter=listens)
    def any_key(event: KeyPressEvent) -> None:
        if event.data.isprintable() and not panel.press(event.data):
            event.current_buffer.insert_text(event.data)

    @bindings.add("up", filter=listens)
    @bindings.add("s-tab", filter=listens)
    def up(event: KeyPressEvent) -> None:  # noqa: ARG001  # the shape of a binding
        panel.move(-1)

    @bindings.add("down", filter=listens)
    @bindings.add("tab", filter=listens)
    def down(event: KeyPressEvent) -> None:  # noqa: ARG001  # the shape of a binding
        panel.move(1)

    @bindings.add("enter", filter=listens)
    def enter(event: KeyPressEvent) -> None:  # noqa: ARG001  # the shape of a binding
        panel.choose()

    @bindings.add("enter", filter=takes_reason)
    def send(event: KeyPressEvent) -> None:  # noqa: ARG001  # the shape of a binding
        panel.send_reason()

    @bindings.add("escape", filter=takes_reason)
    def back(event: KeyPressEvent) -> None:  # noqa: ARG001  # the shape of a binding
        panel.back()

    @bindings.add("c-c", filter=takes_reason | listens)
    @bindings.add("c-d", filter=listens)
    @bindings.add("escape", filter=listens)
    def stop(event: KeyPressEvent) -> None:  # noqa: ARG001  # the shape of a binding
        interrupt()

    # What is pasted is no answer.
    @bindings.add(Keys.BracketedPaste, filter=listens)
    def pasted(event: KeyPressEvent) -> None:
        """Nothing."""
