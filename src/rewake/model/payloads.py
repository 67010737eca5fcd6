r"""Payloads to JSON and back; docs/format.md describes each of them.

The rules kept here:

- What is encoded can be decoded again, on any stack: depth is bounded, numbers are finite.
- What can't be read is kept: a payload as `Unknown`, a block of a message as `Opaque`.
- Lone surrogates go out as `\udXXX` escapes and come back as they were.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NoReturn

import msgspec

from rewake.errors import InvalidValueError
from rewake.model import jsontext
from rewake.model.content import ContentBlock, KnownBlock, Opaque, Text
from rewake.model.events import (
    PAYLOAD_TYPES,
    SCHEMA_VERSIONS,
    KnownPayload,
    Message,
    Spilled,
    SpilledBlob,
    Unknown,
)
from rewake.model.upcast import upcast

DEPTH_MAX: Final = 200
"""Levels of nesting that a payload may have. Decoders give up near 1,000, less what the caller's
own stack takes of it; a fifth of that is read back from anywhere."""

_EMPTY_CONTENT: Final = b'"content":[]'
_TEXT_ONLY: Final[frozenset[type]] = frozenset({Text})
_PREVIEW_BYTES_MAX: Final = 8192
# Characters of a string and items of a list or object that a preview keeps; the second try is for
# payloads of very many parts. No less than 64 characters: a hash must stay whole.
_PREVIEW_LIMITS: Final = ((300, 50), (100, 16))

_encode: Final = msgspec.json.Encoder().encode
_decode_block: Final = msgspec.json.Decoder[KnownBlock](KnownBlock).decode
_decode_spilled: Final = msgspec.json.Decoder(Spilled).decode
_DECODE: Final[dict[str, Callable[[bytes | msgspec.Raw], KnownPayload]]] = {
    name: msgspec.json.Decoder(payload_type).decode for name, payload_type in PAYLOAD_TYPES.items()
}


# --- encoding --------------------------------------------------------------------------------


def encode_payload(payload: KnownPayload | Spilled | Unknown) -> bytes:
    """The payload's JSON.

    Raises InvalidValueError for non-finite numbers, for nesting deeper than `DEPTH_MAX` and for
    values that aren't JSON.
    """
    if isinstance(payload, Unknown):
        return payload.raw
    if isinstance(payload, Spilled):
        return _encode(payload)
    if isinstance(payload, Message):
        return _encode_message(payload)
    return _encode_checked(payload)


def _encode_message(message: Message) -> bytes:
    kinds = {type(block) for block in message.content}
    if Opaque in kinds:
        return _encode_with_opaque(message)
    # Text alone holds no number and nothing nested, so the search for what can't be read back,
    # which costs more than the encoding itself, may be left out.
    is_bare = message.usage is None and message.provider is None and message.details is None
    if kinds <= _TEXT_ONLY and is_bare:
        try:
            return _encode(message)
        except (TypeError, ValueError):
            return _encode_checked(message)
    return _encode_checked(message)


def _encode_checked(value: KnownPayload | KnownBlock) -> bytes:
    try:
        try:
            encoded = _encode(value)
        except UnicodeEncodeError:
            plain = msgspec.to_builtins(value)
            _refuse_unreadable(plain)
            return jsontext.dumps(plain)
        # The fast encoder writes non-finite numbers as null, so look again wherever one stands.
        if b"null" in encoded or _may_be_deep(encoded):
            _refuse_unreadable(msgspec.to_builtins(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        _refuse(error)
    return encoded


def _may_be_deep(encoded: bytes) -> bool:
    # Each level takes a byte to open it and one to close it.
    if len(encoded) <= 2 * DEPTH_MAX:
        return False
    return encoded.count(b"{") + encoded.count(b"[") > DEPTH_MAX


def _encode_with_opaque(payload: Message) -> bytes:
    frame = _encode_checked(msgspec.structs.replace(payload, content=()))
    # `role` stands before it and is a fixed word, so the first occurrence is the field itself.
    before, after = frame.split(_EMPTY_CONTENT, 1)
    blocks = [b.raw if isinstance(b, Opaque) else _encode_checked(b) for b in payload.content]
    return b'%b"content":[%b]%b' % (before, b",".join(blocks), after)


def _refuse(error: Exception) -> NoReturn:
    raise InvalidValueError(
        f"This value can't be recorded as JSON: {error}.",
        remedy="Pass strings, numbers, booleans, None, lists and dictionaries with string keys.",
    ) from error


def _refuse_unreadable(plain: object) -> None:
    waiting = [(plain, 0)]
    while waiting:
        item, depth = waiting.pop()
        if depth > DEPTH_MAX:
            raise ValueError(f"it is nested deeper than {DEPTH_MAX} levels")
        if isinstance(item, float):
            if not math.isfinite(item):
                raise ValueError(f"JSON has no number {item}")
        elif isinstance(item, dict):
            waiting.extend((value, depth + 1) for value in item.values())
        elif isinstance(item, list | tuple):
            waiting.extend((value, depth + 1) for value in item)


def preview_of(encoded: bytes) -> bytes:
    """The same payload with long strings and lists cut, so that a lost blob leaves something to read.

    At most 8 KiB; `{}` where even a cut payload would be larger.
    """
    plain = jsontext.loads(encoded)
    for chars, items in _PREVIEW_LIMITS:
        preview = jsontext.dumps(_cut(plain, chars, items))
        if len(preview) <= _PREVIEW_BYTES_MAX:
            return preview
    return b"{}"


def _cut(value: Any, chars: int, items: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= chars else value[:chars] + " …"
    if isinstance(value, dict):
        return {key: _cut(item, chars, items) for key, item in list(value.items())[:items]}
    if isinstance(value, list):
        return [_cut(item, chars, items) for item in value[:items]]
    return value


# --- decoding --------------------------------------------------------------------------------


def decode_payload(
    event_type: str, version: int, raw: bytes | msgspec.Raw
) -> KnownPayload | Spilled | Unknown:
    """The typed payload, or `Unknown` with the bytes when its type or shape isn't known."""
    decode = _DECODE.get(event_type)
    if decode is None:
        return Unknown(bytes(raw))
    if version == SCHEMA_VERSIONS[event_type] and event_type != "session":
        try:
            return decode(raw)
        except (msgspec.MsgspecError, RecursionError):
            pass  # what the fast path can't read, the careful one looks at again
    return _decode_carefully(event_type, version, bytes(raw))


