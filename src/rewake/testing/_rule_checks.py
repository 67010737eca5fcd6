"""Small checks that the rules of both protocols are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rewake.model.content import JsonObject

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def extra_keys(value: JsonObject, allowed: frozenset[str]) -> list[str]:
    """The keys that the protocol doesn't know, in order."""
    return [key for key in value if key not in allowed]


def is_text(value: object) -> bool:
    """Whether it is a string with more than whitespace in it."""
    return isinstance(value, str) and bool(value.strip())


def matches(pattern: re.Pattern[str], value: object) -> bool:
    """Whether it is a string that the whole pattern fits."""
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def surrogates(value: object, where: str = "body") -> Iterator[str]:
    """A sentence for each string in a JSON value that no valid UTF-8 can hold."""
    if isinstance(value, str):
        if _SURROGATE.search(value):
            yield f"{where}: str is not valid UTF-8: surrogates not allowed"
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from surrogates(key, f"{where} (a key)")
            yield from surrogates(item, f"{where}.{key!r}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from surrogates(item, f"{where}.{index}")
