"""A disk that fails at any moment, a kill at any moment: each session stays whole, here or there."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.archive.machines import LONG, Machine

from rewake.archive.container import ArchiveError
from rewake.archive.importing import check_archive, import_session
from rewake.errors import RewakeError, StorageError
from rewake.log.disk import CRASH_POINT_VARIABLE, Disk


class FailingDisk(Disk):
    """The n-th thing asked of it fails: a write takes only a part, everything else says why."""

    def __init__(self, fails_at: int) -> None:
        self.left = fails_at

    def _count(self) -> bool:
        self.left -= 1
        return self.left == 0

    def write(self, descriptor: int, data: bytes) -> int:
        return super().write(descriptor, data[: len(data) // 2] if self._count() else data)

    def sync(self, descriptor: int) -> None:
        self._fail(errno.EIO)
        super().sync(descriptor)

    def sync_directory(self, path: Path) -> None:
        self._fail(errno.EIO)
        super().sync_directory(path)

    def rename(self, source: Path, target: Path) -> None:
        self._fail(errno.ENOSPC)
        super().rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        self._fail(errno.ENOSPC)
        super().link(source, target)

    def make_directory(self, path: Path, *, sync: bool = True) -> None:
        if not path.is_dir():
            self._fail(errno.ENOSPC)
        super().make_directory(path, sync=sync)

    def _fail(self, number: int) -> None:
        if self._count():
            raise OSError(number, os.strerror(number))


def until_it_succeeds(do: Callable[[Disk], object], whole: Callable[[], object]) -> int:
    """Let each operation fail in turn; after each failure everything must be whole. How many failed."""
    for fails_at in range(1, 200):
        try:
            do(FailingDisk(fails_at))
        except StorageError:
            whole()
        else:
            return fails_at - 1
    raise AssertionError


def test_a_failing_disk_leaves_the_old_archive_or_none(here: Machine, tmp_path: Path) -> None:
    session_id = here.talk("one", answer=LONG)
    output = tmp_path / "out" / "x"
    output.parent.mkdir()
    output.write_bytes(b"the old one")

    def whole() -> None:
        assert [path.name for path in output.parent.iterdir()] == ["x"]
        if output.read_bytes() != b"the old one":
            check_archive(output)  # only the last sync failed

    failed = until_it_succeeds(lambda disk: here.export(session_id, output, disk=disk), whole)
    assert failed > 3
    check_archive(output)


def test_a_failing_disk_leaves_no_part_of_an_import(
    here: Machine, there: Machine, tmp_path: Path
) -> None:
    origin = here.talk("one", answer=LONG)
    session_id = here.fork(origin, "two")
    here.export(session_id, tmp_path / "x")
    appeared: list[bool] = []

    def whole() -> None:
        found = [paths.session_id for paths in there.at.layout.sessions()]
        if found:
            appeared.append(True)
            assert there.said(found[0]) == here.said(session_id)
        assert list(there.home.glob("projects/*/incoming/*")) == []

    def take(disk: Disk) -> None:
        if not appeared:
            there.take(tmp_path / "x", disk=disk)

    assert until_it_succeeds(take, whole) > 10
    assert there.said(session_id) == here.said(session_id)


def test_a_failing_disk_leaves_a_session_in_one_place(here: Machine) -> None:
    origin = here.talk("one", answer=LONG)
    fork = here.fork(origin, "two")
    before = here.said(fork)

    def whole() -> None:
        if [entry.session_id for entry in here.trash.entries()] == [origin]:
            here.trash.restore(here.trash.find(origin))  # only the last sync failed
        assert here.said(origin)[0] == "one"
        assert here.said(fork) == before

    assert until_it_succeeds(lambda disk: here.delete(origin, disk=disk), whole) > 5
    assert here.said(fork) == before
    assert [entry.session_id for entry in here.trash.entries()] == [origin]


# --- kills -----------------------------------------------------------------------------------

PROGRAM = """
import os, sys
from pathlib import Path
from tests.archive.machines import Machine
from rewake.log.disk import arm_crash_point

root, action, name = sys.argv[1:]
Machine.__post_init__ = lambda self: None
machine = Machine(Path(root))
collector = machine.collector() if action == "gc" else None
plan = collector.plan() if collector else None
arm_crash_point(os.environ)
if action == "delete":
    machine.delete(name)
elif action == "restore":
    machine.trash.restore(machine.trash.find(name))
elif action == "empty":
    machine.empty_trash()
elif action == "gc":
    collector.collect(plan)
elif action == "import":
    machine.take(Path(name))
else:
    session_id, output = name.split(":")
    machine.export(session_id, Path(output))
