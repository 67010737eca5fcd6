r"""Bytes to events and back; docs/format.md is the specification of what is read and written here.

The rules kept here:

- A record is committed only with its newline. Bytes after the last newline are a torn tail.
- A line either becomes an event or a `CorruptLine` with its offset and a reason; nothing else is
  raised, and one bad line costs that line.
- What the fast decoder refuses is tried with the standard library's before it counts as corrupt
  (lone surrogates are JSON to one and not to the other).
- Feeding one byte at a time gives what feeding all at once gives.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, Final, NoReturn

import msgspec

from rewake.errors import InvalidValueError
from rewake.model.content import (
    Block,
    ContentBlock,
    File,
    Image,
    JsonObject,
    KnownBlock,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from rewake.model.events import (
    PAYLOAD_TYPES,
    SCHEMA_VERSIONS,
    Event,
    KnownPayload,
    Message,
    Spilled,
    Unknown,
)
from rewake.model.upcast import upcast

CRC_PREFIX: Final = b',"crc32":"'
CRC_SUFFIX: Final = b'"}'
# `,"crc32":"` + eight hex digits + `"}`: with the newline, the last 21 bytes of a line.
CRC_BYTES: Final = len(CRC_PREFIX) + 8 + len(CRC_SUFFIX)
_SPILLED_PREFIX: Final = b'{"blob":'
_PREVIEW_CHARS: Final = 300  # enough for a person to recognise a payload in a pager


class CorruptLine(msgspec.Struct, frozen=True):
    """A complete line that is no event: where it starts, its bytes, and why."""

    offset: int
    line: bytes
    reason: str


class TornTail(msgspec.Struct, frozen=True):
    """Bytes after the last newline: a record whose write was cut short."""

    offset: int
    line: bytes


class _Line(msgspec.Struct):
    """The header as it stands on disk; unknown keys are skipped here and stay in the line's bytes."""

    event_id: str
    seq: int
    timestamp: str
    session_id: str
    event_type: str
    payload: msgspec.Raw
    parent_id: str | None = None
    run_id: str = ""
    schema_version: int = 1
    step: int = 0
    agent_id: str | None = None
    crc32: str | None = None


class Header(msgspec.Struct, frozen=True):
    """The few fields that searching, bisecting and drawing the tree need."""

    event_id: str
    event_type: str = ""
    parent_id: str | None = None
    seq: int = -1


class _PayloadOnly(msgspec.Struct):
    payload: msgspec.Raw


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_header = msgspec.json.Decoder(Header).decode
_decode_spilled = msgspec.json.Decoder(Spilled).decode
_decode_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_raw_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encoder = msgspec.json.Encoder()
_block_decoder: msgspec.json.Decoder[Text | Thinking | ToolCall | ToolResult | Image | File] = (
    msgspec.json.Decoder(KnownBlock)
)
_BLOCK_TYPES: Final = frozenset(
    str(block.__struct_config__.tag) for block in (Text, Thinking, ToolCall, ToolResult, Image, File)
)


class _StoredMessage(Message, frozen=True):
    """A message whose blocks are all of known types: the fast path."""

    content: tuple[KnownBlock, ...]  # type: ignore[assignment]  # narrower on purpose: the fast path


_PAYLOAD_DECODERS: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    name: msgspec.json.Decoder(payload_type)
    for name, payload_type in PAYLOAD_TYPES.items()
    if payload_type is not Message
}


# --- encoding --------------------------------------------------------------------------------


def encode_payload(payload: KnownPayload | Spilled | Unknown) -> bytes:
    """The payload's JSON. Lone surrogates become `\\udXXX` escapes, which come back as they were.

    Raises InvalidValueError for non-finite numbers and for values that aren't JSON.
    """
    if isinstance(payload, Unknown):
        return payload.raw
    try:
        if isinstance(payload, Message) and any(isinstance(b, Opaque) for b in payload.content):
            return _encode_with_opaque(payload)
        encoded = _encoder.encode(payload)
    except UnicodeEncodeError:
        return _encode_slowly(payload)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        _refuse(error)
    # The fast encoder writes NaN and infinities as null, so look again wherever a null stands.
    if b"null" in encoded:
        _refuse_non_finite(payload)
    return encoded


