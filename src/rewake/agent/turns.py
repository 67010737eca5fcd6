"""Who goes first: what the agents of one session must not do at the same time.

The rules kept here: calls that share a key come one after the other, whichever agent makes them; and an
agent that waits for others holds no place that they might need.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import anyio


@dataclass(slots=True)
class Turns:
    """One at a time for each key. Shared by all agents of a session."""

    _locks: dict[str, anyio.Lock] = field(default_factory=dict)
    _wanted: dict[str, int] = field(default_factory=dict)

    @asynccontextmanager
    async def held(self, keys: Sequence[str]) -> AsyncIterator[None]:
        """While nobody else holds any of the keys."""
        async with AsyncExitStack() as stack:
            for key in sorted(set(keys)):  # in one order, so that no two wait for each other
                await stack.enter_async_context(self._one(key))
            yield

    @asynccontextmanager
    async def _one(self, key: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(key, anyio.Lock())
        self._wanted[key] = self._wanted.get(key, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._wanted[key] -= 1
            if not self._wanted[key]:
                del self._wanted[key], self._locks[key]


class Place:
    """One of a bounded number of places at work, for one agent after the other."""

    def __init__(self, places: anyio.Semaphore) -> None:
        self._places = places
        self._is_taken = False
        self._lent = 0

    async def take(self) -> None:
        """Wait for a place."""
        await self._places.acquire()
        if self._is_taken or self._lent:  # another task of its agent took it, or waits for others
            self._places.release()
        else:
            self._is_taken = True

    def leave(self) -> None:
        """Let another have it; harmless without one."""
        if self._is_taken:
            self._is_taken = False
            self._places.release()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """While its agent only waits for others. From several tasks at once, too."""
        self._lent += 1
        if self._lent == 1:
            self.leave()
        try:
            yield
        finally:
            self._lent -= 1
            if not self._lent:
                await self.take()