"""


def killed(machine: Machine, point: str, action: str, name: str = "") -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(machine.root), action, name],
        env={**os.environ, CRASH_POINT_VARIABLE: point, "PYTHONPATH": os.getcwd()},  # noqa: PTH109  # the root of the tests
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    "point",
    [
        "before_give_origin:1",
        "before_rename:1",
        "before_delete_session:1",
        "after_delete_session:1",
    ],
)
def test_a_delete_killed_at(here: Machine, point: str) -> None:
    origin = here.talk("one", answer=LONG)
    fork = here.fork(origin, "two")
    before = here.said(fork)
    killed(here, point, "delete", origin)
    assert here.said(fork) == before
    in_trash = [entry.session_id for entry in here.trash.entries()]
    assert in_trash == ([origin] if point.startswith("after_delete") else [])
    if not in_trash:
        assert here.said(origin)[0] == "one"
        here.delete(origin)
    assert len(list(here.trash.directory.iterdir())) == 1
    here.empty_trash()
    assert here.gc(days_later=2).leftovers >= 0
    assert here.said(fork) == before


@pytest.mark.parametrize("point", ["before_restore_session:1", "after_restore_session:1"])
def test_a_restore_killed_at(here: Machine, point: str) -> None:
    session_id = here.talk("one")
    here.delete(session_id)
    killed(here, point, "restore", session_id)
    if point.startswith("before"):
        here.trash.restore(here.trash.find(session_id))
    assert here.trash.entries() == []
    assert here.said(session_id)[0] == "one"
    here.gc(days_later=2)
    assert list(here.trash.directory.iterdir()) == []
    assert here.said(session_id)[0] == "one"


def test_an_emptying_killed_in_the_middle_is_finished_by_the_next_removal(here: Machine) -> None:
    here.delete(here.talk("one", answer=LONG))
    killed(here, "after_remove_entry:1", "empty")
    assert here.trash.entries() == []
    assert here.gc(days_later=2).leftovers == 1
    assert list(here.trash.directory.iterdir()) == []


@pytest.mark.parametrize("point", ["before_remove_blob:2", "after_remove_blob:2"])
def test_a_removal_killed_at(here: Machine, point: str) -> None:
    session_id = here.talk("one", answer=LONG)
    kept = here.blobs()
    with here.open() as session:
        for number in range(4):
            session.blobs.put(b"nobody's %d" % number)
    killed(here, point, "gc")
    left = len(here.blobs()) - len(kept)
    assert left == (3 if point.startswith("before") else 2)
    assert here.gc().blobs == left
    assert here.blobs() == kept
    assert here.said(session_id)[1] == LONG


@pytest.mark.parametrize(
    ("point", "appeared"),
    [
        ("after_write_blob:1", False),
        ("after_unpack_member:2", False),
        ("before_appear:1", False),
        ("after_appear:1", True),
    ],
)
def test_an_import_killed_at(
    here: Machine, there: Machine, tmp_path: Path, point: str, *, appeared: bool
) -> None:
    origin = here.talk("one", answer=LONG)
    session_id = here.fork(origin, "two")
    here.export(session_id, tmp_path / "x")
    killed(there, point, "import", str(tmp_path / "x"))
    found = [paths.session_id for paths in there.at.layout.sessions()]
    assert found == ([session_id] if appeared else [])
    assert there.take(tmp_path / "x").outcome == ("already_here" if appeared else "imported")
    assert there.said(session_id) == here.said(session_id)
    there.gc(days_later=2)
    assert list(there.home.glob("projects/*/incoming/*")) == []
    assert there.said(session_id) == here.said(session_id)


@pytest.mark.parametrize("point", ["before_rename_archive:1", "after_rename_archive:1"])
def test_an_export_killed_at(here: Machine, tmp_path: Path, point: str) -> None:
    session_id = here.talk("one")
    output = tmp_path / "x"
    output.write_bytes(b"the old one")
    killed(here, point, "export", f"{session_id}:{output}")
    if point.startswith("before"):
        assert output.read_bytes() == b"the old one"
    else:
        check_archive(output)


def test_an_archive_that_changes_between_look_and_import_is_refused(
    here: Machine, there: Machine, tmp_path: Path
) -> None:
    here.export(here.talk("one"), tmp_path / "x")
    checked = check_archive(tmp_path / "x")
    here.export(here.talk("another"), tmp_path / "x")
    with pytest.raises(ArchiveError):
        import_session(checked, there.home, there.project, Disk())
    assert list(there.at.layout.sessions()) == []


def test_an_archive_that_cant_be_read_is_told(there: Machine, tmp_path: Path) -> None:
    with pytest.raises(RewakeError, match="Could not open"):
        there.take(tmp_path / "nothing")
    with pytest.raises(RewakeError):
        there.take(tmp_path)
