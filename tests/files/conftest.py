"""A project in a temporary directory, with and without git, and an agent's hand in it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rewake import FileChange, Session, ShellIntent, open_session
from rewake.compose.files import track_files

GIT_ENVIRONMENT = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def git(root: Path, *arguments: str) -> bytes:
    """Run the user's git."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *arguments],
        cwd=root,
        env=environ | GIT_ENVIRONMENT,
        check=True,
        capture_output=True,
    )
    return done.stdout


def age(root: Path, seconds: int = 100) -> None:
    """Make every file older, as files of a project usually are."""
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)  # noqa: PTH118  # names may be no text
            status = os.lstat(path)
            when = status.st_mtime_ns - seconds * 1_000_000_000
            os.utime(path, ns=(when, when), follow_symlinks=False)


@dataclass
class World:
    """One project with one session at work in it."""

    root: Path
    home: Path
    session: Session
    notices: list[str] = field(default_factory=list)

    def ask(self, text: str = "Do it") -> str:
        """A prompt of the user: the point to go back to."""
        return self.session.user(text)

    def run(self, command: str, *, check: bool = True) -> None:
        """What the agent's shell tool does, by the same records."""
        intent = ShellIntent(command, str(self.root), "outputs/x")
        with self.session.action("Bash", intent=intent) as action:
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                cwd=self.root,
                check=False,
                capture_output=True,  # a shell is meant
            )
            assert not check or done.returncode == 0, done.stderr
            if done.returncode == 0:
                action.complete("done")
            else:
                action.fail("failed")

    def write(self, name: str, data: bytes) -> None:
        """What a file tool does, by the same records."""
        path = self.root / name
        before = path.read_bytes() if path.exists() else None
        change = FileChange(path, before, data)
        with self.session.action("Write", intent=change):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    def close(self) -> None:
        """End the session that is open now."""
        self.session.close()

    def again(self) -> None:
        """End this process's work and go on in another."""
        session_id = self.session.session_id
        self.session.close()
        self.resume(session_id)

    def resume(self, session_id: str) -> None:
        """Open the session as a new process would."""
        self.session = open_session(self.root, resume=session_id, home=self.home)
        track_files(self.session, self.notices.append)


MakeWorld = Callable[[], World]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    return root.resolve()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def begin(project: Path, home: Path) -> Iterator[MakeWorld]:
    """Opens a session on the project as it is then."""
    with ExitStack() as stack:

        def make() -> World:
            session = open_session(project, home=home, durability="process")
            world = World(project, home, session)
            track_files(session, world.notices.append)
            stack.callback(world.close)
            return world

        yield make


@pytest.fixture(params=["plain", "git"])
def kind(request: pytest.FixtureRequest) -> str:
    """Whether the project is a git repository."""
    return str(request.param)


def commit_all(root: Path) -> None:
    """Make the project a repository with everything in it committed."""
    age(root)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", "first")


@pytest.fixture
def settled(project: Path, kind: str) -> Callable[[], None]:
    """Ends the making of a project: committed where there is git."""

    def settle() -> None:
        if kind == "git":
            commit_all(project)
        else:
            age(project)

    return settle


def picture(root: Path) -> dict[bytes, tuple[object, ...]]:
    """Everything below a directory: kind, permissions and content, by path in bytes."""
    found: dict[bytes, tuple[object, ...]] = {}
    top = os.fsencode(root)
    for directory, names, files in os.walk(top):
        if directory == top and b".git" in names:
            names.remove(b".git")
        for name in [*names, *files]:
            path = os.path.join(directory, name)  # noqa: PTH118  # bytes
            status = os.lstat(path)
            key = os.path.relpath(path, top)
            if os.path.islink(path):  # noqa: PTH114  # bytes
                found[key] = ("link", os.readlink(path))  # noqa: PTH115  # bytes
            elif os.path.isdir(path):  # noqa: PTH112  # bytes
                found[key] = ("directory", status.st_mode)
            else:
                with open(path, "rb") as file:  # noqa: PTH123  # bytes
                    found[key] = ("file", status.st_mode, file.read())
    return found
