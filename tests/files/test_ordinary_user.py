"""Files that an ordinary user can't read or write; as root these tests go on as somebody else."""

from __future__ import annotations

import os
import stat
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.files.conftest import World, age, commit_all

from rewake import Session, StorageError, open_session
from rewake.compose.files import plan_rewind, rewind_files, track_files

NOBODY = 65534


def as_ordinary_user(work: Callable[[Path], None]) -> None:
    """Run `work` in an empty directory of a user who isn't root; what it raises fails the test."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name).resolve()
        if os.geteuid() != 0:
            work(directory)
            return
        Path(name).parent.stat()
        os.chown(directory, NOBODY, NOBODY)
        with open_session(directory / "warm", durability="memory"):
            pass  # what is imported late must be there before the rights are gone
        child = os.fork()
        if child == 0:
            os._exit(_work_of_child(work, directory))
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0, "see what the child printed"


def _work_of_child(work: Callable[[Path], None], directory: Path) -> int:
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        work(directory)
    except BaseException:  # noqa: BLE001  # the parent's stack must not go on in the child
        traceback.print_exc()
        return 1
    return 0


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def begin(directory: Path) -> World:
    """A session on the project in the directory."""
    root, home = directory / "project", directory / "home"
    session: Session = open_session(root, home=home, durability="process")
    world = World(root, home, session)
    track_files(session, world.notices.append)
    return world


@pytest.mark.parametrize("is_repository", [False, True], ids=["plain", "git"])
def test_what_can_t_be_read_is_named_and_everything_else_goes_back(*, is_repository: bool) -> None:
    def work(directory: Path) -> None:
        root = directory / "project"
        (root / "closed").mkdir(parents=True)
        for name in ("a", "secret", "closed/in"):
            (root / name).write_bytes(b"1")
        if is_repository:
            commit_all(root)
        else:
            age(root)
        (root / "secret").chmod(0)
        (root / "closed").chmod(0)
        world = begin(directory)
        asked = world.ask()
        world.run("echo 2 > a; rm -f secret; chmod 700 closed; echo 2 > closed/in; chmod 0 closed")
        assert any("unreadable" in notice and "secret" in notice for notice in world.notices)
        plan = rewind_files(world.session, asked).plan
        assert (root / "a").read_bytes() == b"1"
        assert any("secret" in told for told in plan.not_covered)
        assert not plan.is_possible
        (root / "closed").chmod(0o700)
        world.close()

    as_ordinary_user(work)


def test_a_directory_that_can_t_be_written_to_leaves_every_file_as_it_was() -> None:
    def work(directory: Path) -> None:
        root = directory / "project"
        (root / "d").mkdir(parents=True)
        for name in ("a", "d/b", "z"):
            (root / name).write_bytes(b"1")
        age(root)
        world = begin(directory)
        asked = world.ask()
        world.run("for name in a d/b z; do echo 2 > $name; done")
        (root / "d").chmod(0o555)
        with pytest.raises(StorageError, match="none of them was changed") as error:
            rewind_files(world.session, asked)
        assert "d/b" in error.value.message or "Permission denied" in error.value.message
        assert [(root / name).read_bytes() for name in ("a", "d/b", "z")] == [b"2\n"] * 3
        assert sorted(path.name for path in root.rglob("*")) == ["a", "b", "d", "z"]
        (root / "d").chmod(0o755)
        assert len(rewind_files(world.session, asked).plan.changes) == 3
        world.close()

    as_ordinary_user(work)


def test_a_file_of_somebody_else_is_written_in_place_and_keeps_its_owner() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")

    def prepare(root: Path) -> None:
        root.mkdir()
        (root / "shared").write_bytes(b"1")
        (root / "shared").chmod(0o666)
        os.chown(root, NOBODY, NOBODY)

    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        root = Path(name).resolve() / "project"
        prepare(root)

        def work(directory: Path) -> None:
            session = open_session(root, home=directory / "home", durability="process")
            world = World(root, directory / "home", session)
            track_files(session)
            asked = world.ask()
            world.run("echo 22 > shared")
            assert not plan_rewind(session, asked).conflicts
            rewind_files(session, asked)
            world.close()

        as_ordinary_user(work)
        status = (root / "shared").stat()
        assert (root / "shared").read_bytes() == b"1"
        assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (0, 0o666)
