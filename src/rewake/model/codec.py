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

import zlib
from collections.abc import Mapping
from typing import Final

import msgspec

from rewake.model import jsontext
from rewake.model.events import Event
from rewake.model.payloads import DEPTH_MAX, decode_payload, encode_payload, preview_of

__all__ = [
    "CRC_BYTES",
    "CRC_PREFIX",
    "CRC_SUFFIX",
    "DEPTH_MAX",
    "CorruptLine",
    "Decoder",
    "Header",
    "TornTail",
    "decode_header",
    "decode_line",
    "decode_payload",
    "encode_payload",
    "preview_of",
    "seal_line",
    "with_members",
]

CRC_PREFIX: Final = b',"crc32":"'
CRC_SUFFIX: Final = b'"}'
# `,"crc32":"` + eight hex digits + `"}`: with the newline, the last 21 bytes of a line.
CRC_BYTES: Final = len(CRC_PREFIX) + 8 + len(CRC_SUFFIX)
_CHECKSUM_KEY: Final = "crc32"
_DIGITS_AT: Final = -8 - len(CRC_SUFFIX)


class CorruptLine(msgspec.Struct, frozen=True):
    """A complete line that is no event: where it starts, its bytes, and why."""

    offset: int
    line: bytes
    reason: str


class TornTail(msgspec.Struct, frozen=True):
    """Bytes after the last newline: a record whose write was cut short."""

    offset: int
    line: bytes


class _Line(msgspec.Struct, gc=False):
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


class Header(msgspec.Struct, frozen=True):
    """The few fields that searching, bisecting and drawing the tree need."""

    event_id: str
    event_type: str = ""
    parent_id: str | None = None
    seq: int = -1


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_header = msgspec.json.Decoder(Header).decode


def seal_line(body: bytes) -> bytes:
    """Close a line that lacks only its checksum and brace; the newline is included."""
    return body + b',"crc32":"%08x"}\n' % zlib.crc32(body)


def with_members(line: bytes, changed: Mapping[str, bytes]) -> bytes:
    """The line of an event with other JSON texts for some members, sealed anew; without its newline.

    All other members, known or not, keep their bytes and their order.
    """
    text = line.strip(b"\x00\r")
    members = {key: value for key, value in jsontext.members(text).items() if key != _CHECKSUM_KEY}
    members.update(changed)
    body = b",".join(jsontext.dumps(key) + b":" + value for key, value in members.items())
    return seal_line(b"{" + body)[:-1]


def decode_line(line: bytes, offset: int = 0) -> Event | CorruptLine:
    """One line without its newline. A trailing carriage return is ignored.

    NULs around a record (left by a crash of the machine) are ignored too, if its checksum proves
    that it is whole.
    """
    parsed = _parse(line) if _is_proven(line) else _parse_unproven(line)
    if isinstance(parsed, str):
        return CorruptLine(offset, line, parsed)
    return Event(
        parsed.event_id,
        parsed.parent_id,
        parsed.seq,
        parsed.timestamp,
        parsed.session_id,
        parsed.run_id,
        parsed.event_type,
        parsed.schema_version,
        decode_payload(parsed.event_type, parsed.schema_version, parsed.payload),
        parsed.step,
        parsed.agent_id,
        line,
        offset,
    )


def decode_header(line: bytes) -> Header | None:
    """The header fields alone, without checking the checksum; None where they can't be read."""
    try:
        return _decode_header(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        found = decode_line(line)
        if isinstance(found, CorruptLine):
            return None
        return Header(found.event_id, found.event_type, found.parent_id, found.seq)


def _is_proven(text: bytes) -> bool:
    """Whether the text ends with the checksum of what stands before it."""
    return text[-CRC_BYTES:] == b',"crc32":"%08x"}' % zlib.crc32(text[:-CRC_BYTES])


def _parse(text: bytes) -> _Line | str:
    """The line's fields, or why it is no event."""
    try:
        return _decode_line(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _parse_slowly(text)


def _parse_unproven(line: bytes) -> _Line | str:
    """For a line with a carriage return, without a checksum, or with a wrong one."""
    text = line[:-1] if line.endswith(b"\r") else line
    inner = text.strip(b"\x00")
    if len(inner) < len(line) and _is_proven(inner):
        return _parse(inner)
    if text.startswith(CRC_PREFIX, -CRC_BYTES) and text.endswith(CRC_SUFFIX):
        stated, actual = text[_DIGITS_AT:-2], b"%08x" % zlib.crc32(text[:-CRC_BYTES])
        return f"checksum mismatch: the line says {ascii(stated)[2:-1]}, its bytes give {actual.decode()}"
    return _parse(text)


def _parse_slowly(text: bytes) -> _Line | str:
    """The line through the standard library's decoder, or why it is none."""
    if not text.strip(b" \t\r"):
        return "empty line"
    try:
        fields = jsontext.members(text)
    except UnicodeDecodeError as error:
        return f"not UTF-8 at byte {error.start} of the line"
    except RecursionError:
        return "nested too deep"
    except ValueError as error:
        return "NUL bytes" if b"\x00" in text else f"not a JSON object: {error}"
    payload = fields.pop("payload", None)
    known = {name: fields[name] for name in _Line.__struct_fields__ if name in fields}
    header: dict[str, object] = {name: jsontext.loads(value) for name, value in known.items()}
    if payload is not None:
        header["payload"] = msgspec.Raw(payload)
    try:
        return msgspec.convert(header, _Line)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        is_text = isinstance(error, UnicodeEncodeError)
        return f"not an event: {'a lone surrogate where no text belongs' if is_text else error}"


class Decoder:
    """Decodes a stream in pieces of any size. `offset` is where the first byte fed stands."""

    def __init__(self, offset: int = 0) -> None:
        self._start = offset
        self._partial = bytearray()

    def feed(self, data: bytes) -> list[Event | CorruptLine]:
        """The lines that `data` completes, in order."""
        *complete, rest = data.split(b"\n")
        found: list[Event | CorruptLine] = []
        for piece in complete:
            line = bytes(self._partial + piece) if self._partial else piece
            self._partial.clear()
            found.append(decode_line(line, self._start))
            self._start += len(line) + 1
        self._partial += rest
        return found

    def finish(self) -> TornTail | None:
        """What stands after the last newline, if anything."""
        return TornTail(self._start, bytes(self._partial)) if self._partial else None
