"""Lines typed on a terminal that can't move its cursor; the terminal itself edits them.

The rule kept here: nothing but plain text is written, and waiting for a line holds up nothing else.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

from rewake.cli.terminal import say

_LINE_BYTES: Final = 1 << 16


async def read_line(question: str) -> str | None:
    """The next line; None at the end of the input. Cancelling it leaves what was typed."""
    say(question, end="")
    descriptor = sys.stdin.fileno()
    typed = b""
    while not typed.endswith(b"\n"):
        await _readable(descriptor)
        try:
            data = os.read(descriptor, _LINE_BYTES)
        except OSError:
            data = b""  # how Linux says that the terminal was closed
        if not data:
            return None
        typed += data
    return typed.decode("utf-8", "replace").rstrip("\r\n")


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    there = asyncio.Event()
    loop.add_reader(descriptor, there.set)
    try:
        await there.wait()
    finally:
        loop.remove_reader(descriptor)
