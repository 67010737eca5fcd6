"""Markdown that is still being written, cut into pieces that can be drawn for good.

The rules kept here: a piece that was given out never changes, whatever follows; which pieces there
are depends on the lines alone and not on how the text was cut on its way; and the cost of a long
answer grows with its length, not with its square.

It rests on CommonMark: once a block at the top has been closed by another, nothing that follows can
reopen it. Definitions of links could, so they are off, as is HTML (see `parser`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

CODE_LINES: Final = 40
"""Lines of a long code block that are drawn at a time."""
# Lines of code before a piece that are looked at for its colours: enough for any docstring.
_CONTEXT_LINES: Final = 400
_FENCE: Final = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<info>.*)$")
_MARKS: Final = frozenset("#-*+>`~=_|0123456789")
# A block of n lines is parsed again at most every n/16 lines, so that n lines cost n·log n.
_PARSE_SHARE: Final = 16
_ENDED_BY_A_BLANK: Final = frozenset(
    {"paragraph_open", "heading_open", "hr", "table_open", "blockquote_open"}
)
_ALWAYS_WHOLE: Final = frozenset({"heading_open", "hr"})


@dataclass(frozen=True, slots=True)
class Block:
    """Markdown of one block. `gap` asks for an empty line before it.

    An item of a list has its number in `number` (None: a bullet, or no item).
    """

    source: str
    gap: bool
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Code:
    """Some lines of a code block; `context` are lines before them, which decide on their colours."""

    lines: tuple[str, ...]
    language: str
    gap: bool
    context: tuple[str, ...] = ()


Piece = Block | Code


@dataclass(slots=True)
class _Fence:
    """A code block that is open: its opening line, and the lines not given out yet."""

    mark: str
    info: str
    indent: int
    lines: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    is_first: bool = True

    def is_closed_by(self, line: str) -> bool:
        text = line.strip()
        return (
            len(line) - len(line.lstrip(" ")) < 4  # noqa: PLR2004  # CommonMark: more is code
            and len(text) >= len(self.mark)
            and text == self.mark[0] * len(text)
        )

    def take(self, line: str) -> None:
        """One more line, without the indentation that the fence has itself."""
        indent = min(self.indent, len(line) - len(line.lstrip(" ")))
        self.lines.append(line[indent:])


class Splitter:
    """Give it text as it comes; it gives out the pieces that are final."""

    def __init__(self, blocks: MarkdownIt | None = None) -> None:
        # Only where the blocks are matters here: what is in them is parsed when they are drawn.
        self._parser = parser("inline") if blocks is None else blocks
        # A line that has no end yet, as it came: it may be long, and comes in thousands of pieces.
        self._partial: list[str] = []
        self._lines: list[str] = []
        self._since_parsed = 0
        self._fence: _Fence | None = None
        # The number of the next item where the lines begin inside of a list; 0 for a bullet.
        self._item: int | None = None
        self._is_first = True

    def feed(self, text: str) -> list[Piece]:
        """What became final by this text."""
        if "\n" not in text:
            self._partial.append(text)
            return []
        *lines, partial = ("".join(self._partial) + text).split("\n")
        self._partial = [partial]
        return [piece for line in lines for piece in self._line(line)]

    def unfinished(self, chars: int) -> tuple[bool, str]:
        """Whether what isn't final is longer than this, and its end."""
        lines = self._lines if self._fence is None else self._fence.lines
        length = sum(map(len, lines)) + len(lines) + sum(map(len, self._partial))
        if length <= chars:
            return False, ""
        return True, "\n".join([*lines, "".join(self._partial)])[-chars:]

    def rest(self) -> list[Piece]:
        """The pieces of what isn't final, as if it ended here."""
        return self._copy().finish()

    def finish(self) -> list[Piece]:
        """The pieces of what isn't final: nothing more comes."""
        partial, self._partial = "".join(self._partial), []
        pieces = self._line(partial) if partial else []
        if self._fence is not None:
            pieces += self._code_ended()
        pieces += self._cut(everything=True)
        return pieces

    def _copy(self) -> Splitter:
        twin = Splitter(self._parser)
        twin._partial, twin._lines = list(self._partial), list(self._lines)
        twin._since_parsed, twin._item = self._since_parsed, self._item
        twin._is_first = self._is_first
        if self._fence is not None:
            lines, before = list(self._fence.lines), list(self._fence.before)
            twin._fence = replace(self._fence, lines=lines, before=before)
        return twin

    def _line(self, line: str) -> list[Piece]:
        if self._fence is not None:
            return self._code_line(line)
        after_blank = not self._lines or not self._lines[-1].strip()
        self._lines.append(line)
        self._since_parsed += 1
        is_likely = after_blank or not line.strip() or line.lstrip()[:1] in _MARKS or "|" in line
        if not is_likely or self._since_parsed < len(self._lines) // _PARSE_SHARE:
            return []
        return self._cut(everything=False)

    # --- code ----------------------------------------------------------------------------

    def _code_line(self, line: str) -> list[Piece]:
        fence = self._fence
        if fence is None:
            return []
        if fence.is_closed_by(line):
            return self._code_ended()
        fence.take(line)
        return [self._code_piece()] if len(fence.lines) >= CODE_LINES else []

    def _code_ended(self) -> list[Piece]:
        fence = self._fence
        if fence is None:
            return []
        pieces: list[Piece] = [self._code_piece()] if fence.lines or fence.is_first else []
        self._fence = None
        return pieces

    def _code_piece(self) -> Code:
        fence = self._fence
        if fence is None:
            raise AssertionError("no code block is open")
        lines, fence.lines = tuple(fence.lines), []
        gap = fence.is_first and self._gap()
        fence.is_first = False
        piece = Code(lines, fence.info, gap, tuple(fence.before))
        fence.before = [*fence.before, *lines][-_CONTEXT_LINES:]
        return piece

    # --- everything else -----------------------------------------------------------------

    def _cut(self, *, everything: bool) -> list[Piece]:
        """Give out the blocks that are final and keep the lines of the one that isn't."""
        self._since_parsed = 0
        tops = _tops(self._parser, self._lines)
        pieces: list[Piece] = []
        keep_from = len(self._lines)
        for place, top in enumerate(tops):
            is_last = place == len(tops) - 1
            if not is_last or everything or self._is_whole(top):
                pieces += self._pieces_of(top)
                continue
            opening = _FENCE.match(self._lines[top.start]) if top.kind == "fence" else None
            if opening is not None:
                lines, self._lines = self._lines[top.start + 1 :], []
                self._item = None
                self._fence = _fence(opening)
                return pieces + [piece for line in lines for piece in self._line(line)]
            keep_from = top.start
            if top.items:
                for start, end in top.items[:-1]:
                    pieces.append(self._item_piece(top, start, end))
                keep_from = top.items[-1][0]
        self._lines = self._lines[keep_from:]
        return pieces

    def _is_whole(self, top: _Top) -> bool:
        """Whether the last block can't grow: it is one line by nature, or a blank line follows."""
        if top.kind in _ALWAYS_WHOLE and not top.is_underlined:
            return True
        if top.kind == "fence":
            return _is_closed(self._lines[top.start : top.end])
        return top.kind in _ENDED_BY_A_BLANK and top.end < len(self._lines)

    def _pieces_of(self, top: _Top) -> list[Piece]:
        if top.items:
            pieces: list[Piece] = [self._item_piece(top, *item) for item in top.items]
            self._item = None
            return pieces
        self._item = None
        lines = self._lines[top.start : top.end]
        opening = _FENCE.match(lines[0]) if top.kind == "fence" else None
        if opening is None:
            return [Block("\n".join(lines), self._gap())]
        self._fence = _fence(opening)
        found = [piece for line in lines[1:] for piece in self._code_line(line)]
        return found + self._code_ended()

    def _item_piece(self, top: _Top, start: int, end: int) -> Block:
        source = "\n".join(self._lines[start:end])
        is_first = self._item is None
        number = (top.number if self._item is None else self._item) if top.number else 0
        self._item = number + 1 if number else 0
        return Block(source, is_first and self._gap(), number or None)

    def _gap(self) -> bool:
        is_first, self._is_first = self._is_first, False
        return not is_first


