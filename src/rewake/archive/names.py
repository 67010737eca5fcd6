"""Which blobs a transcript names.

The rules kept here, one for each use:

- For an archive, a blob counts that an event *refers* to: the value of a member `sha256`. A hash that
  merely stands in a text doesn't, so that no other session's content travels along.
- For removing blobs, everything counts that looks like a name, wherever it stands, also in damaged
  lines, torn tails and payloads of unknown types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rewake.errors import InvalidValueError, StorageError
from rewake.log.blobs import BlobStore
from rewake.model import jsontext
from rewake.model.codec import decode_line
from rewake.model.events import Event, Spilled

_NAME_CHARS: Final = 64
# Every digit of a hash to one letter and everything else to another: a name is then a run that a plain
# search finds, ten times faster than a pattern.
_AS_RUNS: Final = bytes(
    ord("0") if byte in b"0123456789abcdef" else ord(" ") for byte in range(256)
)
_RUN: Final = b"0" * _NAME_CHARS
_name: Final = re.compile(r"[0-9a-f]{64}").fullmatch
_SPILLED: Final = b'"blob"'
_KEY: Final = "sha256"


# --- referred to -----------------------------------------------------------------------------


def payload_of(line: bytes, blobs: BlobStore) -> tuple[str | None, object]:
    """The blob that a line's payload was spilled to (if it was) and the payload as plain JSON.

    None for a line that is no event, and for a payload that is gone.
    """
    event = decode_line(line)
    if not isinstance(event, Event):
        return None, None
    if not isinstance(event.payload, Spilled):
        return None, jsontext.loads(jsontext.members(line.strip(b"\x00\r"))["payload"])
    sha256 = event.payload.blob.sha256
    try:
        return sha256, jsontext.loads(blobs.get(sha256))
    except (StorageError, InvalidValueError, ValueError, RecursionError):
        return sha256, None


def referred(value: object) -> Iterator[str]:
    """The hashes that JSON refers to; `value` may be nested as deep as it likes."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            sha256 = item.get(_KEY)
            if isinstance(sha256, str) and _name(sha256) is not None:
                yield sha256
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


# --- anywhere --------------------------------------------------------------------------------


def named_in(path: Path, stored: set[str], blobs: BlobStore) -> set[str]:
    """Which of the `stored` blobs a file may name, by way of spilled payloads too.

    Raises OSError. A spilled payload that is missing or damaged names nothing that could be kept.
    """
    found: set[str] = set()
    spilled: set[str] = set()
    with path.open("rb") as file:
        for line in file:
            names = set(_names(line, stored))
            found |= names
            if names and _SPILLED in line:
                spilled |= names
    for name in spilled:
        found.update(_names(_content(name, blobs), stored))
    return found


def _names(data: bytes, stored: set[str]) -> Iterator[str]:
    """Also inside a longer run of digits: in binary files, what follows a name may look like one."""
    runs = data.translate(_AS_RUNS)
    at = runs.find(_RUN)
    while at >= 0:
        name = data[at : at + _NAME_CHARS].decode("ascii")
        if name in stored:
            yield name
        at = runs.find(_RUN, at + 1)


def _content(sha256: str, blobs: BlobStore) -> bytes:
    try:
        return blobs.get(sha256)
    except StorageError as error:
        if isinstance(error.__cause__, OSError) and not isinstance(
            error.__cause__, FileNotFoundError
        ):
            raise error.__cause__ from error  # not damage: nobody can tell what it names
        return b""
