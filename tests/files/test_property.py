"""Whatever happens in whatever order: what the agent changed is back, what it didn't is untouched."""

from __future__ import annotations

# Paths are bytes here, because they may be no text.
# ruff: noqa: PTH101, PTH103, PTH104, PTH108, PTH112, PTH114, PTH120, PTH123, PTH211
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.files.conftest import World, age, commit_all, picture

from rewake import ShellIntent, open_session
from rewake.compose.files import rewind_files, track_files, undo_files_rewind
from rewake.resume import shell

Picture = dict[bytes, tuple[object, ...]]
Diff = dict[bytes, tuple[tuple[object, ...] | None, tuple[object, ...] | None]]

NAMES = [b"a", b"b", b"d/c", b"d/e/f", b"d/e/g", b"new\nline", b"\xff\xfe", b"l"]
CONTENTS = [b"", b"one\r\n", b"two\n", b"\0\1\2", b"x" * 300, "día\n".encode()]
MODES = [0o644, 0o755, 0o600]

names = st.sampled_from(NAMES)
contents = st.sampled_from(CONTENTS)
acts = st.one_of(
    st.tuples(st.just("write"), names, contents),
    st.tuples(st.just("remove"), names),
    st.tuples(st.just("chmod"), names, st.sampled_from(MODES)),
    st.tuples(st.just("link"), names, st.sampled_from([b"a", b"d", b"../outside", b"\xff"])),
    st.tuples(st.just("move"), names, names),
    st.tuples(st.just("mkdir"), st.sampled_from([b"d", b"d/e", b"a", b"empty/er"])),
    st.tuples(st.just("rmtree"), st.sampled_from([b"d", b"d/e", b"empty", b"a"])),
)
operations = st.one_of(
    st.tuples(st.just("tool"), names, contents),
    st.tuples(st.just("command"), st.lists(acts, min_size=1, max_size=4)),
    st.tuples(st.just("interrupted"), st.lists(acts, min_size=1, max_size=3)),
    st.tuples(st.just("outside"), names, contents),
    st.tuples(st.just("ask")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("rewind"), st.integers(0, 5)),
    st.tuples(st.just("undone"), st.integers(0, 5)),
)


def act(root: bytes, what: tuple[object, ...]) -> None:
    """One thing that a command does; what can't be done isn't."""
    kind, *rest = what
    path, *more = (root + b"/" + one if isinstance(one, bytes) else one for one in rest)
    assert isinstance(path, bytes)
    try:
        if kind == "write":
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(rest[1])  # type: ignore[arg-type]  # a content
        elif kind == "remove":
            os.unlink(path)
        elif kind == "chmod" and not os.path.islink(path):
            os.chmod(path, rest[1])  # type: ignore[arg-type]  # a mode
        elif kind == "link":
            os.symlink(rest[1], path)  # type: ignore[arg-type]  # a target
        elif kind == "move":
            os.rename(path, more[0])  # type: ignore[arg-type]  # a path
        elif kind == "mkdir":
            os.makedirs(path)
        elif kind == "rmtree" and not os.path.islink(path):
            shutil.rmtree(path)
    except OSError:
        pass  # as a command in a script that goes on


