"""A title for a session, asked of the model: what to ask, and what of the answer is the title.

The rule kept here: whatever a model answers, a title is one clean line of few words.
"""

from __future__ import annotations

import re
from typing import Final

from rewake.screentext import fit, one_line

INSTRUCTION: Final = """\
[rewake] Give this conversation a title: at most eight words that say what it is about, so that the \
user finds it again in a list. Answer with the title only; do not call a tool."""

_WORDS_MAX: Final = 8
_COLUMNS_MAX: Final = 80  # eight words of a language with long ones
_LABEL: Final = re.compile(r"title\s*:\s*", re.IGNORECASE)
_DECORATION: Final = " \t#*_`\"'“”«»"


def title_in(answer: str) -> str:
    """The title in what a model answered: its first line that says something; empty if none does."""
    for line in answer.splitlines():
        bare = one_line(line).strip(_DECORATION)
        bare = bare[label.end() :] if (label := _LABEL.match(bare)) else bare
        title = " ".join(bare.strip(_DECORATION).split()[:_WORDS_MAX]).rstrip(".,;:")
        if title:
            return fit(title, _COLUMNS_MAX)
    return ""
