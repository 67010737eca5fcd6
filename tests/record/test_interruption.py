"""KeyboardInterrupt at any moment, and many threads: never a wrong parent, never an event twice."""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rewake.errors import PoisonedError
from rewake.log.disk import set_crash_hook
from rewake.model.content import Text, Usage
from rewake.model.events import Message

ROUNDS = 400
CALLS_MAX = 10_000  # far more than fit before the signal
STORM_S_MAX = 10.0


def message(number: int) -> Message:
    return Message("assistant", (Text(f"message {number}"),))


def record_until_interrupted(recorder: Any, seconds: float) -> None:
    """Everything that can be called, in turns, until the timer's signal arrives."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    message_id = ""
    for number in range(CALLS_MAX):
        if number % 4 == 0:
            message_id = recorder.submit(message(number), defer=True).event_id
        elif number % 4 == 2:
            recorder.amend(message_id, usage=Usage(number, 1))
        elif number % 7 == 0:
            recorder.commit()
        else:
            recorder.submit(message(number), barrier=number % 5 == 0)


def mutex_is_free(recorder: Any) -> bool:
    """Seen from another thread, since the mutex can be taken again by the one that holds it."""
    free: list[bool] = []

    def try_it() -> None:
        free.append(recorder._mutex.acquire(timeout=5))
        if free[0]:
            recorder._mutex.release()

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    return free[0]


@pytest.mark.parametrize("durability", ["process", "disk"])
def test_a_storm_of_interrupts_breaks_no_chain(world: Any, durability: str) -> None:
    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    gc.disable()  # an exception inside a callback of the collector would be swallowed
    poisoned = 0
    began = time.monotonic()
    recorder = world.recorder(durability, monotonic_ns=time.monotonic_ns)
    recorder.submit(message(0), barrier=True)
    try:
        for round_number in range(ROUNDS):
            if time.monotonic() - began > STORM_S_MAX:
                break
            with pytest.raises((KeyboardInterrupt, PoisonedError)):
                record_until_interrupted(recorder, 0.000_2 + round_number % 50 * 0.000_05)
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert mutex_is_free(recorder)
            if recorder._trouble is not None:
                poisoned += 1
                recorder.close()
                world.now_ns += 1_000_000
                recorder = world.recorder(durability, monotonic_ns=time.monotonic_ns)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    recorder.close()
    events = world.check_chain()
    assert len({event.event_id for event in events}) == len(events)
    assert len(events) > 100
    # Also after a poisoned recorder: what it wrote is there, and nothing of it twice.
    submitted = [event.event_id for event in world.folded if event.event_type == "message"]
    assert len(set(submitted)) == len(submitted)
    assert 0 < poisoned < ROUNDS


@pytest.mark.parametrize(
    "point", ["before_write_event", "after_write_event", "before_sync_event", "after_sync_event"]
)
def test_an_interrupt_at_each_point_of_a_commit_poisons(world: Any, point: str) -> None:
    def interrupt(name: str) -> None:
        if name == point:
            raise KeyboardInterrupt

    recorder = world.recorder("disk")
    recorder.submit(message(0), barrier=True)
    set_crash_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        recorder.submit(message(1), barrier=True)
    set_crash_hook(None)
    with pytest.raises(PoisonedError, match="interrupted"):
        recorder.submit(message(2))
    recorder.close()
    resumed = world.recorder("disk")
    resumed.submit(message(3), barrier=True)
    texts = [event.payload.content[0].text for event in world.check_chain()]
    written = ["message 1"] if point != "before_write_event" else []
    assert texts == ["message 0", *written, "message 3"]


def test_an_interrupted_fold_poisons(world: Any) -> None:
    def fold(_event: object) -> None:
        raise KeyboardInterrupt

    recorder = world.recorder(fold=fold)
    with pytest.raises(KeyboardInterrupt):
        recorder.submit(message(0))
    with pytest.raises(PoisonedError):
        recorder.submit(message(1))


@pytest.mark.parametrize("durability", ["process", "disk"])
def test_from_many_threads_the_order_of_the_file_is_the_order_of_fold_and_ids(
    tmp_path: Path, make_world: Callable[[Path], Any], durability: str
) -> None:
    world = make_world(tmp_path)
    recorder = world.recorder(durability, monotonic_ns=time.monotonic_ns)
    start = threading.Barrier(8)

    def work(thread_number: int) -> None:
        start.wait()
        for number in range(100):
            event = recorder.submit(message(number), step=thread_number, defer=number % 10 == 0)
            if number % 20 == 0:
                recorder.amend(event.event_id, usage=Usage(1, 1))
            if number % 25 == 0:
                recorder.commit()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()
    events = world.check_chain()
    folded = list(dict.fromkeys(event.event_id for event in world.folded))
    assert [event.event_id for event in events] == folded
    for thread_number in range(8):
        texts = [
            event.payload.content[0].text
            for event in events
            if event.step == thread_number and event.event_type == "message"
        ]
        assert texts == [f"message {number}" for number in range(100)]