@dataclass
class Story:
    """A world, and beside it a plain record of every change: who made it, and what it was."""

    world: World
    steps: list[tuple[str, Diff]] = field(default_factory=list)
    points: list[tuple[str, int]] = field(default_factory=list)

    @property
    def root(self) -> bytes:
        return os.fsencode(self.world.root)

    def now(self) -> Picture:
        return picture(self.world.root)

    def by(self, who: str, do: Callable[[], object]) -> None:
        before = self.now()
        do()
        after = self.now()
        changed = {
            path: (before.get(path), after.get(path))
            for path in before.keys() | after.keys()
            if before.get(path) != after.get(path)
        }
        self.steps.append((who, changed))

    def tool(self, name: bytes, data: bytes) -> None:
        path = self.root + b"/" + name
        if os.path.islink(path) or os.path.isdir(path) or not _is_free(path, self.root):
            return
        try:
            name.decode()
        except UnicodeDecodeError:
            return  # this helper's paths are text
        self.by("agent", lambda: self.world.write(os.fsdecode(name), data))

    def command(self, what: list[tuple[object, ...]], *, dies: bool = False) -> None:
        session = self.world.session
        number = len(self.steps)
        intent = ShellIntent("…", str(self.world.root), f"outputs/{number}")
        action = session.action("Bash", intent=intent)
        action.start()

        def do() -> None:
            for one in what:
                act(self.root, one)

        self.by("agent", do)
        if not dies:
            action.complete("done")
            return
        directory = session.directory / f"outputs/{number}"
        directory.mkdir(parents=True)
        (directory / shell.START).write_text("{}")
        (directory / shell.ALIVE).write_text("")
        self.world.again()

    def outside(self, name: bytes, data: bytes) -> None:
        path = self.root + b"/" + name
        if os.path.lexists(path) and (os.path.islink(path) or os.path.isdir(path)):
            return
        if os.path.isdir(os.path.dirname(path)) and _is_free(path, self.root):
            self.by("outside", lambda: act(self.root, ("write", name, data)))

    def rewind(self, which: int, *, undone: bool) -> None:
        if not self.points:
            return
        message_id, since = self.points[which % len(self.points)]
        before = self.now()
        wanted, unsure = self.expected(since, before)
        self.by("agent", partial(rewind_files, self.world.session, message_id))
        after = self.now()
        for path in before.keys() | after.keys() | wanted.keys():
            if path not in unsure:
                assert after.get(path) == wanted.get(path), (path, since, self.steps)
        if undone and after != before:
            self.by("agent", partial(undo_files_rewind, self.world.session))
            assert self.now() == before

    def expected(self, since: int, now: Picture) -> tuple[Picture, set[bytes]]:
        """The tree after a rewind; and paths that others' files in directories make special."""
        chains: dict[bytes, list[tuple[object, object]]] = {}
        others: set[bytes] = set()
        for who, diff in self.steps[since:]:
            for path, (before, after) in diff.items():
                if who == "agent":
                    chains.setdefault(path, []).append((before, after))
                else:
                    others.add(path)
        wanted = dict(now)
        for path, chain in chains.items():
            follows = all(_content(one[1]) == _content(two[0]) for one, two in pairwise(chain))
            first = chain[0][0]
            if follows and now.get(path) == chain[-1][1]:
                if first is None:
                    wanted.pop(path, None)
                else:
                    wanted[path] = first  # type: ignore[assignment]  # an entry of a picture
        unsure = {
            path
            for path in now.keys() | wanted.keys()
            for other in others
            if path != other and (path.startswith(other + b"/") or other.startswith(path + b"/"))
        }
        return wanted, unsure


def _content(entry: object) -> object:
    """Without the mode, which doesn't say whether somebody else was there."""
    if not isinstance(entry, tuple):
        return entry
    return entry if entry[0] == "link" else (entry[0], *entry[2:])


def _is_free(path: bytes, root: bytes) -> bool:
    """Whether the way to a path is one of directories, as far as it goes."""
    parent = os.path.dirname(path)
    while parent != root:
        if os.path.lexists(parent) and (os.path.islink(parent) or not os.path.isdir(parent)):
            return False
        parent = os.path.dirname(parent)
    return True


def _fill(root: Path) -> None:
    for what in (
        ("write", b"a", b"one\r\n"),
        ("write", b"d/c", b"\0\1"),
        ("chmod", b"d/c", 0o755),
        ("write", b"d/e/f", b"f"),
        ("write", b"new\nline", b"n"),
        ("link", b"l", b"d"),
        ("mkdir", b"void"),
    ):
        act(os.fsencode(root), what)


@settings(
    max_examples=int(os.environ.get("REWAKE_FILES_EXAMPLES", "30")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(is_repository=st.booleans(), what=st.lists(operations, max_size=12))
def test_what_the_agent_changed_is_back_exactly_and_nothing_else(
    *,
    is_repository: bool,
    what: list[tuple[object, ...]],  # drawn
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve() / "project"
        root.mkdir()
        _fill(root)
        if is_repository:
            commit_all(root)
        else:
            age(root)
        home = Path(directory) / "home"
        session = open_session(root, home=home, durability="process")
        world = World(root, home, session)
        track_files(session, world.notices.append)
        story = Story(world)
        try:
            _tell(story, [("ask",), *what, ("rewind", 0)])
        finally:
            world.close()
        assert not [name for name in picture(root) if b".rewake-" in name]


def _tell(story: Story, what: list[tuple[object, ...]]) -> None:
    for kind, *rest in what:
        match kind:
            case "ask":
                story.points.append((story.world.ask(), len(story.steps)))
            case "tool":
                story.tool(*rest)  # type: ignore[arg-type]  # as drawn
            case "outside":
                story.outside(*rest)  # type: ignore[arg-type]  # as drawn
            case "command" | "interrupted":
                story.command(rest[0], dies=kind == "interrupted")  # type: ignore[arg-type]  # as drawn
            case "restart":
                story.world.again()
            case "rewind" | "undone":
                story.rewind(rest[0], undone=kind == "undone")  # type: ignore[arg-type]  # as drawn
