"""Whether values are what their keys expect; what is wrong with them, and where.

The rule kept here: each problem names the key, what was expected and what was found. A key that isn't
known is no problem; it is kept, and only told with the nearest name that is known.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from rewake.settings.keys import FILE_KEYS, KEYS
from rewake.settings.schema import Settings
from rewake.settings.spots import Path, dotted

_FOUND_CHARS_MAX: Final = 60
_PYTHON: Final[dict[type, tuple[type, ...]]] = {
    msgspec.inspect.StructType: (dict,),
    msgspec.inspect.DictType: (dict,),
    msgspec.inspect.VarTupleType: (list,),
    msgspec.inspect.StrType: (str,),
    msgspec.inspect.FloatType: (int, float),
}
_WORDS: Final[dict[type, str]] = {
    msgspec.inspect.StructType: "an object",
    msgspec.inspect.DictType: "an object",
    msgspec.inspect.StrType: "a text",
    msgspec.inspect.BoolType: "true or false",
    msgspec.inspect.IntType: "a whole number",
    msgspec.inspect.FloatType: "a number",
}
_ALIKE_MIN: Final = (
    0.7  # of difflib's ratio: maxStep and max_steps are, mode and model are not told
)


class Problem(NamedTuple):
    """A value that can't be used."""

    path: Path
    expected: str
    found: str


class UnknownKey(NamedTuple):
    """A key that no version up to this one has; `nearest` is empty where nothing is alike."""

    path: Path
    nearest: str


def problems(data: Mapping[str, Any]) -> list[Problem]:
    """Everything that is wrong with one source's values, in their order."""
    try:
        msgspec.convert(data, Settings)
    except msgspec.ValidationError as error:
        found = [item for item in _walk(data, _settings_type(), ()) if isinstance(item, Problem)]
        if found:
            return found
        # The walk knows less than the library; its word counts.
        return [Problem((), str(error), "something else")]
    return [*_too_small(data), *_version_problems(data)]


def unknown_keys(data: Mapping[str, Any]) -> list[UnknownKey]:
    """Every key in `data` that isn't known, with the nearest one that is."""
    found = _walk(data, _settings_type(), ())
    return [
        item
        for item in found
        if isinstance(item, UnknownKey) and dotted(item.path) not in FILE_KEYS
    ]


def _settings_type() -> Any:
    import msgspec.inspect

    return msgspec.inspect.type_info(Settings)


def _too_small(data: Mapping[str, Any]) -> Iterator[Problem]:
    for key in KEYS.values():
        value = lookup(data, key.path)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if key.above_zero and not value > 0:
            yield Problem(key.path, "a number above 0", shown(value))
        elif value < 0:
            yield Problem(key.path, "0 or a number above it", shown(value))


def _version_problems(data: Mapping[str, Any]) -> Iterator[Problem]:
    for name in FILE_KEYS:
        value = data.get(name)
        if name.startswith("$") or value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            yield Problem((name,), "a version such as 1", shown(value))


def lookup(data: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The value at `path`, None where there is none."""
    value: Any = data
    for name in path:
        if not isinstance(value, dict):  # not any Mapping: this is asked a hundred times per load
            return None
        value = value.get(name)
    return value


def shown(value: object) -> str:
    """A value as a message quotes it: as JSON, cut short."""
    if isinstance(value, Mapping):
        return "an object" if value else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, dt.date | dt.time):
        return f"the date or time {value.isoformat()}"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _FOUND_CHARS_MAX else f"{text[:_FOUND_CHARS_MAX]}…"


# --- the walk along the types ----------------------------------------------------------------


def _walk(value: Any, kind: Any, path: Path) -> Iterator[Problem | UnknownKey]:
    """Problems and unknown keys of `value`, which should be of the type that `kind` describes."""
    options = list(kind.types) if isinstance(kind, msgspec.inspect.UnionType) else [kind]
    if value is None and any(isinstance(one, msgspec.inspect.NoneType) for one in options):
        return
    for one in options:
        if _fits(value, one):
            yield from _inside(value, one, path)
            return
    yield Problem(path, _expected(options), shown(value))


def _inside(value: Any, kind: Any, path: Path) -> Iterator[Problem | UnknownKey]:
    match kind:
        case msgspec.inspect.StructType():
            yield from _members(value, kind, path)
        case msgspec.inspect.DictType():
            for name, one in value.items():
                yield from _walk(one, kind.value_type, (*path, name))
        case msgspec.inspect.VarTupleType():
            for position, one in enumerate(value):
                yield from _walk(one, kind.item_type, (*path, position))
        case _:
            return


def _members(value: Any, kind: Any, path: Path) -> Iterator[Problem | UnknownKey]:
    fields = {field.encode_name: field for field in kind.fields}
    for name, one in value.items():
        if name in fields:
            yield from _walk(one, fields[name].type, (*path, name))
        else:
            yield UnknownKey((*path, name), _nearest(name, path, fields))
    for name, field in fields.items():
        if field.required and name not in value:
            yield Problem((*path, name), "a value for it", "nothing")


def _nearest(name: str, path: Path, fields: Mapping[str, Any]) -> str:
    # What stands beside it is likelier than what is only spelled alike elsewhere.
    return _alike(name, [dotted((*path, field)) for field in fields]) or _alike(name, list(KEYS))


def nearest_key(text: str) -> str:
    """The known key that is most like `text`; empty where none is."""
    whole = _alike(text.replace(".", ""), [key.replace(".", "") for key in KEYS])
    found = {key.replace(".", ""): key for key in KEYS}.get(whole, "")
    return found or _alike(text.rpartition(".")[2], list(KEYS))


def _alike(name: str, candidates: list[str]) -> str:
    from difflib import SequenceMatcher

    def likeness(candidate: str) -> float:
        last = candidate.rpartition(".")[2]
        return float(SequenceMatcher(a=_plain(name), b=_plain(last)).ratio())

    best = max(candidates, key=likeness, default="")
    return best if best and likeness(best) >= _ALIKE_MIN else ""


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _fits(value: Any, kind: Any) -> bool:
    """Whether the value itself is of that type; what is in it is looked at later."""
    match kind:
        case msgspec.inspect.BoolType():
            return isinstance(value, bool)
        case msgspec.inspect.IntType():
            return _is_integer(value)
        case msgspec.inspect.LiteralType():
            return isinstance(value, str) and value in kind.values
        case _:
            plain = _PYTHON.get(type(kind), ())
            return isinstance(value, plain) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    if isinstance(value, float):
        return value.is_integer()  # 3.0 is taken for 3, as the codec does
    return isinstance(value, int) and not isinstance(value, bool)


def _expected(options: list[Any]) -> str:
    words = [word for word in map(_word, options) if word]
    return " or ".join(words)


def _word(kind: Any) -> str:
    match kind:
        case msgspec.inspect.LiteralType():
            return f"one of {', '.join(str(value) for value in kind.values)}"
        case msgspec.inspect.VarTupleType():
            item = _word(kind.item_type).removeprefix("a ").removeprefix("an ")
            return f"a list of {item}s"
        case _:
            return _WORDS.get(type(kind), "")
