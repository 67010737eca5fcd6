"""Markdown with front matter: fields and body, or one error with its line."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewake.frontmatter import FrontMatterError, parse


def test_fields_and_body_are_told_apart() -> None:
    document = parse("---\nname: a\ntags: [x, y]\n---\nBody\n---\nmore\n")
    assert (document.text("name"), document.text("tags")) == ("a", "x, y")
    assert document.body == "Body\n---\nmore\n"


def test_a_text_without_front_matter_is_all_body() -> None:
    assert parse("# Title\n").body == "# Title\n"


def test_a_colon_in_a_plain_value_is_part_of_it() -> None:
    assert parse("---\ndescription: Use it for: this\n---\n").text("description") == (
        "Use it for: this"
    )


def test_commas_in_parentheses_do_not_split_a_list() -> None:
    document = parse("---\nallowed-tools: Bash(git add:*, x), Read\n---\n")
    assert document.texts("allowed-tools") == ("Bash(git add:*, x)", "Read")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("---\nname: a\n", 1),
        ("---\nname: a\nb: [\n---\n", 4),
        ("---\n- a\n---\n", 2),
        ("---\na: &x [1]\nb: *x\n---\n", 3),
        ("---\na: !!python/object/apply:os.system [x]\n---\n", 2),
        (f"---\na: {'x' * 20_000}\n---\n", 1),
        (f"---\na: {'[' * 5_000}\n---\n", 2),
    ],
)
def test_front_matter_that_can_not_be_used_names_its_line(text: str, line: int) -> None:
    with pytest.raises(FrontMatterError) as caught:
        parse(text)
    assert caught.value.line == line


@given(st.text())
def test_any_text_is_a_document_or_the_one_error(text: str) -> None:
    with contextlib.suppress(FrontMatterError):
        assert isinstance(parse(f"---\n{text}").body, str)


def test_commas_in_parentheses_within_parentheses_split_nothing() -> None:
    document = parse("---\ntools: Bash(a (b, c), d), Read, (e\n---\n")
    assert document.texts("tools") == ("Bash(a (b, c), d)", "Read", "(e")
