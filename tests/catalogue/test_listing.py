from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.catalogue.conftest import List, Make, go_on

import rewake
from rewake.catalogue import listing, notes
from rewake.catalogue.listing import list_sessions
from rewake.catalogue.notes import note_session
from rewake.log.disk import Disk
from rewake.log.layout import Layout, SessionPaths
from rewake.model.codec import seal_line
from rewake.resume.listing import Summary, describe, read_summary, summarise, tags_of


class NoBlobs:
    def get(self, sha256: str) -> bytes:
        raise AssertionError(sha256)


def ids(found: listing.Listed) -> list[str]:
    return [info.session_id for info in found.rows]


def set_time(paths: SessionPaths, seconds: int) -> None:
    os.utime(paths.transcript, (seconds, seconds))


@contextmanager
def nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(*_arguments: object) -> Summary:
        raise AssertionError("a transcript was read")

    with monkeypatch.context() as patched:
        patched.setattr(listing, "read_summary", refuse)
        yield


def test_the_newest_comes_first_and_a_page_knows_how_many_there_are(
    make: Make, listed: List
) -> None:
    for number in range(5):
        set_time(make(f"s{number}"), 1_000_000 + number)
    page = listed(limit=2)
    assert ids(page) == ["s4", "s3"]
    assert page.total == 5
    assert ids(listed()) == ["s4", "s3", "s2", "s1", "s0"]


def test_a_row_tells_what_the_session_was_about(make: Make, listed: List, project: Path) -> None:
    paths = make("s1", ("First", "Yes", "Last", "Done"), title="Colours", tags=["ui", " "])
    (row,) = listed().rows
    assert (row.title, row.first_prompt, row.last_prompt) == ("Colours", "First", "Last")
    assert (row.tags, row.state, row.messages, row.calls) == (("ui",), "done", 4, 0)
    assert (row.input_tokens, row.output_tokens, row.cost_usd) == (200, 20, 1.0)
    assert (row.project, row.path) == (str(project), str(paths.transcript))
    assert row.size_bytes == paths.transcript.stat().st_size
    assert row.created_at.endswith("Z")
    assert row.updated_at.endswith("Z")


def test_a_session_without_a_title_is_called_by_its_first_prompt(make: Make, listed: List) -> None:
    make("s1", ("Fix 👩‍👩‍👧" + "é" * 300,))
    (row,) = listed().rows
    assert row.title.startswith("Fix 👩‍👩‍👧é")
    assert len(row.title.encode()) <= 203


def test_what_is_listed_is_the_same_with_and_without_the_catalogue(
    make: Make, listed: List, home: Path
) -> None:
    for number in range(3):
        make(f"s{number}", (f"Do {number}", "Yes"), tags=[str(number)])
    noted = listed()
    (home / "catalogue.sqlite").unlink()
    assert listed() == noted
    plain = [describe(Layout(home).find(info.session_id), NoBlobs(), Disk()) for info in noted.rows]
    assert plain == noted.rows
    assert listed() == noted


