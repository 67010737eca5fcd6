"""History lost, or that of the wrong branch; compactions that lose something."""

from __future__ import annotations

from pathlib import Path

from tests.faults.conftest import assert_providers_take, assert_same_from_root, lines_of, put
from tests.session.conftest import Open
from tests.session.helpers import loaded, said, transcript_of

import rewake
from rewake.compose.place import place
from rewake.resume.branches import branches
from rewake.resume.history import whole_history


def turns(session: rewake.Session, *names: str) -> list[str]:
    """Prompts and answers; the ids of the prompts."""
    prompts = []
    for name in names:
        prompts.append(session.user(f"ask {name}"))
        session.assistant(f"answer {name}")
    return prompts


def test_of_two_leaves_the_newer_one_counts_resumed_three_times_with_metadata_after_it(
    open_session: Open, home: Path, project: Path
) -> None:
    with open_session(session_id="s") as session:
        first, _ = turns(session, "one", "two")
        session.rewind(first)
        turns(session, "other")
        session.metadata(title="after the leaf")
        session.terminal("done")
    expected = ["ask one", "ask other", "answer other"]
    for number in range(3):
        with open_session(resume="s") as session:
            assert [text for text in said(session) if not text.startswith("[rewake]")] == expected
            session.metadata(tags=[str(number)])
            session.user(f"ask {number}")
            session.assistant(f"answer {number}")
            session.metadata(title=f"title {number}")
            expected += [f"ask {number}", f"answer {number}"]
    assert_same_from_root(transcript_of(session))
    at = place(project, home)
    with at.lineage(at.layout.find("s")) as reader:
        left, active = branches(reader)
    assert (left.last_text, active.last_text) == ("answer two", "answer 2")


def test_a_resume_tells_how_the_run_before_ended(open_session: Open) -> None:
    with open_session(session_id="s") as session:
        turns(session, "one")
        session.terminal("done")
    for _ in range(2):
        with open_session(resume="s") as session:
            assert session.resumed is not None
            assert session.resumed.terminal is not None
            assert session.resumed.terminal.reason == "done"
            session.terminal("done")
    with open_session(resume="s") as session:
        pass
    with open_session(resume="s") as session:
        assert session.resumed is not None
        assert session.resumed.terminal is None


def test_side_records_between_two_turns_do_not_cut_the_chain(open_session: Open) -> None:
    with open_session(session_id="s") as session:
        for name in ("one", "two", "three"):
            turns(session, name)
            session.metadata(title=name)
            session.transition("a", "b", name)
            session.record(session.state.checkpoint())
    with open_session(resume="s") as session:
        assert [text for text in said(session) if text.startswith("ask")] == [
            "ask one",
            "ask two",
            "ask three",
        ]
    assert_same_from_root(transcript_of(session))


def test_a_resumed_session_grows_in_its_own_file_and_makes_no_other(
    open_session: Open, home: Path
) -> None:
    with open_session(session_id="s") as session:
        turns(session, "one")
    transcript = transcript_of(session)
    for number in range(3):
        before = transcript.read_bytes()
        with open_session(resume="s") as session:
            turns(session, str(number))
        after = transcript.read_bytes()
        assert after.startswith(before)
        assert len(after) > len(before)
    assert list(home.rglob("*.jsonl")) == [transcript, *home.rglob("trace.jsonl")]


def test_switching_to_another_session_and_going_on_leaves_the_first_ones_bytes(
    open_session: Open,
) -> None:
    with open_session(session_id="a") as session:
        turns(session, "a")
    with open_session(session_id="b") as session:
        turns(session, "b")
    with open_session(resume="a") as session:
        pass
    before = transcript_of(session).read_bytes()
    with open_session(resume="b") as other:
        turns(other, "only in b")
        other.rewind(other.messages[0].message_id)
    assert transcript_of(session).read_bytes() == before
    assert b"only in b" not in before


# --- compaction ------------------------------------------------------------------------------


def compacted(open_session: Open) -> tuple[Path, list[str]]:
    """Five turns, compacted so that the second and the newest prompt stay, and one turn after it."""
    with open_session(session_id="s") as session:
        prompts = turns(session, "one", "two", "three", "four", "five")
        session.checkpoint("THE SUMMARY", keep=[prompts[1]])
        turns(session, "six")
    return transcript_of(session), prompts


