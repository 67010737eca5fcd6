"""JSON through the standard library, for what the fast decoder refuses.

The rule kept here: strict JSON only (no NaN, no infinity, not even by overflow), except that lone
surrogates are let through. A value's own text can be cut out, so that it is kept byte for byte.

Everything here raises ValueError (UnicodeDecodeError included) or RecursionError, nothing else.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

_skip_space: Final = re.compile(r"[ \t\n\r]*").match


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is out of range")
    return number


_decoder: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


def loads(data: bytes) -> Any:
    """The value of UTF-8 JSON text."""
    return _decoder.decode(data.decode("utf-8"))


def dumps(value: object) -> bytes:
    r"""Compact ASCII; a lone surrogate becomes its `\udXXX` escape, which `loads` reads back."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def members(data: bytes) -> dict[str, bytes]:
    """The members of an object, each value as its own bytes. Of a repeated key the last counts."""
    text = data.decode("utf-8")
    found: dict[str, bytes] = {}
    at = _enter(text, "{", "}")
    while at is not None:
        key, end = _decoder.raw_decode(text, at)
        start = _past_space(text, _past_space(text, end) + 1)
        _, end = _decoder.raw_decode(text, start)
        found[key] = text[start:end].encode("utf-8")
        at = _next(text, end)
    return found


def elements(data: bytes) -> list[bytes]:
    """The elements of an array, each as its own bytes."""
    text = data.decode("utf-8")
    found: list[bytes] = []
    at = _enter(text, "[", "]")
    while at is not None:
        _, end = _decoder.raw_decode(text, at)
        found.append(text[at:end].encode("utf-8"))
        at = _next(text, end)
    return found


def _enter(text: str, opening: str, closing: str) -> int | None:
    """Where the first item of the object or array starts; None if it has none."""
    _decoder.decode(text)  # from here on the text is known to be well-formed
    start = _past_space(text, 0)
    if text[start] != opening:
        raise ValueError(f"it doesn't open with {opening}")
    first = _past_space(text, start + 1)
    return None if text[first] == closing else first


def _next(text: str, end: int) -> int | None:
    comma = _past_space(text, end)
    return _past_space(text, comma + 1) if text[comma] == "," else None


def _past_space(text: str, at: int) -> int:
    match = _skip_space(text, at)
    return at if match is None else match.end()
