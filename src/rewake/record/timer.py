"""One lazily started thread that writes out what has waited its time.

The rules kept here:

- Recording an event never wakes a thread that is already awake (a notification costs more than the
  event), and an idle session costs no wake-ups at all.
- A KeyboardInterrupt in the thread that records leaves a timer that still works. `threading.Event`
  and `Thread.start` don't promise that: they are Python code that can be interrupted while it holds
  their inner lock (seen: the next `set` waits for ever). Bare locks and `_thread` are not.
"""

from __future__ import annotations

import _thread
import contextlib
import threading
from collections.abc import Callable

# How many seconds until there may be work again; None when nothing waits.
Tick = Callable[[], float | None]


class FlushTimer:
    """Calls `tick` while there is work. `tick` runs in the timer's thread and must not raise.

    `awake` says that `tick` will be called by itself; whoever implements `tick` sets it to False,
    under the same mutex as `start` is called with, when it returns None.
    """

    def __init__(self, tick: Tick) -> None:
        self.awake = False
        self._tick = tick
        self._stopped = False
        self._is_started = False
        self._ident = 0
        # Each is a signal: acquiring waits for it, releasing gives it.
        self._wake = threading.Lock()
        self._wake.acquire()
        self._ended = threading.Lock()
        self._ended.acquire()

    def start(self) -> None:
        """Have `tick` called soon, and again for as long as it asks to be."""
        if not self._is_started:
            # Interrupted before the next line, a second thread is started later; both work.
            _thread.start_new_thread(self._run, ())
            self._is_started = True
        _give(self._wake)
        self.awake = True

    def stop(self) -> None:
        """End the thread and wait for it, unless it is the caller itself."""
        self._stopped = True
        _give(self._wake)
        if self._is_started and self._ident != threading.get_ident():
            with self._ended:
                _give(self._wake)

    def _run(self) -> None:
        self._ident = threading.get_ident()
        try:
            delay_s: float | None = None
            while True:
                self._wake.acquire(timeout=-1 if delay_s is None else delay_s)
                if self._stopped:
                    return
                delay_s = self._tick()
        finally:
            _give(self._ended)


def _give(signal: threading.Lock) -> None:
    with contextlib.suppress(RuntimeError):  # it is given already, which is as good
        signal.release()
