"""Runs one shell command so that what became of it is known even if the agent is gone.

Started by the Bash tool as `python -I -S shell_wrapper.py …` in a session of its own; imports only
the standard library, because every command waits for its start. The protocol is in docs/format.md,
"Shell"; the rules kept here:

- The command runs only after this process created `start`, durably and exclusively. Whoever finds
  `start` missing can create it and so be sure that the command never ran.
- The descriptor of `alive`, whose lock the agent took, is inherited by the command and everything
  it starts: the lock is held as long as one of them lives.
- `exit` appears complete or not at all, after the output it speaks of is on disk.
- The time limit and the output limit hold whether or not the agent still lives.
"""

# Pathlib would double the start-up time of every command.
# ruff: noqa: PTH108, PTH104, PTH116, PTH118, PTH123, PTH208

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import sys
import time
from typing import NamedTuple

# The output is looked at this often; a command can overshoot by what it writes meanwhile.
POLL_SECONDS = 0.05
# Between SIGTERM and SIGKILL, for lock files and temporary files to be removed. The agent itself
# has two seconds from SIGTERM to its end, and waits for this.
GRACE_SECONDS = 0.5
# Killing by descriptor repeats, because a process may fork while the others are being killed.
KILL_ROUNDS = 10
NOT_STARTED = 127
# More than the record of the end ever has; JSON may be followed by spaces.
EXIT_BYTES = 512


class Job(NamedTuple):
    """What to run, and within which limits. Paths are absolute."""

    directory: str
    cwd: str
    timeout_ms: int
    output_bytes_max: int
    alive: int
    shell: str
    command: str


class Ending(NamedTuple):
    """How the command ended, and which limit ended it, if one did."""

    status: int
    reason: str


def main(arguments: list[str]) -> int:
    """Run the job that the arguments describe; the exit status tells nothing, the files do."""
    directory, cwd, timeout_ms, output_bytes_max, alive, shell, command = arguments
    job = Job(directory, cwd, int(timeout_ms), int(output_bytes_max), int(alive), shell, command)
    with contextlib.suppress(OSError):
        os.chdir(job.directory)  # so that the command's directory can be removed meanwhile
    begun = time.monotonic()
    wakeup = _listen()
    if not _claim(job):
        return 0
    stdout, stderr = (_open_output(job, name) for name in ("stdout", "stderr"))
    child = _spawn(job, stdout, stderr)
    ending = _supervise(job, child, (stdout, stderr), wakeup)
    _record(job, ending, (stdout, stderr), int((time.monotonic() - begun) * 1000))
    return 0


# --- signals ---------------------------------------------------------------------------------


class _Cancelled:
    """Whether the agent asked for an end (SIGTERM)."""

    asked = False


def _listen() -> int:
    """Turn signals into bytes of a pipe; returns its reading end."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
    signal.signal(signal.SIGTERM, lambda _signal, _frame: setattr(_Cancelled, "asked", True))
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_IGN)
    return reading


def _wait_for_signal(wakeup: int, seconds: float) -> None:
    select.select([wakeup], [], [], max(seconds, 0))
    with contextlib.suppress(BlockingIOError):
        os.read(wakeup, 4096)


# --- the command -----------------------------------------------------------------------------


def _claim(job: Job) -> bool:
    """Create `start`; False when it exists, which means that this command must never run."""
    path = os.path.join(job.directory, "start")
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    try:
        start = os.open(path, flags, 0o600)
    except FileExistsError:
        return False
    record = {"pid": os.getpid(), "boot_id": _boot_id(), "started_at": _now()}
    try:
        _write_durably(start, json.dumps(record).encode())
        # Room for the end's record, taken now: the command may fill the disk.
        reserved = os.open(_exit_temporary(job), os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        _write_durably(reserved, b" " * EXIT_BYTES)
        _sync_directory(job.directory)
    except OSError:
        os.unlink(path)  # the disk is full already; nothing was run, and that must stay visible
        raise
    return True


def _exit_temporary(job: Job) -> str:
    return os.path.join(job.directory, "exit.tmp")


def _write_durably(descriptor: int, data: bytes) -> None:
    try:
        if os.pwrite(descriptor, data, 0) != len(data):
            raise OSError(errno.ENOSPC, "short write")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_output(job: Job, name: str) -> int:
    # Appending, so that cutting a file that is too large leaves no hole when it is written on.
    flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
    return os.open(os.path.join(job.directory, name), flags, 0o600)


def _spawn(job: Job, stdout: int, stderr: int) -> int:
    child = os.fork()
    if child:
        with contextlib.suppress(OSError):  # the child does the same; whoever is first wins
            os.setpgid(child, child)
        return child
    try:
        _become_command(job, stdout, stderr)
    except BaseException as error:  # noqa: BLE001 - a forked copy must end here, whatever happens
        with contextlib.suppress(OSError):
            os.write(2, f"rewake: the command was not started: {error}\n".encode())
    os._exit(NOT_STARTED)


def _become_command(job: Job, stdout: int, stderr: int) -> None:
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    for name in ("SIGINT", "SIGHUP", "SIGQUIT", "SIGTERM", "SIGCHLD", "SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.set_inheritable(job.alive, True)
    os.chdir(job.cwd)
    os.execv(job.shell, [job.shell, "-c", job.command])  # noqa: S606  # running a command is the job


# --- limits ----------------------------------------------------------------------------------


def _supervise(job: Job, child: int, outputs: tuple[int, int], wakeup: int) -> Ending:
    """Wait for the command's end, or bring it about."""
    deadline = time.monotonic() + job.timeout_ms / 1000
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return Ending(status, "")
        reason = _reason_to_stop(job, outputs, deadline)
        if reason:
            return Ending(_stop(job, child, wakeup), reason)
        _wait_for_signal(wakeup, min(POLL_SECONDS, deadline - time.monotonic()))


