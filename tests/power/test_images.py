"""Crashed disks made from a log: what a flush covers is there, the rest may be."""

from __future__ import annotations

import random
from pathlib import Path

from rewake.testing.power_loss_device import Record, read_log
from rewake.testing.power_loss_images import SECTOR_BYTES, crash_states

BASE = bytes(8 * SECTOR_BYTES)


def write(sector: int, value: int, sectors: int = 1) -> Record:
    return Record("write", sector * SECTOR_BYTES, bytes([value]) * SECTOR_BYTES * sectors)


def sectors(image: memoryview) -> list[int]:
    return list(image[::SECTOR_BYTES])


def states(log: list[Record], point: int, times: int = 200) -> list[list[int]]:
    chance = random.Random(1)  # noqa: S311  # repeatable
    return [sectors(next(crash_states(BASE, log, [point], chance)).image) for _ in range(times)]


def test_what_was_flushed_is_always_there() -> None:
    log = [write(0, 1), write(1, 2), Record("flush"), write(2, 3)]
    assert all(found[:2] == [1, 2] for found in states(log, 4))


def test_each_sector_of_an_unflushed_write_is_there_or_not_by_itself() -> None:
    found = states([write(0, 7, sectors=2)], 1)
    assert {tuple(each[:2]) for each in found} == {(0, 0), (0, 7), (7, 0), (7, 7)}


def test_later_writes_may_be_there_without_earlier_ones() -> None:
    found = states([write(0, 1), write(0, 2), write(1, 3)], 3)
    assert {(each[0], each[1]) for each in found} == {(a, b) for a in (0, 1, 2) for b in (0, 3)}


def test_nothing_from_after_the_crash_is_there() -> None:
    assert all(found[0] == 0 for found in states([Record("mark"), write(0, 1)], 1))


def test_a_flush_that_was_not_reached_covers_nothing() -> None:
    found = states([write(0, 1), Record("flush")], 1)
    assert {each[0] for each in found} == {0, 1}


def test_many_points_in_one_go_are_as_good_as_each_alone() -> None:
    log = [write(0, 1), Record("flush"), Record("mark"), write(1, 2), Record("flush"), write(2, 3)]
    found = {state.point: (sectors(state.image), state.marks) for state in each_point(log)}
    assert found[2] == ([1] + [0] * 7, 0)
    assert found[3] == ([1] + [0] * 7, 1)
    assert found[5] == ([1, 2] + [0] * 6, 1)


def each_point(log: list[Record]) -> list[_Kept]:
    chance = random.Random(2)  # noqa: S311  # repeatable
    made = crash_states(BASE, log, range(len(log) + 1), chance)
    return [_Kept(state.point, memoryview(bytes(state.image)), state.marks) for state in made]


class _Kept:
    def __init__(self, point: int, image: memoryview, marks: int) -> None:
        self.point, self.image, self.marks = point, image, marks


def test_the_log_of_the_device_is_read_as_it_was_written(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(
        b"W\x00\x02\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00abc"
        b"F" + bytes(12) + b"M" + bytes(8) + b"\x01\x00\x00\x00x"
    )
    assert list(read_log(log)) == [
        Record("write", 512, b"abc"),
        Record("flush"),
        Record("mark", 0, b"x"),
    ]
