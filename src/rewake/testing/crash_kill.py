"""Ways to kill the program: at a moment, at a system call, at a named point, while it resumes.

The rule kept here: a kill is SIGKILL, from outside or at the entry of a system call, and what is
then checked is checked at once, with the commands that the program had started still alive.

`strace` kills at the n-th call of one thread: the main one when it starts the program, the workers
(which keep file contents) when it is attached to them while the program waits at the plan's gate.
It does not follow other processes, so a command's wrapper is never hit by these.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from rewake.testing import crash_plan as plans
from rewake.testing.crash_check import after_kill
from rewake.testing.crash_report import Report
from rewake.testing.crash_world import RUN_SECONDS_MAX, World

Way = Literal["random", "main", "worker", "resume", "point", "spawn"]

# Calls that change something that outlives a process. Between two of them, kills are all alike.
CALLS: Final = (
    "openat",
    "mkdir",
    "write",
    "pwrite64",
    "ftruncate",
    "fsync",
    "fdatasync",
    "rename",
    "unlink",
    "flock",
    "fchmod",
    "vfork",
    "clone3",
)
_WORKER_CALLS: Final = ("openat", "mkdir", "write", "fsync", "fdatasync", "rename", "unlink")
_LINE: Final = re.compile(r"(\w+)\((.*)")
_POLL_SECONDS: Final = 0.002


@dataclass(frozen=True, slots=True)
class Kill:
    """One way to die. `call` is a system call or a named point, hit at the `number`-th time.

    A random moment is `after_seconds` after the `number`-th acknowledgement.
    """

    way: Way
    call: str = ""
    number: int = 0
    after_seconds: float = 0.0

    def __str__(self) -> str:
        if self.way == "random":
            return f"{self.after_seconds:.3f} s after event {self.number}"
        return f"{self.way} {self.call} {self.number}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one kill; `hit` is False when the program ended before it came to it."""

    kill: Kill
    hit: bool
    report: Report


def why_no_strace() -> str:
    """Why kills at system calls can't be made here; empty when they can."""
    strace = shutil.which("strace")
    if strace is None:
        return "strace is not installed"
    probe = subprocess.run(
        [strace, "-qq", "-o", os.devnull, "-e", "inject=getpid:signal=SIGKILL", "true"],
        capture_output=True,
        check=False,
    )
    return (
        "" if probe.returncode == 0 else f"strace can't trace here: {probe.stderr.decode()[:200]}"
    )


# --- one kill --------------------------------------------------------------------------------


def try_kill(world: World, kill: Kill) -> Outcome:
    """Start the session, kill it this way, resume it and report."""
    hit = _KILLERS[kill.way](world, kill)
    return Outcome(kill, hit, after_kill(world))


def _at_random(world: World, kill: Kill) -> bool:
    process = world.start(world.first())
    while process.poll() is None and world.acknowledged.read_bytes().count(b"\n") < kill.number:
        time.sleep(_POLL_SECONDS)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(kill.after_seconds)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def _at_main_call(world: World, kill: Kill) -> bool:
    return _died(world, [*_strace(world, kill), *world.first()])


def _strace(world: World, kill: Kill) -> list[str]:
    log = world.directory / "strace.log"
    inject = f"inject={kill.call}:signal=SIGKILL:when={kill.number}"
    return ["strace", "-qq", "-o", str(log), "-e", f"trace={kill.call}", "-e", inject]


def _died(world: World, command: list[str]) -> bool:
    return world.start(command).wait(RUN_SECONDS_MAX) == -signal.SIGKILL


def _at_worker_call(world: World, kill: Kill) -> bool:
    command = _strace(world, kill)
    process = start_at_gate(world)
    threads = [int(name) for name in os.listdir(f"/proc/{process.pid}/task")]  # noqa: PTH208  # a list is wanted
    workers = [f"--attach={thread}" for thread in threads if thread != process.pid]
    with attached([*command, *workers], [t for t in threads if t != process.pid]):
        open_gate(world)
        return process.wait(RUN_SECONDS_MAX) == -signal.SIGKILL


def _while_resuming(world: World, kill: Kill) -> bool:
    """First a kill in the middle of an answer with five effects, then one in the run after it."""
    _at_point(world, Kill("point", "after_replace_target", _INTERRUPTED_AT))
    look = world.command(plans.LOOK, plans.script_to_look(_ANSWERED), resume=True, output="json")
    return world.start_quietly([*_strace(world, kill), *look]).wait(RUN_SECONDS_MAX) == (
        -signal.SIGKILL
    )


# The second change of turn 12, the eighth of all: after a command, before another.
_INTERRUPTED_AT: Final = 8
_ANSWERED: Final = 12


def _at_point(world: World, kill: Kill) -> bool:
    world.crash_point = f"{kill.call}:{kill.number}"
    try:
        return _died(world, world.first())
    finally:
        world.crash_point = ""


_KILLERS: Final[dict[Way, Callable[[World, Kill], bool]]] = {
    "random": _at_random,
    "main": _at_main_call,
    "spawn": _at_main_call,
    "worker": _at_worker_call,
    "resume": _while_resuming,
    "point": _at_point,
}


def die(world: World, kill: Kill) -> bool:
    """Start the session and kill it this way; whether it came to that."""
    return _KILLERS[kill.way](world, kill)


# --- the gate --------------------------------------------------------------------------------


