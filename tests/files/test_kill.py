"""Killed at any moment, of a command or of a rewind: the next start knows what to do."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.files.conftest import MakeWorld, commit_all, picture

from rewake import OtherIntent, open_session
from rewake.compose.files import rewind_files, undo_files_rewind

Settle = Callable[[], None]

PRELUDE = """
import os, signal, subprocess, sys
from pathlib import Path
from rewake import FileChange, ShellIntent, open_session
from rewake.compose.files import rewind_files, track_files
from rewake.log.disk import set_crash_hook

root, home = map(Path, sys.argv[1:3])
argument = sys.argv[3] if len(sys.argv) > 3 else ""

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def die_at(name, count=1):
    left = [count]
    def reached(at):
        if at == name:
            left[0] -= 1
            if left[0] == 0:
                die()
    set_crash_hook(reached)

def start(command, session):
    output = f"outputs/{session.session_id}"
    action = session.action("Bash", intent=ShellIntent(command, str(root), output))
    action.start()
    directory = session.directory / output
    directory.mkdir(parents=True)
    (directory / "start").write_text("{}")
    (directory / "alive").write_text("")
    subprocess.run(command, shell=True, cwd=root, check=True)
    return action

def run(command, session):
    with session.action("Bash", intent=ShellIntent(command, str(root), "outputs/x")) as action:
        subprocess.run(command, shell=True, cwd=root, check=True)
        action.complete("done")
"""


def killed(code: str, root: Path, home: Path, argument: str = "") -> str:
    """Run `code` until it kills itself; what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code, str(root), str(home), argument],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == -9, done.stderr
    return done.stdout.strip()


def fill(root: Path) -> None:
    (root / "a.txt").write_bytes(b"a\r\n")
    (root / "d").mkdir()
    (root / "d" / "b").write_bytes(b"b")
    (root / "d" / "b").chmod(0o755)
    (root / "gone").write_bytes(b"gone")
    (root / "link").symlink_to("a.txt")


DAMAGE = "printf x > a.txt; rm gone; chmod 600 d/b; mkdir n; printf n > n/new; ln -sfn d link"


def test_the_files_that_an_interrupted_command_changed_are_known(
    project: Path, home: Path, settled: Settle
) -> None:
    fill(project)
    settled()
    before = picture(project)
    code = f"""
session = open_session(root, home=home, session_id="s", durability="process")
track_files(session)
print(session.user("go"))
sys.stdout.flush()
start({DAMAGE!r}, session)
die()
"""
    asked = killed(code, project, home)
    assert picture(project) != before
    with open_session(project, resume="s", home=home) as session:
        assert session.resumed is not None
        (settlement,) = session.resumed.uncertain
        assert len(settlement.outcome.changes) >= 5
        rewind_files(session, asked)
    assert picture(project) == before


def test_what_an_interrupted_command_removed_together_with_git_is_known_as_far_as_it_was_copied(
    begin: MakeWorld, project: Path
) -> None:
    for name in ("committed", "changed"):
        (project / name).write_bytes(b"1")
    commit_all(project)
    (project / "changed").write_bytes(b"2")
    (project / "untracked").write_bytes(b"2")
    world = begin()
    asked = world.ask()
    world.session.action("Bash", intent=OtherIntent()).start()
    for name in ("committed", "changed", "untracked"):
        (project / name).unlink()
    shutil.rmtree(project / ".git")
    world.again()
    plan = rewind_files(world.session, asked).plan
    assert sorted(path.name for path in project.iterdir()) == ["changed", "untracked"]
    assert (project / "changed").read_bytes() == b"2"
    assert any("git can't be used" in told for told in plan.not_covered)


def test_a_directory_that_an_interrupted_write_made_goes_back_with_it(
    project: Path, home: Path, settled: Settle
) -> None:
    fill(project)
    settled()
    before = picture(project)
    code = """
session = open_session(root, home=home, session_id="s", durability="process")
track_files(session)
print(session.user("go"))
sys.stdout.flush()
action = session.action("Write", intent=FileChange(root / "x" / "y" / "f", None, b"f"))
action.start()
(root / "x" / "y").mkdir(parents=True)
(root / "x" / "y" / "f").write_bytes(b"f")
die()
"""
    asked = killed(code, project, home)
    with open_session(project, resume="s", home=home) as session:
        rewind_files(session, asked)
    assert picture(project) == before


REWIND = f"""
session = open_session(root, home=home, session_id="s", durability="process")
track_files(session)
asked = session.user("go")
run({DAMAGE!r}, session)
print(asked)
sys.stdout.flush()
name, _, count = argument.partition(":")
die_at(name, int(count))
rewind_files(session, asked)
die()
"""

POINTS = [
    "after_rewind_journal:1",
    *(f"before_rewind_rename:{count}" for count in range(1, 4)),
    *(f"after_rewind_rename:{count}" for count in range(1, 4)),
    "before_write_event:1",
    "before_sync_event:1",
    "nowhere:1",
]


@pytest.mark.parametrize("point", POINTS)
def test_a_rewind_that_was_killed_is_finished_by_the_next_start_and_said(
    project: Path, home: Path, point: str
) -> None:
    fill(project)
    before = picture(project)
    asked = killed(REWIND, project, home, point)
    with open_session(project, resume="s", home=home) as session:
        assert picture(project) == before
        assert session.resumed is not None
        notices = session.resumed.notices
        if notices:
            assert "has been finished" in notices[0]
        else:
            assert point in {"nowhere:1", "before_write_event:1", "before_sync_event:1"}
        undo_files_rewind(session)
        assert (project / "a.txt").read_bytes() == b"x"
        rewind_files(session, asked)
        assert picture(project) == before
    assert not list(project.rglob(".rewake-*"))
    assert not (home / "rewind").exists()


def test_what_somebody_changed_between_the_crash_and_the_start_is_left_alone(
    project: Path, home: Path
) -> None:
    fill(project)
    killed(REWIND, project, home, "after_rewind_journal:1")
    (project / "a.txt").write_bytes(b"mine")
    with open_session(project, resume="s", home=home) as session:
        assert session.resumed is not None
        assert str(project / "a.txt") in session.resumed.notices[0]
    assert (project / "a.txt").read_bytes() == b"mine"
    assert (project / "gone").read_bytes() == b"gone"


def test_a_rewind_that_cannot_be_finished_is_rolled_back_and_said(
    project: Path, home: Path
) -> None:
    fill(project)
    killed(REWIND, project, home, "before_rewind_rename:2")
    digest = hashlib.sha256(b"gone").hexdigest()
    (blob,) = home.rglob(digest)
    blob.unlink()
    with open_session(project, resume="s", home=home) as session:
        assert session.resumed is not None
        assert "rolled back" in session.resumed.notices[0]
    assert (project / "a.txt").read_bytes() == b"x"
    assert (project / "n" / "new").read_bytes() == b"n"
    assert not (project / "gone").exists()