def test_a_listed_session_is_not_read_again(
    make: Make, listed: List, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("s1")
    first = listed()
    with nothing_is_read(monkeypatch):
        assert listed() == first


def test_a_session_that_ended_is_not_read_at_all(
    make: Make, listed: List, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("s1", ("Fix it", "Yes"))
    with nothing_is_read(monkeypatch):
        (row,) = listed().rows
    assert (row.messages, row.state, row.created_at != "") == (2, "done", True)


def test_a_note_is_what_reading_would_have_given(
    make: Make, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = make("s1", ("Fix it", "Yes"), title="T")
    ((found, noted),) = notes.read_notes(home)
    assert noted == read_summary(paths, NoBlobs())
    assert found.key.endswith(b"/s1")


def test_a_session_that_went_on_is_read_again(
    make: Make, listed: List, home: Path, project: Path
) -> None:
    make("s1")
    listed()
    go_on(home, project, "s1", ("More", "Yes"))
    (home / "catalogue.notes").unlink()
    (row,) = listed().rows
    assert (row.messages, row.last_prompt) == (3, "More")


def test_a_note_of_what_never_got_to_the_file_counts_for_nothing(
    make: Make, listed: List, home: Path
) -> None:
    paths = make("s1")
    (home / "catalogue.notes").unlink()
    note_session(home, paths, Summary(title="A dream", last_event_at="2099-01-01T00:00:00Z"))
    assert not (home / "catalogue.notes").exists()
    (row,) = listed().rows
    assert row.title == "Fix it"


@pytest.mark.parametrize("content", [b"torn", b"{}\n[]\nnull\n", b"\xff\0\n" * 3, b""])
def test_notes_that_nobody_wrote_are_passed_over(
    make: Make, listed: List, home: Path, content: bytes
) -> None:
    make("s1")
    (home / "catalogue.notes").write_bytes(content)
    assert ids(listed()) == ["s1"]


def test_noting_never_hurts_the_session(make: Make, home: Path, listed: List) -> None:
    (home / "catalogue.notes").mkdir(parents=True)
    make("s1")
    assert ids(listed()) == ["s1"]


def test_notes_end_where_nobody_lists(make: Make, home: Path) -> None:
    home.mkdir()
    full = b"x" * (4 << 20)
    (home / "catalogue.notes").write_bytes(full)
    make("s1")
    assert (home / "catalogue.notes").stat().st_size == len(full)


def test_running_is_asked_of_the_lock_and_never_remembered(
    home: Path, project: Path, listed: List
) -> None:
    with rewake.open_session(project, home=home, session_id="s1", durability="process") as session:
        session.user("Wait")
        (row,) = listed().rows
        assert (row.state, row.pid) == ("running", os.getpid())
        listed()
        session.terminal("done")
    (row,) = listed().rows
    assert (row.state, row.pid) == ("done", None)


def test_a_killed_session_is_interrupted(home: Path, project: Path, listed: List) -> None:
    code = (
        "import os, sys, rewake\n"
        "session = rewake.open_session(sys.argv[1], home=sys.argv[2], session_id='s1')\n"
        "session.user('Wait')\nos.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(project), str(home)], check=False)
    (row,) = listed().rows
    assert (row.state, row.messages, row.title, row.pid) == ("interrupted", 1, "Wait", None)


def test_failed_is_neither_done_nor_interrupted(home: Path, project: Path, listed: List) -> None:
    with rewake.open_session(project, home=home, session_id="s1", durability="process") as session:
        session.user("Wait")
        session.terminal("model_error")
    assert [row.state for row in listed().rows] == ["failed"]


# --- not found, not listed -------------------------------------------------------------------


def test_a_session_whose_first_line_is_no_message_is_listed(make: Make, listed: List) -> None:
    paths = make("s1")
    lines = paths.transcript.read_bytes().splitlines(keepends=True)
    paths.transcript.write_bytes(b"".join(lines[1:]))
    (row,) = listed().rows
    assert (row.session_id, row.title, row.state) == ("s1", "Fix it", "done")


@pytest.mark.parametrize("reason", ["interrupted", "terminated", "hangup", "max_steps", "max_cost"])
def test_who_was_stopped_is_interrupted(
    home: Path, project: Path, listed: List, reason: str
) -> None:
    with rewake.open_session(project, home=home, session_id="s1", durability="process") as session:
        session.user("Wait")
        session.terminal(reason)
    assert [row.state for row in listed().rows] == ["interrupted"]


def test_lines_without_one_event_are_damage(make: Make, listed: List) -> None:
    make("s1").transcript.write_bytes(b"\xff garbage\n" * 100)
    (row,) = listed().rows
    assert (row.state, row.problem) == ("damaged", "Not one event can be read in 1000 bytes.")


def test_an_empty_session_is_listed_as_such(make: Make, listed: List) -> None:
    paths = make("s1")
    paths.transcript.write_bytes(b"")
    assert [row.state for row in listed().rows] == ["empty"]


def test_a_directory_without_a_transcript_is_no_session(make: Make, listed: List) -> None:
    paths = make("s1")
    (paths.directory.parent / "none").mkdir()
    (paths.directory.parent / "odd" / "transcript.jsonl").mkdir(parents=True)
    (paths.directory.parent / "file").touch()
    assert ids(listed()) == ["s1"]


def test_a_sub_agent_s_transcript_is_no_session(make: Make, listed: List) -> None:
    paths = make("s1")
    paths.agents.mkdir()
    shutil.copyfile(paths.transcript, paths.agent_transcript("a1"))
    assert ids(listed()) == ["s1"]


@pytest.mark.parametrize(
    "content",
    [
        b"\0" * 5_000,
        b"null\n1\n[]\n",
        b"\xff\xfe garbage\n" * 100,
        b'{"torn',
        b"\r\n\r\n",
        b"x" * 3_000_000,
    ],
)
def test_one_broken_transcript_hides_no_other(make: Make, listed: List, content: bytes) -> None:
    for number in range(3):
        make(f"s{number}")
    broken = make("broken")
    broken.transcript.write_bytes(content)
    assert sorted(ids(listed())) == ["broken", "s0", "s1", "s2"]
    assert sorted(ids(listed())) == ["broken", "s0", "s1", "s2"]


def test_a_transcript_of_a_newer_version_says_so_in_its_row(make: Make, listed: List) -> None:
    paths = make("s1")
    lines = paths.transcript.read_bytes().splitlines()
    body = lines[0].rpartition(b',"crc32"')[0]
    lines[0] = seal_line(body.replace(b'"min_reader_version":1', b'"min_reader_version":9'))[:-1]
    paths.transcript.write_bytes(b"\n".join(lines) + b"\n")
    make("s2")
    rows = {row.session_id: row for row in listed().rows}
    assert rows["s1"].state == "damaged"
    assert "Upgrade Rewake" in (rows["s1"].problem or "")
    assert rows["s2"].state == "done"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads what it may not")
def test_what_could_not_be_read_is_read_when_it_can_be(
    make: Make, listed: List, home: Path
) -> None:
    paths = make("s1")
    (home / "catalogue.notes").unlink()
    paths.transcript.chmod(0)
    assert [row.state for row in listed().rows] == ["damaged"]
    paths.transcript.chmod(0o600)
    assert [row.state for row in listed().rows] == ["done"]


def test_a_problem_is_never_remembered(
    make: Make, listed: List, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("s1")
    (home / "catalogue.notes").unlink()
    with monkeypatch.context() as patched:
        damaged = Summary(state="damaged", problem="Permission denied")
        patched.setattr(listing, "read_summary", lambda *_: damaged)
        assert [row.state for row in listed().rows] == ["damaged"]
    assert [row.state for row in listed().rows] == ["done"]


def test_a_directory_that_can_t_be_read_is_told_and_hides_no_other(
    make: Make, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("s1")
    hidden = make("s2", root=tmp_path / "other").directory.parent
    real = os.listdir

    def refuse(path: Path) -> list[str]:
        if path == hidden:
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "listdir", refuse)
    problems: list[Path] = []
    found = list_sessions(home, Disk(), on_problem=lambda path, _: problems.append(path))
    assert ids(found) == ["s1"]
    assert problems == [hidden]


def test_an_id_that_is_no_unicode_is_listed(make: Make, listed: List) -> None:
    paths = make("s1")
    odd = os.fsdecode(os.fsencode(paths.directory.parent) + b"/\xff\xfe")
    shutil.copytree(paths.directory, odd)
    assert sorted(ids(listed())) == sorted(["s1", os.fsdecode(b"\xff\xfe")])
    assert len(listed().rows) == 2


def test_looking_into_an_empty_home_makes_nothing(home: Path, listed: List) -> None:
    assert listed().total == 0
    assert not home.exists()


def test_sessions_of_one_project_only(
    make: Make, listed: List, project: Path, tmp_path: Path
) -> None:
    make("s1")
    make("s2", root=tmp_path / "other")
    assert ids(listed(project)) == ["s1"]
    assert ids(listed(tmp_path / "other")) == ["s2"]
    assert listed(tmp_path / "none").total == 0


# --- what a summary is -----------------------------------------------------------------------


def test_a_summary_is_the_live_session_s_own(home: Path, project: Path) -> None:
    with rewake.open_session(project, home=home, session_id="s1", durability="process") as session:
        for number in range(1_500):  # past a checkpoint
            session.user(f"Do {number}")
            session.assistant("Yes", usage=rewake.Usage(3, 1))
        session.metadata(title="T")
        live = summarise(session.state.world)
    read = read_summary(Layout(home).find("s1"), NoBlobs())
    assert (live.first_prompt, live.messages) == ("Do 0", 3_000)
    assert read.created_at < read.last_event_at
    assert read == summarise(session.state.world, read.created_at)


@pytest.mark.parametrize(
    ("value", "tags"),
    [
        (["a", "b "], ("a", "b")),
        ("a, b,,", ("a", "b")),
        ([1, None, "a"], ("a",)),
        (None, ()),
        (7, ()),
        ({"a": 1}, ()),
    ],
)
def test_tags_are_a_list_or_a_text_with_commas(value: object, tags: tuple[str, ...]) -> None:
    assert tags_of(value) == tags


def test_the_branch_is_recorded(home: Path, project: Path, listed: List, make: Make) -> None:
    (project / ".git").mkdir()
    (project / ".git" / "HEAD").write_text("ref: refs/heads/feature/größe\n")
    make("s1")
    assert listed().rows[0].branch == "feature/größe"
