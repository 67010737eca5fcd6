"""Random payloads of every type, for property tests of whatever reads events.

`payloads()` draws any value that a payload's declared types allow, read from the types themselves,
so that a new field is tested without being mentioned here.
"""

from __future__ import annotations

from typing import Any

from msgspec import inspect as mi

from rewake.model import events as ev
from rewake.model.content import KnownBlock, Opaque
from rewake.testing.view_suite_hypothesis import st

# Hypothesis leaves lone surrogates out of `text()` unless asked.
TEXTS = st.one_of(
    st.sampled_from(
        ["", "a", "../x", "call_1", "null", "\u2028", "\ud800", "\udfff\ud800", "\x00"]
    ),
    st.text(st.characters(exclude_categories=()), max_size=8),
)
NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
JSON_OBJECTS = st.dictionaries(TEXTS, JSON_VALUES, max_size=3)
OPAQUE_BLOCKS = st.sampled_from(
    [
        Opaque(b'{"type":"hologram","depth":[1, 2.50],"note":"\\ud800"}'),
        Opaque(b'{ "type" : "text" }'),
        Opaque(b"7"),
        Opaque('{"type":"é"}'.encode()),
    ]
)


_SCALARS: dict[type[mi.Type], st.SearchStrategy[Any]] = {
    mi.StrType: TEXTS,
    mi.IntType: st.integers(-(2**70), 2**70),
    mi.FloatType: st.floats(allow_nan=False, allow_infinity=False),
    mi.BoolType: st.booleans(),
    mi.NoneType: st.none(),
    mi.DictType: JSON_OBJECTS,
}


def _of_type(info: mi.Type) -> st.SearchStrategy[Any]:
    if isinstance(info, mi.StructType):
        return _of_struct(info)
    if isinstance(info, mi.UnionType):
        return st.one_of([_of_type(member) for member in info.types])
    if isinstance(info, mi.VarTupleType):
        return st.lists(_of_type(info.item_type), max_size=2).map(tuple)
    if isinstance(info, mi.LiteralType):
        return st.sampled_from(info.values)
    return _SCALARS[type(info)]


def _of_struct(info: mi.StructType) -> st.SearchStrategy[Any]:
    required = {f.name: _of_type(f.type) for f in info.fields if f.required}
    optional = {f.name: _of_type(f.type) for f in info.fields if not f.required}
    if info.cls is ev.Message:
        required["content"] = st.lists(st.one_of(BLOCKS, OPAQUE_BLOCKS), max_size=3).map(tuple)
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: info.cls(**given))


BLOCKS: st.SearchStrategy[KnownBlock] = _of_type(mi.type_info(KnownBlock))


def payloads(*types: type[ev.KnownPayload]) -> st.SearchStrategy[ev.KnownPayload]:
    """Payloads of these types, or of every type."""
    return st.one_of([_of_type(mi.type_info(chosen)) for chosen in types or ev.EVENT_TYPES])
