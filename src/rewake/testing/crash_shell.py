"""The race around one shell command: its wrapper killed anywhere, recovery at any moment.

The rule kept here: the command counts itself, in a file that nobody else writes; the verdict is the
one that a resume would record; the two are compared when nothing of the command lives any more.
"""

from __future__ import annotations

import fcntl
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import rewake
from rewake.model.events import ShellIntent
from rewake.resume.evidence import settle
from rewake.state.world import OpenCall

# By path: this package knows nothing of the agent, whose program the wrapper is.
WRAPPER: Final = Path(rewake.__file__).parent / "agent" / "tools" / "shell_wrapper.py"
_OUTPUT: Final = "outputs/call"
_COMMAND: Final = "echo ran >> counter"
_SECONDS_MAX: Final = 30
_LINE: Final = re.compile(r"(\w+)\((.*)")
# About what the wrapper needs from its spawn to its end.
_RACE_SECONDS: Final = 0.06


@dataclass(frozen=True, slots=True)
class Race:
    """What one command came to. `problem` is empty when verdict and truth agree."""

    verdict: str
    ran: int
    problem: str


@dataclass(frozen=True, slots=True)
class Lab:
    """A session's directory with one command's output, and the project it runs in."""

    directory: Path

    @classmethod
    def at(cls, directory: Path) -> Lab:
        """Make the directories as the agent does."""
        lab = cls(directory)
        (directory / "session" / _OUTPUT).mkdir(parents=True)
        (directory / "project").mkdir()
        return lab

    @property
    def output(self) -> Path:
        """Where the wrapper writes."""
        return self.directory / "session" / _OUTPUT

    def start(self, *tracer: str) -> subprocess.Popen[bytes]:
        """Start the wrapper as the agent does, under a tracer if one is given."""
        alive = os.open(self.output / "alive", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(alive, fcntl.LOCK_EX)
            project = str(self.directory / "project")
            return subprocess.Popen(
                [
                    *(*tracer, sys.executable, "-I", "-S", str(WRAPPER), str(self.output), project),
                    *("20000", "1000000", str(alive), "-1", "0", "/bin/sh", _COMMAND),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(alive,),
                cwd=self.output,
                start_new_session=True,
            )
        finally:
            os.close(alive)

    def verdict(self) -> str:
        """What a resume would say now. Without a `start` it claims the command, as a resume does."""
        intent = ShellIntent(_COMMAND, str(self.directory / "project"), _OUTPUT)
        call = OpenCall("call", "Bash", "started", intent=intent)
        (settled,) = settle(
            [call], session_directory=self.directory / "session", boot_id="", read_blob=None
        )
        return settled.resolution.verdict

    def ran(self) -> int:
        """How often the command ran, once nothing of it lives any more."""
        with (self.output / "alive").open() as alive:
            fcntl.flock(alive, fcntl.LOCK_SH)
        try:
            return (self.directory / "project" / "counter").read_text().count("ran\n")
        except FileNotFoundError:
            return 0

    def judge(self) -> Race:
        """The verdict now, against what turns out to have happened."""
        said = self.verdict()
        ran = self.ran()
        final = self.verdict() if said == "still_running" else said
        problem = ""
        if ran > 1:
            problem = f"it ran {ran} times"
        elif {"applied": 1, "not_applied": 0}.get(final, ran) != ran:
            problem = f"said to be {final}, it ran {ran} times"
        elif final not in {"applied", "not_applied", "unknown"}:
            problem = f"{final}, although nothing of it lives"
        return Race(final, ran, problem)


def wrapper_calls(directory: Path) -> list[tuple[str, int]]:
    """The wrapper's own system calls from its beginning on, each with how many of it went before."""
    lab = Lab.at(directory)
    log = directory / "calls.log"
    lab.start("strace", "-qq", "-o", str(log)).wait(_SECONDS_MAX)
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    found = [match for match in map(_LINE.match, lines) if match]
    numbers: Counter[str] = Counter()
    has_begun = False
    calls = []
    for match in found:
        numbers[match[1]] += 1
        has_begun = has_begun or (match[1] == "chdir" and _OUTPUT in match[2])
        if has_begun:
            calls.append((match[1], numbers[match[1]]))
    return calls


def kill_wrapper(directory: Path, call: str, number: int) -> Race:
    """Kill the wrapper at one system call, then judge."""
    lab = Lab.at(directory)
    inject = f"inject={call}:signal=SIGKILL:when={number}"
    tracer = ("strace", "-qq", "-o", os.devnull, "-e", f"trace={call}", "-e", inject)
    lab.start(*tracer).wait(_SECONDS_MAX)
    return lab.judge()


def races(directory: Path, count: int, seed: int) -> Iterator[Race]:
    """Recovery at random moments of a wrapper that lives on: who is first, claims the command."""
    draw = random.Random(seed)  # noqa: S311  # reproducible, not secret
    for number in range(count):
        lab = Lab.at(directory / str(number))
        process = lab.start()
        time.sleep(draw.uniform(0, _RACE_SECONDS))
        race = lab.judge()
        process.wait(_SECONDS_MAX)
        late = lab.ran()
        if late != race.ran:
            race = Race(race.verdict, late, f"it ran after it was judged ({race.verdict})")
        yield race
