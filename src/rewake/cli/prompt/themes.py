"""Colours of the prompt and of what is shown above it.

The rule kept here: without a theme of the user's only the terminal's own sixteen colours are used and
no background is set, which can be read on dark and on light ground alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Theme:
    """`code` is a Pygments style or Rich's own; `ui` styles for the prompt, `answer` for Markdown."""

    name: str
    code: str
    ui: dict[str, str] = field(default_factory=dict)
    answer: dict[str, str] = field(default_factory=dict)
    has_colour: bool = True


_UI: Final = {
    "status": "noreverse",
    "completion-menu": "noreverse bg:default",
    "completion-menu.completion": "noreverse bg:default fg:default",
    "completion-menu.completion.current": "reverse",
    "completion-menu.meta.completion": "noreverse bg:default fg:ansibrightblack",
    "completion-menu.meta.completion.current": "reverse",
    "scrollbar.background": "bg:default",
    "scrollbar.button": "bg:ansibrightblack",
}


def _ui(accent: str, dim: str, warn: str) -> dict[str, str]:
    return {
        **_UI,
        "prompt": f"{accent} bold",
        "status": f"noreverse {dim}",
        "mode": warn,
        "dim": dim,
        "queued": dim,
        "question": f"{warn} bold",
        "option": "",
        "option.current": f"{accent} bold",
    }


def _answer(accent: str, dim: str, code: str) -> dict[str, str]:
    return {
        "markdown.h1": f"bold underline {accent}",
        "markdown.h2": f"bold {accent}",
        "markdown.h3": f"bold {accent}",
        "markdown.h4": "bold",
        "markdown.h5": "bold",
        "markdown.h6": "italic",
        "markdown.code": code,
        "markdown.block_quote": dim,
        "markdown.item.bullet": accent,
        "markdown.item.number": accent,
        "markdown.hr": dim,
        "markdown.table.border": dim,
        "markdown.table.header": "bold",
    }


THEMES: Final[dict[str, Theme]] = {
    theme.name: theme
    for theme in (
        Theme(
            "ansi",
            "ansi_dark",
            _ui("ansicyan", "ansibrightblack", "ansiyellow"),
            _answer("cyan", "bright_black", "cyan"),
        ),
        Theme(
            "dark",
            "monokai",
            _ui("#7dcfff", "#8a8f98", "#e0af68"),
            _answer("#7dcfff", "#8a8f98", "#9ece6a"),
        ),
        Theme(
            "light",
            "friendly",
            _ui("#005f87", "#6c6c6c", "#875f00"),
            _answer("#005f87", "#6c6c6c", "#00622d"),
        ),
        Theme("none", "bw", _ui("", "", ""), _answer("", "", ""), has_colour=False),
    )
}
DEFAULT: Final = "ansi"


def theme_named(name: str | None) -> Theme:
    """The theme of that name; the usual one for a name that there isn't."""
    return THEMES.get(name or DEFAULT, THEMES[DEFAULT])
