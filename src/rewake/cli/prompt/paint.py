"""Draws pieces of Markdown as lines for a terminal, with Rich.

The rules kept here: a line holds text and colours and nothing else, whatever the Markdown said (an
entity can spell any character, so what is drawn is cleaned, not only what was written); links are
shown with where they lead and can't be followed; and no line is wider than the terminal.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from rich.console import COLOR_SYSTEMS, Console, ConsoleOptions, RenderResult
from rich.markdown import (
    CodeBlock,
    Heading,
    HorizontalRule,
    ListElement,
    ListItem,
    Markdown,
    MarkdownElement,
)
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme as RichTheme

from rewake.cli.prompt.blocks import Block, Code, Piece, parser
from rewake.cli.prompt.themes import Theme
from rewake.screentext import clean

if TYPE_CHECKING:
    from markdown_it.token import Token

_COLUMNS_MIN: Final = 8  # Rich needs some room for a table's borders
_CODE_INDENT: Final = 2
_CELL_COLUMNS_MIN: Final = 5  # a few letters, and what separates them
_NUMBER_COLUMNS: Final = 2


class Painter:
    """Draws for one terminal. `environ` says which colours it has, as for every other program."""

    def __init__(self, theme: Theme, environ: Mapping[str, str] = os.environ) -> None:
        self._theme = theme
        has_colour = theme.has_colour and not environ.get("NO_COLOR")
        self._console = Console(
            file=io.StringIO(),
            force_terminal=True,
            no_color=not has_colour,
            legacy_windows=False,
            theme=RichTheme(theme.answer),
            _environ=dict(environ),
        )
        name = self._console.color_system
        self._colours = COLOR_SYSTEMS[name] if name is not None else None
        self._parser = parser()

    def lines(self, pieces: list[Piece], columns: int) -> list[str]:
        """The pieces as lines of at most `columns` columns, colours included."""
        return [line for piece in pieces for line in self._piece(piece, columns)]

    def _piece(self, piece: Piece, columns: int) -> list[str]:
        width = max(columns, _COLUMNS_MIN)
        drawn = self._code(piece) if isinstance(piece, Code) else self._block(piece, width)
        options = self._console.options.update(width=width, height=None)
        lines = self._console.render_lines(drawn, options, pad=False, new_lines=False)
        if isinstance(piece, Block):
            lines = _without_margins(lines)
        found = [self._line(line) for line in lines]
        return ["", *found] if piece.gap else found

    def _line(self, segments: list[Segment]) -> str:
        parts: list[str] = []
        kept = [segment for segment in segments if not segment.control]
        while kept and not kept[-1].text.strip():
            kept.pop()  # no theme has a background, so nobody sees them
        for place, (text, style, _) in enumerate(kept, start=1):
            said = (
                clean(text if place < len(kept) else text.rstrip()).replace("\n", "").expandtabs(4)
            )
            parts.append(self._coloured(said, style))
        return "".join(parts)

    def _coloured(self, text: str, style: Style | None) -> str:
        if style is None:
            return text
        if self._console.no_color:
            style = style.without_color
        return style.render(text, color_system=self._colours)

    def _block(self, block: Block, columns: int) -> Markdown | Text:
        tokens = [_shown(token) for token in self._parser.parse(block.source)]
        if sum(token.type == "th_open" for token in tokens) * _CELL_COLUMNS_MIN > columns:
            # Rich would leave cells out to make it fit.
            return Text(block.source, overflow="fold")
        if block.number is not None and tokens and tokens[0].type == "ordered_list_open":
            tokens[0].attrs["start"] = block.number
        return _Drawn(tokens, self._theme.code)

    def _code(self, code: Code) -> Padding:
        whole = "\n".join(line.expandtabs(4) for line in (*code.context, *code.lines))
        text = Syntax("", code.language, theme=self._theme.code).highlight(whole)
        lines = text.split("\n", allow_blank=True)[len(code.context) :][: len(code.lines)]
        shown = Text("\n").join(lines)
        shown.overflow, shown.no_wrap, shown.justify = "fold", False, "left"
        return Padding(shown, (0, 0, 0, _CODE_INDENT), expand=False)


def _without_margins(lines: list[list[Segment]]) -> list[list[Segment]]:
    """Without the empty lines around what some elements of Rich draw."""

    def is_empty(line: list[Segment]) -> bool:
        return not any(segment.text.strip() for segment in line)

    start, end = 0, len(lines)
    while start < end and is_empty(lines[start]):
        start += 1
    while end > start and is_empty(lines[end - 1]):
        end -= 1
    return lines[start:end]


# --- Rich's Markdown, with a few elements of our own ------------------------------------------


class _Heading(Heading):
    LEVEL_ALIGN = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class _Fence(CodeBlock):
    """A code block within a list or a quotation."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip().expandtabs(4)
        yield Syntax(
            code, self.lexer_name, theme=self.theme, word_wrap=True, background_color="default"
        )


class _Line(HorizontalRule):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style="markdown.hr", characters="─")


class _Item(ListItem):
    """Its text begins at the same column for items 1 to 99: a list may be drawn item by item."""

    def render_number(
        self,
        console: Console,
        options: ConsoleOptions,
        number: int,
        last_number: int,  # noqa: ARG002  # Rich's
    ) -> RenderResult:
        widest = max(len(str(number)), _NUMBER_COLUMNS)
        yield from super().render_number(console, options, number, 10 ** (widest - 1))


class _Drawn(Markdown):
    """Markdown that was parsed already."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Fence,
        "code_block": _Fence,
        "hr": _Line,
        "list_item_open": _Item,
        "bullet_list_open": ListElement,
    }

    def __init__(self, tokens: list[Token], code_theme: str) -> None:
        super().__init__("", code_theme=code_theme, hyperlinks=False)
        self.parsed = tokens


def _shown(token: Token) -> Token:
    """The token as it is to be drawn: clean, its links as text, its line ends kept."""
    from markdown_it.token import Token

    token.content = clean(token.content)
    if not token.children:
        return token
    children: list[Token] = []
    leads_to, said = "", ""
    for child in token.children:
        child.content = clean(child.content)
        match child.type:
            case "softbreak":
                child.type = "hardbreak"
                children.append(child)
            case "link_open":
                leads_to, said = clean(str(child.attrs.get("href", ""))), ""
            case "link_close":
                if leads_to and leads_to not in {said, f"mailto:{said}"}:
                    children.append(Token("text", "", 0, content=f" ({leads_to})"))
            case "image":
                source = clean(str(child.attrs.get("src", "")))
                shown = f"[image: {child.content or source}] ({source})"
                children.append(Token("text", "", 0, content=shown))
            case _:
                said += child.content
                children.append(child)
    token.children = children
    return token
