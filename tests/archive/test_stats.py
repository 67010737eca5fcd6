"""Counts, tokens and cost: by project and day from the list, by model from the lines."""

from __future__ import annotations

import os
from pathlib import Path

from tests.archive.machines import LONG, Machine

import rewake
from rewake.archive.stats import Counts, ModelCounter, count
from rewake.compose.archives import stats
from rewake.resume.listing import SessionInfo


def row(project: str, day: str, cost: float | None, tokens: int = 10) -> SessionInfo:
    return SessionInfo(
        session_id="s",
        title="",
        project=project,
        created_at="",
        updated_at=f"{day}T00:00:00Z",
        state="done",
        messages=2,
        size_bytes=0,
        path="",
        calls=1,
        input_tokens=tokens,
        output_tokens=1,
        cost_usd=cost,
    )


def test_sums_by_project_and_day() -> None:
    found = count(
        [row("/a", "2026-01-02", 1.0), row("/b", "2026-01-01", 2.5), row("/a", "2026-01-02", None)]
    )
    assert found.total == Counts("total", 3, 6, 3, 30, 3, 3.5)
    assert [one.name for one in found.projects] == ["/b", "/a"]
    assert found.days == (
        Counts("2026-01-01", 1, 2, 1, 10, 1, 2.5),
        Counts("2026-01-02", 2, 4, 2, 20, 2, 1.0),
    )


def test_an_unknown_cost_is_not_zero() -> None:
    assert count([row("/a", "2026-01-01", None)]).total.cost_usd is None
    assert count([]).total == Counts("total")


def talk_with_usage(here: Machine) -> str:
    with here.open() as session:
        for model, usage in (
            ("large", rewake.Usage(100, 10, cost_usd=0.5)),
            ("small", rewake.Usage(7, 3)),
            ("large", rewake.Usage(200, 20, cost_usd=1.0)),
        ):
            session.user("go on")
            session.assistant(LONG if model == "small" else "ok", model=model, usage=usage)
        return session.session_id


def test_models_are_counted_message_by_message(here: Machine) -> None:
    session_id = talk_with_usage(here)
    talk_with_usage(here)
    found = stats(here.project, home=here.home)
    assert found.models == (
        Counts("large", 2, 4, 0, 600, 60, 3.0),
        Counts("small", 2, 2, 0, 14, 6, None),
    )
    assert found.total.sessions == 2
    assert found.total.input_tokens == 614
    assert session_id


def test_usage_that_came_late_counts_once(here: Machine, tmp_path: Path) -> None:
    with here.open() as session:
        session.user("go on")
        message = session.assistant("ok", model="m")
        session.flush()  # its line is written, so what comes now is an amendment
        session.amend(message, usage=rewake.Usage(5, 6, cost_usd=0.1))
        transcript = here.paths(session.session_id).transcript
    counter = ModelCounter()
    counter.add(transcript)
    # Only lines with usage are read, so the model is the run's; this run has named none.
    assert counter.counts() == [Counts("unknown", 1, 1, 0, 5, 6, 0.1)]


def test_a_session_that_cant_be_read_costs_only_itself(here: Machine) -> None:
    talk_with_usage(here)
    broken = here.paths(talk_with_usage(here)).transcript
    broken.write_bytes(b"garbage\n")
    os.utime(broken, ns=(0, 0))
    found = stats(here.project, home=here.home, everywhere=True)
    assert found.total.input_tokens == 307
    assert [one.sessions for one in found.models] == [1, 1]
