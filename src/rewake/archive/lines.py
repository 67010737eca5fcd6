"""Lines of a transcript written anew: other members, the same id, the checksum that belongs to them.

The rules kept here:

- A line that needs no change is kept byte for byte, and so is one that is no event.
- Only the members asked for change; all others, known or not, keep their bytes and their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

from rewake.model import jsontext
from rewake.model.codec import decode_line, with_members
from rewake.model.events import Event

_BLOCK_BYTES: Final = 1 << 18

Rewrite = Callable[[bytes], bytes]
"""From a line to a line, both without the newline."""


def with_session_id(line: bytes, old: str, new: str) -> bytes:
    """The line as one of another session, if it is an event of `old`."""
    event = decode_line(line)
    if not isinstance(event, Event) or event.session_id != old:
        return line
    return with_members(line, {"session_id": jsontext.dumps(new)})


def rewritten(file: BinaryIO, rewrite: Rewrite, size: int) -> Iterator[bytes]:
    """The first `size` bytes of a transcript with every line rewritten; a torn tail counts as one."""
    rest = b""
    while size > 0:
        block = file.read(min(_BLOCK_BYTES, size))
        if not block:
            break
        size -= len(block)
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield rewrite(line) + b"\n"
    if rest:
        yield rewrite(rest)
