"""The small windows: a question with a line to type, a yes or no, and the keys."""

from __future__ import annotations

from typing import ClassVar, Final

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

_HELP: Final = (
    (
        "Sessions",
        (
            ("↑ ↓  PgUp PgDn", "move"),
            ("/", "filter by title, prompt, tag, project, id"),
            ("Enter", "look into the session (in the picker: choose it)"),
            ("r", "resume: go on with it in the prompt"),
            ("f", "fork: a new session that goes on from its end"),
            ("n", "name it"),
            ("g", "tags"),
            ("t", "tree of its branches"),
            ("J K", "scroll the preview (or Shift with ↑ ↓)"),
            ("y", "copy its id"),
            ("x", "export it to a file"),
            ("d", "delete: to the trash"),
            ("a", "all projects, or only this one"),
            ("F5", "read the list again"),
        ),
    ),
    (
        "Conversation",
        (
            ("↑ ↓", "select the item before, after"),
            ("Home End", "first, last"),
            ("Enter or a click", "unfold a tool call: diff, arguments, result"),
            ("f", "fork after the selected message"),
            ("w", "rewind: back to just after the selected message"),
            ("W", "the same with the files, after a preview"),
            ("u", "undo the newest rewind"),
            ("t", "tree of the branches"),
            ("h", "also what was said before compactions"),
            ("y", "copy the id of the message"),
            ("r", "resume"),
        ),
    ),
    ("Everywhere", (("Esc", "back"), ("l", "light or dark"), ("?", "this"), ("q", "quit"))),
)


class Ask(ModalScreen[str | None]):
    """Asks for a line of text; None when the user leaves it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave")]

    def __init__(self, question: str, value: str, hint: str = "") -> None:
        super().__init__()
        self._question = question
        self._value = value
        self._hint = hint

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Text(self._question, "bold"))
            yield Input(self._value, compact=True, select_on_focus=False)
            yield Static(Text(self._hint or "Enter keeps it, Esc leaves it as it was.", "dim"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give back what was typed."""
        self.dismiss(event.value)

    def action_leave(self) -> None:
        """Give back nothing."""
        self.dismiss(None)


class Confirm(ModalScreen[bool]):
    """Asks before something is changed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "answer(True)", "Yes"),
        Binding("n,escape,q", "answer(False)", "No"),
    ]

    def __init__(self, question: str, explanation: str) -> None:
        super().__init__()
        self._question = question
        self._explanation = explanation

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(Text(self._question, "bold"))
            yield Static(Text(self._explanation))
            yield Static(Text("Enter or y: yes    Esc or n: no", "dim"))

    def action_answer(self, answer: bool) -> None:  # noqa: FBT001  # the toolkit calls it so
        """Give back the answer."""
        self.dismiss(answer)


class Help(ModalScreen[None]):
    """All keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "leave", "Close")
    ]

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog help"):
            yield Static(self._table())

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column()
        for number, (part, keys) in enumerate(_HELP):
            table.add_row(Text(("\n" if number else "") + part, "bold"), "")
            for key, meaning in keys:
                table.add_row(Text(f" {key}", "cyan"), Text(meaning))
        return table

    def action_leave(self) -> None:
        """Close it."""
        self.dismiss(None)
