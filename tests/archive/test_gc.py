"""What nobody names goes; what anybody may name stays; and nothing goes unannounced."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.archive.machines import LONG, Machine

import rewake
from rewake.archive import gc
from rewake.archive.gc import projects
from rewake.archive.retention import Aged, over_quota, parse_age, parse_size, too_old
from rewake.errors import SessionBusyError, StorageError, UsageError
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk
from rewake.log.layout import SessionPaths
from rewake.log.project_lock import ProjectLock


def store(here: Machine) -> BlobStore:
    return BlobStore(
        here.at.layout.project_directory(here.project) / "blobs", Disk(), durable=False
    )


def test_only_blobs_that_nobody_names_go(here: Machine) -> None:
    here.talk("one", answer=LONG)
    kept = here.blobs()
    useless = store(here).put(b"nobody's")
    plan = here.collector().plan()
    assert [Path(item.path).name for item in plan.useless] == [useless]
    assert plan.kept == len(kept) == 1
    assert here.gc().blobs == 1
    assert here.blobs() == kept
    assert here.collector().plan().useless == ()


def test_a_plan_removes_nothing(here: Machine) -> None:
    here.talk()
    store(here).put(b"nobody's")
    here.collector().plan()
    assert len(here.blobs()) == 1


def test_blobs_of_sessions_in_the_trash_stay_until_it_is_emptied(here: Machine) -> None:
    session_id = here.talk("one", answer=LONG)
    here.delete(session_id)
    assert here.gc().blobs == 0
    here.empty_trash()
    assert here.gc().blobs == 1


@pytest.mark.parametrize(
    "where",
    [
        "transcript.jsonl",
        "transcript.damaged-20260101T000000Z.jsonl",
        "transcript (conflicted copy).jsonl",
        "agents/helper.jsonl",
        "origins/gone.jsonl",
        "files/before",
    ],
)
@pytest.mark.parametrize(
    "line", [b"not JSON %b\n", b'torn {"sha256":"%b"', b'{"a":"x\xff%b"}\n', b"\xd9@%b9", b"a%b\n"]
)
def test_a_name_anywhere_in_any_line_keeps_a_blob(here: Machine, where: str, line: bytes) -> None:
    session_id = here.talk()
    name = store(here).put(b"perhaps somebody's")
    path = here.paths(session_id).directory / where
    path.parent.mkdir(exist_ok=True)
    with path.open("ab") as file:
        file.write(line % name.encode())
    assert here.gc().blobs == 0


def test_what_a_spilled_payload_names_stays(here: Machine) -> None:
    with here.open() as session:
        picture = rewake.Image("image/png", session.blobs.put(b"png"), 3)
        session.user([rewake.Text(LONG), picture])
    assert len(here.blobs()) == 2
    assert here.gc().blobs == 0


def test_a_session_that_cant_be_read_may_name_anything(here: Machine) -> None:
    session_id = here.talk()
    store(here).put(b"nobody's")
    directory = here.paths(session_id).directory
    (directory / "transcript.jsonl").unlink()
    (directory / "transcript.jsonl").symlink_to("transcript.jsonl")
    with pytest.raises(StorageError, match="may name any blob"):
        here.gc()
    assert len(here.blobs()) == 1


def test_while_a_session_is_written_nothing_goes_and_its_holder_is_named(here: Machine) -> None:
    here.talk()
    useless = store(here).put(b"nobody's")
    with here.open() as session:
        session.user("at work")
        collector = here.collector()
        plan = collector.plan()
        with pytest.raises(SessionBusyError, match=session.session_id):
            collector.collect(plan)
    assert useless in here.blobs()
    assert collector.collect(plan).blobs == 1


def test_a_session_waits_while_blobs_are_removed(here: Machine) -> None:
    here.talk()
    project = here.at.layout.project_directory(here.project)
    started = threading.Event()
    made: list[str] = []

    def talk() -> None:
        started.set()
        made.append(here.talk())

    with ProjectLock(project, Disk(), "exclusive"):
        thread = threading.Thread(target=talk)
        thread.start()
        started.wait()
        assert made == []
    thread.join()
    assert made


def test_what_was_named_after_the_look_stays(here: Machine) -> None:
    here.talk()
    content = b"nobody's yet"
    store(here).put(content)
    collector = here.collector()
    plan = collector.plan()
    assert len(plan.useless) == 1
    with here.open() as session:
        picture = rewake.Image("image/png", session.blobs.put(content), len(content))
        session.user([rewake.Text("mine"), picture])
    assert collector.collect(plan).blobs == 0
    assert len(here.blobs()) == 1


WRITER = """
import sys
import rewake

project, home = sys.argv[1:]
for turn in range(12):
    with rewake.open_session(project, home=home, durability="process", resume=None) as session:
        for number in range(4):
            data = b"picture %d" % ((turn * 4 + number) % 7)
            picture = rewake.Image("image/png", session.blobs.put(data), len(data))
            session.user([rewake.Text("look"), picture])
