"""Facts too large for their line are facts like any other: for forks, for going back, for lists."""

from __future__ import annotations

import pytest
from tests.session.conftest import Open
from tests.session.helpers import events_of, transcript_of

import rewake
from rewake.log.layout import SessionPaths
from rewake.log.scan import Transcript
from rewake.model.content import plain_text
from rewake.model.events import FileRead, Outcome, ReadOnlyIntent, Spilled
from rewake.record.recorder import LINE_PAYLOAD_BYTES_MAX
from rewake.resume.branches import branches
from rewake.resume.history import whole_history
from rewake.resume.lineage import Ancestors, Lineage

LARGE = "large " * 20_000


def read_many_files(session: rewake.Session) -> None:
    """Has the read-state, which every checkpoint embeds, grow beyond what a line may hold."""
    name = "a-directory-with-a-name-of-some-length/" * 3
    reads = tuple(FileRead(f"/{name}{number}.py", "a" * 64) for number in range(400))
    action = session.action("Read", "r", ReadOnlyIntent())
    action.start()
    action.complete("read", outcome=Outcome(reads=reads))


def lineage(session: rewake.Session) -> Lineage:
    transcript = transcript_of(session)
    paths = SessionPaths(transcript.parents[2], session.session_id)
    return Lineage(Transcript(transcript), Ancestors(paths))


def words(session: rewake.Session) -> list[str]:
    return [plain_text(entry.message.content) for entry in session.messages]


@pytest.fixture
def origin(open_session: Open) -> str:
    with open_session() as session:
        session.user("first")
        read_many_files(session)
        session.user("second")
        session.user("third")
        return session.session_id


def test_the_first_line_of_a_fork_is_whole_whatever_its_size(
    open_session: Open, origin: str
) -> None:
    with open_session(resume=origin, fork=True) as fork:
        first = events_of(transcript_of(fork))[0]
    assert len(first.line) > LINE_PAYLOAD_BYTES_MAX
    assert not isinstance(first.payload, Spilled)


def test_a_fork_with_a_large_checkpoint_keeps_its_history(open_session: Open, origin: str) -> None:
    with open_session(resume=origin, fork=True) as fork:
        fork.user("fourth")
    with open_session(resume=fork.session_id) as again:
        assert again.resumed is not None
        assert again.resumed.damage == ()
        assert words(again) == ["first", "second", "third", "fourth"]


def test_a_rewind_with_a_large_checkpoint_can_be_undone(open_session: Open, origin: str) -> None:
    with open_session(resume=origin) as session:
        session.rewind(session.messages[1].message_id)
        rewind = events_of(transcript_of(session))[-1]
        assert isinstance(rewind.payload, Spilled)
        session.undo_rewind()
        assert words(session) == ["first", "second", "third"]


def test_the_whole_history_of_a_fork_goes_back_through_a_large_rewind(
    open_session: Open, origin: str
) -> None:
    with open_session(resume=origin, fork=True) as fork:
        fork.rewind(fork.messages[1].message_id)
        fork.user("fourth")
        fork.flush()
        with lineage(fork) as reader:
            entries = whole_history(reader, fork.blobs).entries
    assert [plain_text(entry.message.content) for entry in entries] == [
        "first",
        "second",
        "fourth",
    ]


@pytest.mark.parametrize(("said", "told"), [(LARGE, "short"), ("short", LARGE), (LARGE, LARGE)])
def test_going_back_to_a_message_keeps_the_answers_to_its_calls(
    open_session: Open, said: str, told: str
) -> None:
    call = rewake.ToolCall("c", "Write", {"content": said})
    with open_session() as session:
        session.user("write it")
        message_id = session.assistant([call])
        with session.action(call, intent=ReadOnlyIntent()) as action:
            action.complete(told)
        session.user("something else")
        session.rewind(message_id)
        assert session.messages[-1].message_id == message_id
        assert [answer is not None for answer in session.messages[-1].answers] == [True]


def test_a_state_checkpoint_does_not_part_a_message_from_its_answers(open_session: Open) -> None:
    call = rewake.ToolCall("c", "Read", {})
    with open_session() as session:
        session.user("read it")
        message_id = session.assistant([call])
        with session.action(call, intent=ReadOnlyIntent()) as action:
            session.record(session.state.checkpoint())
            action.complete("read")
        session.user("something else")
        session.rewind(message_id)
        assert [answer is not None for answer in session.messages[-1].answers] == [True]


def test_branches_count_large_messages_and_show_how_they_begin(open_session: Open) -> None:
    with open_session() as session:
        first = session.user("first")
        session.user(LARGE)
        session.rewind(first)
        session.flush()
        with lineage(session) as reader:
            left, _ = branches(reader)
    assert left.messages == 1
    assert left.last_text.startswith("large large")


# --- when the blob is gone -------------------------------------------------------------------


def lose_blobs(session: rewake.Session) -> None:
    for blob in (transcript_of(session).parents[2] / "blobs").glob("*/*"):
        blob.unlink()


def test_a_lost_state_checkpoint_costs_no_message(open_session: Open) -> None:
    said = [f"prompt {number}" for number in range(80)]  # more than a preview lists
    with open_session() as session:
        for text in said:
            session.user(text)
        read_many_files(session)
        session.record(session.state.checkpoint())
        session.user("after it")
    lose_blobs(session)
    with open_session(resume=session.session_id) as again:
        assert words(again) == [*said, "after it"]
        again.record(again.state.checkpoint())
        again.user("later")
    with open_session(resume=session.session_id) as later:
        assert words(later) == [*said, "after it", "later"]


def test_a_lost_rewind_does_not_bring_back_what_was_left(open_session: Open, origin: str) -> None:
    with open_session(resume=origin) as session:
        session.rewind(session.messages[1].message_id)
        session.user("instead")
    lose_blobs(session)
    with open_session(resume=origin) as again:
        assert words(again) == ["first", "second", "instead"]
