"""A title that the model finds."""

from __future__ import annotations

import anyio
import pytest
from tests.agent.doubles import ScriptedModel, agent, text

import rewake
from rewake.agent.titling import title_in
from rewake.errors import ModelError
from rewake.model.content import Usage


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Mend the fence", "Mend the fence"),
        ('\n\n## Title: "Mend the fence."\nBecause it is broken.', "Mend the fence"),
        ("**Mend** the\x1b[31m fence\u202e", "Mend** the fence"),
        ("one two three four five six seven eight nine", "one two three four five six seven eight"),
        ("", ""),
        ('""\n***', ""),
    ],
)
def test_a_title_is_one_clean_line_of_at_most_eight_words(answer: str, title: str) -> None:
    assert title_in(answer) == title


def test_a_title_of_endless_words_is_cut() -> None:
    assert len(title_in("x" * 1000)) == 80


def test_what_a_title_cost_is_recorded_and_nothing_is_said(session: rewake.Session) -> None:
    session.user("mend it")
    session.assistant("mended", usage=Usage(10, 5))
    used = agent(session, ScriptedModel(text("Mending", usage=Usage(7, 2, cost_usd=0.5))))
    assert anyio.run(used.loop.title) == "Mending"
    assert session.state.world.usage == Usage(17, 7, cost_usd=0.5)
    assert len(session.messages) == 2
    assert used.model.heard()[:2] == ["mend it", "mended"]


def test_no_title_comes_from_a_model_that_fails_or_from_nothing(session: rewake.Session) -> None:
    used = agent(session, ScriptedModel(ModelError("no")))
    assert anyio.run(used.loop.title) == ""
    assert used.model.requests == []
    session.user("mend it")
    assert anyio.run(used.loop.title) == ""
    assert len(used.model.requests) == 1
