"""What the keys do at the prompt, besides what they do in every line editor.

The rule kept here: no key both edits and decides. Enter sends, Esc and Ctrl-C stop what runs or take
back what was begun; a key that would do nothing says so or does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prompt_toolkit.filters import Condition, Filter, is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from rewake.cli.prompt import question

if TYPE_CHECKING:
    from rewake.cli.prompt.screen import Screen

TWICE_S: Final = 2.0
"""A second Ctrl-C within this leaves."""
_ESC_TWICE_S: Final = 1.0


@dataclass(slots=True)
class Keyboard:
    """What whoever owns the conversation does about keys. `hint` shows a word for a moment."""

    is_working: Callable[[], bool]
    interrupt: Callable[[], None]
    leave: Callable[[], None]
    cycle_mode: Callable[[], None]
    edit_earlier: Callable[[], None]
    hint: Callable[[str], None]
    dropped: Callable[[str], str | None]


@dataclass(slots=True)
class _Twice:
    """Whether a key was pressed twice in a while."""

    within_s: float
    _last_s: float = float("-inf")

    def again(self) -> bool:
        now = time.monotonic()
        is_again = now - self._last_s <= self.within_s
        self._last_s = float("-inf") if is_again else now
        return is_again


def bindings_for(screen: Screen, keyboard: Keyboard, at_draft: Filter) -> KeyBindings:
    """The keys of the prompt and, above them, those of a question."""
    bindings = KeyBindings()
    _sending(bindings, screen, keyboard, at_draft & ~is_searching)
    _stopping(bindings, keyboard, at_draft & ~is_searching)
    _escaping(bindings, keyboard, at_draft & ~is_searching)
    _editing(bindings, screen, keyboard, at_draft & ~is_searching)
    question.bind(bindings, screen.panel, keyboard.interrupt)
    return bindings


def _sending(bindings: KeyBindings, screen: Screen, keyboard: Keyboard, at_draft: Filter) -> None:
    @bindings.add("enter", filter=at_draft)
    def enter(event: KeyPressEvent) -> None:
        draft = event.current_buffer
        if (
            draft.document.text_before_cursor.endswith("\\")
            and not draft.document.text_after_cursor
        ):
            draft.delete_before_cursor(1)
            draft.insert_text("\n")
            return
        text = draft.text
        if not text.strip():
            return
        whole = screen.pastes.expand(text)
        if draft.history.get_strings()[-1:] != [whole]:
            draft.history.append_string(whole)
        draft.reset()
        screen.send(text)

    @bindings.add("escape", "enter", filter=at_draft)
    @bindings.add("c-o", filter=at_draft)
    def begin_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add(Keys.BracketedPaste, filter=at_draft)
    def pasted(event: KeyPressEvent) -> None:
        dropped = keyboard.dropped(event.data)
        event.current_buffer.insert_text(dropped or screen.pastes.take(event.data))


def _stopping(bindings: KeyBindings, keyboard: Keyboard, at_draft: Filter) -> None:
    ctrl_c = _Twice(TWICE_S)

    @bindings.add("c-c", filter=at_draft)
    def stop(event: KeyPressEvent) -> None:
        draft = event.current_buffer
        if keyboard.is_working():
            if ctrl_c.again():
                keyboard.leave()
            else:
                keyboard.interrupt()
        elif draft.text:
            draft.reset()
        elif ctrl_c.again():
            keyboard.leave()
        else:
            keyboard.hint("Ctrl-C again to leave")

    @bindings.add("c-d", filter=at_draft)
    def leave(event: KeyPressEvent) -> None:
        draft = event.current_buffer
        if draft.text:
            draft.delete()
        else:
            keyboard.leave()


def _escaping(bindings: KeyBindings, keyboard: Keyboard, at_draft: Filter) -> None:
    esc = _Twice(_ESC_TWICE_S)

    @bindings.add("escape", filter=at_draft)
    def escape(event: KeyPressEvent) -> None:
        draft = event.current_buffer
        if draft.complete_state is not None:
            draft.cancel_completion()
        elif keyboard.is_working():
            keyboard.interrupt()
        elif not draft.text and not esc.again():
            keyboard.hint("Esc again to edit an earlier prompt")
        elif not draft.text:
            keyboard.edit_earlier()

    @bindings.add("escape", "escape", filter=at_draft)
    def escape_twice(event: KeyPressEvent) -> None:
        if keyboard.is_working():
            keyboard.interrupt()
        elif not event.current_buffer.text:
            keyboard.edit_earlier()


def _editing(bindings: KeyBindings, screen: Screen, keyboard: Keyboard, at_draft: Filter) -> None:
    has_queue = Condition(lambda: bool(screen.queue) and not screen.draft.text)

    @bindings.add("up", filter=at_draft & has_queue)
    def take_back(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(screen.queue.pop())

    def only_one() -> bool:
        state = screen.draft.complete_state
        return state is not None and len(state.completions) == 1

    @bindings.add("tab", filter=at_draft & Condition(only_one))
    def take_it(event: KeyPressEvent) -> None:
        """Take the only one there is; going round would take it back."""
        draft = event.current_buffer
        if draft.complete_state is not None and draft.complete_state.current_completion is None:
            draft.complete_next()
        draft.complete_state = None  # the menu closes, what it gave stays

    @bindings.add("s-tab", filter=at_draft & Condition(lambda: screen.draft.complete_state is None))
    def mode(event: KeyPressEvent) -> None:  # noqa: ARG001  # the shape of a binding
        keyboard.cycle_mode()

    @bindings.add("c-x", "c-e", filter=at_draft)
    @bindings.add("c-g", filter=at_draft)
    def editor(event: KeyPressEvent) -> None:
        event.app.create_background_task(screen.edit_elsewhere())
