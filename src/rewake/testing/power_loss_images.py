"""What a disk may hold after the power fails, made from the log of what was written to it.

The rule kept here: a write that a later flush covers is there in full; of the others each sector of
512 bytes is there or not, independently, whatever the order (a drive's cache keeps none).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from rewake.testing.power_loss_device import Record

SECTOR_BYTES: Final = 512
_KEPT_OF_UNFLUSHED: Final = 0.5  # as far from "all" and from "nothing" as can be


class CrashState(msgspec.Struct, frozen=True):
    """The disk after a crash right before record `point`.

    `marks` is how many marks stand before it, `kept` and `dropped` count unflushed sectors. `image`
    is valid until the next state is made.
    """

    point: int
    image: memoryview
    marks: int
    kept: int
    dropped: int


def crash_states(
    base: bytes, log: Sequence[Record], points: Iterable[int], chance: random.Random
) -> Iterator[CrashState]:
    """A state for each of `points` (indexes of `log`), in rising order."""
    durable = bytearray(base)
    flushed = 0  # records before it are in `durable`
    marks = 0
    at = 0
    for point in sorted(points):
        last_flush = flushed
        for index in range(at, point):
            if log[index].kind == "flush":
                last_flush = index
            marks += log[index].kind == "mark"
        for record in log[flushed:last_flush]:
            if record.kind == "write":
                durable[record.offset : record.offset + len(record.data)] = record.data
        flushed, at = last_flush, point
        image = bytearray(durable)
        kept, dropped = _keep_some(image, log[flushed:point], chance)
        yield CrashState(point, memoryview(image), marks, kept, dropped)


def _keep_some(
    image: bytearray, unflushed: Sequence[Record], chance: random.Random
) -> tuple[int, int]:
    kept = dropped = 0
    for record in unflushed:
        if record.kind != "write":
            continue
        for start in range(0, len(record.data), SECTOR_BYTES):
            if chance.random() >= _KEPT_OF_UNFLUSHED:
                dropped += 1
                continue
            kept += 1
            sector = record.data[start : start + SECTOR_BYTES]
            place = record.offset + start
            image[place : place + len(sector)] = sector
    return kept, dropped
