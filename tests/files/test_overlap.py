"""Calls that run at the same time: each change is on record once, and all of it can be taken back."""

from __future__ import annotations

# Paths are bytes here, because they may be no text.
# ruff: noqa: PTH112, PTH114, PTH120
import os
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.files.conftest import MakeWorld, World, age, commit_all, picture
from tests.files.test_property import Picture, act, acts, contents, names

from rewake import Action, ShellIntent, open_session
from rewake.compose.files import (
    file_changes,
    rewind_files,
    share_tracking,
    track_files,
    undo_files_rewind,
)
from rewake.model.events import Change, Outcome, ToolLifecycle
from rewake.resume import shell
from rewake.session.core import Session


def begin_command(session: Session, number: int = 0) -> Action:
    """A command that has been started and not ended."""
    intent = ShellIntent("…", str(session.root), f"outputs/{number}")
    action = session.action("Bash", intent=intent)
    action.start()
    return action


def ended(session: Session, action: Action) -> dict[str, tuple[Change, ...]]:
    """End a command; its changes by the name of the file."""
    action.complete("done")
    session.flush()
    with session.reader() as reader:
        for event in reader.backward():
            payload = getattr(event, "payload", None)
            if isinstance(payload, ToolLifecycle) and payload.call_id == action.call_id:
                changes = payload.outcome.changes if payload.outcome is not None else ()
                found: dict[str, tuple[Change, ...]] = {}
                for change in changes:
                    name = os.path.relpath(change.path, session.root)
                    found[name] = (*found.get(name, ()), change)
                return found
    raise AssertionError("no outcome is on record")


def test_each_of_two_calls_at_once_has_what_showed_while_it_was_the_only_one(
    project: Path, begin: MakeWorld, settled: Callable[[], None]
) -> None:
    (project / "a").write_bytes(b"1")
    settled()
    world = begin()
    world.ask()
    long = begin_command(world.session, 1)
    (project / "a").write_bytes(b"long")
    short = begin_command(world.session, 2)
    (project / "b").write_bytes(b"short")
    assert set(ended(world.session, short)) == {"b"}
    (project / "c").write_bytes(b"long")
    assert set(ended(world.session, long)) == {"a", "c"}


def test_an_edit_while_a_command_runs_is_the_edits_alone(
    project: Path, begin: MakeWorld, settled: Callable[[], None]
) -> None:
    (project / "a").write_bytes(b"1")
    settled()
    world = begin()
    asked = world.ask()
    long = begin_command(world.session)
    world.write("a", b"2")
    world.write("new/b", b"2")
    (project / "c").write_bytes(b"long")
    assert set(ended(world.session, long)) == {"c"}
    rewind_files(world.session, asked)
    assert {path.name: path.read_bytes() for path in project.glob("[a-z]*")} == {"a": b"1"}


def test_a_file_that_a_command_and_an_edit_change_in_turn_goes_back_to_before_both(
    project: Path, begin: MakeWorld, settled: Callable[[], None]
) -> None:
    (project / "a").write_bytes(b"1")
    settled()
    world = begin()
    asked = world.ask()
    long = begin_command(world.session)
    (project / "a").write_bytes(b"by the command")
    (project / "new").write_bytes(b"by the command")
    world.write("a", b"by the edit")
    world.write("new", b"by the edit")
    (project / "a").write_bytes(b"by the command again")
    ended(world.session, long)
    plan = rewind_files(world.session, asked).plan
    assert not plan.conflicts
    assert (project / "a").read_bytes() == b"1"
    assert not (project / "new").exists()
    undo_files_rewind(world.session)
    assert (project / "a").read_bytes() == b"by the command again"
    assert (project / "new").read_bytes() == b"by the edit"


def test_a_file_that_two_commands_change_is_on_record_in_the_order_of_its_contents(
    project: Path, begin: MakeWorld, settled: Callable[[], None]
) -> None:
    (project / "a").write_bytes(b"1")
    settled()
    world = begin()
    world.ask()
    first, second = begin_command(world.session, 1), begin_command(world.session, 2)
    (project / "a").write_bytes(b"2")
    (one,) = ended(world.session, second)["a"]
    (project / "a").write_bytes(b"3")
    (two,) = ended(world.session, first)["a"]
    assert one.after == two.before
    assert one.before.size == two.after.size == 1


def test_sessions_that_share_tracking_have_each_change_once(
    project: Path, begin: MakeWorld, settled: Callable[[], None]
) -> None:
    settled()
    world = begin()
    with open_session(project, home=world.home, durability="process") as child:
        share_tracking(world.session, child)
        ours, theirs = begin_command(world.session), begin_command(child)
        (project / "a").write_bytes(b"somebody's")
        found = [ended(child, theirs), ended(world.session, ours)]
    assert [set(one) for one in found] == [{"a"}, set()]