def test_what_was_kept_stands_before_and_after_the_boundary_in_order(open_session: Open) -> None:
    transcript, _ = compacted(open_session)
    with open_session(resume="s") as session:
        memory, *texts = said(session)
        assert "THE SUMMARY" in memory
        assert texts[:4] == ["ask two", "ask five", "ask six", "answer six"]
        assert_providers_take(session)
    assert_same_from_root(transcript)


def test_resuming_does_not_undo_a_compaction(open_session: Open) -> None:
    transcript, _ = compacted(open_session)
    for _ in range(3):
        with open_session(resume="s") as session:
            joined = "\n".join(said(session))
            assert "THE SUMMARY" in joined
            assert "ask one" not in joined
            assert "ask four" not in joined
    assert_same_from_root(transcript)


def test_the_line_before_the_boundary_may_be_gone(open_session: Open) -> None:
    transcript, _ = compacted(open_session)
    lines = lines_of(transcript)
    (place_of,) = [n for n, line in enumerate(lines) if b'"compaction"' in line]
    put(transcript, [*lines[: place_of - 1], *lines[place_of:]])
    with open_session(resume="s") as session:
        joined = "\n".join(said(session))
        assert "THE SUMMARY" in joined
        assert "ask six" in joined
        assert_providers_take(session)


def test_a_boundary_is_never_there_without_its_summary(open_session: Open) -> None:
    """The summary stands in the boundary's own line, so a torn one leaves the conversation whole."""
    transcript, _ = compacted(open_session)
    whole = transcript.read_bytes()
    start = whole.rindex(b"\n", 0, whole.index(b'"compaction"')) + 1
    end = whole.index(b"\n", start)
    for cut in range(start + 1, end, 97):
        transcript.write_bytes(whole[:cut])
        state = loaded(transcript).state
        assert state.conversation.summary is None
        assert len(state.conversation.entries) == 10


def test_at_a_message_inside_a_compacted_part_its_full_history_comes_back(
    open_session: Open, home: Path, project: Path
) -> None:
    transcript, prompts = compacted(open_session)
    with open_session(resume="s", fork=True, at_message=prompts[2]) as fork:
        assert said(fork) == ["ask one", "answer one", "ask two", "answer two", "ask three"]
    with open_session(resume="s", at_message=prompts[2]) as session:
        assert said(session) == ["ask one", "answer one", "ask two", "answer two", "ask three"]
        turns(session, "instead")
    with open_session(resume="s") as session:
        assert [text for text in said(session) if "rewake" not in text][-2:] == [
            "ask instead",
            "answer instead",
        ]
        session.undo_rewind()
        assert "THE SUMMARY" in said(session)[0]
    assert_same_from_root(transcript)
    at = place(project, home)
    paths = at.layout.find("s")
    with at.lineage(paths) as reader:
        everything = whole_history(reader, at.blobs(paths)).entries
    assert len(everything) >= 12


def test_a_fork_of_a_fork_with_rewinds_and_a_compaction_on_the_way(
    open_session: Open, home: Path, project: Path
) -> None:
    _, prompts = compacted(open_session)
    with open_session(resume="s", fork=True, session_id="child") as child:
        turns(child, "seven")
        child.rewind(prompts[0])
        turns(child, "eight")
    with open_session(resume="child", fork=True, session_id="grandchild") as grandchild:
        turns(grandchild, "nine")
        grandchild.checkpoint("SECOND SUMMARY")
        grandchild.rewind(prompts[1])
        turns(grandchild, "ten")
    with open_session(resume="grandchild", fork=True, session_id="last") as last:
        texts = "\n".join(said(last))
        for there in ("ask one", "ask two", "ask ten"):
            assert there in texts
        for not_there in ("SUMMARY", "seven", "eight", "nine", "three"):
            assert not_there not in texts
        assert_providers_take(last)
    at = place(project, home)
    for name in ("child", "grandchild", "last"):
        state = rewake.resume(name, project=project, home=home)
        assert state.damage == (), name
        paths = at.layout.find(name)
        with at.lineage(paths) as reader:
            assert whole_history(reader, at.blobs(paths)).entries
