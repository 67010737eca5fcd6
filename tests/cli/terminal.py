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
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

import pyte
from tests.cli.shell import DEADLINE_S, Shell

CTRL_C, CTRL_D, ESC, ENTER, TAB, UP = "\x03", "\x04", "\x1b", "\r", "\t", "\x1b[A"
SHIFT_TAB = "\x1b[Z"
# The space after it is made of cursor movements.
PROMPT = "\n>"
# What stands before the answer at hand, once a question listens.
ASKED = "❯ [y]"  # noqa: RUF001  # as it is shown
WORKING = "Esc interrupts"
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b.")


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """`rewake` with these arguments on a terminal of its own."""

    def __init__(
        self,
        shell: Shell,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        rows: int = 40,
        columns: int = 100,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen = pyte.HistoryScreen(columns, rows, history=100_000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
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
        if self._master >= 0:
            os.close(self._master)

    @property
    def raw(self) -> str:
        """All that was printed so far."""
        return self._raw.decode("utf-8", "replace")

    @property
    def screen(self) -> str:
        """What stands on the screen."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip("\n")

    @property
    def all(self) -> str:
        """What stands on the screen, and what was scrolled out of it."""
        gone = [
            "".join(line[column].data for column in range(self._screen.columns)).rstrip()
            for line in self._screen.history.top
        ]
        return "\n".join([*gone, self.screen])

    def resize(self, rows: int, columns: int) -> None:
        """Give the window another size, as a user's mouse does."""
        self._screen.resize(rows, columns)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        """Close the window."""
        os.close(self._master)
        self._master = -1

    def type(self, text: str) -> None:
        """Press keys."""
        left = text.encode()
        while left:  # a terminal takes some thousand bytes at a time
            _, writable, _ = select.select([], [self._master], [], 0.05)
            if writable:
                left = left[os.write(self._master, left[:1024]) :]
            self._read_some(0)

    def see(self, *wanted: str) -> str:
        """Read until all of it stands on the screen at once; returns the screen."""
        return self.until(lambda: all(one in self.screen for one in wanted), f"{wanted!r}")

    def see_no(self, unwanted: str) -> str:
        """Read until it doesn't stand on the screen any more."""
        return self.until(lambda: unwanted not in self.screen, f"no {unwanted!r}")

    def see_idle(self, *wanted: str) -> str:
        """Read until all of it stands there and nothing runs."""
        return self.until(
            lambda: WORKING not in self.screen and all(one in self.all for one in wanted),
            f"{wanted!r} and an idle prompt",
        )

    def ready(self) -> str:
        """Read until the prompt can be typed in and nothing runs."""

        def is_so() -> bool:
            *_, line, status = ["", "", *filter(None, self.screen.split("\n"))]
            return line.startswith(">") and "project" in status and WORKING not in self.screen

        return self.until(is_so, "an idle prompt")

    def until(self, is_so: Callable[[], bool], what: str) -> str:
        until = time.monotonic() + DEADLINE_S
        while not is_so():
            left_s = until - time.monotonic()
            assert left_s > 0, f"{what} was never seen:\n{self.all}"
            assert self._read_some(left_s) or is_so(), f"it ended before {what}:\n{self.all}"
        return self.screen

    def _read_some(self, wait_s: float) -> bool:
        """Take in what was printed; whether there may be more."""
        ready, _, _ = select.select([self._master], [], [], wait_s)
        if not ready:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:  # how Linux says that nobody has the terminal open any more
            data = b""
        self._raw += data
        self._stream.feed(data)
        return bool(data)

    def expect(self, wanted: str) -> str:
        """Read until `wanted` is shown after what was expected before; returns what came with it."""
        until = time.monotonic() + DEADLINE_S
        while True:
            shown = _SEQUENCE.sub("", self.raw)
            at = shown.find(wanted, self._seen)
            if at >= 0:
                found, self._seen = shown[self._seen : at], at + len(wanted)
                return found
            left_s = until - time.monotonic()
            assert left_s > 0, f"{wanted!r} was never shown: {shown[self._seen :]!r}"
            more = self._read_some(left_s)
            assert more, f"it ended before it showed {wanted!r}: {shown[self._seen :]!r}"

    def code(self) -> int:
        """The exit status; what is still printed is read, so that nothing blocks."""
        until = time.monotonic() + DEADLINE_S
        while self.process.poll() is None:
            assert time.monotonic() < until, "it does not end"
            if self._master >= 0 and not self._read_some(0.05):
                break
        return self.process.wait(DEADLINE_S)
