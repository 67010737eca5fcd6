"""Runs one shell command so that what became of it is known even if the agent is gone.

Started by the Bash tool as `python -I -S shell_wrapper.py …` in a session of its own; imports only
the standard library, because every command waits for its start. The protocol is in docs/format.md,
"Shell"; the rules kept here:

- The command runs only after this process created `start`, durably and exclusively. Whoever finds
  `start` missing can create it and so be sure that the command never ran.
- The descriptor of `alive`, whose lock the agent took, is inherited by the command and everything
  it starts, and this process keeps it as long as one of them lives, also those that closed theirs.
- `exit` appears complete or not at all, after the output it speaks of is on disk.
- The time limit and the output limit hold whether or not the agent still lives.
- One file, because an isolated interpreter finds no other one of ours.
- What a limit ends, it ends with everything that the command started. On Linux this process adopts
  whatever loses its parent (a subreaper), so nothing gets away, be it in a session of its own or
  forked twice. Elsewhere it is the command's process group, and what left that gets away.
"""

# Pathlib would double the start-up time of every command.
# ruff: noqa: PTH108, PTH104, PTH116, PTH118, PTH123, PTH208

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
import select
import signal
import sys
import time
from typing import NamedTuple

# The output is looked at this often while it grows; a command can overshoot by what it writes
# meanwhile. One that is quiet is looked at less and less often, down to the second number.
POLL_SECONDS = 0.05
POLL_SECONDS_MAX = 0.25
# Between SIGTERM and SIGKILL, for lock files and temporary files to be removed. The agent itself
# has two seconds from SIGTERM to its end, and waits for this.
GRACE_SECONDS = 0.5
# Killing repeats, because a process may fork while the others are being killed: 1 s in all.
KILL_ROUNDS = 100
KILL_ROUND_SECONDS = 0.01
# Of output over its limit, what was said last is worth more than the middle.
TAIL_BYTES = 64 << 10
PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
NOT_STARTED = 127
# More than the record of the end ever has; JSON may be followed by spaces.
EXIT_BYTES = 512


class Job(NamedTuple):
    """What to run, and within which limits. Paths are absolute; a time limit of 0 is none.

    `report` is the writing end of a pipe to the agent, or -1. It gets a byte when the agent need not
    wait any longer (`in_background`: the command has begun; else: it has ended, and something that
    it started lives on), and is closed at the end of this process. `adopts`: whatever the command
    started is below this process, wherever it went.
    """

    directory: str
    cwd: str
    timeout_ms: int
    output_bytes_max: int
    alive: int
    report: int
    in_background: bool
    shell: str
    command: str
    adopts: bool


class Ending(NamedTuple):
    """How the command ended, and which limit ended it, if one did."""

    status: int
    reason: str


def main(arguments: list[str]) -> int:
    """Run the job that the arguments describe; the exit status tells nothing, the files do."""
    directory, cwd, timeout_ms, output_max, alive, report, background, shell, command = arguments
    limits = (int(timeout_ms), int(output_max))
    descriptors = (int(alive), int(report))
    adopts = _adopt_orphans()
    job = Job(directory, cwd, *limits, *descriptors, background == "1", shell, command, adopts)
    if job.report >= 0:
        os.set_inheritable(job.report, False)
    with contextlib.suppress(OSError):
        os.chdir(job.directory)  # so that the command's directory can be removed meanwhile
    begun = time.monotonic()
    wakeup = _listen()
    if not _claim(job):
        return 0
    outputs = (_open_output(job, "stdout"), _open_output(job, "stderr"))
    child = _spawn(job, *outputs)
    if job.in_background:
        _report(job)
    ending = _supervise(job, child, outputs, wakeup)
    _record(job, ending, outputs, int((time.monotonic() - begun) * 1000))
    _watch_what_is_left(job, outputs, wakeup)
    return 0


def _report(job: Job) -> None:
    with contextlib.suppress(OSError):  # the agent is gone, or there is no pipe
        os.write(job.report, b".")


def _adopt_orphans() -> bool:
    """Become the parent of every descendant that loses its own; False where that can't be (not Linux)."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        import ctypes  # 4 ms, so only where it is of use

        return bool(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):  # a Python without it, a system that forbids it
        return False


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
    flags = os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
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
    deadline = time.monotonic() + job.timeout_ms / 1000 if job.timeout_ms else math.inf
    pause, size = POLL_SECONDS, 0
    while True:
        status = _reap(child)
        if status is not None:
            return Ending(status, "")
        before, size = size, _largest(outputs)
        reason = _reason_to_stop(job, size, deadline)
        if reason:
            return Ending(_stop(job, child, outputs, wakeup), reason)
        pause = POLL_SECONDS if size != before else min(2 * pause, POLL_SECONDS_MAX)
        _wait_for_signal(wakeup, min(pause, deadline - time.monotonic()))


def _reap(child: int) -> int | None:
    """Collect orphans that have ended, up to the command itself; its wait status if it has."""
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if ended == child:
            return status
        if not ended:
            return None


def _largest(outputs: tuple[int, int]) -> int:
    return max(os.fstat(output).st_size for output in outputs)


def _reason_to_stop(job: Job, size: int, deadline: float) -> str:
    if _Cancelled.asked:
        return "cancelled"
    if time.monotonic() >= deadline:
        return "timed_out"
    if size > job.output_bytes_max:
        return "output_limit"
    return ""


def _stop(job: Job, child: int, outputs: tuple[int, int], wakeup: int) -> int:
    """End the command and everything that it started; returns the wait status of the command.

    The child isn't reaped before the group is killed: until then its number can't be another's.
    """
    _signal_group(child, signal.SIGTERM)
    for pid in _others(job):
        _signal(pid, signal.SIGTERM)
    _let_end(job, outputs, wakeup)
    _signal_group(child, signal.SIGKILL)
    status = _kill_rest(job, child, wakeup)
    return signal.SIGKILL if status is None else status


def _let_end(job: Job, outputs: tuple[int, int], wakeup: int) -> None:
    """Give what was told to end its time, unless it floods the disk meanwhile."""
    until = time.monotonic() + GRACE_SECONDS
    while (left := until - time.monotonic()) > 0 and _largest(outputs) <= 2 * job.output_bytes_max:
        if job.adopts and not _others(job):
            return
        _wait_for_signal(wakeup, min(left, POLL_SECONDS))


def _kill_rest(job: Job, child: int, wakeup: int) -> int | None:
    """Kill what there is until there is nothing; returns the command's wait status, if it is known."""
    status = None
    for _ in range(KILL_ROUNDS):
        for pid in _others(job):
            _signal(pid, signal.SIGKILL)
        found = _reap(child)
        status = found if found is not None else status
        if not (_has_children() or _others(job)):
            break
        _wait_for_signal(wakeup, KILL_ROUND_SECONDS)
    return status


