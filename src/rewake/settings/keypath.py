"""A key as people type it: `permissions.allow`, `mcp_servers."my.server".command`.

The rule kept here: only what the schema knows is a key; anything else is refused with the nearest name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from rewake.errors import UsageError
from rewake.settings.check import nearest_key
from rewake.settings.keys import FILE_KEYS, KEYS
from rewake.settings.schema import Settings

Names = tuple[str, ...]
_PART: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([^."]+)')


def parse_key(text: str) -> Names:
    """The names of a key that is known, or of a part of one. Raises UsageError."""
    names = _names(text)
    if names is not None and (kind_at(names) is not None or text in FILE_KEYS):
        return names
    near = nearest_key(text)
    raise UsageError(
        f"There is no setting {text!r}.",
        remedy=f"Did you mean {near}?" if near else "`rewake config list --all` shows them all.",
    )


def _names(text: str) -> Names | None:
    names: list[str] = []
    at = 0
    while True:
        found = _PART.match(text, at)
        if found is None:
            return None
        names.append(json.loads(f'"{found[1]}"') if found[1] is not None else found[2])
        at = found.end()
        if at == len(text):
            return tuple(names)
        if text[at] != ".":
            return None
        at += 1


def kind_at(names: Names) -> Any:
    """What the schema expects there, without "or nothing"; None where it knows no such key."""
    kind: Any = msgspec.inspect.type_info(Settings)
    for name in names:
        kind = _bare(kind)
        if isinstance(kind, msgspec.inspect.StructType):
            field = next((one for one in kind.fields if one.encode_name == name), None)
            if field is None:
                return None
            kind = field.type
        elif isinstance(kind, msgspec.inspect.DictType):
            kind = kind.value_type
        else:
            return None
    return _bare(kind)


def _bare(kind: Any) -> Any:
    if isinstance(kind, msgspec.inspect.UnionType):
        return next(one for one in kind.types if not isinstance(one, msgspec.inspect.NoneType))
    return kind


def value_of(names: Names, words: Sequence[str]) -> Any:
    """The value that words on the command line mean for this key; it may still be a wrong one.

    A text is taken as it is, a list of texts from one word each or from JSON, all else from JSON.
    Raises UsageError for words that mean nothing.
    """
    kind = kind_at(names)
    if isinstance(kind, msgspec.inspect.VarTupleType) and not _is_json_list(words):
        return list(words)
    if len(words) != 1:
        raise UsageError(
            f"{'.'.join(names)} has one value, and {len(words)} were given.",
            remedy="Put it in quotes if it has spaces.",
        )
    if isinstance(kind, msgspec.inspect.StrType | msgspec.inspect.LiteralType):
        return words[0]
    try:
        return json.loads(words[0], parse_constant=_refuse)
    except (ValueError, RecursionError):
        if isinstance(kind, msgspec.inspect.StructType | msgspec.inspect.DictType):
            raise UsageError(
                f"{words[0]!r} is no JSON, which {'.'.join(names)} needs.",
                remedy='Write it as JSON in quotes, such as \'{"command": "server"}\'.',
            ) from None
        return words[0]  # the check says what was expected instead


def _is_json_list(words: Sequence[str]) -> bool:
    return len(words) == 1 and words[0].lstrip().startswith("[")


def _refuse(word: str) -> Any:
    raise ValueError(word)


def is_group(names: Names) -> bool:
    """Whether this is a group of keys, such as `permissions`."""
    name = ".".join(names)
    return name not in KEYS and any(key.startswith(f"{name}.") for key in KEYS)
