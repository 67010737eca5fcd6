"""A session goes to another machine in one file, and goes on there."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from tests.archive.machines import LONG, Machine

import rewake
from rewake.archive.container import ArchiveReader, read_manifest
from rewake.doctor.check import check
from rewake.doctor.subject import Subject
from rewake.errors import SessionNotFoundError, UsageError
from rewake.log.disk import Disk

PICTURE = bytes(range(256)) * 10


def content(archive: Path) -> dict[str, bytes]:
    with ArchiveReader(archive) as reader:
        return {name: b"".join(pieces) for name, _, pieces in reader.members()}


def rich_session(here: Machine) -> str:
    """Spilled payloads, an image, a changed file, a shell command's output, a sub-agent."""
    target = here.project / "a.py"
    with here.open() as session:
        picture = rewake.Image("image/png", session.blobs.put(PICTURE), len(PICTURE))
        session.user([rewake.Text("look at this"), picture])
        call = rewake.ToolCall("call_1", "Write", {"file_path": "a.py"})
        session.assistant([rewake.Text(LONG), call])
        with session.action(call, intent=rewake.FileChange(target, None, b"print(1)\n")) as action:
            target.write_bytes(b"print(1)\n")
            action.complete("written")
        outputs = session.directory / "outputs" / "01945a62-9e00-7000-8000-abc0ffee0000"
        outputs.mkdir(parents=True)
        (outputs / "stdout").write_bytes(b"made \xff it\n")
        (outputs / "exit").write_bytes(b"{}")
        agents = session.directory / "agents"
        agents.mkdir()
        (agents / "helper.jsonl").write_bytes(b"")
        (agents / "helper.meta.json").write_bytes(b'{"agent_id":"helper","status":"completed"}')
        session.terminal("done")
        return session.session_id


def test_everything_of_a_session_arrives_and_goes_on(
    here: Machine, there: Machine, tmp_path: Path
) -> None:
    session_id = rich_session(here)
    here.export(session_id, tmp_path / "x")
    done = there.take(tmp_path / "x")
    assert done.outcome == "imported"
    assert done.recorded_root == str(here.project)
    assert there.blobs() == here.blobs()
    for name in (
        "transcript.jsonl",
        "outputs/01945a62-9e00-7000-8000-abc0ffee0000/stdout",
        "agents/helper.jsonl",
        "agents/helper.meta.json",
    ):
        before = here.paths(session_id).directory / name
        assert (there.paths(session_id).directory / name).read_bytes() == before.read_bytes()
    assert there.said(session_id) == here.said(session_id)
    with there.open(session_id) as session:
        assert session.root == there.project
        assert session.blobs.get(here.blobs()[0]) is not None
        session.user("and on")
    assert there.said(session_id)[-1] == "and on"
    assert check(Subject.of(there.paths(session_id), Disk()), Disk(), deep=True).ok


def test_files_are_private(here: Machine, there: Machine, tmp_path: Path) -> None:
    session_id = rich_session(here)
    here.export(session_id, tmp_path / "x")
    there.take(tmp_path / "x")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o600
    for path in there.home.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_the_same_session_gives_the_same_bytes(here: Machine, tmp_path: Path) -> None:
    session_id = rich_session(here)
    here.export(session_id, tmp_path / "x")
    here.export(session_id, tmp_path / "y")
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


def test_the_manifest_names_every_member(here: Machine, tmp_path: Path) -> None:
    session_id = rich_session(here)
    done = here.export(session_id, tmp_path / "x")
    found = content(tmp_path / "x")
    manifest = read_manifest(tmp_path / "x", found.pop("manifest.json"))
    assert {member.path: member.size for member in manifest.members} == {
        name: len(data) for name, data in found.items()
    }
    assert manifest.session_id == session_id
    assert done.members == len(found) + 1


def test_a_fork_takes_along_what_it_needs_of_its_origins(
    here: Machine, there: Machine, tmp_path: Path
) -> None:
    origin = here.talk("one", answer=LONG)
    with here.open(origin) as session:
        session.user("before the fork")
    middle = here.fork(origin, "two")
    youngest = here.fork(middle, "three")
    with here.open(origin) as session:
        session.user("after the fork")
    here.export(youngest, tmp_path / "x")
    assert b"after the fork" not in b"".join(content(tmp_path / "x").values())
    there.take(tmp_path / "x")
    assert there.said(youngest) == here.said(youngest)
    assert [paths.session_id for paths in there.at.layout.sessions()] == [youngest]
    assert check(Subject.of(there.paths(youngest), Disk()), Disk(), deep=True).ok


