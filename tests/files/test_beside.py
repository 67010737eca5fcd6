"""Forks that take the files along: two lines of work side by side."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.files.conftest import MakeWorld, World, commit_all, git, picture

from rewake import Session, StorageError, UsageError, open_session
from rewake.compose.files import file_changes, plan_rewind, rewind_files, track_files
from rewake.files.beside import Beside, CopyLimits
from rewake.model.content import plain_text


def fork(world: World, directory: Path, at_message: str | None = None) -> Session:
    return open_session(
        world.root,
        resume=world.session.session_id,
        fork=True,
        with_files=directory,
        at_message=at_message,
        home=world.home,
        durability="process",
    )


def git_picture(root: Path) -> dict[str, str]:
    """Every file of the repository's `.git`, except for the entries of worktrees."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((root / ".git").rglob("*"))
        if path.is_file() and "worktrees" not in path.parts
    }


def tree(root: Path) -> dict[bytes, tuple[object, ...]]:
    found = picture(root)
    found.pop(b".git", None)
    return found


def fill(root: Path) -> None:
    (root / "src").mkdir()
    (root / "src/a.py").write_bytes(b"a = 1\n")
    (root / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "gone.txt").write_bytes(b"x")
    (root / "link").symlink_to("/etc/hostname")
    (root / ".gitignore").write_bytes(b"*.log\n")


@pytest.fixture
def world(project: Path, settled: Callable[[], None], begin: MakeWorld) -> World:
    fill(project)
    settled()
    return begin()


def test_a_fork_has_the_files_as_they_are_and_works_on_them_alone(
    world: World, tmp_path: Path
) -> None:
    asked = world.ask()
    world.run("rm gone.txt; echo new > made.txt; mkdir -p src/deep; echo d > src/deep/d")
    world.write("src/a.py", b"a = 2\n")
    (world.root / os.fsdecode(b"odd\xff\nname")).write_bytes(b"\0\xff\r\n")
    before = picture(world.root)
    other = tmp_path / "other"
    with fork(world, other) as session:
        assert session.root == other
        assert tree(other) == before
        track_files(session)
        inner = World(other, world.home, session)
        inner.ask("Go on here")
        inner.run("echo changed > made.txt")
        inner.write("src/a.py", b"a = 3\n")
        assert picture(world.root) == before
        done = rewind_files(session, asked)
        assert not done.plan.conflicts
        forked = session.session_id
    assert picture(world.root) == before
    assert (other / "src/a.py").read_bytes() == b"a = 1\n"
    assert (other / "gone.txt").exists()
    assert not (other / "made.txt").exists()
    shown = {one.shown for one in file_changes(world.session.session_id, home=world.home)}
    assert shown == {"gone.txt", "made.txt", "src/a.py", "src/deep", "src/deep/d"}
    with open_session(other, resume=forked, home=world.home) as again:
        assert again.root == other
        assert again.session_id == forked


def test_a_fork_at_a_message_has_the_files_of_that_message(world: World, tmp_path: Path) -> None:
    world.ask("First")
    world.run("echo one > made.txt")
    there = picture(world.root)
    answer = world.session.assistant("Made it.")
    world.ask("Second")
    world.write("src/a.py", b"a = 2\n")
    world.run("mkdir later; echo x > later/x; chmod 644 run.sh; rm link made.txt")
    now = picture(world.root)
    with fork(world, tmp_path / "other", answer) as session:
        assert tree(tmp_path / "other") == there
        told = session.messages[-1].message
        assert str(tmp_path / "other") in str(told.content)
        assert (told.role, told.source) == ("user", "rewake")
        assert not plan_rewind(session, answer).steps
    assert picture(world.root) == now


def test_what_somebody_else_changed_since_stays_in_the_copy_and_is_named(
    world: World, tmp_path: Path
) -> None:
    asked = world.ask()
    world.write("src/a.py", b"a = 2\n")
    (world.root / "src/a.py").write_bytes(b"mine\n")
    with fork(world, tmp_path / "other", asked) as session:
        assert (tmp_path / "other/src/a.py").read_bytes() == b"mine\n"
        assert "somebody else since, and left as they are" in str(session.messages[-1].message)


