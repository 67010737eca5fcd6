"""Ids rise whatever the clock does, and have one form."""

from __future__ import annotations

import uuid
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewake.model.ids import IdGenerator, is_event_id, join_id, split_id, synthetic_id

MILLISECONDS = st.integers(0, 2**48 - 2)
COUNTERS = st.integers(0, 2**74 - 1)


def generator(*clock: int, last: str | None = None, bits: int = 0) -> IdGenerator:
    ticks = iter(clock)
    return IdGenerator(lambda: next(ticks), lambda _n: bits, last)


@given(st.lists(MILLISECONDS, min_size=2, max_size=20), st.integers(0, 2**73 - 1))
def test_ids_rise_strictly_under_a_jumping_clock(clock: list[int], bits: int) -> None:
    new_id = generator(*clock, bits=bits)
    made = [new_id() for _ in clock]
    assert all(a < b for a, b in pairwise(made))
    numbers = [uuid.UUID(event_id).int for event_id in made]
    assert numbers == sorted(set(numbers))


@given(MILLISECONDS, COUNTERS, st.integers(-(2**50), 2**48 - 1))
def test_an_id_made_after_a_seed_is_larger(at: int, counter: int, now: int) -> None:
    seed = join_id(at, counter)
    made = generator(now, last=seed)()
    assert made > seed
    assert is_event_id(made)


@given(MILLISECONDS, COUNTERS)
def test_an_id_is_an_rfc_9562_version_7(at: int, counter: int) -> None:
    parsed = uuid.UUID(join_id(at, counter))
    assert str(parsed) == join_id(at, counter)
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    assert parsed.int >> 80 == at


@given(MILLISECONDS, COUNTERS)
def test_splitting_an_id_undoes_joining_it(at: int, counter: int) -> None:
    assert split_id(join_id(at, counter)) == (at, counter)


@given(st.tuples(MILLISECONDS, COUNTERS), st.tuples(MILLISECONDS, COUNTERS))
def test_ids_sort_as_text_like_the_moments_they_stand_for(
    a: tuple[int, int], b: tuple[int, int]
) -> None:
    assert (join_id(*a) < join_id(*b)) == (a < b)


def test_a_seed_in_the_future_is_followed_by_its_successor() -> None:
    new_id = generator(5, 5, last=join_id(1000, 41))
    assert [new_id(), new_id()] == [join_id(1000, 42), join_id(1000, 43)]


def test_a_seed_in_the_past_does_not_matter() -> None:
    assert generator(1000, bits=7, last=join_id(5, 41))() == join_id(1000, 7)


def test_a_counter_that_runs_over_takes_the_next_millisecond() -> None:
    assert generator(5, last=join_id(1000, 2**74 - 1))() == join_id(1001, 0)


def test_an_older_seed_takes_nothing_back() -> None:
    new_id = generator(1000, 1000, bits=7)
    first = new_id()
    new_id.seed(join_id(3, 3))
    assert new_id() > first


@pytest.mark.parametrize("last", ["", "x", "../../etc/passwd", str(uuid.UUID(int=2**127))])
def test_a_seed_that_is_no_event_id_is_ignored(last: str) -> None:
    assert generator(1000, bits=7, last=last)() == join_id(1000, 7)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "018F0000-0000-7000-8000-000000000001",
        "018f0000-0000-4000-8000-000000000001",
        "018f0000-0000-7000-c000-000000000001",
        "018f00000000-7000-8000-0000-00000001",
        "018f0000-0000-7000-8000-00000000000/",
        "018f0000-0000-7000-8000-000000000001\n",
        " 018f0000-0000-7000-8000-00000000001",
        "018f0000-0000-7000-8000-00000000000٣",
        "{18f0000-0000-7000-8000-000000000001",
    ],
)
def test_what_is_not_in_the_canonical_form_is_no_event_id(text: str) -> None:
    assert not is_event_id(text)


@given(st.text(max_size=40))
def test_any_text_is_an_event_id_or_not(text: str) -> None:
    assert is_event_id(text) == (split_id(text) is not None)


def test_synthetic_ids_are_stable_and_no_event_ids() -> None:
    assert synthetic_id("answer", "x") == synthetic_id("answer", "x")
    assert synthetic_id("answer", "x") != synthetic_id("answe", "rx")
    assert uuid.UUID(synthetic_id("answer", "x")).version == 5
    assert not is_event_id(synthetic_id("answer", "x"))
