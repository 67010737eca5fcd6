"""Opening, finding, listing and looking at sessions: what is touched and what never is."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from tests.session.conftest import Open
from tests.session.helpers import (
    break_off,
    child,
    events_of,
    said,
    snapshot,
    statuses_of,
    transcript_of,
)

import rewake
from rewake.errors import UnreadableVersionError
from rewake.model.events import RunStart

BUSY = """
session = rewake.open_session(project, home=home, session_id="s")
session.user("mine")
import os
wait(str(os.getpid()))
"""


def test_a_second_process_is_refused_with_the_name_of_the_first(
    open_session: Open, home: Path, project: Path
) -> None:
    with child(BUSY, home, project) as pid:
        before = snapshot(home)
        with pytest.raises(rewake.SessionBusyError, match=f"process {pid}"):
            open_session(resume="s")
        assert snapshot(home) == before
        assert [row.state for row in rewake.sessions(project, home=home)] == ["running"]
    with open_session(resume="s") as session:
        assert said(session) == ["mine"]


def test_one_process_cannot_open_a_session_twice(open_session: Open) -> None:
    with open_session() as session, pytest.raises(rewake.SessionBusyError):
        open_session(resume=session.session_id)


def test_different_sessions_do_not_contend(open_session: Open) -> None:
    with open_session() as one, open_session() as two:
        one.user("one")
        two.user("two")
        assert (said(one), said(two)) == (["one"], ["two"])


def test_resuming_one_session_leaves_the_bytes_of_all_others(open_session: Open) -> None:
    with open_session() as one:
        one.user("one")
    with open_session() as two:
        two.user("two")
    before = transcript_of(one).read_bytes()
    with open_session(resume=two.session_id) as again:
        again.user("more")
    assert transcript_of(one).read_bytes() == before


def test_everything_that_is_created_is_for_the_user_alone(
    open_session: Open, home: Path, project: Path
) -> None:
    target = project / "a"
    with open_session(durability="disk") as session:
        session.user("x" * 100_000)
        with session.action("edit", "x", rewake.FileChange(target, None, "new")) as action:
            action.complete("ok")
    with open_session(resume=session.session_id):
        pass
    modes = {
        path: stat.S_IMODE(path.stat().st_mode)
        for path in [home, *home.rglob("*")]
        if path.exists()
    }
    kinds = {"transcript.jsonl", "trace.jsonl", "lock", "project.json"}
    assert kinds <= {path.name for path in modes}
    assert {modes[path] for path in modes if path.is_dir()} == {0o700}
    assert {modes[path] for path in modes if path.is_file()} == {0o600}


def test_a_session_in_memory_works_and_leaves_nothing(
    open_session: Open, home: Path, project: Path
) -> None:
    target = project / "a"
    with open_session(durability="memory") as session:
        session.user("x" * 200_000)
        call = rewake.ToolCall("x", "edit")
        session.assistant([call])
        action = session.action(call, intent=rewake.FileChange(target, None, "new"))
        with pytest.raises(ValueError, match="no"):
            break_off(action, ValueError("no"), lambda: target.write_text("new"))
        session.checkpoint("summary")
        session.user("next")
        assert "summary" in said(session)[0]
        assert said(session)[-1] == "next"
        directory = session.directory
    assert not home.exists()
    assert not directory.exists()
    assert [path.name for path in project.iterdir()] == ["a"]


def test_a_session_in_memory_cannot_be_resumed_or_rewound(open_session: Open) -> None:
    with open_session() as session:
        target = session.user("one")
    with pytest.raises(rewake.UsageError, match="without recording"):
        open_session(resume=session.session_id, durability="memory")
    with open_session(durability="memory") as memory, pytest.raises(rewake.UsageError):
        memory.rewind(target)


# --- finding ---------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", ["aaa-1", "aaa", "aa", rewake.NEWEST, "A Title", "a title"])
def test_a_session_is_found_by_id_prefix_title_or_as_the_newest(
    open_session: Open, wanted: str
) -> None:
    with open_session(session_id="bbb-1") as other:
        other.user("something else")
    with open_session(session_id="aaa-1") as session:
        session.user("one")
        session.metadata(title="A Title")
    with open_session(resume=wanted) as again:
        assert again.session_id == "aaa-1"


def test_a_title_given_early_is_found_after_a_kill(
    open_session: Open, home: Path, project: Path
) -> None:
    code = """
