"""Event ids: UUIDv7 (RFC 9562, section 5.7), strictly increasing within one generator.

The rule kept here: an id made later is larger, as a number and as text, whatever the clock does.
That is what lets an id be found in a file by bisection.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Final, NewType

EventId = NewType("EventId", str)
SessionId = NewType("SessionId", str)
RunId = NewType("RunId", str)

# UUIDv7 is 48 bits of milliseconds, then 74 free bits around 4 version and 2 variant bits.
_COUNTER_BITS: Final = 74
_COUNTER_END: Final = 1 << _COUNTER_BITS
_LOW_BITS: Final = 62
_LOW_MASK: Final = (1 << _LOW_BITS) - 1
# A fresh millisecond starts in the lower half, so that at least 2^73 increments follow it.
_SEED_BITS: Final = _COUNTER_BITS - 1
_canonical: Final = re.compile(
    "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
).fullmatch
_NAMESPACE: Final = uuid.UUID("6d0ff5a4-66a5-5c0b-9c0e-2d6a3f1b7a10")


class IdGenerator:
    """Makes event ids that only rise, also past `last` (the newest id already in the file).

    `clock_ms` gives Unix milliseconds and `random_bits(n)` n random bits. When the clock stands
    still or goes back, the id is the last one plus one. Not thread-safe: see `record.ids.SharedIds`.
    """

    def __init__(
        self,
        clock_ms: Callable[[], int],
        random_bits: Callable[[int], int],
        last: str | None = None,
    ) -> None:
        self._clock_ms = clock_ms
        self._random_bits = random_bits
        self._millisecond = 0
        self._counter = 0
        if last is not None:
            self.seed(last)

    def seed(self, last: str) -> None:
        """Continue after `last`; an id that isn't a UUIDv7 is ignored."""
        parsed = split_id(last)
        if parsed is not None and parsed > (self._millisecond, self._counter):
            self._millisecond, self._counter = parsed

    def __call__(self) -> EventId:
        now = self._clock_ms()
        if now > self._millisecond:
            self._millisecond = now
            self._counter = self._random_bits(_SEED_BITS)
        else:
            self._counter += 1
            if self._counter == _COUNTER_END:
                self._millisecond += 1
                self._counter = 0
        return join_id(self._millisecond, self._counter)


def join_id(millisecond: int, counter: int) -> EventId:
    """The id of a millisecond and a 74-bit counter."""
    return EventId(
        "%08x-%04x-7%03x-%04x-%012x"  # noqa: UP031  # runs for every event; a third faster than f""
        % (
            millisecond >> 16,
            millisecond & 0xFFFF,
            counter >> _LOW_BITS,
            0x8000 | (counter >> 48) & 0x3FFF,
            counter & 0xFFFF_FFFF_FFFF,
        )
    )


def split_id(event_id: str) -> tuple[int, int] | None:
    """The millisecond and the counter of an id, or None where it is no UUIDv7."""
    if not is_event_id(event_id):
        return None
    number = int(event_id.replace("-", ""), 16)
    high, low = number >> 64, number & ((1 << 64) - 1)
    return high >> 16, ((high & 0xFFF) << _LOW_BITS) | (low & _LOW_MASK)


def is_event_id(text: str) -> bool:
    """Whether `text` is a UUIDv7 in its canonical lower-case form (so it is safe as a file name)."""
    return _canonical(text) is not None


def synthetic_id(*parts: str) -> str:
    """A deterministic id (UUIDv5) for something that no event stands for, such as a made-up answer."""
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(parts)))
