"""Somebody at the browser: keys, waiting for what is to be seen, and the screen as text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from tests.browse.seed import Seeded
from textual.pilot import Pilot

from rewake.browse.app import Browser, Choice

SMALL, LARGE = (80, 24), (120, 40)
_DEADLINE_S = 15
_LOOK_S = 0.02


class Reader:
    """Presses keys and reads the screen."""

    def __init__(self, app: Browser, pilot: Pilot[Choice | None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def screen(self) -> str:
        """What is on the screen, line by line."""
        lines = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text for strip in lines)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def sees(self, wanted: str) -> str:
        """Wait until it is on the screen; returns the screen."""
        await self.until(lambda: wanted in self.screen, wanted)
        return self.screen

    async def until(self, is_so: Callable[[], bool], what: str = "") -> None:
        end = time.monotonic() + _DEADLINE_S
        while not is_so():
            assert time.monotonic() < end, f"never saw {what!r} in:\n{self.screen}"
            await self.pilot.pause(_LOOK_S)


@asynccontextmanager
async def looking(
    seeded: Seeded, size: tuple[int, int] = SMALL, **options: Any
) -> AsyncIterator[Reader]:
    """The browser with somebody at it."""
    app = Browser(seeded.at, environ=options.pop("environ", {}), **options)
    async with app.run_test(size=size, notifications=True) as pilot:
        yield Reader(app, pilot)


def run(story: Coroutine[Any, Any, None]) -> None:
    """Run what somebody does."""
    asyncio.run(story)
