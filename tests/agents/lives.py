"""Runs a session with sub-agents in processes that kill themselves at a chosen place.

It reads one JSON line per life from its input (see `Life`), forks a child that lives it (the imports
are paid once), waits for it and writes `STATUS POINTS`: how it ended (negative: the signal) and how many
crash points it came to.

What is done there, and by what model: `rewake.testing.crash_agents`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, NoReturn

import anyio
import msgspec
from tests.agents.crew import Crew

from rewake.log.disk import set_crash_hook
from rewake.testing.crash_agents import PlannedModel


class Life(msgspec.Struct):
    """`kill_at`: at which crash point to die; 0 for not at all."""

    home: str
    project: str
    kill_at: int = 0
    prompt: str | None = "Go."
    durability: str = "process"


class Hook:
    """Counts crash points, and dies at one."""

    def __init__(self, kill_at: int) -> None:
        self._mutex = threading.Lock()
        self._kill_at = kill_at
        self.count = 0

    def __call__(self, name: str) -> None:
        with self._mutex:
            self.count += 1
            if self.count == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
                signal.pause()


def be_child(life: Life, write_end: int) -> NoReturn:
    """Live, and never return into the parent's loop."""
    status = 2
    hook = Hook(life.kill_at)
    set_crash_hook(hook)
    try:
        crew = Crew(Path(life.home), Path(life.project), durability=life.durability)
        model: Any = PlannedModel()
        result = crew.run(model, life.prompt)
        if result.reason == "done":
            status = 0
        else:
            sys.stderr.write(f"{result}\n")
        os.write(write_end, str(hook.count).encode())
    except BaseException:  # noqa: BLE001  # a defect: shown, and the status says so
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Fork one child a line."""
    for line in sys.stdin:
        life = msgspec.json.decode(line, type=Life)
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            be_child(life, write_end)
        os.close(write_end)
        _, status = os.waitpid(pid, 0)
        points = os.read(read_end, 100).decode() or "0"
        os.close(read_end)
        print(f"{os.waitstatus_to_exitcode(status)} {points}", flush=True)  # noqa: T201  # the test reads it


if __name__ == "__main__":
    anyio.run(anyio.sleep, 0)  # what every life needs is loaded once
    main()
