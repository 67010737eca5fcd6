"""A transcript told: the same story however it is read, and the branches that its tree has."""

from __future__ import annotations

import json
import zlib
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.seed import ReportSeed

import rewake
from rewake.compose.reports import telling_of
from rewake.model import tree
from rewake.model.content import Text, ToolCall
from rewake.model.events import ToolLifecycle
from rewake.report import story as story_module
from rewake.report.chunks import Store
from rewake.report.clean import Cleaner
from rewake.report.reading import Reading
from rewake.report.segments import Segments
from rewake.report.telling import Telling, files, told
from rewake.resume.history import whole_history


def telling(seed: ReportSeed, session_id: str) -> Telling:
    return telling_of(seed.at, seed.paths(session_id), Cleaner({}))


def contents(reading: Reading) -> list[Any]:
    """Every row's content, in order."""
    store = reading.story.store
    rows = store.rows()
    unpacked = [json.loads(zlib.decompress(chunk)) for chunk in store.chunks]
    loose = {row: json.loads(content) for row, content in store.open_contents()}
    places = zip(rows["chunk"], rows["place"], strict=True)
    return [
        unpacked[chunk][place] if chunk >= 0 else loose[row]
        for row, (chunk, place) in enumerate(places, rows["from"])
    ]


def path_rows(segments: list[list[Any]], row_segments: list[int], leaf: int) -> list[int]:
    """What the page makes of it (`rows.js`)."""
    until: dict[int, float] = {}
    cut = float("inf")
    while leaf >= 0:
        until[leaf] = cut
        leaf, cut = segments[leaf][0], segments[leaf][1]
    return [row for row, at in enumerate(row_segments) if row < until.get(at, -1)]


# --- branches --------------------------------------------------------------------------------


@st.composite
def links(draw: st.DrawFn) -> list[tuple[str, str | None]]:
    """Events as sessions write them, some of them lost: each under the one before, or under any."""
    count = draw(st.integers(1, 30))
    ids = [f"01945a62-9e00-7000-8000-{number:012x}" for number in range(count)]
    made: list[tuple[str, str | None]] = []
    for number, event_id in enumerate(ids):
        back = draw(st.integers(1, 4)) == 1
        parent = number - 1
        if back:
            parent = draw(st.integers(-1, number - 1))
        made.append((event_id, ids[parent] if parent >= 0 else None))
    lost = draw(st.sets(st.integers(1, max(1, count - 1)), max_size=4))
    return [link for number, link in enumerate(made) if number not in lost]


@given(links())
def test_the_branches_are_those_of_the_tree_also_where_lines_are_lost(
    made: list[tuple[str, str | None]],
) -> None:
    segments = Segments()
    row_segments: list[int] = []
    for event_id, parent_id in made:
        assert segments.place(event_id, parent_id, rows=len(row_segments), inherited=False)
        segments.has_row(event_id, len(row_segments))
        row_segments.append(segments.current)
    drawn = tree.build(made)
    numbers = {event_id: number for number, (event_id, _) in enumerate(made)}
    for leaf in (drawn.leaf, *(branch.leaf_id for branch in tree.branches(drawn))):
        assert leaf is not None
        at = row_segments[numbers[leaf]]
        shown = path_rows(segments.listed(), row_segments, at)
        wanted = [numbers[event_id] for event_id in tree.path(drawn, leaf)]
        assert shown[: len(wanted)] == wanted


@given(links())
def test_an_event_that_stands_twice_counts_once(made: list[tuple[str, str | None]]) -> None:
    segments = Segments()
    for event_id, parent_id in made:
        assert segments.place(event_id, parent_id, rows=0, inherited=False)
    before = segments.listed()
    for event_id, parent_id in made:
        assert not segments.place(event_id, parent_id, rows=0, inherited=False)
    assert segments.listed() == before


