"""Several sessions in one tree, forks, moved projects, missing contents, full disks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.files.conftest import MakeWorld, World, picture

from rewake import open_session
from rewake.compose.files import (
    changed_outside,
    file_changes,
    plan_rewind,
    rewind_files,
    track_files,
    undo_files_rewind,
)
from rewake.errors import StorageError, UsageError
from rewake.log.disk import Disk

Settle = Callable[[], None]


def test_another_session_that_changed_the_file_since_is_named_and_its_change_kept(
    begin: MakeWorld, project: Path, settled: Settle
) -> None:
    (project / "a").write_bytes(b"a")
    settled()
    one, other = begin(), begin()
    asked = one.ask()
    one.run("printf one > a; printf one > b")
    other.ask()
    other.run("printf other > a")

    plan = rewind_files(one.session, asked).plan

    (conflict,) = plan.conflicts
    assert (conflict.why, conflict.session_id) == ("other_session", other.session.session_id)
    assert other.session.session_id in conflict.reason
    assert (project / "a").read_bytes() == b"other"
    assert not (project / "b").exists()


def test_a_fork_takes_back_what_its_origin_did_before_the_fork(
    begin: MakeWorld, project: Path, home: Path, settled: Settle
) -> None:
    (project / "a").write_bytes(b"a")
    settled()
    origin = begin()
    before = picture(project)
    asked = origin.ask()
    origin.run("printf origin > a")
    origin.session.assistant("done")
    fork = open_session(project, resume=origin.session.session_id, fork=True, home=home)
    with fork:
        world = World(project, home, fork)
        track_files(fork)
        world.run("printf more >> a; printf fork > f")
        rewind_files(fork, asked)
    assert picture(project) == before


def test_a_project_that_was_moved_is_taken_back_where_it_is_now(
    begin: MakeWorld, project: Path, home: Path, tmp_path: Path
) -> None:
    (project / "a").write_bytes(b"a")
    world = begin()
    before = picture(project)
    asked = world.ask()
    world.run("printf x > a; printf x > b")
    session_id = world.session.session_id
    world.close()
    moved = tmp_path / "moved"
    project.rename(moved)
    with open_session(moved, resume=session_id, home=home) as session:
        rewind_files(session, asked)
    assert picture(moved) == before
    assert not project.exists()


def test_a_content_that_is_gone_is_a_conflict_and_the_rest_goes_back(
    begin: MakeWorld, project: Path, home: Path
) -> None:
    (project / "a").write_bytes(b"a")
    (project / "b").write_bytes(b"b")
    world = begin()
    asked = world.ask()
    world.run("printf x > a; printf x > b")
    plan = plan_rewind(world.session, asked)
    (blob,) = home.rglob(plan.steps[0].wanted.sha256 or "")
    blob.unlink()
    plan = rewind_files(world.session, asked, force=True).plan
    assert [step.why for step in plan.conflicts] == ["missing_content"]
    assert (project / "a").read_bytes() == b"x"
    assert (project / "b").read_bytes() == b"b"


def test_a_rewind_that_fails_half_way_leaves_every_file_as_it_was(
    begin: MakeWorld, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (project / name).write_bytes(b"old")
    world = begin()
    asked = world.ask()
    world.run("for name in a b c; do printf new > $name; done; printf d > d")
    before = picture(project)
    real, calls = os.rename, []

    def full(*arguments: object, **keywords: object) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        real(*arguments, **keywords)  # type: ignore[arg-type]  # as given

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(StorageError, match="No space left"):
        rewind_files(world.session, asked)
    assert picture(project) == before
    rewind_files(world.session, asked)
    assert (project / "c").read_bytes() == b"old"


def test_rewakes_own_home_in_the_project_is_not_tracked(project: Path) -> None:
    home = project / ".home"
    (project / "a").write_bytes(b"a")
    with open_session(project, home=home, durability="process") as session:
        track_files(session)
        world = World(project, home, session)
        asked = world.ask()
        world.run("printf x > a")
        assert [step.shown for step in plan_rewind(session, asked).steps] == [str(project / "a")]


def test_a_file_that_is_too_large_is_named(
    begin: MakeWorld, project: Path, settled: Settle
) -> None:
    with (project / "big").open("wb") as file:
        file.truncate(40 << 20)
    settled()
    world = begin()
    world.ask()
    world.run("printf x >> big; printf x > a")
    assert any("big" in notice and "too large" in notice for notice in world.notices)
    told = plan_rewind(world.session, world.session.messages[0].message_id).not_covered
    assert any("big" in sentence for sentence in told)


def test_special_files_are_left_alone(begin: MakeWorld, project: Path) -> None:
    os.mkfifo(project / "pipe")
    world = begin()
    asked = world.ask()
    world.run("mkfifo other; printf x > a")
    assert [step.shown for step in plan_rewind(world.session, asked).steps] == [str(project / "a")]


def test_nothing_is_written_for_a_command_that_changes_nothing(
    begin: MakeWorld, project: Path, settled: Settle
) -> None:
    (project / "a").write_bytes(b"a")
    settled()
    world = begin()
    world.ask()
    world.run("true")
    kept = world.session.directory / "files" / "before"
    first = kept.stat()
    world.run("cat a")
    assert kept.stat().st_ino == first.st_ino
    assert file_changes(world.session.session_id, project=project, home=world.home) == []


def test_whether_a_file_was_changed_outside_is_told_by_its_content(
    begin: MakeWorld, project: Path
) -> None:
    world = begin()
    world.ask()
    world.write("a", b"agent")
    assert not changed_outside(world.session, "a")
    os.utime(project / "a", (1, 1))
    assert not changed_outside(world.session, "a")
    status = (project / "a").stat()
    (project / "a").write_bytes(b"other")
    os.utime(project / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert changed_outside(world.session, "a")
    assert not changed_outside(world.session, "never seen")


def test_another_name_of_a_file_is_asked_about_as_the_file(begin: MakeWorld, project: Path) -> None:
    world = begin()
    world.ask()
    world.write("a", b"agent")
    (project / "alias").symlink_to("a")
    (project / "d").symlink_to(".")
    for name in ("alias", "d/a"):
        assert not changed_outside(world.session, name)
    (project / "a").write_bytes(b"other")
    for name in ("alias", "d/a"):
        assert changed_outside(world.session, name)


def test_a_diff_shows_a_session_a_turn_or_a_call(begin: MakeWorld, project: Path) -> None:
    (project / "a").write_bytes(b"one\ntwo\n")
    world = begin()
    world.ask()
    world.run("printf 'one\\n2\\n' > a")
    second = world.ask()
    world.run("printf 'new\\n' > b; printf '\\0' > c")
    ask = partial(file_changes, world.session.session_id, project=project, home=world.home)
    whole = ask()
    assert [(one.shown, one.kind, one.added, one.removed) for one in whole] == [
        ("a", "changed", 1, 1),
        ("b", "created", 1, 0),
        ("c", "created", 0, 0),
    ]
    assert "-two\n+2" in whole[0].text
    assert whole[2].binary
    turn = ask(since=second)
    assert [one.shown for one in turn] == ["b", "c"]
    lines = (world.session.directory / "transcript.jsonl").read_text().splitlines()
    end = next(line for line in map(json.loads, lines) if "outcome" in line["payload"])
    for name in (end["payload"]["call_id"], end["event_id"]):
        assert [one.shown for one in ask(call=name)] == ["a"]
    with pytest.raises(UsageError, match="no call nope"):
        ask(call="nope")


def test_an_undo_leaves_what_somebody_changed_after_the_rewind(
    begin: MakeWorld, project: Path
) -> None:
    (project / "a").write_bytes(b"a")
    world = begin()
    asked = world.ask()
    world.run("printf x > a; printf x > b")
    rewind_files(world.session, asked)
    (project / "a").write_bytes(b"mine")
    undone = undo_files_rewind(world.session)
    assert undone is not None
    assert [step.why for step in undone.plan.conflicts] == ["changed"]
    assert (project / "a").read_bytes() == b"mine"
    assert (project / "b").read_bytes() == b"x"


def test_many_new_contents_are_made_durable_together(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        (project / f"f{number}").write_bytes(b"%d" % number)
    synced: list[Path] = []
    monkeypatch.setattr(Disk, "sync_file_system", lambda _disk, path: synced.append(path))
    with open_session(project, home=home) as session:
        track_files(session)
        world = World(project, home, session)
        before = picture(project)
        asked = world.ask()
        world.run("for f in f*; do printf x > $f; done")
        assert len(synced) == 2
        rewind_files(session, asked)
    assert picture(project) == before


def test_a_branch_that_was_left_has_changed_the_files_all_the_same(
    begin: MakeWorld, project: Path
) -> None:
    world = begin()
    first = world.ask()
    before = picture(project)
    world.session.assistant("yes")
    world.ask("more")
    world.run("printf x > a")
    world.session.rewind(first)
    rewind_files(world.session, first)
    assert picture(project) == before


@pytest.mark.parametrize("command", ["sleep 5", "exit 1"])
def test_a_call_that_an_exception_cut_short_has_its_changes(
    begin: MakeWorld, project: Path, command: str
) -> None:
    from rewake import OtherIntent

    world = begin()
    asked = world.ask()
    with (
        pytest.raises(subprocess.SubprocessError),
        world.session.action("Other", intent=OtherIntent("x")),
    ):
        subprocess.run(
            ["/bin/sh", "-c", f"printf x > a; {command}"], cwd=project, check=True, timeout=0.3
        )
    rewind_files(world.session, asked)
    assert not (project / "a").exists()


def test_a_diff_names_a_file_as_git_does_so_that_it_can_be_applied(
    begin: MakeWorld, project: Path, tmp_path: Path
) -> None:
    name = 'a\n"b\\ é.txt'
    world = begin()
    world.ask()
    (project / "script").write_text(f"cat > '{name}' <<'E'\none\nE\n")
    world.run("sh script; rm script")
    found = file_changes(world.session.session_id, project=project, home=world.home)
    (made,) = [one for one in found if one.kind == "created"]
    assert made.shown == name
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    patch = (made.text + "\n").encode()
    subprocess.run(["git", "init", "-q"], cwd=elsewhere, check=True)
    subprocess.run(["git", "apply"], cwd=elsewhere, input=patch, check=True)
    assert (elsewhere / name).read_text() == "one\n"