def _fence(opening: re.Match[str]) -> _Fence:
    language = opening["info"].strip().partition(" ")[0]
    return _Fence(opening["mark"], language, opening.start("mark"))


def _is_closed(lines: list[str]) -> bool:
    """Whether the lines of a code block have its end among them."""
    opening = _FENCE.match(lines[0])
    return opening is not None and len(lines) > 1 and _fence(opening).is_closed_by(lines[-1])


# --- the parser ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Top:
    """A block at the top: which lines it takes; for a list its items and its first number."""

    kind: str
    start: int
    end: int
    items: tuple[tuple[int, int], ...] = ()
    number: int | None = None
    is_underlined: bool = False


_OFF: Final = ("html_block", "html_inline", "reference")


def parser(*off: str) -> MarkdownIt:
    """CommonMark with tables and strikethrough, less the rules named and two that don't fit here.

    HTML would be dropped when drawn, and definitions of links would change what was drawn before.
    """
    from markdown_it import MarkdownIt

    return MarkdownIt().enable(["strikethrough", "table"]).disable([*_OFF, *off])


def _tops(blocks: MarkdownIt, lines: list[str]) -> list[_Top]:
    found: list[_Top] = []
    items: list[tuple[int, int]] = []
    for token in blocks.parse("\n".join(lines)):
        if token.map is None:
            continue
        start, end = token.map
        if token.level == 0:
            items = []
            number = int(token.attrs.get("start", 1)) if token.type == "ordered_list_open" else None
            # A list that begins with 0 is counted from 1: 0 stands for a bullet here.
            number = max(number, 1) if number is not None else None
            underlined = token.type == "heading_open" and token.markup in {"=", "-"}
            found.append(_Top(token.type, start, _end(lines, start, end), (), number, underlined))
        elif token.type == "list_item_open" and token.level == 1:
            items.append((start, _end(lines, start, end)))
            found[-1] = replace(found[-1], items=tuple(items))
    return found


def _end(lines: list[str], start: int, end: int) -> int:
    """Without the blank lines at the end."""
    while end > start + 1 and not lines[end - 1].strip():
        end -= 1
    return end