def _encode_slowly(payload: KnownPayload | Spilled) -> bytes:
    try:
        _refuse_non_finite(payload)
        plain = msgspec.to_builtins(payload)
        return json.dumps(plain, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        _refuse(error)


def _encode_with_opaque(payload: Message) -> bytes:
    known = {
        name: getattr(payload, name)
        for name in payload.__struct_fields__
        if name != "content" and getattr(payload, name) not in {None, ""}
    }
    blocks = [
        msgspec.Raw(block.raw if isinstance(block, Opaque) else _encode_block(block))
        for block in payload.content
    ]
    return _encoder.encode({"role": known.pop("role"), "content": blocks, **known})


def _encode_block(block: Block) -> bytes:
    try:
        return _encoder.encode(block)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(block)
        return json.dumps(plain, allow_nan=False, separators=(",", ":")).encode("ascii")


def _refuse(error: Exception) -> NoReturn:
    raise InvalidValueError(
        f"This value can't be recorded as JSON: {error}.",
        remedy="Pass strings, numbers, booleans, None, lists and dictionaries with string keys.",
    ) from error


def _refuse_non_finite(value: object) -> None:
    for number in _floats(msgspec.to_builtins(value)):
        if number != number or number in {float("inf"), float("-inf")}:  # noqa: PLR0124  # NaN test
            raise InvalidValueError(
                f"The number {number} can't be recorded: JSON has no such value.",
                remedy="Pass it as a string or leave it out.",
            )


def _floats(value: object) -> list[float]:
    found: list[float] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, float):
            found.append(item)
        elif isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)
    return found


def seal_line(body: bytes) -> bytes:
    """Close a line that lacks only its checksum and brace; the newline is included."""
    return b'%b,"crc32":"%08x"}\n' % (body, zlib.crc32(body))


def preview_of(encoded: bytes) -> bytes:
    """The same payload with its long strings cut, so that a lost blob leaves something to read."""
    return json.dumps(_cut(json.loads(encoded)), separators=(",", ":")).encode("ascii")


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _PREVIEW_CHARS else value[:_PREVIEW_CHARS] + " …"
    if isinstance(value, dict):
        return {key: _cut(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut(item) for item in value]
    return value


# --- decoding --------------------------------------------------------------------------------


def decode_line(line: bytes, offset: int = 0) -> Event | CorruptLine:
    """One line without its newline. A trailing carriage return is ignored."""
    text = line[:-1] if line.endswith(b"\r") else line
    problem = _checksum_problem(text)
    if problem is not None:
        return CorruptLine(offset, line, problem)
    try:
        parsed = _decode_line(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError) as error:
        slow = _decode_line_slowly(text)
        if isinstance(slow, str):
            return CorruptLine(offset, line, slow or str(error))
        parsed = slow
    return Event(
        event_id=parsed.event_id,
        parent_id=parsed.parent_id,
        seq=parsed.seq,
        timestamp=parsed.timestamp,
        session_id=parsed.session_id,
        run_id=parsed.run_id,
        event_type=parsed.event_type,
        schema_version=parsed.schema_version,
        payload=decode_payload(parsed.event_type, parsed.schema_version, bytes(parsed.payload)),
        step=parsed.step,
        agent_id=parsed.agent_id,
        line=line,
        offset=offset,
    )


def decode_header(line: bytes) -> Header | None:
    """The header fields alone, without checking the checksum; None where they can't be read."""
    try:
        return _decode_header(line)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError):
        found = decode_line(line)
        if isinstance(found, CorruptLine):
            return None
        return Header(found.event_id, found.event_type, found.parent_id, found.seq)


def decode_payload(event_type: str, version: int, raw: bytes) -> KnownPayload | Spilled | Unknown:
    """The typed payload, or `Unknown` with the bytes when its type or shape isn't known."""
    current = SCHEMA_VERSIONS.get(event_type)
    if current is None:
        return Unknown(raw)
    try:
        if raw.startswith(_SPILLED_PREFIX):
            return _decode_spilled(raw)
        if version < current:
            raw = _encoder.encode(upcast(event_type, version, current, json.loads(raw)))
        return _decode_known(event_type, raw)
    except msgspec.ValidationError as error:
        return _other_order_spilled(raw) or Unknown(raw, str(error))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return _decode_payload_slowly(event_type, raw) or Unknown(raw, str(error))


def _decode_known(event_type: str, raw: bytes) -> KnownPayload:
    if event_type == "message":
        return _decode_message(raw)
    payload: KnownPayload = _PAYLOAD_DECODERS[event_type].decode(raw)
    return payload


