"""Signals become an orderly end: the run is cancelled, its calls are settled, its end is recorded.

The rule kept here: a signal never raises at a random place. The event loop hears of it, cancels what
runs, and whoever runs it records why. Only a second Ctrl-C ends the process at once; what was
acknowledged is on disk by then, so a resume finds it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Final, Literal, TypeVar

import anyio

from rewake.errors import ExitCode

StopReason = Literal["interrupted", "terminated", "hangup"]
_Result = TypeVar("_Result")

_REASONS: Final[dict[signal.Signals, StopReason]] = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "hangup",
}


class Stopper:
    """Hears signals for one event loop. `reason` says which came first; None while none has."""

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self._scope: anyio.CancelScope | None = None
        # Hears of a second Ctrl-C while the first one is at work; the third then ends the process.
        self.on_second: Callable[[], None] | None = None
        self._listeners: list[Callable[[], None]] = []
        self._loop = asyncio.get_running_loop()

    def install(self) -> None:
        """Listen from now on. Must be called in the main thread, with the loop running."""
        for number, reason in _REASONS.items():
            # `nohup` ignores SIGHUP on purpose. Ctrl-C and SIGTERM are meant for whoever gets them.
            if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            self._loop.add_signal_handler(number, self.stop, reason)

    def stop(self, reason: StopReason) -> None:
        """Cancel what runs now, for this reason. In the loop's thread only."""
        if self.reason is None:
            self.reason = reason
        if self._scope is not None:
            if reason == "interrupted":
                self._die_at_the_next()
            self._scope.cancel()
        for listener in tuple(self._listeners):
            listener()

    def _die_at_the_next(self) -> None:
        # Not through the loop: it may be busy for seconds waiting for a command to die.
        self._loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, self._second if self.on_second is not None else _die)

    def _second(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # the shape of a handler
        signal.signal(signal.SIGINT, _die)
        if self.on_second is not None:
            self.on_second()

    def forget(self) -> None:
        """Go on after a Ctrl-C, as an interactive session does."""
        self.reason = None
        self._loop.add_signal_handler(signal.SIGINT, self.stop, "interrupted")

    def on_stop(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have `listener` called at each signal; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def run(self, work: Callable[[], Awaitable[_Result]]) -> _Result | None:
        """The result of `work`, or None when a signal came before its end."""
        if self.reason is not None:
            return None
        with anyio.CancelScope() as scope:
            self._scope = scope
            try:
                return await work()
            finally:
                self._scope = None
        return None


def _die(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # the shape of a handler
    os._exit(ExitCode.INTERRUPTED)
