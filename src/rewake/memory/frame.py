"""Text of files in its place within a prompt, which it can't leave.

The rules kept here: what stands between two of our marks has no mark itself, neither in the text nor in
what is said about it, whatever the file holds; nothing invisible passes; and the same text gives the
same bytes, because a provider's cache depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from rewake.screentext import without_sequences
from rewake.state.text import valid_unicode

TAGS: Final = ("instructions", "note", "notes", "memory")
# `<` before one of our tags, also with a slash, blanks or the wide forms that look alike.
_MARK: Final = re.compile(
    r"[<\uff1c\u2039\u27e8](?=[\s/\uff0f\\]*(?:" + "|".join(TAGS) + r")\b)", re.IGNORECASE
)
# What the program itself says begins so.
_OWN_VOICE: Final = re.compile(r"\[(?=\s*rewake\s*\])", re.IGNORECASE)
# Control characters but newline and tab, marks that turn the direction of writing, characters of no
# width that hide words, and the tag characters in which whole sentences can be written unseen.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\U000e0000-\U000e007f]"
)
_ATTRIBUTE_CHARS_MAX: Final = 400


def inert(text: str) -> str:
    """`text` without anything that ends its place, speaks in the program's voice, or can't be seen."""
    seen = _UNSEEN.sub("", without_sequences(valid_unicode(text)))
    return _OWN_VOICE.sub("(", _MARK.sub("&lt;", seen))


def one_line(text: str) -> str:
    """`text` as words within a sentence of the program's own: inert, folded and cut.

    For names of files and the like, which can hold line ends and whatever else somebody wants said.
    """
    return " ".join(inert(text).split())[:_ATTRIBUTE_CHARS_MAX]


def framed(tag: str, attributes: Mapping[str, str], text: str) -> str:
    """`text` between two marks of ours that say what it is. `tag` is one of `TAGS`."""
    said = "".join(f' {name}="{_attribute(value)}"' for name, value in attributes.items())
    return f"<{tag}{said}>\n{inert(text).strip(chr(10))}\n</{tag}>"


def _attribute(value: str) -> str:
    return (
        one_line(value)
        .replace("&", "&amp;")
        .replace('"', "&quot;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
    )
