"""A real terminal for tests: a pty with `rewake` on it, and somebody who types and reads."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tests.cli.shell import DEADLINE_S, Shell

CTRL_C, CTRL_D, ESC, ENTER = "\x03", "\x04", "\x1b", "\r"
# The space after it is made of cursor movements.
PROMPT = "\n>"
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b.")


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """`rewake` with these arguments on a terminal of its own."""

    def __init__(self, shell: Shell, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rewake", *arguments],
            cwd=shell.project,
            env={**shell.environ, "PROMPT_TOOLKIT_NO_CPR": "1", **(env or {})},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509  # Ctrl-C needs a controlling terminal
        )
        os.close(slave)
        self._raw = b""
        self._seen = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    @property
    def raw(self) -> str:
        """All that was printed so far."""
        return self._raw.decode("utf-8", "replace")

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def expect(self, wanted: str) -> str:
        """Read until `wanted` is shown after what was expected before; returns what came with it."""
        until = time.monotonic() + DEADLINE_S
        while True:
            shown = _SEQUENCE.sub("", self.raw)
            at = shown.find(wanted, self._seen)
            if at >= 0:
                found, self._seen = shown[self._seen : at], at + len(wanted)
                return found
            ready, _, _ = select.select([self._master], [], [], max(until - time.monotonic(), 0))
            assert ready, f"{wanted!r} was never shown: {shown[self._seen :]!r}"
            try:
                data = os.read(self._master, 65536)
            except OSError:  # how Linux says that nobody has the terminal open any more
                data = b""
            assert data, f"it ended before it showed {wanted!r}: {shown[self._seen :]!r}"
            self._raw += data

    def code(self) -> int:
        """The exit status; what is still printed is read, so that nothing blocks."""
        until = time.monotonic() + DEADLINE_S
        while self.process.poll() is None:
            assert time.monotonic() < until, "it does not end"
            ready, _, _ = select.select([self._master], [], [], 0.05)
            if ready:
                try:
                    self._raw += os.read(self._master, 65536)
                except OSError:
                    break
        return self.process.wait(DEADLINE_S)
