"""A repair that is killed leaves the old transcript or the new one, and the next repair finishes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from tests.doctor.sessions import Patient, story

from rewake.doctor import swap
from rewake.log.disk import CRASH_POINT_VARIABLE

WHOLE = b"".join(story())
DAMAGED = WHOLE + b"garbage\n"
PROGRAM = """
import os, sys
from pathlib import Path
from rewake.doctor.repair import repair
from rewake.doctor.subject import Subject
from rewake.log.disk import Disk, arm_crash_point
from rewake.log.lock import Holder

arm_crash_point(os.environ)
repair(Subject.at(Path(sys.argv[1]), Disk()), Disk(), Holder(), moment="20260102T030405Z")
"""


@pytest.mark.parametrize(
    ("point", "left"),
    [
        ("before_sync_repaired", DAMAGED),
        ("after_sync_repaired", DAMAGED),
        ("after_keep_original", DAMAGED),
        ("before_swap_repaired", DAMAGED),
        ("after_swap_repaired", WHOLE),
    ],
)
def test_a_repair_killed_at(patient: Patient, point: str, left: bytes) -> None:
    patient.write(DAMAGED)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(patient.paths.transcript)],
        env={**os.environ, CRASH_POINT_VARIABLE: f"{point}:1"},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert patient.read() == left
    patient.check()
    patient.repair()
    assert patient.read() == WHOLE
    kept = list(patient.paths.directory.glob("*.damaged-*"))
    assert [path.read_bytes() for path in kept] == [DAMAGED]
    assert not swap.sibling_of(patient.paths.transcript).exists()
    assert not patient.repair().changed
