"""What a user types, as a question that the index understands; and the marks of what it found.

The rules kept here: any text at all is a question, never an error; words are all wanted, "a phrase"
keeps its order, and a word that ends with * stands for all that begin with it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

import msgspec

from rewake.catalogue.passages import searchable
from rewake.screentext import without_sequences
from rewake.state.text import boundary

_TERMS_MAX: Final = 32
_TERM: Final = re.compile(r'"([^"]*)"(\*?)|([^\s"]+)')
_SNIPPET_CHARS: Final = 160
_LEAD_CHARS: Final = 50  # before the first hit, so that a reader sees what it belongs to
_JOINER: Final = "\u200d"  # inside emoji; the other format characters hide or turn text


class Term(msgspec.Struct, frozen=True):
    """A word or a phrase; `is_prefix` if its last word may go on."""

    text: str
    is_prefix: bool


class Snippet(msgspec.Struct, frozen=True):
    """A piece of a passage on one line; `marks` are the beginnings and ends of the hits in it."""

    text: str
    marks: tuple[tuple[int, int], ...]


def terms_of(query: str) -> tuple[Term, ...]:
    """The terms that hold a letter or a digit; what else is typed can't be in an index of words."""
    terms = []
    for match in _TERM.finditer(query):
        phrase, star, word = match.groups()
        if phrase is not None:
            text, is_prefix = phrase, bool(star)
        else:
            text, is_prefix = word.rstrip("*"), word.endswith("*")
        if any(char.isalnum() for char in text):
            terms.append(Term(text, is_prefix))
    return tuple(terms[:_TERMS_MAX])


def match_expression(terms: tuple[Term, ...]) -> str:
    """The terms for FTS5, each quoted so that none of its operators is one."""
    quoted = (f'"{searchable(term.text)}"{" *" if term.is_prefix else ""}' for term in terms)
    return " AND ".join(quoted)


# --- snippets --------------------------------------------------------------------------------


def snippet_of(text: str, terms: tuple[Term, ...]) -> Snippet:
    """The part of `text` around its first hit, cleaned for any terminal, with all hits marked."""
    clean = _one_line(text)
    pattern = _pattern(terms)
    found = pattern.search(clean) if pattern is not None else None
    if pattern is not None and found is None:
        # The index knows no accents and no case beyond ASCII's rules: look the same way.
        folded, places = _folded(clean)
        pattern = _pattern(terms, fold=True) or pattern
        spans = [
            (places[m.start()], places[m.end() - 1] + 1) for m in pattern.finditer(folded) if m[0]
        ]
    elif pattern is not None:
        spans = [match.span() for match in pattern.finditer(clean)]
    else:
        spans = []
    return _cut(clean, spans)


def _cut(text: str, spans: list[tuple[int, int]]) -> Snippet:
    first = spans[0][0] if spans else 0
    start = max(0, first - _LEAD_CHARS)
    if start > 0:
        space = text.find(" ", start, first)
        start = space + 1 if space >= 0 else boundary(text, start)
    end = min(len(text), start + _SNIPPET_CHARS)
    end = len(text) if end == len(text) else boundary(text, end)
    before, after = ("… " if start > 0 else ""), (" …" if end < len(text) else "")
    shift = len(before) - start
    marks = tuple(
        (left + shift, right + shift) for left, right in spans if left >= start and right <= end
    )
    return Snippet(before + text[start:end] + after, marks)


def _pattern(terms: tuple[Term, ...], *, fold: bool = False) -> re.Pattern[str] | None:
    parts = []
    for term in terms:
        text = _folded(term.text)[0] if fold else term.text
        words = re.findall(r"\w+", text.replace("_", " "))
        if words:
            between = r"[\W_]*" if not text.isascii() else r"[\W_]+"
            end = r"\w*" if term.is_prefix else ""
            bounds = (r"(?<![^\W_])", r"(?![^\W_])") if text.isascii() else ("", "")
            inner = between.join(re.escape(word) for word in words)
            parts.append(f"{bounds[0]}{inner}{end}{bounds[1] if not term.is_prefix else ''}")
    return re.compile("|".join(parts), re.IGNORECASE) if parts else None


def _folded(text: str) -> tuple[str, list[int]]:
    """Without accents and case, and for each character the place in `text` that it comes from."""
    folded: list[str] = []
    places: list[int] = []
    for place, char in enumerate(text):
        for part in unicodedata.normalize("NFKD", char).casefold():
            if not unicodedata.combining(part):
                folded.append(part)
                places.append(place)
    return "".join(folded), places


def _one_line(text: str) -> str:
    text = " ".join(without_sequences(text).split())
    if text.isprintable():
        return text
    return "".join(char for char in text if char.isprintable() or char == _JOINER)