session = rewake.open_session(project, home=home, session_id="s")
session.user("one")
session.metadata(title="early title")
session.user("two")
wait("here")
"""
    with child(code, home, project):
        pass
    (row,) = rewake.sessions(project, home=home)
    assert (row.title, row.messages, row.state) == ("early title", 2, "interrupted")
    with open_session(resume="early title") as session:
        assert session.session_id == "s"


def test_what_fits_several_sessions_is_refused_with_their_ids(open_session: Open) -> None:
    for name in ("abc-1", "abc-2"):
        with open_session(session_id=name) as session:
            session.user("same words")
    with pytest.raises(rewake.SessionNotFoundError) as by_prefix:
        open_session(resume="abc")
    assert by_prefix.value.candidates == ("abc-1", "abc-2")
    with pytest.raises(rewake.SessionNotFoundError) as by_title:
        open_session(resume="same words")
    assert set(by_title.value.candidates) == {"abc-1", "abc-2"}


@pytest.mark.parametrize("wanted", ["nothing", "../x", "", rewake.NEWEST])
def test_what_fits_no_session_is_said_so_and_creates_nothing(
    open_session: Open, home: Path, wanted: str
) -> None:
    with pytest.raises(rewake.SessionNotFoundError):
        open_session(resume=wanted)
    assert not home.exists()


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "x" * 200])
def test_an_id_that_is_no_file_name_is_refused(open_session: Open, home: Path, name: str) -> None:
    with pytest.raises(rewake.UsageError):
        open_session(session_id=name or "\n")
    assert not list(home.rglob("transcript.jsonl"))


def test_an_id_is_used_once(open_session: Open) -> None:
    with open_session(session_id="s") as session:
        session.user("one")
    with pytest.raises(rewake.UsageError, match="exists already"):
        open_session(session_id="s")


# --- looking ---------------------------------------------------------------------------------

LOOK = """
session = rewake.open_session(project, home=home, session_id="s")
session.user("go")
calls = [rewake.ToolCall("x", "edit"), rewake.ToolCall("y", "bash"), rewake.ToolCall("z", "sql")]
session.assistant(calls)
edit = session.action(calls[0], intent=rewake.FileChange(project / "a", None, "new"))
edit.start()
bash = session.action(calls[1])
bash.request()
bash.intent = rewake.ShellIntent("true", str(project), "outputs/" + bash.call_id)
bash.start()
session.action(calls[2]).request()
session.flush()
with open(session.transcript, "ab") as file:
    file.write(b'{"torn')
wait(edit.call_id)
"""


def test_looking_at_a_session_writes_nothing(home: Path, project: Path) -> None:
    kept = home / "projects"  # beside it is the catalogue, which is derived
    with child(LOOK, home, project):
        running = snapshot(kept), snapshot(project)
        rewake.resume(
            "s", project=project, home=home
        )  # the agent lives: nothing of its may be touched
        rewake.sessions(project, home=home)
        assert (snapshot(kept), snapshot(project)) == running
    before = snapshot(kept), snapshot(project)
    found = rewake.resume("s", project=project, home=home)
    rewake.sessions(project, home=home)
    assert (snapshot(kept), snapshot(project)) == before
    assert [item.resolution.verdict for item in found.uncertain] == ["not_applied", "not_applied"]
    assert [item.resolution.verdict for item in found.pending] == ["not_applied"]
    assert [item.kind for item in found.damage] == ["torn_tail"]


def test_looking_leaves_the_temporary_file_of_an_edit_that_is_being_made(
    home: Path, project: Path
) -> None:
    with child(LOOK, home, project) as call_id:
        temporary = project / f".rewake-{call_id}.tmp"
        temporary.write_text("new")
        rewake.resume("s", project=project, home=home)
        assert temporary.exists()


def test_a_look_and_a_resume_come_to_the_same_verdicts(
    open_session: Open, home: Path, project: Path
) -> None:
    with child(LOOK, home, project):
        pass
    looked = rewake.resume("s", project=project, home=home)
    with open_session(resume="s") as session:
        found = session.resumed
    assert found is not None
    for ours, theirs in ((looked.uncertain, found.uncertain), (looked.pending, found.pending)):
        assert [(i.call_id, i.resolution.verdict) for i in ours] == [
            (i.call_id, i.resolution.verdict) for i in theirs
        ]


def test_stopping_at_unknown_verdicts_records_nothing(open_session: Open) -> None:
    session = open_session()
    session.action("sql", "x").start()
    session.close()
    before = transcript_of(session).read_bytes()
    with pytest.raises(rewake.UncertainError, match="no evidence settles"):
        open_session(resume=session.session_id, on_unknown="stop")
    assert transcript_of(session).read_bytes() == before
    with open_session(resume=session.session_id) as again:
        assert statuses_of(transcript_of(again))[-1] == "resolved"


# --- versions --------------------------------------------------------------------------------


@pytest.mark.parametrize("torn", [b"", b'{"torn'])
@pytest.mark.parametrize("events_after", [0, 1500])
def test_a_session_of_a_newer_rewake_is_refused_and_left_as_it_is(
    open_session: Open, home: Path, project: Path, torn: bytes, events_after: int
) -> None:
    with open_session(session_id="s") as session:
        session.user("one")
        session.record(RunStart(2, min_reader_version=2))
        for number in range(events_after):
            session.transition("a", "b", str(number))
    transcript = transcript_of(session)
    with transcript.open("ab") as file:
        file.write(torn)
    before = transcript.read_bytes(), transcript.stat().st_mtime_ns
    for attempt in (
        lambda: open_session(resume="s"),
        lambda: rewake.resume("s", project=project, home=home),
    ):
        with pytest.raises(UnreadableVersionError, match="needs a reader of version 2"):
            attempt()
    assert (transcript.read_bytes(), transcript.stat().st_mtime_ns) == before
    (row,) = rewake.sessions(project, home=home)
    assert row.session_id == "s"


def test_a_refused_session_can_be_opened_by_somebody_else(open_session: Open) -> None:
    session = open_session()
    session.action("sql", "x").start()
    session.close()
    with pytest.raises(rewake.UncertainError):
        open_session(resume=session.session_id, on_unknown="stop")
    open_session(resume=session.session_id).close()  # the lock is free again


def test_the_first_run_is_on_record_before_the_first_message(open_session: Open) -> None:
    with open_session() as session:
        session.user("one")
    names = [event.event_type for event in events_of(transcript_of(session))]
    assert names == ["session", "run", "message"]