def test_a_fork_of_an_imported_fork_has_its_history(
    here: Machine, there: Machine, tmp_path: Path
) -> None:
    origin = here.talk("one")
    fork = here.fork(origin, "two")
    here.export(fork, tmp_path / "x")
    there.take(tmp_path / "x")
    again = there.fork(fork, "three")
    assert there.said(again)[-2:] == ["two", "three"]
    there.delete(fork)
    there.empty_trash()
    assert there.said(again) == [*here.said(fork), "three"]
    assert check(Subject.of(there.paths(again), Disk()), Disk(), deep=True).ok


def test_an_import_of_what_is_here_is_no_work(here: Machine, tmp_path: Path) -> None:
    session_id = here.talk()
    here.export(session_id, tmp_path / "x")
    before = here.paths(session_id).transcript.read_bytes()
    assert here.take(tmp_path / "x").outcome == "already_here"
    with here.open(session_id) as session:
        session.user("one more")
    assert here.take(tmp_path / "x").outcome == "already_here"
    assert here.paths(session_id).transcript.read_bytes().startswith(before)


def test_another_content_under_the_same_id_is_refused(
    here: Machine, there: Machine, tmp_path: Path
) -> None:
    session_id = here.talk()
    here.export(session_id, tmp_path / "x")
    there.take(tmp_path / "x")
    for machine, prompt in ((here, "went on here"), (there, "went on there")):
        with machine.open(session_id) as session:
            session.user(prompt)
    here.export(session_id, tmp_path / "y")
    before = there.paths(session_id).transcript.read_bytes()
    with pytest.raises(UsageError, match="--as"):
        there.take(tmp_path / "y")
    assert there.paths(session_id).transcript.read_bytes() == before
    done = there.take(tmp_path / "y", new_id="the-other-one")
    assert done.session_id == "the-other-one"
    assert there.said("the-other-one") == here.said(session_id)
    assert check(Subject.of(there.paths("the-other-one"), Disk()), Disk(), deep=True).ok


def test_a_session_at_work_is_exported_up_to_its_last_whole_line(
    here: Machine, there: Machine, tmp_path: Path
) -> None:
    with here.open() as session:
        session.user("at work")
        transcript = here.paths(session.session_id).transcript
        whole = transcript.read_bytes()
        with transcript.open("ab") as file:
            file.write(b'{"event_id":"half')
        here.export(session.session_id, tmp_path / "x")
        assert content(tmp_path / "x")["session/transcript.jsonl"] == whole


def test_a_torn_tail_of_a_session_at_rest_is_kept(here: Machine, tmp_path: Path) -> None:
    session_id = here.talk()
    transcript = here.paths(session_id).transcript
    with transcript.open("ab") as file:
        file.write(b'{"event_id":"half')
    here.export(session_id, tmp_path / "x")
    assert content(tmp_path / "x")["session/transcript.jsonl"] == transcript.read_bytes()


def test_a_hash_in_a_text_takes_no_other_sessions_content_along(
    here: Machine, tmp_path: Path
) -> None:
    with here.open() as session:
        name = session.blobs.put(b"somebody else's")
    session_id = here.talk(f"look at {name}")
    here.export(session_id, tmp_path / "x")
    assert f"blobs/{name}" not in content(tmp_path / "x")


def test_what_is_gone_is_said(here: Machine, there: Machine, tmp_path: Path) -> None:
    session_id = here.talk("one", answer=LONG)
    for path in here.home.glob("projects/*/blobs/*"):
        path.unlink()
    done = here.export(session_id, tmp_path / "x")
    assert len(done.incomplete) == 1
    assert "payload" in done.incomplete[0]
    assert there.take(tmp_path / "x").incomplete == done.incomplete


def test_no_session_no_archive(here: Machine, tmp_path: Path) -> None:
    with pytest.raises(SessionNotFoundError):
        here.export("nonsense", tmp_path / "x")
    assert list(tmp_path.glob("x*")) == []