def _decode_carefully(
    event_type: str, version: int, raw: bytes
) -> KnownPayload | Spilled | Unknown:
    try:
        # No payload has a field `blob`: an object with one stands for what was spilled. It fails to
        # be its type, except as the first line, which has no field that must be there.
        if event_type == "session" and b'"blob"' in raw:
            return _as_spilled(raw) or _decode_version(event_type, version, raw)
        return _decode_version(event_type, version, raw)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return _as_spilled(raw) or Unknown(raw, str(error))


def _decode_version(event_type: str, version: int, raw: bytes) -> KnownPayload:
    current = SCHEMA_VERSIONS[event_type]
    if version >= current:
        return _decode_known(event_type, raw)
    upgraded = upcast(event_type, version, current, jsontext.loads(raw))
    return _decode_known(event_type, jsontext.dumps(upgraded))


def _as_spilled(raw: bytes) -> Spilled | None:
    try:
        return _decode_spilled(raw)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, RecursionError):
        return _as_spilled_slowly(raw)


def _as_spilled_slowly(raw: bytes) -> Spilled | None:
    """For a preview with lone surrogates."""
    try:
        fields = jsontext.members(raw)
        blob = msgspec.json.decode(fields["blob"], type=SpilledBlob)
    except (msgspec.MsgspecError, ValueError, KeyError, RecursionError):
        return None
    return Spilled(blob, msgspec.Raw(fields.get("preview", b"{}")))


def _decode_known(event_type: str, raw: bytes) -> KnownPayload:
    try:
        return _DECODE[event_type](raw)
    except msgspec.DecodeError as error:
        if event_type == "message":
            return _decode_by_blocks(raw)
        if isinstance(error, msgspec.ValidationError):
            raise
        return msgspec.convert(jsontext.loads(raw), PAYLOAD_TYPES[event_type])


def _decode_by_blocks(raw: bytes) -> Message:
    """A message with a block that this version can't read, or with lone surrogates."""
    fields = jsontext.members(raw)
    blocks = jsontext.elements(fields.pop("content", b"null"))
    plain = {name: jsontext.loads(value) for name, value in fields.items()}
    frame = msgspec.convert({**plain, "content": []}, Message)
    return msgspec.structs.replace(frame, content=tuple(_block(block) for block in blocks))


def _block(raw: bytes) -> ContentBlock:
    try:
        return _decode_block(raw)
    except msgspec.ValidationError:
        return Opaque(raw)
    except msgspec.DecodeError:
        return _block_slowly(raw)


def _block_slowly(raw: bytes) -> ContentBlock:
    try:
        block: KnownBlock = msgspec.convert(jsontext.loads(raw), KnownBlock)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return Opaque(raw)
    return block