def test_the_active_branch_is_the_whole_history(seed: ReportSeed) -> None:
    session_id = seed.everything()
    one = telling(seed, session_id)
    one.main.catch_up()
    paths = seed.paths(session_id)
    with seed.at.lineage(paths) as reader:
        history = whole_history(reader, seed.at.blobs(paths))
    said = [entry.message_id for entry in history.entries if entry.message.source != "attachment"]
    story = one.main.story
    segments = story.segments
    shown = path_rows(segments.listed(), story.store.rows()["seg"], segments.current)
    every = contents(one.main)
    ids = [every[row].get("id") for row in shown]
    assert list(dict.fromkeys(filter(None, ids))) == said


# --- however it is read ----------------------------------------------------------------------


def test_a_story_told_line_by_line_is_the_story_told_at_once(seed: ReportSeed) -> None:
    session_id = seed.everything()
    path = seed.paths(session_id).transcript
    at_once = telling(seed, session_id)
    at_once.main.catch_up()
    whole = path.read_bytes()
    growing = telling(seed, session_id)
    for end in range(0, len(whole), 997):
        path.write_bytes(whole[:end])
        growing.main.catch_up()
        growing.main.story.show_open()
    path.write_bytes(whole)
    growing.main.catch_up()
    assert not growing.main.catch_up()
    assert growing.main.generation == 0
    assert contents(growing.main) == contents(at_once.main)
    for name in ("kind", "seg", "time", "step", "lines", "flags"):
        assert told(growing.main)["rows"][name] == told(at_once.main)["rows"][name]
    assert told(growing.main)["steps"] == told(at_once.main)["steps"]
    assert files(growing.main)["turns"] == files(at_once.main)["turns"]


def test_a_bounded_part_is_read_at_a_time_and_the_rest_later(seed: ReportSeed) -> None:
    session_id = seed.everything()
    at_once, parts = telling(seed, session_id), telling(seed, session_id)
    at_once.main.catch_up()
    reads = 0
    while parts.main.catch_up(3_000):
        reads += 1
    assert reads > 3
    assert contents(parts.main) == contents(at_once.main)


def test_a_file_that_was_replaced_is_told_anew(seed: ReportSeed) -> None:
    session_id = seed.say("First", "One")
    one = telling(seed, session_id)
    one.main.catch_up()
    path = seed.paths(session_id).transcript
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.replace(path)
    assert one.main.catch_up()
    assert one.main.generation == 1
    assert one.main.story.figures.prompts == 1


def test_a_fork_begins_with_its_origins_messages_and_counts_only_its_own_cost(
    seed: ReportSeed,
) -> None:
    origin = seed.everything()
    with seed.open(resume=origin, fork=True) as session:
        session.user("Go another way")
        session.assistant("I do.", usage=seed_usage())
        fork = session.session_id
    one = telling(seed, fork)
    one.main.catch_up()
    head = one.head(seed.at.disk)
    labels = [prompt[1] for prompt in head["promptRows"]]
    assert labels[0].startswith("Why does the retry test fail?")
    assert labels[-1] == "Go another way"
    assert head["usage"]["cost"] == pytest.approx(0.5)
    assert head["forkedFrom"]
    own = [segment for segment in head["segments"] if not segment[5]]
    assert len(own) == 1


def seed_usage() -> Any:
    from rewake.model.content import Usage

    return Usage(100, 10, cost_usd=0.5)


# --- what rows say ---------------------------------------------------------------------------


def shell_call(session: rewake.Session, *, background: bool) -> tuple[str, str]:
    """A command that has begun; its message and its call."""
    message_id = session.assistant([ToolCall("c", "Bash", {"command": "serve"})])
    record = session.record
    call_id = record(ToolLifecycle("Bash", "requested", message_id=message_id)).event_id
    intent = rewake.ShellIntent("serve", "/p", f"outputs/{call_id}", background=background)
    record(ToolLifecycle("Bash", "started", call_id, message_id, intent=intent))
    return message_id, call_id


