"""One generator of ids for a session and all its sub-agents, whichever thread asks.

The rule kept here: ids order the lines of a session and of its sidechains, so they come from one
generator, and two recorders that ask at the same time never get the same id.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from rewake.model.ids import EventId, IdGenerator


class SharedIds(IdGenerator):
    """An `IdGenerator` that is safe for threads."""

    def __init__(self, clock_ms: Callable[[], int], random_bits: Callable[[int], int]) -> None:
        self._mutex = threading.Lock()
        super().__init__(clock_ms, random_bits)

    def seed(self, last: str) -> None:
        """See `IdGenerator.seed`."""
        with self._mutex:
            super().seed(last)

    def __call__(self) -> EventId:
        with self._mutex:
            return super().__call__()
