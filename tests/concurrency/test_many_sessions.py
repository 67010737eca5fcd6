"""Many processes, each on a session of its own in one project: they share blobs and never wait."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.concurrency.conftest import Spawn

import rewake
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk

# All of them store the same contents at the same time, and each names them in its own session.
_WRITE = """
import hashlib
contents = [f"shared {number}".encode() * 2000 for number in range(20)]
with rewake.open_session(project, home=home, session_id=arguments[0]) as session:
    say("open")
    hear()
    for data in contents:
        sha256 = session.blobs.put(data)
        session.user([rewake.Image("image/png", sha256, len(data))])
        assert session.blobs.get(sha256) == data
say("done")
"""


def test_sessions_of_one_project_share_their_blobs_and_do_not_contend(
    spawn: Spawn, home: Path, project: Path
) -> None:
    names = [f"session-{number}" for number in range(8)]
    children = [spawn(_WRITE, name) for name in names]
    for child in children:
        assert child.hear() == "open"  # all are open at once
    for child in children:
        child.say("go")
    for child in children:
        assert child.hear() == "done"
    (directory,) = home.glob("projects/*/blobs")
    blobs = BlobStore(directory, Disk(), durable=False)
    files = [path for path in directory.glob("*") if path.is_file()]
    assert len(files) == 20  # each content once, and no temporary file left behind
    for path in files:
        assert blobs.get(path.name).startswith(b"shared ")
    for name in names:
        state = rewake.resume(name, project=project, home=home)
        assert len(state.messages) == 20
        assert state.damage == ()
    assert {row.session_id for row in rewake.sessions(project, home=home)} == set(names)


def test_many_processes_that_create_the_first_session_of_a_project_all_succeed(
    spawn: Spawn, home: Path, project: Path
) -> None:
    code = """
say("ready")
hear()
with rewake.open_session(project, home=home, session_id=arguments[0]) as session:
    session.user("hi")
say("done")
"""
    children = [spawn(code, f"s{number}") for number in range(8)]
    for child in children:
        assert child.hear() == "ready"
    for child in children:
        child.say("go")
    for child in children:
        assert child.hear() == "done"
    assert len(list((home / "projects").iterdir())) == 1
    assert len(rewake.sessions(project, home=home)) == 8


def test_two_processes_that_create_the_same_session_make_one(
    spawn: Spawn, home: Path, project: Path
) -> None:
    code = """
say("ready")
hear()
try:
    session = rewake.open_session(project, home=home, session_id="same")
except rewake.RewakeError as error:
    say("refused", type(error).__name__)
else:
    session.user("hi")
    say("opened")
    hear()
    session.close()
"""
    children = [spawn(code) for _ in range(6)]
    for child in children:
        assert child.hear() == "ready"
    for child in children:
        child.say("go")
    heard = [child.hear() for child in children]
    assert heard.count("opened") == 1, heard
    for child in children:
        child.process.stdin.close()  # type: ignore[union-attr]  # a pipe was asked for
        child.process.wait()
    state = rewake.resume("same", project=project, home=home)
    assert state.damage == ()
    assert len(state.messages) == 1


def test_a_session_that_another_process_made_and_left_meanwhile_is_not_begun_again(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_lock = Disk.open_lock

    def come_and_go(self: Disk, path: Path) -> int:
        monkeypatch.setattr(Disk, "open_lock", open_lock)
        with rewake.open_session(project, home=home, session_id="same") as other:
            other.user("first")
        return open_lock(self, path)

    monkeypatch.setattr(Disk, "open_lock", come_and_go)
    with pytest.raises(rewake.UsageError, match="exists already"):
        rewake.open_session(project, home=home, session_id="same")
    state = rewake.resume("same", project=project, home=home)
    assert len(state.messages) == 1
    assert state.damage == ()
