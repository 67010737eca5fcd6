"""The power-loss suite: nothing promised is lost, and the suite would notice if it were."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from rewake.testing.power_loss import unsupported

_REASON = unsupported()
needs_disks = pytest.mark.skipif(_REASON is not None, reason=str(_REASON))


def run(images: int, unsynced: str = "nothing") -> dict[str, Any]:
    command = [sys.executable, "-m", "rewake.testing.power_loss", "--json"]
    options = ["--images", str(images), "--unsynced", unsynced]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stderr
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["images"] == images
    return report


@needs_disks
def test_after_a_power_loss_at_any_moment_every_promise_is_kept() -> None:
    report = run(30)
    assert report["broken"] == {}, report["examples"]
    assert report["images_with_losses"] == 0
    # It must have had something to lose: sectors dropped, changes interrupted and completed.
    assert report["sectors_dropped"] > 0
    assert report["seen"]["completed change kept"] > 0
    assert report["seen"]["blobs named"] > 0
    assert any(name.startswith("interrupted change") for name in report["seen"])


@needs_disks
def test_a_log_that_is_not_synced_is_found_out() -> None:
    report = run(20, "log")
    assert report["broken"]["acknowledged bytes are there"] > 10


@needs_disks
def test_blobs_that_are_not_synced_are_found_out() -> None:
    report = run(20, "blobs")
    assert report["broken"]["blobs are there before their events"] > 10


@needs_disks
def test_files_that_are_not_synced_get_the_verdict_lost() -> None:
    report = run(20, "files")
    assert report["broken"] == {}, report["examples"]
    assert report["seen"]["completed change lost, and said so"] > 0
