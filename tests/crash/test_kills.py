"""The real program, killed in every way: nothing acknowledged is lost, every verdict is true.

A sample; `python -m rewake.testing.crash --complete` tries every system call.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rewake.testing import crash_kill, crash_shell
from rewake.testing.crash import Suite
from rewake.testing.crash_kill import Way

SAMPLE: dict[Way, int] = {
    "random": 4,
    "main": 7,
    "worker": 2,
    "resume": 3,
    "point": 3,
    "spawn": 3,
}
needs_strace = pytest.mark.skipif(
    bool(crash_kill.why_no_strace()), reason=crash_kill.why_no_strace()
)


@pytest.mark.parametrize(
    "way",
    [
        "random",
        "point",
        *(pytest.param(way, marks=needs_strace) for way in ("main", "worker", "resume", "spawn")),
    ],
)
def test_a_killed_session_wakes_up_with_everything_acknowledged_and_true_verdicts(
    tmp_path: Path, way: Way
) -> None:
    row = Suite(tmp_path, sampled=SAMPLE, seed=7).kills(way)
    assert row.problems == []
    assert row.tried > 0


@needs_strace
def test_a_command_whose_wrapper_is_killed_is_never_said_to_have_ended_otherwise_than_it_did(
    tmp_path: Path,
) -> None:
    calls = crash_shell.wrapper_calls(tmp_path / "calls")
    chosen = [pair for pair in calls if pair[0] in {"openat", "pwrite64", "clone", "rename"}]
    for number, (call, count) in enumerate(chosen):
        race = crash_shell.kill_wrapper(tmp_path / str(number), call, count)
        assert not race.problem, (call, count, race)


def test_a_command_that_recovery_has_claimed_never_runs(tmp_path: Path) -> None:
    races = list(crash_shell.races(tmp_path, 30, seed=7))
    assert [race for race in races if race.problem] == []
    assert {race.verdict for race in races} <= {"applied", "not_applied"}
