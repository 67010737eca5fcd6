"""The recorder: one order for the fold, the file and the ids; what is durable when; late usage."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rewake.errors import InvalidValueError, PoisonedError, StorageError, UsageError
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk
from rewake.model.codec import CorruptLine, decode_payload
from rewake.model.content import Text, ToolCall, Usage
from rewake.model.events import (
    Checkpoint,
    Event,
    History,
    Message,
    MessageAmendment,
    Metadata,
    Rewind,
    Spilled,
)
from rewake.record.queue import EVENTS_MAX
from rewake.record.recorder import LINE_PAYLOAD_BYTES_MAX, Recorder


def user(text: str = "hello") -> Message:
    return Message("user", (Text(text),))


def assistant(text: str = "hello", usage: Usage | None = None) -> Message:
    return Message("assistant", (Text(text),), usage=usage)


# --- the line --------------------------------------------------------------------------------


def test_a_line_has_its_keys_in_the_order_of_the_format(world: Any) -> None:
    world.recorder().submit(user("Größe"), step=3)
    line = world.path.read_bytes()
    event = world.folded[0]
    assert line.startswith(
        b'{"event_id":"%b","parent_id":null,"seq":0,"timestamp":"2023-11-14T22:13:20.000000Z"'
        b',"session_id":"session","run_id":"run","step":3,"event_type":"message"'
        b',"schema_version":1,"payload":{"role":"user",' % event.event_id.encode()
    )
    assert world.events()[0].payload == user("Größe")


def test_a_sidechain_s_lines_name_their_agent(world: Any) -> None:
    world.recorder(agent_id='a"1').submit(user())
    assert world.events()[0].agent_id == 'a"1'
    assert b'"run_id":"run","agent_id":"a\\"1","step":0' in world.path.read_bytes()


def test_timestamps_are_utc_with_microseconds(world: Any) -> None:
    recorder = world.recorder()
    stamps = []
    for later_ns in (0, 1_000, 999_999_000, 1_000_000_000):
        world.now_ns = 1_700_000_000_000_000_000 + later_ns
        stamps.append(recorder.submit(user()).timestamp[17:])
    assert stamps == ["20.000000Z", "20.000001Z", "20.999999Z", "21.000000Z"]


def test_ids_rise_also_when_the_clock_goes_back_between_runs(world: Any) -> None:
    world.recorder().submit(user())
    world.now_ns -= 10**15
    second = world.recorder()
    second.submit(user())
    world.now_ns -= 10**15
    second.submit(user())
    assert len(world.check_chain()) == 3


def test_a_resumed_file_is_gone_on_with_past_damage(world: Any) -> None:
    world.recorder().submit(user())
    with world.path.open("ab") as file:
        file.write(b"null\n" + b'{"event_id":"torn')
    world.recorder().submit(user())
    first, *damage, last = world.read()
    assert [type(item) for item in damage] == [CorruptLine, CorruptLine]
    assert (last.parent_id, last.seq) == (first.event_id, 3)


def test_a_rewind_hangs_under_its_target_and_the_next_line_under_the_rewind(world: Any) -> None:
    recorder = world.recorder()
    target, _ = recorder.submit(user()), recorder.submit(user())
    checkpoint = Checkpoint("state", 1, History(), {})
    rewind = recorder.submit(Rewind(target.event_id, "conversation", checkpoint))
    after = recorder.submit(user())
    start = recorder.submit(Rewind(None, "conversation", checkpoint))
    assert [event.parent_id for event in world.events()[2:]] == [
        target.event_id,
        rewind.event_id,
        None,
    ]
    assert [after.parent_id, start.parent_id] == [rewind.event_id, None]


def test_a_parent_with_any_text_as_its_id_is_quoted(world: Any) -> None:
    checkpoint = Checkpoint("state", 1, History(), {})
    for hostile in ('a"b', "é", "\ud800"):
        world.recorder().submit(Rewind(hostile, "conversation", checkpoint))
        assert world.events()[-1].parent_id == hostile


# --- the fold --------------------------------------------------------------------------------


def test_the_fold_gets_what_the_file_says(world: Any) -> None:
    recorder = world.recorder()
    arguments = {"path": "a", "list": [1, 2]}
    recorder.submit(Message("assistant", (ToolCall("c", "Read", arguments),)))
    arguments["path"] = "changed afterwards"
    recorder.submit(user("\ud83d lone"))
    for folded, read in zip(world.folded, world.events(), strict=True):
        for field in ("event_id", "parent_id", "seq", "timestamp", "step", "payload"):
            assert getattr(folded, field) == getattr(read, field)
    assert world.folded[0].payload.content[0].arguments["path"] == "a"


@pytest.mark.parametrize(
    "payload",
    [
        Metadata({"n": float("nan")}),
        Metadata({"x": object()}),
        Message("nobody", ()),  # type: ignore[arg-type]  # what a careless caller may pass
    ],
)
def test_what_no_line_can_hold_is_refused_and_nothing_is_recorded(world: Any, payload: Any) -> None:
    recorder = world.recorder()
    with pytest.raises(InvalidValueError):
        recorder.submit(payload)
    assert world.folded == []
    recorder.submit(user())
    assert len(world.check_chain()) == 1


def test_a_fold_that_fails_ends_the_recording(world: Any) -> None:
    def fold(_event: Event) -> None:
        raise ValueError("a bug")

    recorder = world.recorder(fold=fold)
    with pytest.raises(ValueError, match="a bug"):
        recorder.submit(user())
    with pytest.raises(PoisonedError, match="Resume the session"):
        recorder.submit(user())
    assert world.events() == []


# --- durability ------------------------------------------------------------------------------


def test_at_level_process_an_event_is_written_when_it_is_submitted(world: Any) -> None:
    recorder = world.recorder("process")
    recorder.submit(user())
    recorder.submit(user(), barrier=True)
    assert world.disk.calls == ["write", "write"]


def test_at_level_disk_a_barrier_is_one_write_and_one_sync_for_everything_queued(
    world: Any,
) -> None:
    recorder = world.recorder("disk")
    for _ in range(5):
        recorder.submit(user())
    assert world.disk.calls == []
    recorder.submit(user(), barrier=True)
    assert world.disk.calls == ["write", "sync"]
    assert len(world.check_chain()) == 6


def test_a_commit_is_durable_and_a_flush_is_written(world: Any) -> None:
    recorder = world.recorder("disk")
    recorder.submit(user())
    recorder.flush()
    assert world.disk.calls == ["write"]
    recorder.commit()
    assert world.disk.calls == ["write", "sync"]
    recorder.commit()
    assert world.disk.calls == ["write", "sync"]


def test_at_level_memory_nothing_is_written_at_all(world: Any) -> None:
    heard: list[Event] = []
    recorder = world.recorder("memory", on_recorded=heard.append)
    message = recorder.submit(assistant("x" * 100_000), defer=True)
    recorder.amend(message.event_id, usage=Usage(1, 2))
    recorder.submit(user(), barrier=True)
    recorder.flush()
    recorder.close()
    assert list(world.directory.iterdir()) == []
    assert [event.payload for event in heard] == [
        assistant("x" * 100_000, usage=Usage(1, 2)),
        user(),
    ]
    assert [event.seq for event in heard] == [0, 1]


@pytest.mark.parametrize("durability", ["memory", "process"])
def test_only_memory_goes_without_a_transcript(world: Any, durability: str) -> None:
    transcript = None if durability == "process" else world.recorder()._transcript
    with pytest.raises(UsageError, match="recorder at level"):
        world.recorder(durability, transcript=transcript)


def test_a_full_queue_is_written_by_whoever_fills_it(world: Any) -> None:
    recorder = world.recorder("disk")
    for _ in range(EVENTS_MAX):
        recorder.submit(user())
    assert world.disk.calls == ["write"]
    for _ in range(20):
        recorder.submit(user("x" * 60_000))
    assert world.disk.calls == ["write"] * 2
    recorder.close()
    assert len(world.check_chain()) == EVENTS_MAX + 20


def test_files_are_private(world: Any) -> None:
    world.recorder().submit(user())
    assert stat.S_IMODE(world.path.stat().st_mode) == 0o600


# --- large payloads --------------------------------------------------------------------------


def test_a_large_payload_is_durable_as_a_blob_before_its_line(world: Any) -> None:
    recorder = world.recorder("disk")
    large = user("y" * LINE_PAYLOAD_BYTES_MAX)
    recorder.submit(large, barrier=True)
    blob = world.disk.calls[:-2]
    assert blob[-4:] == ["write", "sync", "rename", "sync_directory"]
    assert world.disk.calls[-2:] == ["write", "sync"]
    assert world.folded[0].payload == large
    spilled = world.events()[0].payload
    assert isinstance(spilled, Spilled)
    data = BlobStore(world.directory / "blobs", Disk(), durable=False).get(spilled.blob.sha256)
    assert spilled.blob.size == len(data)
    assert decode_payload("message", 1, data) == large
    assert len(world.path.read_bytes()) < 1_500


def test_a_blob_that_can_not_be_written_leaves_nothing_recorded(world: Any) -> None:
    recorder = world.recorder("disk")
    world.disk.fail("rename")
    with pytest.raises(StorageError):
        recorder.submit(user("y" * 100_000))
    assert world.folded == []
    recorder.submit(user(), barrier=True)
    assert len(world.check_chain()) == 1


def test_the_line_of_thousands_of_short_values_stays_short(world: Any) -> None:
    world.recorder().submit(Metadata({str(number): "short" for number in range(20_000)}))
    assert len(world.path.read_bytes()) < 10_000


# --- late usage ------------------------------------------------------------------------------


def deferred(world: Any) -> tuple[Recorder, Event]:
    recorder = ticked_by_the_test(world, "process")
    return recorder, recorder.submit(assistant(), defer=True)


def test_usage_that_comes_in_time_lands_on_the_line(world: Any) -> None:
    recorder, message = deferred(world)
    recorder.submit(user("after"))
    assert world.events() == []
    recorder.amend(message.event_id, usage=Usage(3, 4), stop_reason="end", model="m")
    first, second = world.check_chain()
    assert first.payload == Message(
        "assistant", (Text("hello"),), model="m", usage=Usage(3, 4), stop_reason="end"
    )
    assert second.payload == user("after")


def test_the_fold_hears_of_late_usage_the_same_way_in_both_cases(world: Any) -> None:
    recorder, message = deferred(world)
    recorder.amend(message.event_id, usage=Usage(3, 4))
    recorder.amend(message.event_id, usage=Usage(3, 4))
    said, on_line, of_its_own = world.folded
    assert said.payload == assistant()
    assert on_line.event_type == of_its_own.event_type == "message_amendment"
    assert on_line.payload == of_its_own.payload == MessageAmendment(message.event_id, Usage(3, 4))
    assert on_line.event_id == message.event_id
    assert [event.event_id for event in world.check_chain()] == [
        message.event_id,
        of_its_own.event_id,
    ]


@pytest.mark.parametrize("end", ["barrier", "commit", "flush", "time", "close"])
def test_usage_that_comes_too_late_is_a_line_of_its_own(world: Any, end: str) -> None:
    recorder, message = deferred(world)
    if end == "barrier":
        recorder.submit(user(), barrier=True)
    elif end == "time":
        world.monotonic_ns += 100_000_000
        recorder._tick()
    else:
        getattr(recorder, end)()
    assert world.events()[0].payload == assistant()
    if end == "close":
        return
    late = recorder.amend(message.event_id, usage=Usage(3, 4))
    assert world.check_chain()[-1].event_id == late.event_id
    assert world.events()[-1].payload == MessageAmendment(message.event_id, Usage(3, 4))


@pytest.mark.parametrize("in_time", [True, False])
def test_message_and_amendment_are_the_message_with_it(world: Any, in_time: bool) -> None:  # noqa: FBT001  # a test case
    recorder, message = deferred(world)
    if not in_time:
        recorder.commit()
    recorder.amend(message.event_id, usage=Usage(3, 4))
    recorder.commit()
    whole: dict[str, Message] = {}
    for event in world.events():
        if isinstance(event.payload, Message):
            whole[event.event_id] = event.payload
        else:
            before = whole[event.payload.message_id]
            whole[event.payload.message_id] = Message(
                before.role, before.content, usage=event.payload.usage
            )
    assert whole == {message.event_id: assistant(usage=Usage(3, 4))}


def test_usage_for_one_of_two_waiting_messages_leaves_the_other_waiting(world: Any) -> None:
    recorder, first = deferred(world)
    second = recorder.submit(assistant("second"), defer=True)
    recorder.amend(second.event_id, usage=Usage(2, 2))
    assert world.events() == []
    recorder.amend(first.event_id, usage=Usage(1, 1))
    assert [event.payload.usage for event in world.check_chain()] == [Usage(1, 1), Usage(2, 2)]


def test_a_message_with_usage_does_not_wait(world: Any) -> None:
    world.recorder("process").submit(assistant(usage=Usage(1, 1)), defer=True)
    assert len(world.events()) == 1


def test_bad_late_usage_is_refused_and_the_message_still_waits(world: Any) -> None:
    recorder, message = deferred(world)
    with pytest.raises(InvalidValueError):
        recorder.amend(message.event_id, usage=Usage(cost_usd=float("nan")))
    recorder.amend(message.event_id, usage=Usage(1, 1))
    assert world.check_chain()[0].payload.usage == Usage(1, 1)


# --- the timer -------------------------------------------------------------------------------


def ticked_by_the_test(world: Any, durability: str = "disk") -> Recorder:
    """A recorder whose timer believes to be awake, so that no thread of its own interferes."""
    recorder: Recorder = world.recorder(durability)
    recorder._timer.awake = True
    return recorder


def test_an_event_waits_at_most_a_hundred_milliseconds(world: Any) -> None:
    recorder = ticked_by_the_test(world)
    recorder.submit(user())
    world.monotonic_ns += 60_000_000
    recorder.submit(user())
    assert recorder._tick() == pytest.approx(0.04)
    assert world.events() == []
    world.monotonic_ns += 40_000_000
    assert recorder._tick() is not None
    assert len(world.check_chain()) == 2
    assert recorder._tick() is None  # idle: the thread sleeps until something waits again


def test_the_timer_s_thread_really_writes(world: Any) -> None:
    written = threading.Event()
    recorder = world.recorder(
        "disk",
        monotonic_ns=iter(range(0, 10**12, 10**8)).__next__,
        on_recorded=lambda _: written.set(),
    )
    for _ in range(3):
        written.clear()
        recorder.submit(user())
        assert written.wait(10)
    recorder.close()
    assert len(world.check_chain()) == 3
    assert recorder._timer._stopped


def test_what_the_timer_could_not_write_is_told_at_the_next_call(world: Any) -> None:
    recorder = ticked_by_the_test(world)
    recorder.submit(user())
    world.monotonic_ns += 100_000_000
    world.disk.fail("write")
    assert recorder._tick() is None
    with pytest.raises(PoisonedError, match="Could not write"):
        recorder.submit(user())
    recorder.close()


def test_what_the_timer_could_not_write_is_told_at_close_at_the_latest(world: Any) -> None:
    recorder = ticked_by_the_test(world)
    recorder.submit(user())
    world.monotonic_ns += 100_000_000
    world.disk.fail("write")
    recorder._tick()
    with pytest.raises(StorageError, match="Could not write"):
        recorder.close()


# --- faults ----------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_after_a_failed_write_or_sync_nothing_is_recorded(world: Any, operation: str) -> None:
    recorder = world.recorder("disk")
    recorder.submit(user(), barrier=True)
    world.disk.fail(operation)
    with pytest.raises(StorageError, match=f"Could not {operation}"):
        recorder.submit(user(), barrier=True)
    folded = len(world.folded)
    calls: list[Callable[[], object]] = [
        lambda: recorder.submit(user()),
        recorder.commit,
        recorder.flush,
        lambda: recorder.amend("x", usage=Usage(1, 1)),
    ]
    for call in calls:
        with pytest.raises(PoisonedError, match=f"Could not {operation}"):
            call()
    assert len(world.folded) == folded
    recorder.close()


def test_a_forked_child_can_not_record_even_if_the_mutex_was_held(world: Any) -> None:
    recorder = world.recorder()
    taken, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with recorder.held():
            taken.set()
            leave.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait(30)
    child = os.fork()
    if child == 0:  # pragma: no cover  # in the child
        try:
            recorder.submit(user())
        except PoisonedError:
            os._exit(7)
        os._exit(0)
    leave.set()
    thread.join()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    recorder.submit(user())
    assert len(world.check_chain()) == 1


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_close_that_can_not_commit_releases_the_files_all_the_same(
    world: Any, operation: str
) -> None:
    before = open_files()
    recorder = world.recorder("disk")
    recorder.submit(user())
    world.disk.fail(operation)
    with pytest.raises(StorageError):
        recorder.close()
    assert open_files() == before
    recorder.close()


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_a_closed_recorder_says_so(world: Any) -> None:
    recorder = world.recorder("disk")
    recorder.submit(user())
    recorder.close()
    recorder.close()
    assert len(world.check_chain()) == 1
    with pytest.raises(UsageError, match="is closed"):
        recorder.submit(user())
