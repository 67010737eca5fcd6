"""Text for people to read on a screen: clean, cut to the columns there are, times as ages.

The rule kept here: text that came from a model, a file, a command or a user's prompt never reaches
a screen with control sequences or characters that change the direction of writing.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from typing import Final

from rewake.state.text import boundary

_SEQUENCE: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # window titles, links, device strings
    r"|\x1b[ -/]*[0-Z\\-~]"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
# Control characters but newline and tab; marks that turn the direction of writing; lone surrogates.
_FORBIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_LINE_ENDS: Final = re.compile("\r\n?|[\x85\u2028\u2029]")
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400
_MONTH_DAYS: Final = 30


def clean(text: str) -> str:
    """`text` without control sequences; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return _FORBIDDEN.sub("", without_sequences(_LINE_ENDS.sub("\n", text)))


def without_sequences(text: str) -> str:
    """`text` without what moves a terminal's cursor, colours it or names its window."""
    return _SEQUENCE.sub("", text) if "\x1b" in text or "\x9b" in text else text


def one_line(text: str) -> str:
    """`text` cleaned and with all white space folded."""
    return " ".join(clean(text).split())


def width(text: str) -> int:
    """The columns that a clean line takes."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.combining(char) or char in "\u200d\ufe0e\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def fit(text: str, columns: int) -> str:
    """One clean line of at most `columns` columns, with `…` where it was cut."""
    text = one_line(text)
    if width(text) <= columns:
        return text
    used, end = 1, 0  # the ellipsis takes a column
    for end, char in enumerate(text):  # noqa: B007  # the place where it stopped is the result
        used += _columns(char)
        if used > columns:
            break
    return text[: boundary(text, end)].rstrip() + "…"


def age(timestamp: str, now: datetime) -> str:
    """How long ago, in the two or three words that a person would use."""
    try:
        then = datetime.fromisoformat(timestamp)
    except ValueError:
        return "-"
    seconds = (now - (then if then.tzinfo else then.replace(tzinfo=UTC))).total_seconds()
    if seconds < _MINUTE_S:
        return "just now"
    if seconds < _HOUR_S:
        return f"{int(seconds // _MINUTE_S)} min"
    if seconds < _DAY_S:
        return f"{int(seconds // _HOUR_S)} h"
    days = int(seconds // _DAY_S)
    return f"{days} d" if days < _MONTH_DAYS else then.date().isoformat()[2:]
