"""`@path` in an instruction file: which files it asks for.

The rule kept here: only what is text asks for something. A code span, a code block, a link's target, a
comment and an address (`me@example.com`) do not; a Markdown parser tells them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from markdown_it.token import Token

_ASKED: Final = re.compile(r"(?:^|(?<=[\s(\[{\"']))@((?:~|\.{0,2})/?[^\s@]+)")
_TRAILING: Final = ".,;:!?)]}'\"*"
IMPORTS_MAX: Final = 50
"""Of one file; who asks for more wants a directory."""


def imports_in(text: str) -> list[str]:
    """The paths that the text asks for, each once, in order; whether they exist is another question."""
    if "@" not in text:
        return []
    from markdown_it import MarkdownIt  # 40 ms, and few files import anything

    asked: dict[str, None] = {}
    for piece in _texts(MarkdownIt("commonmark").parse(text)):
        for match in _ASKED.finditer(piece):
            path = match[1].rstrip(_TRAILING)
            if path.strip("~./"):
                asked[path] = None
    return list(asked)[:IMPORTS_MAX]


def looks_like_a_path(asked: str) -> bool:
    """Whether it names a file rather than a person: where there is no such file, only that matters."""
    return "/" in asked or "." in asked


def _texts(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type != "inline":
            continue
        line = "".join(_said(child) for child in token.children or [])
        yield from line.split("\n")


def _said(token: Token) -> str:
    if token.type in {"text", "text_special"}:
        return token.content
    if token.type in {"softbreak", "hardbreak"}:
        return "\n"
    # What is no text keeps the words around it apart; emphasis is nothing at all.
    return "\x00" if token.type in {"code_inline", "html_inline", "image"} else ""
