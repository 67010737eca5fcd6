"""Commands that outlived their agent: stopped only where it is proved which process they are."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.resume.test_shell import wrapper

from rewake.log.lock import boot_id
from rewake.model.events import ShellIntent
from rewake.resume import shell
from rewake.resume.running import settle_running, stop
from rewake.state.world import OpenCall


@pytest.fixture
def call(tmp_path: Path) -> Iterator[OpenCall]:
    """A command that has begun and doesn't end by itself."""
    directory = tmp_path / "outputs" / "c"
    directory.mkdir(parents=True)
    os.mkfifo(directory / "begun")
    process = wrapper(directory, "echo > begun; exec sleep 600")
    (directory / "begun").read_text()
    yield OpenCall("c", "Bash", "started", intent=ShellIntent("sleep", "/", "outputs/c"))
    process.terminate()
    process.wait()


def status(session: Path) -> shell.ShellStatus:
    return shell.inspect(session / "outputs" / "c")


def test_stop_ends_the_command_also_where_there_is_no_ps(
    call: OpenCall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if Path("/proc/self/cmdline").exists():
        monkeypatch.setenv("PATH", "")
    settle_running([call], tmp_path, boot_id(), "stop")
    ended = status(tmp_path).exit
    assert ended is not None
    assert ended.cancelled


def test_a_command_of_another_boot_is_left_alone(call: OpenCall, tmp_path: Path) -> None:
    settle_running([call], tmp_path, "another", "stop")
    assert status(tmp_path).state == "running"


def test_stop_knows_the_wrapper_on_whatever_way_its_directory_is_named(
    call: OpenCall, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "outputs")
    assert stop(tmp_path / "link" / "c", boot_id())
    ended = status(tmp_path).exit
    assert ended is not None
    assert ended.cancelled


def test_the_wrapper_of_another_command_is_never_signalled(call: OpenCall, tmp_path: Path) -> None:
    other = tmp_path / "outputs" / "other"
    other.mkdir()
    start = (tmp_path / "outputs" / "c" / "start").read_bytes()
    (other / "start").write_bytes(start)  # as where another container has the same number
    with (other / "alive").open("w") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        assert not stop(other, boot_id())
    assert status(tmp_path).state == "running"
