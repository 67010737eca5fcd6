"""Markdown that streams: whatever the pieces it comes in, the screen ends up as if it came at once."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from rewake.cli.prompt.blocks import CODE_LINES, Block, Code, Splitter, parser
from rewake.cli.prompt.paint import Painter
from rewake.cli.prompt.themes import THEMES
from rewake.screentext import clean

PAINTER = Painter(THEMES["ansi"], {"TERM": "xterm-256color"})
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
LINES = st.sampled_from(
    [
        "",
        " ",
        "words and *more* `code`",
        "日本語 and 👩‍👩‍👧 emoji",
        "# Heading",
        "====",
        "---",
        "- item",
        "-",
        "  - nested",
        "  more of the item",
        "1. first",
        "2. second",
        "10) tenth",
        "> quoted",
        "```",
        "```python",
        "~~~",
        "    indented code",
        "| a | b |",
        "|---|--:|",
        "| 1 | 2 |",
        "[text](http://example.org)",
        "[name]: http://example.org",
        "[name]",
        "<b>html</b>",
        "&#27;[31m &#x202e;",
        'def f(): """doc',
        "*open",
        "\ttab",
        "***",
    ]
)
DOCUMENTS = st.lists(LINES, max_size=30).map("\n".join)


def drawn(text: str, cuts: list[int], columns: int = 40) -> list[str]:
    """All lines in the end, from text cut at these places."""
    splitter = Splitter()
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    lines: list[str] = []
    for start, end in pairwise(places):
        lines += PAINTER.lines(splitter.feed(text[start:end]), columns)
    return lines + PAINTER.lines(splitter.finish(), columns)


@given(DOCUMENTS, st.lists(st.integers(0, 400), max_size=12))
@settings(deadline=None, max_examples=80)
def test_pieces_are_drawn_like_the_whole(text: str, cuts: list[int]) -> None:
    assert drawn(text, cuts) == drawn(text, [])


@given(DOCUMENTS, st.integers(0, 400))
@settings(deadline=None, max_examples=80)
def test_what_is_drawn_for_now_is_what_would_stay_if_it_ended_here(text: str, cut: int) -> None:
    splitter = Splitter()
    begun = PAINTER.lines(splitter.feed(text[:cut]), 40)
    for_now = PAINTER.lines(splitter.rest(), 40)
    assert begun + for_now == drawn(text[:cut], [])
    rest = PAINTER.lines(splitter.feed(text[cut:]) + splitter.finish(), 40)
    assert begun + rest == drawn(text, [])


@given(DOCUMENTS)
@settings(deadline=None, max_examples=80)
def test_the_blocks_are_those_of_the_whole_document(text: str) -> None:
    """Cut block by block it is the same Markdown as parsed at once."""
    splitter = Splitter()
    pieces = splitter.feed(text) + splitter.finish()
    kinds = [
        token.type.removesuffix("_open")
        for token in parser().parse(text)
        if token.level == 0 and token.nesting >= 0
    ]
    counted = [kind for kind in kinds if kind not in {"bullet_list", "ordered_list"}]
    items = sum(1 for t in parser().parse(text) if t.type == "list_item_open" and t.level == 1)
    fences = sum(1 for piece in pieces if isinstance(piece, Code) and not piece.context)
    assert len([p for p in pieces if isinstance(p, Block)]) + fences == len(counted) + items


@given(st.text(max_size=200), st.integers(10, 60))
@settings(deadline=None)
def test_a_drawn_line_fits_and_holds_nothing_but_text_and_colour(text: str, columns: int) -> None:
    for line in drawn(clean(text), [], columns):
        plain = _COLOUR.sub("", line)
        assert clean(plain) == plain
        assert cell_len(plain) <= columns


def test_hostile_markdown_can_not_spell_what_steers_a_terminal() -> None:
    hostile = "&#27;[2J&#155;31m &#x202e;evil [a](http://x/&#27;]0;t&#7;) `&#27;` ![&#27;](&#27;)"
    for line in drawn(hostile, []):
        assert _COLOUR.sub("", line).isprintable() or not line


def test_a_link_is_shown_with_where_it_leads_and_can_not_be_followed() -> None:
    (line,) = drawn("[here](http://example.org/a) and <http://example.org/b>", [], 100)
    assert "\x1b]8" not in line
    assert _COLOUR.sub("", line) == "here (http://example.org/a) and http://example.org/b"


def test_html_stays_readable_as_text() -> None:
    assert [_COLOUR.sub("", line) for line in drawn("<div>\nList<int> x\n</div>", [])] == [
        "<div>",
        "List<int> x",
        "</div>",
    ]


def test_a_block_is_final_as_soon_as_nothing_can_change_it() -> None:
    splitter = Splitter()
    assert [piece for piece in splitter.feed("# Title\n") if isinstance(piece, Block)]
    assert splitter.feed("words\n") == []
    assert [piece.source for piece in splitter.feed("\n") if isinstance(piece, Block)] == ["words"]
    assert splitter.feed("- one\n") == []
    assert [p.source for p in splitter.feed("- two\n") if isinstance(p, Block)] == ["- one"]


def test_a_long_code_block_comes_in_parts_that_know_what_preceded_them() -> None:
    splitter = Splitter()
    code = 'x = """\n' + "in a string\n" * CODE_LINES + '"""\n'
    parts = splitter.feed(f"```python\n{code}```\n")
    assert [isinstance(part, Code) and len(part.lines) for part in parts] == [CODE_LINES, 2]
    lines = PAINTER.lines(parts, 60)
    # The colour of a string still in the second part.
    assert lines[-2].partition("in")[0] == lines[2].partition("in")[0]


def test_items_keep_their_numbers_and_their_column() -> None:
    lines = [_COLOUR.sub("", line) for line in drawn("".join(f"1. x{n}\n" for n in range(12)), [3])]
    assert lines[0] == "  1 x0"
    assert lines[11] == " 12 x11"


@pytest.mark.parametrize(
    "line",
    ["- item\n", "> quoted\n", "words\n", "| a |\n", "1. x\n", "```\n\n```\n", "`" * 9 + "\n"],
)
def test_the_cost_of_an_answer_grows_with_its_length(line: str) -> None:
    """Counted in lines that are parsed, not in time."""
    counted = 0

    class Counting:
        def parse(self, text: str) -> object:
            nonlocal counted
            counted += text.count("\n") + 1
            return real.parse(text)

    real = parser("inline")
    splitter = Splitter(Counting())  # type: ignore[arg-type]  # the one method that is used
    splitter.feed(line * 3000)
    assert counted < 3000 * 60


def test_the_end_of_a_great_deal_is_told_without_drawing_it_all() -> None:
    splitter = Splitter()
    for _ in range(2000):
        splitter.feed("0123456789")
    assert splitter.unfinished(16_000) == (True, "0123456789" * 1600)
    assert splitter.unfinished(30_000) == (False, "")
    splitter.feed("\n\n")
    assert splitter.unfinished(10) == (False, "")
