"""Checkpoints: written by themselves, never trusted blindly, and never a second truth."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.session.conftest import Open
from tests.session.helpers import (
    blobs_of,
    child,
    events_of,
    loaded,
    loaded_from_root,
    said,
    same,
    transcript_of,
)

import rewake
from rewake.log.scan import Transcript
from rewake.model.codec import seal_line
from rewake.model.events import Checkpoint, Event, Rewind
from rewake.resume.load import load
from rewake.state.fold import FOLD_VERSION


def state_checkpoints(transcript: Path) -> list[Event]:
    return [
        event
        for event in events_of(transcript)
        if isinstance(event.payload, Checkpoint) and event.payload.kind == "state"
    ]


def turns(session: rewake.Session, count: int, first: int = 0) -> None:
    """Five events a turn."""
    for number in range(first, first + count):
        session.append(rewake.Message("user", (rewake.Text(f"prompt {number}"),), source="test"))
        session.assistant([rewake.ToolCall("call_1", "tool")], usage=rewake.Usage(1, 1))
        with session.action("tool", "call_1", rewake.ReadOnlyIntent()) as action:
            action.complete(f"answer {number}")


def test_a_session_of_5000_events_resumes_to_the_live_state_reading_only_its_tail(
    open_session: Open,
) -> None:
    with open_session() as session:
        session.user("the prompt")
        turns(session, 1000)
        live = session.state.as_json()
    found = loaded(transcript_of(session))
    assert found.state.as_json() == live
    assert found.since_checkpoint < 1000
    assert len(state_checkpoints(transcript_of(session))) == 5
    assert same(loaded_from_root(transcript_of(session)).state.as_json()) == same(live)


def test_large_events_bring_a_checkpoint_every_mebibyte(open_session: Open) -> None:
    with open_session() as session:
        for number in range(70):
            session.user(f"{number} " + "x" * 50_000)
        live = session.state.as_json()
    assert len(state_checkpoints(transcript_of(session))) in {2, 3}
    found = loaded(transcript_of(session))
    assert found.bytes_since_checkpoint < (1 << 20) + 120_000
    assert found.state.as_json() == live


def test_many_short_runs_get_their_checkpoint_too(open_session: Open) -> None:
    with open_session() as session:
        turns(session, 60)
        live = session.state.as_json()
    for run in range(4):
        with open_session(resume=session.session_id) as again:
            turns(again, 60, first=60 * run)
            live = again.state.as_json()
    assert len(state_checkpoints(transcript_of(session))) == 1
    assert loaded(transcript_of(session)).state.as_json() == live


def test_a_state_checkpoint_changes_no_request(open_session: Open) -> None:
    with open_session() as session:
        turns(session, 10)
        before = session.view()
        session.record(session.state.checkpoint())
        assert session.view() == before
    with open_session(resume=session.session_id) as again:
        assert again.view() == before


def test_a_compaction_leaves_the_summary_what_was_kept_and_the_newest_prompt(
    open_session: Open,
) -> None:
    with open_session() as session:
        session.user("old prompt")
        session.assistant("old answer")
        session.user("newest prompt")
        kept = session.assistant("kept answer")
        session.assistant("dropped answer")
        session.checkpoint("the summary", keep=[kept])
        texts = said(session)
        assert "the summary" in texts[0]
        assert texts[1:] == ["newest prompt", "kept answer", "[rewake] Go on."]
    with open_session(resume=session.session_id) as again:
        assert said(again) == texts


def test_session_memory_in_a_request_is_frozen_between_compactions(open_session: Open) -> None:
    with open_session() as session:
        session.user("first goal")
        session.checkpoint("one")
        opening = session.view()[0]
        session.user("second goal")
        with session.action("tool", "x") as action:
            action.fail("it failed")
        assert session.view()[0] == opening
        with open_session_after(session, open_session) as again:
            assert again.view()[0] == opening
            again.checkpoint("two")
            assert "second goal" in said(again)[0]


def open_session_after(session: rewake.Session, open_session: Open) -> rewake.Session:
    session.close()
    return open_session(resume=session.session_id)


COMPACT_REWIND = """
with rewake.open_session(project, home=home, session_id="s") as session:
    session.user("one")
    target = session.assistant("two")
    session.user("three")
    session.metadata(title="kept by the world")
    kept = session.assistant("four")
    session.checkpoint("summary of three", keep=[kept])
    session.user("five")
    with session.action("tool", "x", rewake.ReadOnlyIntent()) as action:
        action.complete("seen")
    session.rewind(target)
    session.user("another three")
    print(len(session.view()), file=sys.stderr)
    wait("rewound")
