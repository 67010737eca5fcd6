"""Text as trees that the page builds into elements: Markdown, highlighted code, diffs, text cut to a size.

The rules kept here:

- A tree is JSON: a string is a text node, a list is an element with its tag first, then an object of
  attributes, then children. The page makes elements of the tags and attributes that it knows and of no
  others, so a tree that says anything else is inert, too.
- HTML in Markdown is text. A link leads to the web or to a mail address, or it is text with its
  target beside it. Pictures from elsewhere are never loaded.
- What is cut says how much is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from rewake.state.text import boundary

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from pygments.lexer import Lexer

Node = str | list["Node"] | dict[str, str]

_MARKDOWN_CHARS_MAX: Final = 200_000  # more than any answer; it would hold the page up
_HIGHLIGHTED_CHARS_MAX: Final = 50_000
_WEB: Final = re.compile(r"(?i)(?:https?://|mailto:)[^\s]")
_TAGS: Final = frozenset(
    {"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "hr", "br", "em"}
    | {"strong", "s", "table", "thead", "tbody", "tr", "th", "td"}
)
# By the beginnings of Pygments' short names: what a reader tells apart.
_CLASSES: Final = (("c", "c"), ("s", "s"), ("m", "n"), ("k", "k"), ("nf", "f"), ("nc", "f"))
_MORE_CLASSES: Final = (("nb", "t"), ("nd", "f"), ("nt", "k"), ("na", "t"), ("ow", "k"))


class Highlighting:
    """How much may still be highlighted: Pygments does a megabyte a second, and a page can wait less."""

    def __init__(self, chars_max: int) -> None:
        self._left = chars_max

    def code(self, text: str, language: str = "", file_name: str = "") -> list[str] | None:
        """Pairs of class and text, flat; None where nobody knows the language or it would take long."""
        if len(text) > min(self._left, _HIGHLIGHTED_CHARS_MAX):
            return None
        lexer = _by_language(language) if language else _by_file_name(file_name)
        if lexer is None:
            return None
        self._left -= len(text)
        return _pairs(lexer, text)


def _pairs(lexer: Lexer, text: str) -> list[str]:
    from pygments.token import STANDARD_TYPES

    pairs: list[str] = []
    for kind, piece in lexer.get_tokens(text):
        name = _class(STANDARD_TYPES.get(kind, ""))
        if pairs and (pairs[-2] == name or piece.isspace()):
            pairs[-1] += piece
        else:
            pairs += name, piece
    return pairs


@cache
def _class(short: str) -> str:
    for beginning, name in (*_MORE_CLASSES, *_CLASSES):
        if short.startswith(beginning):
            return name
    return ""


@cache
def _by_language(language: str) -> Lexer | None:
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def _by_file_name(name: str) -> Lexer | None:
    end = name.rpartition("/")[2]
    return _by_ending(end if "." not in end else "x." + end.rpartition(".")[2])


@cache
def _by_ending(name: str) -> Lexer | None:
    from pygments.lexers import get_lexer_for_filename
    from pygments.util import ClassNotFound

    try:
        return get_lexer_for_filename(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


# --- Markdown --------------------------------------------------------------------------------


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    # What becomes of a link is decided in `_link`, which shows where it leads.
    setattr(parser, "validateLink", lambda _url: True)  # noqa: B010  # the library means it to be set
    return parser


def markdown(text: str, highlighting: Highlighting) -> list[Node]:
    """The trees of a text; what is too long is plain text."""
    if len(text) > _MARKDOWN_CHARS_MAX:
        return [["p", {"class": "plain"}, text]]
    return _tree(_markdown().parse(text), highlighting)


def _tree(tokens: Sequence[Token], highlighting: Highlighting) -> list[Node]:
    root: list[Node] = []
    stack: list[list[Node]] = [root]
    for token in tokens:
        if token.nesting == 1 and token.hidden:  # a paragraph of a tight list
            stack.append(stack[-1])
        elif token.nesting == 1:
            element = _element(token)
            stack[-1].append(element)
            stack.append(element)
        elif token.nesting == -1:
            stack.pop()
        elif token.type == "inline":
            stack[-1].extend(_tree(token.children or (), highlighting))
        else:
            stack[-1].extend(_leaf(token, highlighting))
    return root


def _element(token: Token) -> list[Node]:
    if token.type == "link_open":
        return _link(str(token.attrGet("href") or ""))
    if token.tag not in _TAGS:
        return ["span"]
    attributes: dict[str, str] = {}
    if token.tag == "ol" and token.attrGet("start") is not None:
        attributes["start"] = str(token.attrGet("start"))
    alignment = str(token.attrGet("style") or "").removeprefix("text-align:")
    if alignment in {"center", "right"}:
        attributes["class"] = alignment
    return [token.tag, attributes] if attributes else [token.tag]


def _link(href: str) -> list[Node]:
    if _WEB.match(href):
        return ["a", {"href": href, "title": href}]
    return ["span", {"class": "no-link", "title": href}]


def _leaf(token: Token, highlighting: Highlighting) -> Iterator[Node]:
    match token.type:
        case "text" | "html_inline" | "html_block":
            yield token.content
        case "softbreak":
            yield "\n"
        case "hardbreak":
            yield ["br"]
        case "hr":
            yield ["hr"]
        case "code_inline":
            yield ["code", token.content]
        case "fence" | "code_block":
            yield code(token.content, highlighting, language=token.info.split(" ")[0].strip())
        case "image":
            yield ["span", {"class": "no-link", "title": str(token.attrGet("src") or "")}, "🖼 "]
            yield token.content
        case _:
            yield token.content


def code(text: str, highlighting: Highlighting, language: str = "", file_name: str = "") -> Node:
    """A block of code: `["hl", {"lang": …}, class, text, class, text …]`."""
    pairs = highlighting.code(text, language, file_name)
    attributes: dict[str, str] = {"lang": language} if language else {}
    return ["hl", attributes, *(pairs if pairs is not None else ["", text])]


# --- diffs -----------------------------------------------------------------------------------


def diff_lines(text: str, file_name: str, highlighting: Highlighting) -> list[list[str]]:
    """The lines of a unified diff: each its sign (`+`, `-`, space, `@`, `!`), then pairs as of code."""
    lines: list[list[str]] = []
    hunk: list[str] = []
    for line in text.split("\n"):
        if line.startswith("@@"):
            lines += _hunk(hunk, file_name, highlighting)
            hunk = []
            lines.append(["@", "", line])
        elif not lines or lines[-1][0] == "!":
            if not line.startswith(("--- ", "+++ ")):
                lines.append(["!", "", line])
        else:
            hunk.append(line)
    return lines + _hunk(hunk, file_name, highlighting)


def _hunk(hunk: list[str], file_name: str, highlighting: Highlighting) -> list[list[str]]:
    if not hunk:
        return []
    new = iter(_by_line([line[1:] for line in hunk if line[:1] != "-"], file_name, highlighting))
    old = iter(_by_line([line[1:] for line in hunk if line[:1] != "+"], file_name, highlighting))
    found: list[list[str]] = []
    for line in hunk:
        sign = line[:1] or " "
        in_new = next(new) if sign != "-" else []
        in_old = next(old) if sign != "+" else []
        found.append([sign, *(in_new or in_old)])
    return found


def _by_line(lines: list[str], file_name: str, highlighting: Highlighting) -> Iterable[list[str]]:
    """The pairs of each line. A hunk begins anywhere, so a long string may look like code."""
    pairs = highlighting.code("\n".join(lines), file_name=file_name)
    if pairs is None:
        return [["", line] for line in lines]
    found: list[list[str]] = [[]]
    for name, piece in zip(pairs[::2], pairs[1::2], strict=True):
        first, *rest = piece.split("\n")
        if first:
            found[-1] += name, first
        found.extend([name, part] if part else [] for part in rest)
    if len(found) != len(lines):  # a lexer that counts other line ends as well
        return [["", line] for line in lines]
    return [pair or ["", ""] for pair in found]


# --- cutting ---------------------------------------------------------------------------------


def cut(text: str, chars_max: int) -> list[str | int]:
    """`[text]`, or where it is too long `[beginning, characters left out, end]`."""
    if len(text) <= chars_max:
        return [text]
    start = boundary(text, chars_max * 3 // 4)
    end = boundary(text, len(text) - chars_max // 4)
    return [text[:start], end - start, text[end:]]
