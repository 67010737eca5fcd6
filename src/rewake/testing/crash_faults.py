"""Disks that fill up, fail or disappear under the program.

The rule kept here: a fault of Rewake's own data ends the run with the exit status for storage and a
message that names the path, before the next side effect; when the fault is gone, the session goes
on to the end of its plan as if it had been killed. A fault of the user's files is the tool's to
report: the run goes on, and what it says of each call must still be true.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rewake.errors import ExitCode
from rewake.log.layout import Layout
from rewake.testing import crash_plan as plans
from rewake.testing.crash_check import after_kill, check
from rewake.testing.crash_kill import attached, open_gate, start_at_gate, why_no_strace
from rewake.testing.crash_report import Report
from rewake.testing.crash_world import RUN_SECONDS_MAX, Ended, World

# Room for the start of a session and a few turns; the large file of turn 9 doesn't fit.
_SMALL_DISK: Final = "size=300k"
_FILE_BYTES_MAX: Final = 24_000
_BUSY_SECONDS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: how to bring it about, and why it can't be here (empty: it can)."""

    name: str
    run: Callable[[World], Report]
    why_not: Callable[[], str] = str


def faults() -> tuple[Fault, ...]:
    """All faults, the cheap ones first."""
    return (
        *(_transcript_fault(*fault) for fault in _TRANSCRIPT_FAULTS),
        *(_worker_fault(*fault) for fault in _WORKER_FAULTS),
        *(_opening_fault(*fault) for fault in _OPENING_FAULTS),
        *(_user_file_fault(*fault) for fault in _USER_FILE_FAULTS),
        Fault("a full file system", _full_file_system, _why_no_mount),
        Fault("a read-only file system", _read_only_file_system, _why_no_mount),
        Fault("the limit of file sizes (RLIMIT_FSIZE)", _size_limit, _why_no_prlimit),
        Fault("a read-only home", _read_only_home, _why_no_setpriv),
        Fault("the session's directory removed", _session_removed),
        Fault("the project removed", _project_removed),
    )


_TRANSCRIPT_FAULTS: Final = (
    ("write", "error=ENOSPC", 3),
    ("write", "error=ENOSPC", 40),
    ("write", "error=EIO", 25),
    ("write", "error=EDQUOT", 60),
    ("write", "retval=10", 30),
    ("write", "retval=0", 50),
    ("fdatasync", "error=EIO", 2),
    ("fdatasync", "error=EIO", 20),
    ("fdatasync", "error=ENOSPC", 33),
)
_WORKER_FAULTS: Final = (
    ("write", "error=ENOSPC", 2),
    ("write", "retval=1", 5),
    ("fdatasync", "error=EIO", 4),
    ("fsync", "error=EIO", 6),
    ("rename", "error=EIO", 5),
    ("mkdir", "error=ENOSPC", 5),
)
_OPENING_FAULTS: Final = (("mkdir", "error=ENOSPC", 1), ("fsync", "error=EIO", 2))
_USER_FILE_FAULTS: Final = (
    ("rename", "error=EACCES", 5),
    ("fsync", "error=EIO", 20),
    ("fsync", "error=EIO", 21),
    ("fchmod", "error=EPERM", 4),
)


# --- what must hold --------------------------------------------------------------------------


def _stopped(world: World, ended: Ended, report: Report, *paths: Path) -> None:
    """The run said that storage failed, and where."""
    if ended.code != ExitCode.STORAGE:
        report.add("fault", f"it ended with {ended.code}: {ended.stderr[-300:]}")
    message = str((ended.result().get("error") or {}).get("message", ""))
    if not any(str(path) in message for path in paths or (world.home,)):
        report.add("fault", f"the message names no path: {message!r}")
    if "Traceback" in ended.stderr:
        report.add("fault", f"a traceback was shown: {ended.stderr[-300:]}")


def _then(world: World, report: Report) -> Report:
    """The fault is gone: nothing is lost, and the session goes on."""
    after = after_kill(world)
    after.problems[:0] = report.problems
    return after


# --- injected errors -------------------------------------------------------------------------


def _injected(call: str, how: str, when: str, *more: str) -> list[str]:
    return [
        *("strace", "-qq", "-o", os.devnull, *more),
        *("-e", f"trace={call}", "-e", f"inject={call}:{how}:when={when}"),
    ]


def _transcript_fault(call: str, how: str, number: int) -> Fault:
    def run(world: World) -> Report:
        transcript = _transcript(world)
        tracer = _injected(call, how, str(number), "-f", "-P", str(transcript))
        ended = world.run_acknowledging([*tracer, *world.first()])
        report = Report()
        _stopped(world, ended, report, transcript)
        return _then(world, report)

    return Fault(f"{call} {how} of the transcript ({number})", run, why_no_strace)


def _transcript(world: World) -> Path:
    project = Layout(world.home).project_directory(world.project.resolve())
    return project / "sessions" / world.session_id / "transcript.jsonl"