def start_at_gate(world: World) -> subprocess.Popen[bytes]:
    """Start the session; on return its second turn waits for `open_gate`."""
    gate = world.project / plans.GATE
    gate.unlink()
    os.mkfifo(gate)
    process = world.start(world.first())
    until = time.monotonic() + RUN_SECONDS_MAX
    while time.monotonic() < until and process.poll() is None:
        try:
            world.gate = os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            time.sleep(_POLL_SECONDS)  # until somebody reads at the other end
        else:
            return process
    raise AssertionError(f"the session never came to the gate: {world.stderr()}")


def open_gate(world: World) -> None:
    """Let the session go on."""
    gate = world.project / plans.GATE
    if gate.exists():
        gate.unlink()
        gate.write_text("open\n")  # for whoever has to run the command again
    os.write(world.gate, b"go\n")
    os.close(world.gate)


class attached:  # noqa: N801  # reads as a word in a with statement
    """A tracer on some threads of a process, for as long as the block runs."""

    def __init__(self, command: list[str], threads: list[int]) -> None:
        self._command = command
        self._threads = threads

    def __enter__(self) -> None:
        self._tracer = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while not all(_is_traced(thread) for thread in self._threads):
            if self._tracer.poll() is not None:
                raise AssertionError(f"the tracer ended with {self._tracer.returncode}")
            time.sleep(_POLL_SECONDS)

    def __exit__(self, *_: object) -> None:
        self._tracer.terminate()
        self._tracer.wait()


def _is_traced(thread: int) -> bool:
    status = Path(f"/proc/{thread}/status").read_text(encoding="ascii", errors="replace")
    return "\nTracerPid:\t0\n" not in status


# --- which kills there are -------------------------------------------------------------------


def random_kills(count: int, seed: int) -> Iterator[Kill]:
    """Kills at random moments, some of them before the session has begun."""
    draw = random.Random(seed)  # noqa: S311  # reproducible, not secret
    for _ in range(count):
        # Counted from an acknowledgement, so that a slow machine is killed all over the plan too.
        yield Kill(
            "random",
            number=draw.randrange(_EVENTS),
            after_seconds=draw.uniform(0, _STEP_SECONDS),
        )


# What the forty turns acknowledge, and about how long one of them takes.
_EVENTS: Final = 260
_STEP_SECONDS: Final = 0.05


def traced_calls(world: World, command: list[str], calls: str) -> list[tuple[str, str]]:
    """The system calls of the main thread of a whole run, in order, each with its arguments."""
    log = world.directory / "calls.log"
    process = world.start(["strace", "-qq", "-o", str(log), "-e", f"trace={calls}", *command])
    if process.wait(RUN_SECONDS_MAX) != 0:
        raise AssertionError(f"the traced session failed: {world.stderr()}")
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    found = [_LINE.match(line) for line in lines]
    return [(match[1], match[2]) for match in found if match]


def kills_of(
    way: Way, calls: list[tuple[str, str]], begins: Callable[[str, str], bool]
) -> Iterator[Kill]:
    """A kill at each call from the first one that `begins`, of those that can make a difference."""
    numbers: Counter[str] = Counter()
    has_begun = False
    for name, arguments in calls:
        numbers[name] += 1
        has_begun = has_begun or begins(name, arguments)
        if has_begun and not _is_like_the_next(name, arguments):
            yield Kill(way, name, numbers[name])


def _is_like_the_next(name: str, arguments: str) -> bool:
    """Whether the files are the same at the next call, and no less is acknowledged there."""
    if name == "openat":
        return "O_CREAT" not in arguments
    return name == "write" and arguments.startswith(("1,", "2,"))


def main_kills(world: World) -> list[Kill]:
    """A kill at each call of the main thread, from the first one that touches the home."""
    calls = traced_calls(world, world.first(), ",".join(CALLS))
    home = str(world.home)
    return list(kills_of("main", calls, lambda _name, arguments: home in arguments))


def resume_kills(world: World) -> list[Kill]:
    """The same for a resume that has an interrupted answer to settle."""
    _at_point(world, Kill("point", "after_replace_target", _INTERRUPTED_AT))
    look = world.command(plans.LOOK, plans.script_to_look(_ANSWERED), resume=True, output="json")
    calls = traced_calls(world, look, ",".join(CALLS))
    home = str(world.home)
    return list(kills_of("resume", calls, lambda _name, arguments: home in arguments))


def spawn_kills(world: World) -> list[Kill]:
    """A kill at every call, of any kind, from the making of a command's directory to the end."""
    calls = traced_calls(world, world.first(), "all")
    kills = kills_of(
        "spawn", calls, lambda name, arguments: name == "mkdir" and "/outputs" in arguments
    )
    return [kill for kill in kills if kill.call not in _IN_MEMORY]


_IN_MEMORY: Final = frozenset(
    {"exit_group", "brk", "munmap", "mmap", "mprotect", "getpid", "futex"}
)


def worker_kills() -> Iterator[Kill]:
    """Kills at the calls of the workers; there are fewer of each than this."""
    for call in _WORKER_CALLS:
        for number in range(1, _WORKER_CALLS_MAX):
            yield Kill("worker", call, number)


_WORKER_CALLS_MAX: Final = 18


def point_kills() -> Iterator[Kill]:
    """Kills at the named points of the program."""
    for name, most in POINTS.items():
        for number in range(1, most + 1):
            yield Kill("point", name, number)


POINTS: Final = {
    "before_write_event": 8,
    "after_write_event": 8,
    "before_sync_event": 8,
    "after_sync_event": 8,
    "before_write_blob": 8,
    "after_write_blob": 8,
    "before_rename": 8,
    "after_rename": 8,
    "before_replace_target": 8,
    "after_replace_target": 8,
    "before_timer_flush": 2,
}
