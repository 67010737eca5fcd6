"""Cutting and cleaning text without breaking characters, and estimating its tokens."""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Final

_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_REPLACEMENT: Final = "\ufffd"
_ASCII_SPACE: Final = b"\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f"  # and the blank: what str.split folds
_JOINER: Final = "\u200d"
# What has no category of a mark and still belongs to the character before it: the joiner, skin
# tones, tags (flags of regions), and the vowels and finals of decomposed Hangul.
_ATTACHED: Final = re.compile("[\u200d\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\u1160-\u11ff]")
_FLAG_HALF: Final = re.compile("[\U0001f1e6-\U0001f1ff]")
# Providers' tokenizers give about 4 bytes of English a token and 3 bytes of CJK (one character);
# 3 never underestimates by much, and an overestimate only compacts a little early.
_BYTES_PER_TOKEN: Final = 3


def estimate_tokens(text: str) -> int:
    """An offline upper estimate of the tokens in `text`."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN)


def valid_unicode(text: str) -> str:
    """`text` with each lone surrogate replaced by U+FFFD."""
    if text.isascii() or not _SURROGATES.search(text):
        return text
    return _SURROGATES.sub(_REPLACEMENT, text)


def valid_json(value: Any) -> Any:
    """A JSON value with all its strings, keys included, made valid Unicode."""
    if isinstance(value, str):
        return valid_unicode(value)
    if isinstance(value, dict):
        return {valid_unicode(str(key)): valid_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [valid_json(item) for item in value]
    return value


def clip(text: str, bytes_max: int) -> str:
    """The first line's worth of `text` in at most `bytes_max` bytes of UTF-8, with `…` where cut.

    White space is folded; no character, emoji or combining sequence is cut through.
    """
    # Of a long text the beginning is enough, unless folding leaves too little of it.
    folded = _fold_space(text[: bytes_max + bytes_max // 8])
    encoded = folded.encode("utf-8", "surrogatepass")
    if len(encoded) <= bytes_max:
        folded = _fold_space(text[: 4 * bytes_max])
        encoded = folded.encode("utf-8", "surrogatepass")
        if len(encoded) <= bytes_max and len(text) <= 4 * bytes_max:
            return folded
    if folded.isascii():
        return folded[: max(bytes_max - 3, 0)] + "…"
    kept = encoded[: max(bytes_max - 3, 0)].decode("utf-8", "ignore")
    return folded[: boundary(folded, len(kept))] + "…"


def head(text: str, bytes_max: int) -> str:
    """As much of `text` as `clip` looks at: what is clipped only when it is shown costs little now."""
    return text[: 4 * bytes_max + 1]


def _fold_space(text: str) -> str:
    # Most text has single blanks only, and to see that costs a third of splitting it.
    if text.isascii() and "  " not in text:
        encoded = text.encode()
        if len(encoded.translate(None, _ASCII_SPACE)) == len(encoded):
            return text.strip(" ")
    return " ".join(text.split())


def boundary(text: str, end: int) -> int:
    """The greatest place up to `end` at which `text` can be cut without breaking a character.

    An approximation of UAX #29 that knows marks, emoji sequences and flags.
    """
    while 0 < end < len(text) and _is_inside(text, end):
        end -= 1
    return end


def _is_inside(text: str, end: int) -> bool:
    char = text[end]
    if char.isascii():
        return False
    if text[end - 1] == _JOINER or _ATTACHED.match(char) is not None:
        return True
    if unicodedata.category(char).startswith("M"):
        return True
    return _FLAG_HALF.match(char) is not None and _flag_halves_before(text, end) % 2 == 1


def _flag_halves_before(text: str, end: int) -> int:
    start = end
    while start > 0 and _FLAG_HALF.match(text[start - 1]):
        start -= 1
    return end - start
