"""The suite can fail: builds that break one promise are seen to break it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewake.resume import shell
from rewake.testing import crash_faults, crash_kill, crash_plan, crash_shell
from rewake.testing.crash_broken import BUILDS, Broken
from rewake.testing.crash_world import World

SWALLOWS_FAILED_SYNCS = """
import os
from rewake.log.disk import Disk
def sync(self, descriptor):
    try:
        os.fdatasync(descriptor)
    except OSError:
        pass
Disk.sync = sync
"""


@pytest.mark.parametrize("broken", BUILDS, ids=lambda broken: broken.name)
def test_a_broken_build_is_seen(tmp_path: Path, broken: Broken) -> None:
    world = World(tmp_path, crash_plan.forty_steps(), prelude=broken.prelude)
    outcome = crash_kill.try_kill(world, broken.kill)
    assert broken.seen_as in {problem.kind for problem in outcome.report.problems}


@pytest.mark.skipif(bool(crash_kill.why_no_strace()), reason=crash_kill.why_no_strace())
def test_a_build_that_swallows_failed_syncs_is_seen(tmp_path: Path) -> None:
    (fault,) = (
        f
        for f in crash_faults.faults()
        if f.name.startswith("fdatasync error=EIO of the transcript (20)")
    )
    world = World(tmp_path, crash_plan.forty_steps(), prelude=SWALLOWS_FAILED_SYNCS)
    assert "fault" in {problem.kind for problem in fault.run(world).problems}


def test_a_recovery_that_claims_nothing_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "_claim", lambda _directory: None)
    assert any(race.problem for race in crash_shell.races(tmp_path, 40, seed=7))
