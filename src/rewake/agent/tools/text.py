"""A file's bytes as text, and back without changing a byte that nobody meant to change.

The rule kept here: `decode` followed by `encode` is the identity. An encoding for which it isn't,
isn't used; what has no such encoding is binary.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Final

# What Git looks at to tell a binary file.
_SNIFF_BYTES: Final = 8_000
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True)
class Decoded:
    """The text without its byte-order mark, and what is needed to get the bytes back."""

    text: str
    encoding: str
    bom: bytes

    def encode(self, text: str) -> bytes:
        """`text` in this file's encoding, without the mark. Raises UnicodeEncodeError."""
        return text.encode(self.encoding)


def decode(data: bytes) -> Decoded | None:
    """The text of a text file; None for a binary one.

    UTF-8 and UTF-16 with a byte-order mark are recognised; other text is taken as cp1252 or, where
    that has gaps, as Latin-1.
    """
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            text = _try(data[len(bom) :], encoding)
            if text is not None:
                return Decoded(text, encoding, bom)
    if b"\0" in data[:_SNIFF_BYTES]:
        return None
    for encoding in ("utf-8", "cp1252", "latin-1"):
        text = _try(data, encoding)
        if text is not None:
            return Decoded(text, encoding, b"")
    return None


def _try(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        return None


def notes(decoded: Decoded) -> list[str]:
    """What a model should know of the file beyond its lines."""
    told = []
    if decoded.encoding in {"cp1252", "latin-1"}:
        told.append(f"not UTF-8: shown as {decoded.encoding}; edits keep that encoding")
    elif decoded.encoding != "utf-8":
        told.append(f"encoded as {decoded.encoding}; edits keep that encoding")
    if "\r\n" in decoded.text:
        told.append("lines end with CRLF; write plain newlines in edits, CRLF is kept")
    return told