def test_the_history_of_a_fork_of_a_fork_is_in_its_own_copy(world: World, tmp_path: Path) -> None:
    asked = world.ask()
    world.write("src/a.py", b"a = 2\n")
    with fork(world, tmp_path / "one") as first:
        track_files(first)
        World(tmp_path / "one", world.home, first).write("src/a.py", b"a = 3\n")
        middle = picture(tmp_path / "one")
        second = open_session(
            resume=first.session_id, fork=True, with_files=tmp_path / "two", home=world.home
        )
    with second:
        assert tree(tmp_path / "two") == tree(tmp_path / "one")
        rewind_files(second, asked)
    assert (tmp_path / "two/src/a.py").read_bytes() == b"a = 1\n"
    assert picture(tmp_path / "one") == middle
    assert (world.root / "src/a.py").read_bytes() == b"a = 2\n"


def test_a_repository_stays_as_it_is_and_runs_nothing(
    project: Path, begin: MakeWorld, tmp_path: Path
) -> None:
    fill(project)
    commit_all(project)
    marker = tmp_path / "ran"
    hook = project / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    for key in ("core.fsmonitor", "filter.evil.smudge", "filter.evil.clean"):
        git(project, "config", key, f"touch {marker}; cat")
    (project / ".git/info/attributes").write_text("*.py filter=evil\n")
    (project / "src/a.py").write_bytes(b"a = 5\n")
    (project / "staged").write_bytes(b"staged\n")
    git(project, "-c", "core.fsmonitor=false", "add", "staged")
    (project / "trace.log").write_bytes(b"ignored\n")
    (project / "kept.log").write_bytes(b"")
    world = begin()
    world.ask()
    world.write("kept.log", b"by the agent\n")
    before = git_picture(project)
    with fork(world, tmp_path / "other") as session:
        assert session.root == tmp_path / "other"
    assert git_picture(project) == before
    assert not marker.exists()
    other = tmp_path / "other"
    assert (other / "src/a.py").read_bytes() == b"a = 5\n"
    assert (other / "staged").read_bytes() == b"staged\n"
    assert (other / "kept.log").read_bytes() == b"by the agent\n"
    assert not (other / "trace.log").exists()
    assert git(other, "rev-parse", "HEAD") == git(project, "rev-parse", "HEAD")
    status = git(other, "-c", "core.fsmonitor=false", "status", "--porcelain")
    assert status.splitlines() == [b" M src/a.py", b"?? staged"]


def test_links_aren_t_followed_and_other_repositories_and_caches_stay_out(
    world: World, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (world.root / "src/a.py").unlink()
    (world.root / "src").rmdir()
    (world.root / "src").symlink_to(outside)  # what was tracked below it is gone
    nested = world.root / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "n").write_bytes(b"n")
    (world.root / "node_modules").mkdir()
    os.mkfifo(world.root / "pipe")
    with fork(world, tmp_path / "other") as session:
        told = str(session.messages[-1].message)
    other = tmp_path / "other"
    assert (other / "src").readlink() == outside
    assert not (other / "nested").exists()
    assert not (other / "pipe").exists()
    assert "nested" in told.partition("Not copied: ")[2]


def test_a_directory_that_can_t_be_used_is_refused_and_nothing_is_made(
    world: World, tmp_path: Path
) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").touch()
    (tmp_path / "file").touch()
    wrong = {
        full: "isn't empty",
        tmp_path / "file": "no directory",
        world.root / "inside": "inside the project",
        world.root: "isn't empty",
    }
    before = sorted(tmp_path.iterdir())
    for directory, words in wrong.items():
        with pytest.raises(UsageError, match=words):
            fork(world, directory)
    with pytest.raises(UsageError):
        fork(world, tmp_path / "other", "nowhere")
    with pytest.raises(UsageError, match="Only a fork"):
        open_session(world.root, resume="x", with_files=tmp_path / "other", home=world.home)
    assert sorted(tmp_path.iterdir()) == before


