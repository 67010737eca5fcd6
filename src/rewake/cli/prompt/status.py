"""The status line: model, permission mode, context, cost, place, and what runs besides.

The rule kept here: drawing it costs nothing. What has to be counted is counted when something
happened, not each time the line is drawn.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rewake.cli.terminal import fit, one_line, width

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples

_HINT_S: Final = 2.0
_THOUSAND: Final = 1000
_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Facts:
    """What the line says. `context_tokens` is the model's window, None if unknown."""

    model: str = ""
    mode: str = "default"
    tokens: int = 0
    context_tokens: int | None = None
    cost_usd: float | None = None
    place: str = ""
    others: str = ""


@dataclass(slots=True)
class StatusLine:
    """Draws the facts; `measure` is asked for them by `update`."""

    measure: Callable[[], Facts]
    facts: Facts = field(default_factory=Facts)
    _hint: str = ""
    _hint_until_s: float = 0.0

    def update(self) -> None:
        """Something happened that may have changed a fact."""
        self.facts = self.measure()

    def hint(self, text: str) -> None:
        """Show this instead, for a moment."""
        self._hint, self._hint_until_s = text, time.monotonic() + _HINT_S

    def text(self, columns: int) -> StyleAndTextTuples:
        """The line, with what matters least left out where there is no room."""
        if self._hint and time.monotonic() < self._hint_until_s:
            return [("class:mode", fit(self._hint, max(columns - 1, 1)))]
        facts = self.facts
        mode = "" if facts.mode == "default" else one_line(facts.mode)
        parts = [
            (0, "class:mode", mode),
            (1, "", fit(facts.model, 40)),
            (2, "", _context(facts)),
            (4, "", f"${facts.cost_usd:.4f}" if facts.cost_usd else ""),
            (5, "", one_line(facts.place)),
            (3, "class:mode", one_line(facts.others)),
        ]
        shown = [part for part in parts if part[2]]
        while len(shown) > 1 and _columns([text for _, _, text in shown]) >= columns:
            shown.remove(max(shown))
        line: StyleAndTextTuples = []
        for place, (_, style, text) in enumerate(shown):
            line += [("", " · ")] if place else []
            line.append((style, fit(text, max(columns - 1, 1))))
        return line


def _columns(texts: list[str]) -> int:
    return sum(map(width, texts)) + 3 * (len(texts) - 1)


def _context(facts: Facts) -> str:
    if not facts.tokens:
        return ""
    amount = _amount(facts.tokens)
    if not facts.context_tokens:
        return f"{amount} tokens"
    return f"{facts.tokens * 100 // facts.context_tokens}% of context ({amount})"


def _amount(tokens: int) -> str:
    if tokens < _THOUSAND:
        return str(tokens)
    if tokens < _MILLION:
        return f"{tokens / _THOUSAND:.1f}k"
    return f"{tokens / _MILLION:.1f}M"
