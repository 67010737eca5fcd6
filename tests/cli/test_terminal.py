"""Text on its way to a terminal."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewake.cli.slash import Command, parse
from rewake.cli.terminal import StreamCleaner, Style, clean, fit, style_for, width
from rewake.errors import UsageError

HOSTILE = st.text(
    st.sampled_from(list("ab \n\r\t\x1b\x07\x9b[]0;31mK\u202e\u2028\ud800é日\\")), max_size=40
)


@given(HOSTILE)
def test_nothing_that_steers_a_terminal_is_left(text: str) -> None:
    cleaned = clean(text)
    assert all(char in "\n\t" or char.isprintable() for char in cleaned)
    assert clean(cleaned) == cleaned


@given(HOSTILE, st.lists(st.integers(0, 40)))
def test_text_in_pieces_is_cleaned_like_the_whole(text: str, cuts: list[int]) -> None:
    cleaner = StreamCleaner()
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert "".join(map(cleaner.feed, pieces)) + cleaner.finish() == clean(text)


def test_sequences_go_as_a_whole() -> None:
    assert clean("a\x1b[1;31mb\x1b[0m\x1b]0;evil title\x07c\x1b]8;;http://x\x1b\\d") == "abcd"


@given(st.text(max_size=60), st.integers(1, 40))
def test_a_fitted_line_is_no_wider_than_it_may_be(text: str, columns: int) -> None:
    fitted = fit(text, columns)
    assert width(fitted) <= columns
    assert "\n" not in fitted


def test_there_is_no_colour_without_a_terminal_or_against_the_users_wish() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert style_for(io.StringIO(), {}) == Style(enabled=False)
    assert style_for(Terminal(), {"TERM": "xterm"}) == Style(enabled=True)
    assert style_for(Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}) == Style(enabled=False)
    assert style_for(Terminal(), {"TERM": "dumb"}) == Style(enabled=False)


def test_commands_are_told_from_prompts() -> None:
    assert parse("/resume abc def") == Command("resume", "abc def")
    assert parse(" /quit ") == Command("quit")
    assert parse("/usr/bin/env is broken") is None
    assert parse("do /status") is None
    with pytest.raises(UsageError, match="/compact"):
        parse("/unknown")
