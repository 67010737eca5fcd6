"""Commands that outlived their agent: wait for them, stop them or leave them.

The rule kept here: a process is signalled only when it is provably the command's own wrapper: the
lock of its `alive` is held, its `start` names this boot, and the process of that number runs the
wrapper. Otherwise the command is left alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, assert_never

from rewake.model.events import ShellIntent
from rewake.resume import shell
from rewake.state.world import OpenCall

OnRunning = Literal["leave", "wait", "stop"]
_WRAPPER: Final = "shell_wrapper"


def settle_running(
    calls: Iterable[OpenCall], session_directory: Path, boot_id: str, on_running: OnRunning
) -> None:
    """Do as the user wishes with every command that still runs, before evidence is looked at.

    Waiting has no limit but the command's own. Raises OSError when the output can't be read.
    """
    if on_running == "leave":
        return
    for call in calls:
        if isinstance(call.intent, ShellIntent) and call.status in {"started", "running"}:
            directory = session_directory / call.intent.output_directory
            if shell.is_below(directory, session_directory):
                _settle_one(directory, boot_id, on_running)


def _settle_one(directory: Path, boot_id: str, on_running: Literal["wait", "stop"]) -> None:
    status = shell.inspect(directory)
    if status.state != "running":
        return
    if on_running == "wait":
        shell.wait(directory)
    elif on_running == "stop":
        if status.start.boot_id == boot_id and _is_wrapper(status.start.pid):
            # The wrapper ends its whole group and records the end; a moment later it may be gone.
            with contextlib.suppress(ProcessLookupError):
                os.kill(status.start.pid, signal.SIGTERM)
            shell.wait(directory)
    else:
        assert_never(on_running)


def _is_wrapper(pid: int) -> bool:
    return pid > 1 and _WRAPPER in _command_of(pid)


def _command_of(pid: int) -> str:
    """The command line of a process; empty where the system doesn't tell or there is none."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    import subprocess  # only where there is no /proc, and slow to import

    with contextlib.suppress(OSError):
        asked = ["ps", "-o", "command=", "-p", str(pid)]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    return ""