def _reason_to_stop(job: Job, outputs: tuple[int, int], deadline: float) -> str:
    if _Cancelled.asked:
        return "cancelled"
    if time.monotonic() >= deadline:
        return "timed_out"
    if any(os.fstat(output).st_size > job.output_bytes_max for output in outputs):
        return "output_limit"
    return ""


def _stop(job: Job, child: int, wakeup: int) -> int:
    """End the command's whole group and whatever else holds `alive`; returns the wait status.

    The child isn't reaped before the group is killed: until then its number can't be another's.
    """
    _kill_group(child, signal.SIGTERM)
    until = time.monotonic() + GRACE_SECONDS
    while (left := until - time.monotonic()) > 0:
        _wait_for_signal(wakeup, left)
    _kill_group(child, signal.SIGKILL)
    for _ in range(KILL_ROUNDS):
        if not _kill_holders(job.alive):
            break
    return os.waitpid(child, 0)[1]


def _kill_group(group: int, number: int) -> None:
    # macOS answers EPERM for a group of which only a zombie is left.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _kill_holders(alive: int) -> int:
    """Kill processes that left the group but inherited the lock; returns how many were found.

    Only where /proc tells (Linux). The lock's own mark in fdinfo is what counts: somebody who has
    merely opened the file to look at the lock isn't one of them.
    """
    ours = os.fstat(alive)
    spared = {os.getpid(), os.getppid()}
    found = 0
    for name in _list("/proc"):
        if name.isdigit() and int(name) not in spared and _holds(name, ours):
            with contextlib.suppress(OSError):
                os.kill(int(name), signal.SIGKILL)
                found += 1
    return found


def _holds(process: str, ours: os.stat_result) -> bool:
    for descriptor in _list(f"/proc/{process}/fd"):
        with contextlib.suppress(OSError):
            there = os.stat(f"/proc/{process}/fd/{descriptor}")
            if (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
                continue
            with open(f"/proc/{process}/fdinfo/{descriptor}", "rb") as info:
                return b"FLOCK" in info.read()
    return False


def _list(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


# --- the end ---------------------------------------------------------------------------------


def _record(job: Job, ending: Ending, outputs: tuple[int, int], duration_ms: int) -> None:
    for output in outputs:
        size = os.fstat(output).st_size
        if size > job.output_bytes_max:
            os.ftruncate(output, job.output_bytes_max)
        if size == 0:
            continue
        with contextlib.suppress(OSError):  # a full disk; the exit code still counts
            os.fsync(output)
    exited = os.WIFEXITED(ending.status)
    record = {
        "exit_code": os.WEXITSTATUS(ending.status) if exited else None,
        "signal": None if exited else os.WTERMSIG(ending.status),
        "timed_out": ending.reason == "timed_out",
        "output_limit": ending.reason == "output_limit",
        "cancelled": ending.reason == "cancelled",
        "duration_ms": duration_ms,
        "finished_at": _now(),
        "boot_id": _boot_id(),
    }
    temporary = _exit_temporary(job)
    out = os.open(temporary, os.O_WRONLY | os.O_CLOEXEC)
    _write_durably(out, json.dumps(record).encode().ljust(EXIT_BYTES))
    os.rename(temporary, os.path.join(job.directory, "exit"))
    _sync_directory(job.directory)


def _sync_directory(path: str) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _now() -> str:
    now = time.time_ns() // 1000
    seconds, microseconds = divmod(now, 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{microseconds:06d}Z"


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