def _worker_fault(call: str, how: str, number: int) -> Fault:
    """The workers are the ones that keep contents as blobs.

    Without a trace, which has a worker of its own and whose faults stop nothing.
    """

    def run(world: World) -> Report:
        world.home.mkdir(parents=True, exist_ok=True)
        (world.home / "settings.json").write_text('{"trace": {"enabled": false}}')
        process = start_at_gate(world)
        workers = [int(name) for name in os.listdir(f"/proc/{process.pid}/task")]  # noqa: PTH208  # a list is wanted
        workers.remove(process.pid)
        attach = [f"--attach={thread}" for thread in workers]
        with attached([*_injected(call, how, str(number)), *attach], workers):
            open_gate(world)
            code = process.wait(RUN_SECONDS_MAX)
        report = Report()
        _stopped(world, world.ended(code), report)
        return _then(world, report)

    return Fault(f"{call} {how} of a blob ({number})", run, why_no_strace)


def _opening_fault(call: str, how: str, number: int) -> Fault:
    def run(world: World) -> Report:
        ended = world.run_acknowledging([*_injected(call, how, f"{number}+"), *world.first()])
        report = Report()
        _stopped(world, ended, report, world.directory)
        return _then(world, report)

    return Fault(f"{call} {how} while the session is made", run, why_no_strace)


def _user_file_fault(call: str, how: str, number: int) -> Fault:
    """Of the main thread, which writes the user's files."""

    def run(world: World) -> Report:
        world.plan = plans.separate_files()
        world.run_acknowledging([*_injected(call, how, str(number)), *world.first()])
        report = Report()
        check(world, report, wrapper_killed=False)
        return report

    return Fault(f"{call} {how} of the user's file ({number})", run, why_no_strace)


# --- real ones -------------------------------------------------------------------------------


def _why_no_mount() -> str:
    if os.geteuid() != 0:
        return "mounting needs root"
    probe = subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    )
    return "" if probe.returncode == 0 else f"can't mount: {probe.stderr.decode()[:200]}"


@contextmanager
def _mounted(directory: Path, options: str) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(directory)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def _remount(directory: Path, options: str) -> None:
    command = ["mount", "-o", f"remount,{options}", str(directory)]
    until = time.monotonic() + _BUSY_SECONDS_MAX
    while time.monotonic() < until:
        # Busy for as long as a process that has just ended is being cleared away.
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return
        time.sleep(_BUSY_SECONDS_MAX / 100)
    raise AssertionError(f"{directory} could not be remounted ({options})")


def _full_file_system(world: World) -> Report:
    report = Report()
    with _mounted(world.home, _SMALL_DISK):
        _stopped(world, world.run_acknowledging(world.first()), report)
        _remount(world.home, "size=64m")
        return _then(world, report)


def _read_only_file_system(world: World) -> Report:
    report = Report()
    with _mounted(world.home, "size=64m"):
        process = start_at_gate(world)
        open_gate(world)
        process.send_signal(signal.SIGKILL)
        process.wait()
        world.wait_for_commands()
        _remount(world.home, "ro")
        resume = world.command(plans.LOOK, plans.script_to_look(2), resume=True, output="json")
        _stopped(world, world.run(resume), report)
        _remount(world.home, "rw")
        return _then(world, report)


def _why_no_prlimit() -> str:
    return "" if shutil.which("prlimit") else "prlimit is not installed"


def _size_limit(world: World) -> Report:
    report = Report()
    limited = ["prlimit", f"--fsize={_FILE_BYTES_MAX}", "--", *world.first()]
    _stopped(world, world.run_acknowledging(limited), report)
    return _then(world, report)


def _why_no_setpriv() -> str:
    if os.geteuid() != 0 or shutil.which("setpriv"):
        return ""
    return "root ignores modes, and setpriv is not installed"


def _as_ordinary(command: Sequence[str]) -> list[str]:
    """The command without root's power over modes."""
    if os.geteuid() != 0:
        return list(command)
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--", *command]


def _read_only_home(world: World) -> Report:
    report = Report()
    world.home.mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
    _stopped(world, world.run_acknowledging(_as_ordinary(world.first())), report)
    world.home.chmod(stat.S_IRWXU)
    return _then(world, report)


def _session_removed(world: World) -> Report:
    """What was removed is gone; but nothing more may be done that could not be recorded."""
    report = Report()
    process = start_at_gate(world)
    paths = world.paths()
    if paths is None:
        raise AssertionError("there is no session at the gate")
    shutil.rmtree(paths.directory)
    open_gate(world)
    _stopped(world, world.ended(process.wait(RUN_SECONDS_MAX)), report, paths.directory)
    changed = [path for path in world.plan.chains() if (world.project / path).exists()]
    if changed:
        report.add("fault", f"{changed} were changed without a record")
    world.acknowledged.unlink()
    return report


def _project_removed(world: World) -> Report:
    report = Report()
    process = start_at_gate(world)
    shutil.rmtree(world.project)
    os.write(world.gate, b"go\n")
    os.close(world.gate)
    process.wait(RUN_SECONDS_MAX)
    world.project.mkdir(exist_ok=True)
    looked = world.run(
        world.command(plans.LOOK, plans.script_to_look(2), resume=True, output="json")
    )
    if looked.code != 0:
        report.add("unloadable", f"exit {looked.code}: {looked.stderr[-300:]}")
    check(world, report, wrapper_killed=False)
    return report
