"""Texts as the search sees them: which words of a prompt say what it is about.

The rules kept here: forms of English words are one word (the index stems them), words of languages
without blanks are found by pairs of characters, names in code are found by their parts; and no text
is without words because a list of common ones is English.
"""

from __future__ import annotations

import re
from typing import Final

from rewake.state.text import valid_unicode

# Function words of English, and what prompts to an agent are full of whatever they are about.
_COMMON: Final = """
a about above actually add added adding adds after again all already also am an and any anything
are as ask at be because been before being below best better between both but by can cannot change
changed changes check code could create created creates current did do does doing done down each
else etc even every everything explain few file files find first fix for from get gets getting
give go going good got had happen happens has have having he hello help her here hi him his how i
if implement in into is issue it its itself just keep know last let like line lines list little
long longer look looks make makes making many may maybe me mean might more most much must my need
never new next no nor not nothing now of off ok okay old on once one only or other our out over
own part please possible problem project put question quite rather really remove removed right run
running runs s same say see set sets she should show showing shows since so some something still
such sure t take tell than thank thanks that the their them then there these they thing things
this those through to too try trying two under until up update updated us use used using very via
want wants was way we well were what when where whether which while who whom whose why will with
within without won work working works would write wrong yes yet you your yours
"""
STOP_WORDS: Final = frozenset(_COMMON.split())
QUERY_TERMS_MAX: Final = 64
"""Of a long prompt, so many different words from its beginning: a pasted log is about its first lines."""
_QUERY_CHARS_MAX: Final = 8_000
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
# Scripts that are written without blanks: Thai, Lao, Khmer, kana, Han.
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1780-\u17ff\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003134f]+"
)
_HIRAGANA: Final = re.compile("[\u3041-\u309f]+")
_PAIR: Final = 2
_WORD: Final = re.compile(r"[^\W_]+(?:[+#]+(?!\w))?")


def indexed(text: str) -> str:
    """`text` for the index: its words, the parts of compound ones, and pairs of unspaced characters."""
    valid = valid_unicode(text)
    return f"{_spaced(valid)} {' '.join(_parts(valid))}" if valid else ""


def query_words(text: str, *, every_word: bool = False) -> list[str]:
    """The different words of a prompt that may tell what it is about, in their order.

    With `every_word`, for who searches on purpose, common ones count where there are no others.
    """
    beginning = text[:_QUERY_CHARS_MAX]
    words = dict.fromkeys(
        word.lower()
        for word in _WORD.findall(f"{_spaced(beginning)} {' '.join(_parts(beginning))}")
    )
    telling = [word for word in words if _tells(word)]
    chosen = telling or (list(words) if every_word else [])
    return chosen[:QUERY_TERMS_MAX]


def is_pair(word: str) -> bool:
    """Whether it is two characters of a text without blanks, and so perhaps no word at all."""
    return len(word) == _PAIR and _UNSPACED.fullmatch(word) is not None


def _tells(word: str) -> bool:
    if word.isascii():
        return len(word) > 1 and word not in STOP_WORDS
    return _HIRAGANA.fullmatch(word) is None  # what is written in it alone is mostly grammar


def _spaced(text: str) -> str:
    if text.isascii():
        return text
    return _UNSPACED.sub(lambda found: f" {_pairs(found[0])} ", text)


def _pairs(run: str) -> str:
    return " ".join(run[at : at + 2] for at in range(len(run) - 1)) if len(run) > 1 else run


def _parts(text: str) -> list[str]:
    """`createOrder` is also `create` and `Order`."""
    found = []
    for word in re.findall(
        r"[A-Za-z0-9]*[a-z0-9][A-Z][A-Za-z0-9]*|[A-Z]{2,}[a-z][A-Za-z0-9]*", text
    ):
        found += [part for part in _CAMEL.split(word) if len(part) > 1]
    return found