def test_a_command_in_the_background_has_its_end_in_its_own_row(seed: ReportSeed) -> None:
    with seed.open() as session:
        session.user("Start the server")
        message_id, call_id = shell_call(session, background=True)
        began = rewake.Result((Text("It runs in the background."),))
        session.record(ToolLifecycle("Bash", "completed", call_id, message_id, result=began))
        one = telling(seed, session.session_id)
        session.flush()
        one.main.catch_up()
        assert contents(one.main)[-1]["background"]
        assert "backgroundEnded" not in contents(one.main)[-1]
        session.assistant("It is up.")
        session.record(
            ToolLifecycle(
                "Bash",
                "resolved",
                call_id,
                message_id,
                resolution=rewake.Resolution("applied", {"exit": "0"}),
                outcome=rewake.Outcome(exit_code=0),
            )
        )
        session.flush()
    one.main.catch_up()
    calls = [content for content in contents(one.main) if content.get("name") == "Bash"]
    assert [call["backgroundEnded"] is not None for call in calls] == [True]
    assert calls[0]["exit"] == 0
    assert one.main.story.calls.interrupted == []


def test_an_interrupted_call_that_a_person_settles_later_keeps_its_row(seed: ReportSeed) -> None:
    with seed.open() as session:
        session.user("Deploy")
        message_id, call_id = shell_call(session, background=False)
        for verdict, by in (("unknown", "recovery"), ("applied", "user")):
            session.record(
                ToolLifecycle(
                    "Bash",
                    "resolved",
                    call_id,
                    message_id,
                    resolution=rewake.Resolution(verdict, {}, by),  # type: ignore[arg-type]  # its words
                )
            )
        session.flush()
        one = telling(seed, session.session_id)
    one.main.catch_up()
    calls = [content for content in contents(one.main) if content.get("name") == "Bash"]
    assert [(call["verdict"], call["by"]) for call in calls] == [("applied", "user")]
    assert [action["verdict"] for action in one.main.story.calls.interrupted] == [
        "unknown",
        "applied",
    ]


def test_what_was_typed_is_shown_and_what_it_stood_for_beside_it(seed: ReportSeed) -> None:
    with seed.open() as session:
        whole = rewake.Message("user", (Text("Review these files: …"),), typed="/review src")
        session.append(whole)
        one = telling(seed, session.session_id)
        session.flush()
    one.main.catch_up()
    prompt = next(content for content in contents(one.main) if content.get("who") == "user")
    assert (prompt["text"], prompt["sent"]) == (["/review src"], ["Review these files: …"])
    assert one.main.story.prompts[0][1] == "/review src"


# --- bounds ----------------------------------------------------------------------------------


def noise(seed: int, count: int) -> str:
    """What can't be compressed well."""
    return Random(seed).randbytes(count).hex()  # noqa: S311  # no secret


def test_of_too_many_contents_the_newest_are_kept() -> None:
    store = Store(content_bytes_max=30_000)
    for number in range(400):
        text = noise(number, 2_000)
        store.put(store.add(0, 0, 0, 0), {"text": text})
    store.finish()
    assert sum(len(chunk) for chunk in store.chunks) <= 30_000 + max(map(len, store.chunks))
    assert store.rows_left_out > 0
    rows = store.rows()
    assert rows["count"] == 400
    assert rows["leftOut"] > 0
    assert store.chunks[-1]


def test_of_too_many_rows_the_newest_are_kept() -> None:
    store = Store(rows_max=100)
    for number in range(1_000):
        store.put(store.add(0, 0, number, 0), {"text": str(number)})
    rows = store.rows()
    assert rows["count"] == 1_000
    assert 100 <= len(rows["kind"]) <= 125
    assert rows["from"] == rows["base"] == store.base == 1_000 - len(rows["kind"])
    assert rows["time"][-1] == 999


def test_open_calls_are_bounded_too() -> None:
    store = Store()
    for _ in range(3_000):
        store.keep_open(store.add(0, 0, 0, 0), {"text": "at work"})
    assert len(list(store.open_contents())) <= 3_000
    store.put(0, {"text": "over"})
    assert store.epoch == 1  # its row was packed already, so the page must read the rows again


def test_what_was_left_out_is_told_and_counted(
    seed: ReportSeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story_module, "Store", partial(Store, content_bytes_max=20_000))
    with seed.open() as session:
        for number in range(300):
            session.user(f"{number} " + noise(number, 500))
    done = seed.report(session.session_id)
    assert done.left_out > 0
    assert Path(done.path).stat().st_size < 400_000
