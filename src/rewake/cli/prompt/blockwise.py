"""Shows the answer of `rewake -p` on a terminal, block by block.

The rule kept here: a block is drawn as Markdown once it is whole and never again, so that what is on
the terminal can be scrolled and copied like any other output; and no cursor is moved for it.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rewake.agent.ports import Reply
from rewake.cli.reporting import TextReporter

if TYPE_CHECKING:
    from rewake.cli.prompt.blocks import Piece, Splitter
    from rewake.cli.prompt.paint import Painter


@dataclass(slots=True)
class BlockReporter(TextReporter):
    """Prose for people, its answers as Markdown."""

    _splitter: Splitter | None = None
    _painter: Painter | None = None

    def on_text(self, text: str) -> None:
        """Print what is whole."""
        if self._splitter is None:
            from rewake.cli.prompt.blocks import Splitter

            self._splitter = Splitter()
        self._draw(self._splitter.feed(self._cleaner.feed(text)))

    def on_answer(self, reply: Reply) -> None:  # noqa: ARG002  # it was shown as it came
        """Print the rest."""
        self.end_line()

    def end_line(self) -> None:
        """An answer that was cut short stays as far as it got."""
        splitter, self._splitter = self._splitter, None
        if splitter is not None:
            self._draw(splitter.feed(self._cleaner.finish()) + splitter.finish())
        TextReporter.end_line(self)

    def _draw(self, pieces: list[Piece]) -> None:
        if not pieces:
            return
        if self._painter is None:
            from rewake.cli.prompt.paint import Painter
            from rewake.cli.prompt.themes import theme_named

            self._painter = Painter(theme_named(None))
        size = shutil.get_terminal_size()
        lines = self._painter.lines(pieces, size.columns)
        if lines:
            self._write("\n".join(lines) + "\n")


def answers_as_blocks() -> bool:
    """Whether stdout is a terminal that can show them."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