"""


def test_a_compaction_then_a_rewind_to_before_it_then_a_kill(
    open_session: Open, home: Path, project: Path
) -> None:
    with child(COMPACT_REWIND, home, project) as word:
        assert word == "rewound"
        transcript = next(home.rglob("transcript.jsonl"))
    found = loaded(transcript)
    assert same(found.state.as_json()) == same(loaded_from_root(transcript).state.as_json())
    assert found.damage == []
    with open_session(resume="s") as session:
        assert said(session) == ["one", "two", "another three"]
        assert session.state.world.title == "kept by the world"


def test_a_rewind_to_a_rewound_branch_brings_it_back(open_session: Open) -> None:
    with open_session() as session:
        session.user("one")
        target = session.assistant("two")
        session.user("three")
        tip = session.assistant("four")
        session.rewind(target)
        assert said(session)[:2] == ["one", "two"]
        session.rewind(tip)
        assert said(session)[:4] == ["one", "two", "three", "four"]
        live = session.state.as_json()
    assert same(loaded_from_root(transcript_of(session)).state.as_json()) == same(live)
    assert loaded(transcript_of(session)).state.as_json() == live


def test_a_rewind_to_an_unknown_event_changes_nothing(open_session: Open) -> None:
    with open_session() as session:
        session.user("one")
        size = transcript_of(session).stat().st_size
        with pytest.raises(rewake.UsageError, match="has no event"):
            session.rewind("nonsense")
        assert transcript_of(session).stat().st_size == size


def test_a_rewind_that_cannot_be_recorded_leaves_the_conversation_as_it_was(
    open_session: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_self: object, data: bytes) -> str:
        raise rewake.StorageError("full", path="", remedy="")

    with open_session() as session:
        target = session.user("one")
        session.user("two")
        session.metadata(notes="x" * 100_000)  # makes the checkpoint too large for its line
        with monkeypatch.context() as patch:
            patch.setattr(type(session.blobs), "put", full)
            with pytest.raises(rewake.StorageError):
                session.rewind(target)
        session.user("goes on")
        assert said(session) == ["one", "two", "goes on"]


def with_other_version(line: bytes, *, of: type[Checkpoint | Rewind]) -> bytes:
    """The line as another version of Rewake would have written it."""
    number = b'"fold_version":%d' % FOLD_VERSION
    event = msgspec.json.decode(line)
    name = {Checkpoint: "checkpoint", Rewind: "rewind"}[of]
    if event["event_type"] != name or number not in line:
        return line
    body = line[: line.rindex(b',"crc32"')].replace(number, b'"fold_version":999')
    return seal_line(body)[:-1]


@pytest.mark.parametrize("other", [Checkpoint, Rewind])
def test_a_checkpoint_of_another_fold_version_is_ignored(
    open_session: Open, other: type[Checkpoint | Rewind]
) -> None:
    with open_session() as session:
        session.user("one")
        session.record(session.state.checkpoint())
        target = session.user("two")
        session.user("three")
        session.rewind(target)
        session.user("four")
        live = session.state.as_json()
    transcript = transcript_of(session)
    lines = transcript.read_bytes().split(b"\n")
    transcript.write_bytes(b"\n".join(with_other_version(line, of=other) for line in lines if line))
    transcript.write_bytes(transcript.read_bytes() + b"\n")
    with Transcript(transcript) as reader:
        found = load(reader, blobs_of(transcript))
    assert same(found.state.as_json())["entries"] == same(live)["entries"]
    with open_session(resume=session.session_id) as again:
        assert said(again) == ["one", "two", "four"]


GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("v*.jsonl"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_golden_file_refolds_under_another_fold_version_to_the_same_conversation(
    path: Path,
) -> None:
    blobs = blobs_of(path.parent / "x" / "y" / "z")
    with Transcript(path) as reader:
        ours = load(reader, blobs)
        other = load(reader, blobs, fold_version=FOLD_VERSION + 1)
    assert same(other.state.as_json()) == same(ours.state.as_json())
    assert other.state.fold_version == FOLD_VERSION + 1
