"""Runs a server and sees to its end: it dies with the agent, whatever the agent dies of.

Run as a script by an interpreter without site packages: `supervisor.py CONTROL COMMAND ARGUMENT…`. It
leads a process group of its own. CONTROL is the read end of a pipe that nobody but the agent writes to:
when it ends, the agent is gone or wants the server gone, and the whole group is ended. When the server
ends, so does what it left behind. Imports nothing but the standard library, and starts in a moment.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

_GRACE_S = 0.5  # so that an interrupted agent is gone within two seconds
_LOOK_S = 0.02
_NOT_FOUND = 127


def main(arguments: list[str]) -> int:
    """Run the command until it ends or the control pipe does; returns its exit status."""
    control = int(arguments[0])
    if os.getpgrp() != os.getpid():
        os.setsid()  # what it ends must never be somebody else's group
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    try:
        server = subprocess.Popen(arguments[1:])
    except OSError as error:
        os.write(2, f"{arguments[1]} could not be started: {error.strerror}\n".encode())
        return _NOT_FOUND
    # The pipes to the agent are the server's alone, so that their end is its end.
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    while server.poll() is None:
        readable, _, _ = select.select([control, wake_read], [], [])
        if control in readable:
            break
        os.read(wake_read, 4096)
    _end_group(server)
    code = server.poll()
    return code if code is not None and code >= 0 else 1


def _end_group(server: subprocess.Popen[bytes]) -> None:
    """Ask what is left of the group to end, then kill it, this process with it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    until = time.monotonic() + _GRACE_S
    while server.poll() is None and time.monotonic() < until:
        time.sleep(_LOOK_S)
    if server.returncode is None or _has_company():
        os.killpg(0, signal.SIGKILL)


def _has_company() -> bool:
    """Whether anything but this process is in its group, as far as this system tells."""
    group = os.getpgrp()
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():  # noqa: PTH112, PTH208  # fast to start
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if os.getpgid(int(name)) == group:
                return True
    return not os.path.isdir("/proc/self")  # noqa: PTH112  # fast to start


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
