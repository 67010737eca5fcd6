"""Many processes, one session: exactly one writes at a time, and a dead one blocks nobody."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from tests.concurrency.conftest import Spawn

import rewake
from rewake.errors import LockUnsupportedError
from rewake.log.disk import Disk
from rewake.log.scan import Transcript
from rewake.model.events import Event, Message

# Tries until it was the writer as often as told. A file made with O_EXCL proves that it was alone.
_TAKE_TURNS = """
turns, busy = 0, 0
alone = home / "alone"
while turns < int(arguments[1]):
    try:
        session = rewake.open_session(project, home=home, resume="s", durability="process", trace=False)
    except rewake.SessionBusyError as error:
        assert "process" in error.holder and error.remedy
        busy += 1
        continue
    os.close(os.open(alone, os.O_CREAT | os.O_EXCL))
    session.user(f"{arguments[0]}.{turns}")
    alone.unlink()
    session.close()
    turns += 1
say(busy)
"""
_HOLD = """
session = rewake.open_session(project, home=home, resume="s")
session.user("held")
say("open")
hear()
"""
_HOLD_WITH_CHILD = """
session = rewake.open_session(project, home=home, resume="s")
if os.fork() == 0:
    say("forked")
    hear()
    os._exit(0)
hear()
"""


@pytest.fixture(autouse=True)
def session(home: Path, project: Path) -> None:
    rewake.open_session(project, home=home, session_id="s").close()


def events(home: Path) -> list[Event]:
    (path,) = home.glob("projects/*/sessions/s/transcript.jsonl")
    with Transcript(path) as reader:
        found = list(reader.forward())
    assert all(isinstance(item, Event) for item in found)
    return [item for item in found if isinstance(item, Event)]


def lock_file(home: Path) -> Path:
    (directory,) = home.glob("projects/*/sessions/s")
    return directory / "lock"


@pytest.mark.parametrize("count", [2, 8])
def test_of_many_processes_exactly_one_writes_at_a_time(
    spawn: Spawn, home: Path, count: int
) -> None:
    turns = 3
    children = [spawn(_TAKE_TURNS, str(number), str(turns)) for number in range(count)]
    for child in children:
        assert child.hear().isdigit(), "it found another writer inside, or failed"
    found = events(home)
    said = [str(e.payload.content[0]) for e in found if isinstance(e.payload, Message)]
    assert len(said) == len(set(said)) == count * turns
    ids = [event.event_id for event in found]
    assert ids == sorted(set(ids))
    assert [event.seq for event in found] == list(range(len(found)))
    assert [event.parent_id for event in found] == [None, *ids[:-1]]


def test_sixteen_openers_of_a_held_session_are_all_told_who_holds_it(
    spawn: Spawn, home: Path, project: Path
) -> None:
    holder = spawn(_HOLD)
    assert holder.hear() == "open"
    others = [
        spawn(
            """
try:
    rewake.open_session(project, home=home, resume="s")
except rewake.SessionBusyError as error:
    say(error.holder)
"""
        )
        for _ in range(15)
    ]
    for other in others:
        assert f"process {holder.process.pid} " in other.hear()
    holder.kill()
    rewake.open_session(project, home=home, resume="s").close()


def test_a_killed_writer_blocks_nobody_even_if_its_forked_child_lives_on(
    spawn: Spawn, home: Path, project: Path
) -> None:
    holder = spawn(_HOLD_WITH_CHILD)
    assert holder.hear() == "forked"
    holder.kill()
    with rewake.open_session(project, home=home, resume="s") as session:
        session.user("mine now")


@pytest.mark.parametrize("boot_id", ["", "another boot"])
def test_what_a_dead_holder_left_in_the_lock_blocks_nobody_whoever_has_its_pid_now(
    home: Path, project: Path, boot_id: str
) -> None:
    # The pid is that of a living process: this one.
    left = {"pid": os.getpid(), "host": os.uname().nodename, "boot_id": boot_id}
    lock_file(home).write_text(json.dumps(left))
    rewake.open_session(project, home=home, resume="s").close()


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK])
def test_a_file_system_that_can_not_lock_is_refused_with_advice(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Disk, "lock", fail)
    before = events(home)
    with pytest.raises(LockUnsupportedError, match="REWAKE_HOME"):
        rewake.open_session(project, home=home, resume="s")
    assert events(home) == before


def test_a_reader_during_writes_sees_only_whole_events_and_none_of_them_twice(
    spawn: Spawn, home: Path, project: Path
) -> None:
    writer = spawn(
        """
with rewake.open_session(project, home=home, resume="s", durability="process") as session:
    say("open")
    for number in range(3000):
        session.append(rewake.Message("assistant", (rewake.Text("x" * (number % 997)),)))
say("done")
"""
    )
    assert writer.hear() == "open"
    (path,) = home.glob("projects/*/sessions/s/transcript.jsonl")
    seen = 0
    ended = False
    while not ended:
        ended = writer.process.poll() is not None  # so that one more look follows the end
        with Transcript(path) as reader:
            found = list(reader.forward())
        # The last item may be a write that is happening right now; everything before is an event.
        whole = found if found and isinstance(found[-1], Event) else found[:-1]
        assert all(isinstance(item, Event) for item in whole)
        assert [item.seq for item in whole if isinstance(item, Event)] == list(range(len(whole)))
        assert len(whole) >= seen
        seen = len(whole)
    assert seen > 3000
    assert rewake.resume("s", project=project, home=home).damage == ()
