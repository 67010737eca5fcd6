"""The line at the bottom that names the most useful keys; each can be clicked.

One widget, because the toolkit's own footer makes one for each key and takes a third of the start.
"""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from textual.widgets import Static

Key = tuple[str, str, str]
"""What stands on the key, what it does, and the toolkit's name for that action."""

EVERYWHERE: tuple[Key, ...] = (("?", "Keys", "app.keys"), ("q", "Quit", "app.leave"))


class KeyBar(Static):
    """Names keys on one line, as many as there is room for."""

    auto_links = False  # the keys keep their colours

    def __init__(self, *keys: Key) -> None:
        text = Text(no_wrap=True, overflow="ellipsis")
        for key, label, action in keys:
            click = Style.from_meta({"@click": action})
            text.append(f" {key}", Style(color="yellow", bold=True) + click)
            text.append(f" {label} ", click)
        super().__init__(text, id="keys", markup=False)