"""


def test_removing_beside_writers_never_takes_what_a_line_names(here: Machine) -> None:
    """Other processes store, name and go on storing the same blobs while they are being removed."""
    first = here.talk()
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(here.project), str(here.home)])
        for _ in range(2)
    ]
    removed = 0
    while any(writer.poll() is None for writer in writers):
        for content in range(7):
            store(here).put(b"nobody's %d" % content)
        try:
            removed += here.gc().blobs
        except SessionBusyError:
            continue
    assert [writer.returncode for writer in writers] == [0, 0]
    removed += here.gc().blobs
    assert removed
    for paths in here.at.layout.sessions():
        if paths.session_id != first:
            with here.open(paths.session_id) as session:
                for message in session.view():
                    for block in message.content:
                        if isinstance(block, rewake.Image):
                            assert session.blobs.get(block.sha256).startswith(b"picture")


def test_only_old_leftovers_go(here: Machine) -> None:
    session_id = here.talk("one", answer=LONG)
    directory = here.paths(session_id).directory
    project = directory.parent.parent
    leftovers = [
        directory / ".transcript.jsonl.repaired.tmp",
        project / "blobs" / ".x.tmp",
        project / "incoming" / "0123.tmp" / "transcript.jsonl",
        here.home / "trash" / "2026-01-01-x.removing" / "session" / "transcript.jsonl",
    ]
    for path in leftovers:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    assert here.gc().leftovers == 0
    assert here.gc(days_later=2).leftovers == len(leftovers)
    assert not any(path.exists() for path in leftovers)
    assert here.said(session_id)


def test_a_write_that_ends_while_leftovers_are_looked_for_is_no_error(
    here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    blobs = here.paths(here.talk("one", answer=LONG)).blobs
    temporary = blobs / ".being-written.tmp"
    temporary.write_bytes(b"half")
    is_temporary = gc._is_temporary

    def finished_meanwhile(path: Path) -> bool:
        found = is_temporary(path)
        if path == temporary:
            path.unlink()
        return found

    monkeypatch.setattr(gc, "_is_temporary", finished_meanwhile)
    assert here.gc(days_later=2).leftovers == 0
    assert not temporary.exists()


def test_a_half_removed_trash_entry_is_no_session_any_more(here: Machine) -> None:
    here.delete(here.talk())
    (entry,) = here.trash.directory.iterdir()
    entry.rename(entry.with_name(f"{entry.name}.removing"))
    assert here.trash.entries() == []
    assert len(here.trash.leftovers()) == 1


def test_projects_of_a_home(here: Machine, there: Machine) -> None:
    assert projects(here.home) == []
    here.talk()
    assert projects(here.home) == [here.at.layout.project_directory(here.project)]


# --- limits ----------------------------------------------------------------------------------


def aged(*items: tuple[float, int, bool]) -> list[Aged]:
    return [
        Aged(SessionPaths(Path("p"), str(index)), changed_at, size, "", is_running)
        for index, (changed_at, size, is_running) in enumerate(items)
    ]


def names(found: list[Aged]) -> list[str]:
    return [item.paths.session_id for item in found]


def test_the_oldest_go_first_and_running_ones_never() -> None:
    sessions = aged((1.0, 100, True), (2.0, 100, False), (3.0, 100, False), (4.0, 100, False))
    assert names(over_quota(sessions, 450, 300)) == ["1", "2"]
    assert names(over_quota(sessions, 450, 450)) == []
    assert names(too_old(sessions, 10.0, 13.5)) == ["1", "2"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("36h", 129_600), ("30d", 2_592_000), ("8w", 4_838_400), (" 1Y ", 31_536_000)],
)
def test_ages(text: str, seconds: float) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("500", 500), ("500MB", 500_000_000), ("1.5 gb", 1_500_000_000), ("2T", 2 * 10**12)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1.5d", "1 day"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no age"):
        parse_age(text)


@pytest.mark.parametrize("text", ["", "MB", "-1", "5 apples", "1e9"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no size"):
        parse_size(text)


def test_a_forked_child_gives_the_lock_up(here: Machine) -> None:
    here.talk()
    project = here.at.layout.project_directory(here.project)
    lock = ProjectLock(project, Disk(), "shared")
    here_read, child_write = os.pipe()
    child_read, here_write = os.pipe()
    child = os.fork()
    if child == 0:  # it lives until the parent lets it go
        os.write(child_write, b"x")
        os.close(here_write)
        os.read(child_read, 1)
        os._exit(0)
    os.read(here_read, 1)
    lock.abandon_after_fork()  # closed as by the end of the process
    ProjectLock(project, Disk(), "exclusive").release()
    os.close(here_write)
    os.waitpid(child, 0)
    for descriptor in (here_read, child_write, child_read):
        os.close(descriptor)