def test_what_was_made_is_gone_when_the_fork_can_t_be_made(world: World, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for directory in (tmp_path / "other", empty):
        with pytest.raises(UsageError, match="exists already"):
            open_session(
                world.root,
                resume=world.session.session_id,
                session_id=world.session.session_id,
                fork=True,
                with_files=directory,
                home=world.home,
            )
    assert not (tmp_path / "other").exists()
    assert list(empty.iterdir()) == []
    assert not list(world.root.glob(".git/worktrees/*"))


KILLED = """
import os, signal, sys
from rewake import open_session
from rewake.files import beside

point, project, home, session_id, directory = sys.argv[1:]

def killed(*_arguments, **_options):
    os.kill(os.getpid(), signal.SIGKILL)

if point == "copying":
    beside._Copier._copy = killed
else:
    setattr(beside.Beside, point, killed)
open_session(project, resume=session_id, fork=True, with_files=directory, home=home)
"""


@pytest.mark.parametrize("point", ["_claim", "copying", "place"])
def test_what_a_killed_fork_has_left_is_taken_away_by_the_next_try(
    world: World, tmp_path: Path, point: str
) -> None:
    beside = tmp_path / "beside"
    asked = world.session.session_id
    world.close()
    arguments = [point, world.root, world.home, asked, beside]
    command = [sys.executable, "-c", KILLED, *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True)
    is_repository = (world.root / ".git").exists()
    assert done.returncode == -signal.SIGKILL
    with open_session(
        world.root, resume=asked, fork=True, with_files=beside, home=world.home
    ) as fork:
        assert tree(beside) == tree(world.root)
        said = plain_text(fork.messages[-1].message.content)
        assert ("an earlier try had left" in said) == (point in {"copying", "place"})
    assert not list(tmp_path.glob(".rewake-*"))
    if is_repository:
        listed = git(world.root, "worktree", "list", "--porcelain").decode()
        assert [line for line in listed.split("\n") if line.startswith("worktree")] == [
            f"worktree {world.root}",
            f"worktree {beside}",
        ]
        assert git(beside, "status", "--short") == git(world.root, "status", "--short")


def test_two_at_once_do_not_make_the_same_copy(world: World, tmp_path: Path) -> None:
    one = Beside(world.root, tmp_path / "beside", world.home)
    other = Beside(world.root, tmp_path / "beside", world.home)
    one.make(())
    with pytest.raises(UsageError, match="Another process"):
        other.make(())
    other.remove()
    one.place()
    assert tree(tmp_path / "beside") == tree(world.root)


def test_a_repository_without_a_commit_and_one_that_git_can_t_read_are_refused(
    project: Path, begin: MakeWorld, tmp_path: Path
) -> None:
    git(project, "init", "-q")
    world = begin()
    world.ask()
    with pytest.raises(UsageError, match="no commit yet"):
        fork(world, tmp_path / "other")
    (project / ".git/HEAD").write_bytes(b"rubble")
    with pytest.raises(StorageError, match="git can't be used"):
        fork(world, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_copy_is_not_made_inside_another_repository(
    project: Path, begin: MakeWorld, tmp_path: Path
) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q")
    world = begin()
    world.ask()
    with pytest.raises(UsageError, match="belong to the repository"):
        fork(world, repository / "other")


@pytest.mark.parametrize("limits", [CopyLimits(files_max=1), CopyLimits(bytes_max=3)])
def test_a_tree_that_is_too_large_is_refused(
    world: World, tmp_path: Path, limits: CopyLimits
) -> None:
    beside = Beside(world.root, tmp_path / "other", world.home, limits)
    with pytest.raises(UsageError, match="too large"):
        beside.make(())
    assert not (tmp_path / "other").exists()