_decode_known_message = msgspec.json.Decoder(_StoredMessage).decode


def _decode_message(raw: bytes) -> Message:
    try:
        stored = _decode_known_message(raw)
    except msgspec.ValidationError:
        return _decode_message_with_opaque(raw)
    return _as_message(stored, stored.content)


def _as_message(stored: Message, content: tuple[ContentBlock, ...]) -> Message:
    return Message(
        stored.role,
        content,
        stored.model,
        stored.usage,
        stored.stop_reason,
        stored.provider,
        stored.source,
    )


def _decode_message_with_opaque(raw: bytes) -> Message:
    fields = _decode_raw_object(raw)
    blocks = _decode_raw_list(fields.pop("content", msgspec.Raw(b"[]")))
    rest = _encoder.encode({**fields, "content": []})
    return _as_message(_decode_known_message(rest), tuple(_decode_block(bytes(b)) for b in blocks))


def _decode_block(raw: bytes) -> ContentBlock:
    try:
        return _block_decoder.decode(raw)
    except msgspec.ValidationError:
        tag = json.loads(raw).get("type") if raw.lstrip().startswith(b"{") else None
        if tag in _BLOCK_TYPES:
            raise
        return Opaque(raw)


def _other_order_spilled(raw: bytes) -> Spilled | None:
    try:
        return _decode_spilled(raw)
    except msgspec.MsgspecError:
        return None


def _decode_payload_slowly(event_type: str, raw: bytes) -> KnownPayload | None:
    """For what only the standard decoder takes, such as lone surrogates."""
    try:
        plain = json.loads(raw, parse_constant=_no_constant)
        payload: KnownPayload = msgspec.convert(plain, _slow_type(event_type))
    except (ValueError, RecursionError):
        return None
    if isinstance(payload, _StoredMessage):
        return _as_message(payload, payload.content)
    return payload


def _slow_type(event_type: str) -> type[KnownPayload]:
    return _StoredMessage if event_type == "message" else PAYLOAD_TYPES[event_type]


def _decode_line_slowly(text: bytes) -> _Line | str:
    """The line through the standard library's decoder, or why it is none."""
    if not text.strip(b" \t\r\x00"):
        return "NUL bytes" if b"\x00" in text else "empty line"
    try:
        plain = json.loads(text.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        return f"not UTF-8 at byte {error.start} of the line"
    except RecursionError:
        return "nested too deep"
    except ValueError as error:
        return "NUL bytes" if b"\x00" in text else f"not JSON: {error}"
    if not isinstance(plain, dict):
        return f"not an object but {type(plain).__name__}"
    try:
        payload = json.dumps(plain.get("payload"), separators=(",", ":")).encode("ascii")
        fields = {key: value for key, value in plain.items() if key in _Line.__struct_fields__}
        fields["payload"] = msgspec.Raw(payload)
        if "payload" not in plain:
            del fields["payload"]
        return msgspec.convert(fields, _Line)
    except msgspec.ValidationError as error:
        return f"not an event: {error}"
    except (ValueError, RecursionError) as error:
        return f"not an event: {error}"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _checksum_problem(text: bytes) -> str | None:
    if text[-CRC_BYTES : -CRC_BYTES + len(CRC_PREFIX)] != CRC_PREFIX or text[-2:] != CRC_SUFFIX:
        return None
    stated = text[-CRC_BYTES + len(CRC_PREFIX) : -2]
    actual = b"%08x" % zlib.crc32(memoryview(text)[:-CRC_BYTES])
    if stated == actual:
        return None
    return f"checksum mismatch: the line says {stated.decode('ascii', 'replace')}, its bytes give {actual.decode()}"


class Decoder:
    """Decodes a stream in pieces of any size. `offset` is where the first byte fed stands."""

    def __init__(self, offset: int = 0) -> None:
        self._start = offset
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> list[Event | CorruptLine]:
        """The lines that `data` completes, in order."""
        *complete, rest = data.split(b"\n")
        found: list[Event | CorruptLine] = []
        for piece in complete:
            self._pieces.append(piece)
            line = b"".join(self._pieces)
            self._pieces = []
            found.append(decode_line(line, self._start))
            self._start += len(line) + 1
        if rest:
            self._pieces.append(rest)
        return found

    def finish(self) -> TornTail | None:
        """What stands after the last newline, if anything."""
        tail = b"".join(self._pieces)
        return TornTail(self._start, tail) if tail else None
