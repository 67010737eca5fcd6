"""What the changes of one path come to when the calls that made them overlapped."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewake.files.weave import Strand, Woven, weave
from rewake.model.events import FileState


def state(name: str) -> FileState:
    """A file with this content; nothing for "-"."""
    if name == "-":
        return FileState()
    return FileState("file", hashlib.sha256(name.encode()).hexdigest(), len(name), 0o644)


def strand(began: int, ended: int, before: str, after: str, *, doubtful: bool = False) -> Strand:
    """A change by a call that ran from one moment to another."""
    return Strand(f"{began:05}", f"{ended:05}", state(before), state(after), doubtful)


def together(*changes: str) -> list[Strand]:
    """Changes ("ab": from a to b) of calls that all ran at the same time, in the order they ended."""
    return [strand(at, 100 + at, one[0], one[1]) for at, one in enumerate(changes)]


def in_turn(*changes: str) -> list[Strand]:
    """Changes of calls of which each began when the one before had ended."""
    return [strand(2 * at, 2 * at + 1, one[0], one[1]) for at, one in enumerate(changes)]


def came_to(woven: Woven) -> str:
    """Both ends as they are called here, with a ! where the changes are no chain."""
    names = {state(name): name for name in "-abcdefgh"}
    return names[woven.before] + names[woven.after] + "!" * woven.mixed


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (["ab", "bc"], "ac"),
        (["bc", "ab"], "ac"),
        (["cd", "-a", "bc", "ab"], "-d"),
        (["ab", "ab"], "ab"),
        (["ab", "bc", "ac"], "ac"),
        (["ab", "ad"], "ad"),
        (["bc", "ac"], "ac"),
        (["ab", "ba"], "aa"),
        (["ab", "cd"], "ad!"),
        (["ab", "bc", "-d"], "ad!"),
    ],
)
def test_changes_at_once_are_a_chain_in_whatever_order(changes: list[str], expected: str) -> None:
    assert came_to(weave(together(*changes))) == expected


@pytest.mark.parametrize("changes", [["bc", "ab"], ["ab", "ab"], ["ab", "ac"], ["ab", "cd"]])
def test_changes_one_after_the_other_keep_their_order(changes: list[str]) -> None:
    assert weave(in_turn(*changes)).mixed


def test_a_change_that_may_not_have_happened_can_be_left_out() -> None:
    sure, unsure = strand(0, 100, "a", "b"), strand(1, 101, "a", "c", doubtful=True)
    assert came_to(weave([unsure, sure])) == "ab"


def test_what_overlaps_goes_on_where_what_was_before_it_ended() -> None:
    before, after = in_turn("-a")[0], strand(300, 301, "c", "d")
    assert came_to(weave([before, *together_later("bc", "ab"), after])) == "-d"
    assert weave([before, *together_later("ce", "bc"), after]).mixed


def test_a_call_that_is_on_record_last_may_have_been_the_first_of_several_in_turn() -> None:
    slow = strand(0, 9, "-", "a")
    assert came_to(weave([strand(1, 2, "a", "b"), strand(3, 4, "b", "c"), slow])) == "-c"


def together_later(*changes: str) -> list[Strand]:
    return [strand(100 + at, 200 + at, one[0], one[1]) for at, one in enumerate(changes)]


@given(order=st.permutations(range(30)))
def test_a_chain_of_any_length_is_found_in_any_order(order: list[int]) -> None:
    names = [str(number) for number in range(31)]
    chain = [strand(0, 1, names[at], names[at + 1]) for at in range(30)]
    mixed = [
        chain[at]._replace(began_id=f"{number:05}", event_id=f"{100 + number:05}")
        for number, at in enumerate(order)
    ]
    woven = weave(mixed)
    assert (woven.before, woven.after, woven.mixed) == (state("0"), state("30"), False)
