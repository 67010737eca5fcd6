"""Deleting is a move; forks keep their history; restoring brings back the very same bytes."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest
from tests.archive.machines import LONG, Machine

from rewake.compose.archives import delete
from rewake.compose.place import find_session
from rewake.doctor.check import check
from rewake.doctor.subject import Subject
from rewake.errors import SessionBusyError, SessionNotFoundError, UsageError
from rewake.log.disk import Disk
from rewake.log.project_lock import ForksLock
from rewake.resume.lineage import origin_path


def ids(here: Machine) -> list[str]:
    return sorted(paths.session_id for paths in here.at.layout.sessions())


def test_a_deleted_session_is_in_the_trash_and_comes_back_byte_for_byte(here: Machine) -> None:
    session_id = here.talk("one", answer=LONG)
    before = here.paths(session_id).transcript.read_bytes()
    deleted = here.delete(session_id)
    assert ids(here) == []
    with pytest.raises(SessionNotFoundError) as gone:
        find_session(here.at, session_id)
    assert f"rewake trash restore {session_id}" in gone.value.remedy
    assert [entry.session_id for entry in here.trash.entries()] == [session_id]
    assert deleted.trashed.name == f"2026-01-02-{session_id}"
    restored = here.trash.restore(here.trash.find(session_id[:8]))
    assert restored.transcript.read_bytes() == before
    assert here.trash.entries() == []
    assert list(here.trash.directory.iterdir()) == []
    assert here.said(session_id)[1] == LONG


def test_a_running_session_is_refused_and_its_holder_named(here: Machine) -> None:
    with here.open() as session:
        session.user("at work")
        with pytest.raises(SessionBusyError, match="process"):
            here.delete(session.session_id)
        assert here.paths(session.session_id).transcript.exists()
    assert here.trash.entries() == []


def test_the_trash_remembers_title_and_size(here: Machine) -> None:
    session_id = here.talk("Make the tests pass")
    done = delete(session_id[:13], project=here.project, home=here.home)
    (entry,) = here.trash.entries()
    assert entry == done.trashed
    assert entry.title == "Make the tests pass"
    assert entry.size > 0


def test_the_same_id_can_be_deleted_again(here: Machine, tmp_path: Path) -> None:
    session_id = here.talk()
    here.export(session_id, tmp_path / "x")
    here.delete(session_id)
    here.take(tmp_path / "x")
    here.delete(session_id)
    assert len(here.trash.entries()) == 2
    with pytest.raises(SessionNotFoundError, match="2 sessions"):
        here.trash.find(session_id[:8])
    here.trash.restore(here.trash.find(f"2026-01-02-{session_id}-2"))
    with pytest.raises(UsageError, match="again"):
        here.trash.restore(here.trash.entries()[0])
    assert len(here.trash.entries()) == 1


def test_nothing_of_that_name_in_the_trash(here: Machine) -> None:
    with pytest.raises(SessionNotFoundError, match="No session"):
        here.trash.find("nonsense")


# --- forks -----------------------------------------------------------------------------------


def test_a_fork_keeps_its_history_after_its_origin_is_gone_for_good(here: Machine) -> None:
    origin = here.talk("one", "two", answer=LONG)
    fork = here.fork(origin, "three")
    before = here.said(fork)
    assert here.delete(origin).forks == (fork,)
    assert here.said(fork) == before
    here.empty_trash()
    here.gc(days_later=2)
    assert here.said(fork) == before
    assert check(Subject.of(here.paths(fork), Disk()), Disk(), deep=True).ok


def test_a_fork_of_a_fork_too_in_whatever_order_they_go(here: Machine) -> None:
    for order in ((0, 1), (1, 0)):
        chain = [here.talk("one", answer=LONG)]
        chain.append(here.fork(chain[0], "two"))
        youngest = here.fork(chain[1], "three")
        before = here.said(youngest)
        for index in order:
            here.delete(chain[index])
            here.empty_trash()
            here.gc(days_later=2)
        assert here.said(youngest) == before
        assert check(Subject.of(here.paths(youngest), Disk()), Disk(), deep=True).ok
        with here.open(youngest) as session:
            session.rewind(next(iter(session.state.conversation.entries)).message_id)


def test_a_fork_in_the_trash_keeps_its_history_too(here: Machine) -> None:
    origin = here.talk("one")
    fork = here.fork(origin, "two")
    before = here.said(fork)
    here.delete(fork)
    here.delete(origin)
    here.trash.remove(here.trash.find(origin))
    here.trash.restore(here.trash.find(fork))
    assert here.said(fork) == before


def test_an_origin_that_comes_back_and_goes_on_disturbs_no_fork(here: Machine) -> None:
    origin = here.talk("one")
    fork = here.fork(origin, "two")
    before = here.said(fork)
    here.delete(origin)
    here.trash.restore(here.trash.find(origin))
    with here.open(origin) as session:
        session.user("went on")
    assert here.said(fork) == before
    assert here.said(origin)[-1] == "went on"


def test_the_transcript_is_not_copied_for_a_fork(here: Machine) -> None:
    origin = here.talk("one")
    fork = here.fork(origin, "two")
    here.delete(origin)
    held = origin_path(here.paths(fork).directory, origin)
    assert held.samefile(Path(here.trash.entries()[0].path) / "transcript.jsonl")


def test_without_hard_links_it_is_copied(here: Machine) -> None:
    class NoLinks(Disk):
        def link(self, source: Path, target: Path) -> None:
            raise OSError(errno.EPERM, "no links here")

    origin = here.talk("one")
    fork = here.fork(origin, "two")
    before = here.said(fork)
    here.delete(origin, disk=NoLinks())
    here.empty_trash()
    assert here.said(fork) == before


def test_a_fork_waits_until_a_delete_is_through(here: Machine) -> None:
    origin = here.talk("one")
    project = here.paths(origin).project
    started = threading.Event()
    made: list[str] = []

    def fork() -> None:
        started.set()
        made.append(here.fork(origin, "two"))

    with ForksLock(project, Disk()):
        thread = threading.Thread(target=fork)
        thread.start()
        started.wait()
        assert made == []
        assert len(ids(here)) == 1
    thread.join()
    assert here.delete(origin).forks == tuple(made)
