"""Disks that fill up, fail, disappear: the run stops and says where, and the session goes on later."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewake.testing import crash_plan
from rewake.testing.crash_faults import Fault, faults
from rewake.testing.crash_world import World

# One of each kind; `python -m rewake.testing.crash` tries them all.
CHOSEN = {
    "write retval=10 of the transcript (30)",
    "fdatasync error=EIO of the transcript (20)",
    "write error=ENOSPC of a blob (2)",
    "fsync error=EIO of the user's file (21)",
    "a full file system",
    "the limit of file sizes (RLIMIT_FSIZE)",
    "a read-only home",
    "the session's directory removed",
    "the project removed",
}
FAULTS = [fault for fault in faults() if fault.name in CHOSEN]


def test_the_chosen_faults_exist() -> None:
    assert {fault.name for fault in FAULTS} == CHOSEN


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_stops_the_run_with_a_message_and_loses_nothing(
    tmp_path: Path, fault: Fault
) -> None:
    if fault.why_not():
        pytest.skip(fault.why_not())
    report = fault.run(World(tmp_path, crash_plan.forty_steps()))
    assert report.problems == []
