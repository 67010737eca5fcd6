"""Forks and branches: going on elsewhere, going back, and changing one's mind, with nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

import rewake
from rewake.compose.place import Place, place
from rewake.errors import UsageError
from rewake.log.layout import SessionPaths
from rewake.resume.branches import branches
from rewake.resume.load import load, load_from_root
from rewake.session.core import Session


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REWAKE_HOME", str(tmp_path / "home"))
    root = tmp_path / "project"
    root.mkdir()
    return root


def paths_of(at: Place, session_id: str) -> SessionPaths:
    return at.layout.find(session_id)


def words(session: Session) -> list[str]:
    return [
        block.text
        for message in session.view()
        for block in message.content
        if isinstance(block, rewake.Text)
    ]


def conversation(project: Path, count: int = 3) -> tuple[str, list[str]]:
    """A session of `count` turns; its id and the ids of its prompts."""
    with rewake.open_session(project, durability="process") as session:
        prompts = []
        for turn in range(count):
            prompts.append(session.user(f"prompt {turn}"))
            session.assistant(f"answer {turn}")
        session.metadata(title="The origin")
        session.terminal("done")
        return session.session_id, prompts


def same_from_root(project: Path, session_id: str) -> None:
    at = place(project)
    paths = paths_of(at, session_id)
    with at.lineage(paths) as reader:
        resumed = load(reader, at.blobs(paths))
        folded = load_from_root(reader, at.blobs(paths))
    assert resumed.damage == []
    assert folded.damage == []
    assert resumed.state.as_json() == folded.state.as_json()


def test_a_fork_has_the_history_and_leaves_the_origin_byte_for_byte(project: Path) -> None:
    origin, _ = conversation(project)
    transcript = paths_of(place(project), origin).transcript
    before = transcript.read_bytes()
    with rewake.open_session(project, resume=origin, fork=True) as fork:
        assert words(fork)[:6] == [
            f"{who} {turn}" for turn in range(3) for who in ("prompt", "answer")
        ]
        fork.user("only here")
        assert fork.session_id != origin
        assert fork.state.world.title == "The origin (fork)"
    assert transcript.read_bytes() == before
    same_from_root(project, fork.session_id)
    with rewake.open_session(project, resume=fork.session_id) as again:
        assert words(again)[-1] == "only here"


def test_a_fork_at_a_message_has_nothing_of_what_follows(project: Path) -> None:
    origin, prompts = conversation(project)
    with rewake.open_session(project, resume=origin, fork=True, at_message=prompts[1]) as fork:
        assert words(fork) == ["prompt 0", "answer 0", "prompt 1"]
        fork.assistant("another answer")
    same_from_root(project, fork.session_id)


def test_a_fork_taken_after_a_rewind_has_no_rewound_messages(project: Path) -> None:
    origin, prompts = conversation(project)
    with rewake.open_session(project, resume=origin, at_message=prompts[0]) as session:
        session.user("instead")
    with rewake.open_session(project, resume=origin, fork=True) as fork:
        assert words(fork) == ["prompt 0", "instead"]
    same_from_root(project, fork.session_id)


def test_a_fork_of_a_fork_reads_through_both(project: Path) -> None:
    origin, prompts = conversation(project)
    with rewake.open_session(project, resume=origin, fork=True) as first:
        first.user("first")
    with rewake.open_session(project, resume=first.session_id, fork=True) as second:
        second.user("second")
        assert words(second)[-2:] == ["first", "second"]
    same_from_root(project, second.session_id)
    with rewake.open_session(
        project, resume=second.session_id, fork=True, at_message=prompts[0]
    ) as third:
        assert words(third) == ["prompt 0"]
    same_from_root(project, third.session_id)


def test_a_rewind_inside_a_fork_reaches_into_its_origin(project: Path) -> None:
    origin, prompts = conversation(project)
    with rewake.open_session(project, resume=origin, fork=True) as fork:
        fork.user("only here")
        fork.rewind(prompts[0])
        fork.user("from the beginning")
        assert words(fork) == ["prompt 0", "from the beginning"]
    same_from_root(project, fork.session_id)
    with rewake.open_session(project, resume=fork.session_id) as again:
        assert words(again) == ["prompt 0", "from the beginning"]
        again.undo_rewind()
        assert words(again)[-1] == "only here"
    same_from_root(project, fork.session_id)


def test_a_fork_after_a_compaction_goes_back_to_before_it_with_its_full_history(
    project: Path,
) -> None:
    with rewake.open_session(project) as session:
        first = session.user("first")
        session.assistant("one")
        session.user("second")
        session.assistant("two")
        session.checkpoint("a summary")
        session.user("third")
    with rewake.open_session(project, resume=session.session_id, fork=True) as fork:
        assert any("a summary" in text for text in words(fork))
        assert words(fork)[-1] == "third"
    same_from_root(project, fork.session_id)
    with rewake.open_session(
        project, resume=session.session_id, fork=True, at_message=first
    ) as early:
        assert words(early) == ["first"]
    with rewake.open_session(project, resume=session.session_id, at_message=first) as back:
        assert words(back) == ["first"]
    same_from_root(project, session.session_id)


def test_a_lost_origin_costs_what_it_held_and_is_reported(project: Path) -> None:
    origin, _ = conversation(project)
    with rewake.open_session(project, resume=origin, fork=True) as fork:
        fork.user("only here")
    paths_of(place(project), origin).transcript.unlink()
    state = rewake.resume(fork.session_id, project=project)
    assert {item.kind for item in state.damage} == {"missing_event"}
    with rewake.open_session(project, resume=fork.session_id) as again:
        assert words(again)[-1] == "only here"


def test_a_message_of_the_model_counts_with_the_answers_to_its_calls(project: Path) -> None:
    with rewake.open_session(project) as session:
        session.user("go")
        call = rewake.ToolCall("call_1", "Look", {})
        asked = session.assistant([call])
        with session.action(call, intent=rewake.ReadOnlyIntent()) as action:
            action.complete("seen")
        session.assistant("done")
        session.rewind(asked)
        assert "seen" in str(session.view()[-1])


def test_branches_that_were_left_are_listed_and_can_be_taken_up_again(project: Path) -> None:
    origin, prompts = conversation(project)
    with rewake.open_session(project, resume=origin, at_message=prompts[0]) as session:
        session.user("instead")
        session.assistant("of that")
    at = place(project)
    with at.lineage(paths_of(at, origin)) as reader:
        left, active = branches(reader)
    assert (left.last_text, active.last_text) == ("answer 2", "of that")
    assert active.is_active
    assert left.forked_at == prompts[0]
    with rewake.open_session(project, resume=origin, at_message=left.leaf_id) as session:
        assert words(session)[:6][-1] == "answer 2"
    same_from_root(project, origin)


def test_undo_goes_back_to_where_the_rewind_left_and_can_be_undone_itself(project: Path) -> None:
    origin, prompts = conversation(project)
    with rewake.open_session(project, resume=origin) as session:
        session.rewind(prompts[0])
        assert words(session) == ["prompt 0"]
        session.undo_rewind()
        assert "answer 2" in words(session)
        session.undo_rewind()
        assert words(session) == ["prompt 0"]
    same_from_root(project, origin)


def test_undo_without_a_rewind_is_refused(project: Path) -> None:
    origin, _ = conversation(project)
    with (
        rewake.open_session(project, resume=origin) as session,
        pytest.raises(UsageError, match="Nothing was rewound"),
    ):
        session.undo_rewind()


def test_a_fork_costs_the_same_whatever_its_origin_holds(project: Path) -> None:
    small, _ = conversation(project, count=2)
    large, _ = conversation(project, count=1500)
    sizes = []
    for origin in (small, large):
        with rewake.open_session(project, resume=origin, fork=True) as fork:
            pass
        sizes.append(paths_of(place(project), fork.session_id).transcript.stat().st_size)
    assert sizes[1] < 100_000
