"""One lazily started daemon thread that writes out what has waited its time.

The rule kept here: recording an event never wakes a thread that is already awake (a notification
costs more than the event), and an idle session costs no wake-ups at all.
"""

from __future__ import annotations

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
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def start(self) -> None:
        """Have `tick` called soon, and again for as long as it asks to be."""
        # In this order, a KeyboardInterrupt anywhere in here leaves a timer that still works.
        self._wake.set()
        if self._thread is None or self._thread.ident is None:
            self._thread = threading.Thread(target=self._run, name="rewake-flush", daemon=True)
            self._thread.start()
        self.awake = True

    def stop(self) -> None:
        """End the thread and wait for it, unless it is the caller itself."""
        self._stopped = True
        self._wake.set()
        thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        delay_s: float | None = None
        while True:
            if self._wake.wait(delay_s):
                self._wake.clear()
            if self._stopped:
                self._wake.set()  # for a second thread, left by an interrupted `start`
                return
            delay_s = self._tick()