def _signal_group(group: int, number: int) -> None:
    # macOS answers EPERM for a group of which only a zombie is left.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _has_children() -> bool:
    """Whether a child is left that has not ended (those that have are collected)."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _others(job: Job) -> set[int]:
    """The living processes that are the command's, as far as the system tells."""
    return _descendants() if job.adopts else _descendants() | _holders(job.alive)


def _descendants() -> set[int]:
    """The living processes below this one, where /proc tells (Linux)."""
    children: dict[int, list[int]] = {}
    for name in _list("/proc"):
        if name.isdigit():
            parent, state = _parent_of(name)
            if state not in {"Z", "X"}:
                children.setdefault(parent, []).append(int(name))
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        waiting.extend(pid for pid in below if pid not in found)
        found.update(below)
    return found


def _parent_of(process: str) -> tuple[int, str]:
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            # The name before it, in brackets, may have spaces and brackets.
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except (OSError, ValueError):
        return 0, "X"  # it is gone
    return int(parent), state.decode()


def _holders(alive: int) -> set[int]:
    """Processes besides this one that hold the lock, wherever they have gone (Linux).

    The lock's own mark in fdinfo is what counts: somebody who has merely opened the file to look at
    the lock isn't one of them.
    """
    ours = os.fstat(alive)
    spared = {os.getpid(), os.getppid()}
    return {
        int(name)
        for name in _list("/proc")
        if name.isdigit() and int(name) not in spared and _holds(name, ours)
    }


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


# --- what a command leaves behind ------------------------------------------------------------


def _watch_what_is_left(job: Job, outputs: tuple[int, int], wakeup: int) -> None:
    """Stay as long as something that the command started lives; its output stays within the limit."""
    if not job.adopts:
        job = _without_lock(job)
    if not _is_anything_left(job):
        return
    _report(job)
    pause, size = POLL_SECONDS, 0
    while _is_anything_left(job):
        before, size = size, _largest(outputs)
        if _Cancelled.asked or size > job.output_bytes_max:
            for pid in _others(job):
                _signal(pid, signal.SIGTERM)
            _let_end(job, outputs, wakeup)
            _kill_rest(job, 0, wakeup)
            for output in outputs:
                _cut(output, job.output_bytes_max)
            return
        pause = POLL_SECONDS if size != before else min(2 * pause, POLL_SECONDS_MAX)
        _wait_for_signal(wakeup, pause)


def _without_lock(job: Job) -> Job:
    """Let go of the lock, which the others keep: it tells of them only if this process doesn't count."""
    looking = os.open(os.path.join(job.directory, "alive"), os.O_RDONLY | os.O_CLOEXEC)
    os.close(job.alive)
    return job._replace(alive=looking)


def _is_anything_left(job: Job) -> bool:
    if job.adopts:
        return _has_children()
    try:
        fcntl.flock(job.alive, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(job.alive, fcntl.LOCK_UN)
    return False


# --- the end ---------------------------------------------------------------------------------


def _record(job: Job, ending: Ending, outputs: tuple[int, int], duration_ms: int) -> None:
    dropped = 0
    for output in outputs:
        dropped += _cut(output, job.output_bytes_max)
        if os.fstat(output).st_size == 0:
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
        "output_bytes_dropped": dropped,
        "duration_ms": duration_ms,
        "finished_at": _now(),
        "boot_id": _boot_id(),
    }
    temporary = _exit_temporary(job)
    out = os.open(temporary, os.O_WRONLY | os.O_CLOEXEC)
    _write_durably(out, json.dumps(record).encode().ljust(EXIT_BYTES))
    os.rename(temporary, os.path.join(job.directory, "exit"))
    _sync_directory(job.directory)


def _cut(output: int, size_max: int) -> int:
    """Leave head and tail of an output that is over its limit; returns how many bytes were dropped."""
    size = os.fstat(output).st_size
    if size <= size_max:
        return 0
    tail = os.pread(
        output, min(TAIL_BYTES, size_max // 4), max(size - TAIL_BYTES, size - size_max // 4)
    )
    note = b"\n[rewake: %d bytes are left out here, the output was over its limit]\n"
    head = max(size_max - len(tail) - len(note) - 20, 0)
    dropped = size - head - len(tail)
    os.ftruncate(output, head)
    with contextlib.suppress(OSError):  # a full disk; the head is there
        os.write(output, note % dropped + tail)  # it appends, wherever that is by now
    return dropped


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