def test_calls_of_many_threads_leave_one_history(
    project: Path, begin: MakeWorld, settled: Callable[[], None]
) -> None:
    settled()
    world = begin()
    asked = world.ask()
    before = picture(project)
    together = threading.Barrier(4)

    def work(number: int) -> None:
        together.wait()
        for turn in range(5):
            action = begin_command(world.session, number * 10 + turn)
            (project / "shared").write_bytes(b"%d %d" % (number, turn))
            (project / f"own{number}").write_bytes(b"%d" % turn)
            action.complete("done")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = picture(project)
    plan = rewind_files(world.session, asked).plan
    assert not plan.conflicts, plan.conflicts
    assert picture(project) == before
    undo_files_rewind(world.session)
    assert picture(project) == after


def test_a_call_that_is_cut_short_gets_what_was_changed_while_others_ran_beside_it(
    project: Path, begin: MakeWorld, settled: Callable[[], None]
) -> None:
    (project / "a").write_bytes(b"1")
    settled()
    world = begin()
    asked = world.ask()
    before = picture(project)
    leave_open(world, 1)
    (project / "a").write_bytes(b"2")
    short = begin_command(world.session, 2)
    (project / "b").write_bytes(b"2")
    short.complete("done")
    (project / "c").write_bytes(b"2")
    world.again()
    told = [diff.shown for diff in file_changes(world.session.session_id, home=world.home)]
    assert told == ["a", "b", "c"]
    assert not rewind_files(world.session, asked).plan.conflicts
    assert picture(project) == before


def leave_open(world: World, number: int) -> Action:
    """A command of which a dead process leaves that it had begun."""
    action = begin_command(world.session, number)
    directory = world.session.directory / f"outputs/{number}"
    directory.mkdir(parents=True)
    (directory / shell.START).write_text("{}")
    (directory / shell.ALIVE).write_text("")
    return action


# --- whatever overlaps -----------------------------------------------------------------------

overlapping = st.one_of(
    st.tuples(st.just("begin")),
    st.tuples(st.just("act"), acts),
    st.tuples(st.just("act"), acts),
    st.tuples(st.just("end"), st.integers(0, 3)),
    st.tuples(st.just("tool"), names, contents),
    st.tuples(st.just("ask")),
    st.tuples(st.just("killed")),
    st.tuples(st.just("rewind"), st.integers(0, 5)),
)


@dataclass
class Crowd:
    """A world in which several calls are at work."""

    world: World
    at_work: list[Action] = field(default_factory=list)
    points: list[tuple[str, Picture]] = field(default_factory=list)
    count: int = 0

    def do(self, kind: str, *rest: object) -> None:
        getattr(self, kind)(*rest)

    def begin(self) -> None:
        self.count += 1
        self.at_work.append(leave_open(self.world, self.count))

    def act(self, what: tuple[object, ...]) -> None:
        if self.at_work:
            act(os.fsencode(self.world.root), what)

    def end(self, which: int) -> None:
        if self.at_work:
            self.at_work.pop(which % len(self.at_work)).complete("done", outcome=Outcome())

    def tool(self, name: bytes, data: bytes) -> None:
        path = os.fsencode(self.world.root) + b"/" + name
        if os.path.islink(path) or os.path.isdir(path) or not name.isascii():
            return
        parent = os.path.dirname(path)
        while not os.path.lexists(parent):
            parent = os.path.dirname(parent)
        if os.path.realpath(parent) == parent and os.path.isdir(parent):
            self.world.write(os.fsdecode(name), data)

    def ask(self) -> None:
        if not self.at_work:
            self.points.append((self.world.ask(), picture(self.world.root)))

    def killed(self) -> None:
        self.at_work.clear()
        self.world.again()

    def rewind(self, which: int) -> None:
        while self.at_work:
            self.end(0)
        if not self.points:
            return
        message_id, wanted = self.points[which % len(self.points)]
        before = picture(self.world.root)
        plan = rewind_files(self.world.session, message_id).plan
        assert not plan.conflicts, plan.conflicts
        assert picture(self.world.root) == wanted
        if plan.changes:
            undo_files_rewind(self.world.session)
            assert picture(self.world.root) == before


@settings(
    max_examples=int(os.environ.get("REWAKE_FILES_EXAMPLES", "30")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(is_repository=st.booleans(), what=st.lists(overlapping, max_size=24))
def test_whatever_overlaps_all_of_it_is_back_exactly(
    *,
    is_repository: bool,
    what: list[tuple[str, ...]],  # drawn
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve() / "project"
        root.mkdir()
        for one in (("write", b"a", b"one\r\n"), ("write", b"d/c", b"\0\1"), ("link", b"l", b"d")):
            act(os.fsencode(root), one)
        if is_repository:
            commit_all(root)
        else:
            age(root)
        home = Path(directory) / "home"
        world = World(root, home, open_session(root, home=home, durability="process"))
        track_files(world.session)
        crowd = Crowd(world)
        crowd.ask()
        for kind, *rest in what:
            crowd.do(kind, *rest)
        crowd.rewind(0)
        world.close()
