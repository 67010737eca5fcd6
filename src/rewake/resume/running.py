"""Commands that outlived their agent: wait for them, stop them or leave them.

The rule kept here: a process is signalled only when it is provably the command's own. That is its
wrapper, if the lock of `alive` is held, `start` names this boot, and the process of that number runs
the wrapper for this very directory; or, where the wrapper was killed, whoever holds that lock (Linux
tells). Everything else is left alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, assert_never

from rewake.log.lock import boot_id
from rewake.model.events import ShellIntent
from rewake.resume import shell
from rewake.state.world import OpenCall

OnRunning = Literal["leave", "wait", "stop"]
_WRAPPER: Final = "shell_wrapper"
# The wrapper ends what it runs within two seconds; what takes longer can't be ended (a dead mount).
_STOP_SECONDS_MAX: Final = 10
_LOOK_SECONDS: Final = 0.02


def settle_running(
    calls: Iterable[OpenCall], session_directory: Path, this_boot: str, on_running: OnRunning
) -> None:
    """Do as the user wishes with every command that still runs, before evidence is looked at.

    Waiting has no limit but the command's own. Commands that were meant to run in the background
    go on, whatever is asked for. Raises OSError when the output can't be read.
    """
    if on_running == "leave":
        return
    for call in calls:
        intent = call.intent
        if not isinstance(intent, ShellIntent) or intent.background:
            continue
        if call.status in {"started", "running"}:
            directory = session_directory / intent.output_directory
            if shell.is_below(directory, session_directory):
                _settle_one(directory, this_boot, on_running)


def _settle_one(directory: Path, this_boot: str, on_running: Literal["wait", "stop"]) -> None:
    if on_running == "wait":
        while shell.state_of(directory).state == "running":
            time.sleep(_LOOK_SECONDS)
    elif on_running == "stop":
        if shell.state_of(directory).state == "running":
            stop(directory, this_boot)
    else:
        assert_never(on_running)


def end_commands(outputs: Path) -> None:
    """End whatever a session that leaves nothing behind has running, its sub-agents' commands too.

    `outputs` has a directory for each command. What can't be ended goes on.
    """
    this_boot = boot_id()
    for directory in outputs.glob("*"):
        with contextlib.suppress(OSError):  # its directory is gone already
            stop(directory, this_boot)


def stop(directory: Path, this_boot: str) -> bool:
    """End a command with all that it started, also what it left behind when it ended itself.

    Returns whether nothing of it lives any more: False where it isn't provable which processes are
    its own, or where they can't be ended. Blocks up to ten seconds. Raises OSError.
    """
    start = shell.inspect(directory).start
    until = time.monotonic() + _STOP_SECONDS_MAX
    while shell.state_of(directory).is_alive:
        if time.monotonic() >= until or start.boot_id not in {"", this_boot}:
            return False
        if _is_wrapper(start.pid, directory):
            # It ends what it runs and records the end; a moment later it may be gone itself.
            with contextlib.suppress(ProcessLookupError):
                os.kill(start.pid, signal.SIGTERM)
        elif not _kill_holders(directory / shell.ALIVE) and shell.state_of(directory).is_alive:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _is_wrapper(pid: int, directory: Path) -> bool:
    if pid <= 1:
        return False
    arguments = _arguments_of(pid)
    # In another container the same number may be the wrapper of another command.
    return any(_WRAPPER in part for part in arguments) and any(
        _is_same(part, directory) for part in arguments
    )


def _is_same(argument: str, directory: Path) -> bool:
    """Whether an argument names the directory, on whatever way."""
    if argument == os.fspath(directory):
        return True
    try:
        return argument.startswith("/") and Path(argument).samefile(directory)
    except (OSError, ValueError):
        return False


def _kill_holders(alive: Path) -> int:
    """Kill the processes that hold the lock of `alive`, and those below them; returns how many."""
    ours = alive.stat()
    parents = dict(_parents())
    found = {pid for pid in parents if pid != os.getpid() and _holds(pid, ours)}
    while below := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= below
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def _parents() -> Iterator[tuple[int, int]]:
    """Each process with its parent, where /proc tells (Linux)."""
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            # The name before it, in brackets, may have spaces and brackets.
            yield int(entry.parent.name), int(entry.read_bytes().rpartition(b")")[2].split()[1])


def _holds(pid: int, ours: os.stat_result) -> bool:
    """Whether a process has the locked file open; one that merely looks at the lock doesn't count."""
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if os.path.samestat(descriptor.stat(), ours):
                    return b"FLOCK" in Path(f"/proc/{pid}/fdinfo/{descriptor.name}").read_bytes()
    return False


def _arguments_of(pid: int) -> list[str]:
    """The arguments of a process; empty where the system doesn't tell or there is none."""
    with contextlib.suppress(OSError):
        return [
            os.fsdecode(part) for part in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        ]
    import subprocess  # only where there is no /proc, and slow to import

    with contextlib.suppress(OSError):
        asked = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split(" ")
    return []
