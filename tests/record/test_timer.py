"""The timer: it ticks while there is work, sleeps otherwise, and ends when told."""

from __future__ import annotations

import queue

import pytest

from rewake.record.timer import FlushTimer


class Ticks:
    """Answers each tick with the next of the delays; the test sees that it came."""

    def __init__(self, *delays_s: float | None) -> None:
        self.seen: queue.Queue[float | None] = queue.Queue()
        self._delays_s = iter(delays_s)

    def __call__(self) -> float | None:
        delay_s = next(self._delays_s)
        self.seen.put(delay_s)
        return delay_s

    def expect(self, *delays_s: float | None) -> None:
        assert [self.seen.get(timeout=10) for _ in delays_s] == list(delays_s)


def test_it_ticks_until_there_is_nothing_to_wait_for_and_again_when_started_again() -> None:
    ticks = Ticks(0.0, 0.001, None, None)
    timer = FlushTimer(ticks)
    timer.start()
    assert timer.awake
    ticks.expect(0.0, 0.001, None)
    timer.start()
    ticks.expect(None)
    timer.stop()
    assert ticks.seen.empty()


@pytest.mark.parametrize("delay_s", [None, 3_600.0])
def test_stopping_does_not_wait_for_the_next_tick(delay_s: float | None) -> None:
    ticks = Ticks(delay_s)
    timer = FlushTimer(ticks)
    timer.start()
    ticks.expect(delay_s)
    timer.stop()
    timer.stop()


def test_a_timer_that_never_started_stops_at_once() -> None:
    FlushTimer(Ticks()).stop()


def test_a_tick_can_stop_its_own_timer() -> None:
    ended: queue.Queue[bool] = queue.Queue()

    def tick() -> float | None:
        timer.stop()
        ended.put(True)
        return 0.0

    timer = FlushTimer(tick)
    timer.start()
    assert ended.get(timeout=10)
    timer.stop()
