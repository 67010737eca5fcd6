"""A progress bar on stderr, for what may take more than a moment.

The rule kept here: it shows itself only on a terminal and only once it is worth it, and leaves
nothing behind.
"""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType
from typing import Final, Self

from rewake.cli.terminal import say

_FIRST_S: Final = 0.3  # what is done by then needs no bar
_NEXT_S: Final = 0.1
_COLUMNS: Final = 30
_MB: Final = 1_000_000


class Bar:
    """Call `show` with what is done and what there is to do, in bytes or in `unit`s."""

    def __init__(self, label: str, unit: str = "MB") -> None:
        self._label = label
        self._unit = unit
        self._is_wanted = sys.stderr is not None and sys.stderr.isatty()
        self._next_s = time.monotonic() + _FIRST_S
        self._is_shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_shown:
            say("\r\x1b[K", stream=sys.stderr, end="")

    def show(self, done: int, total: int) -> None:
        """Draw it, if it is time to."""
        if not self._is_wanted or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + _NEXT_S
        self._is_shown = True
        share = min(done / total, 1.0) if total > 0 else 1.0
        filled = round(share * _COLUMNS)
        bar = "█" * filled + "░" * (_COLUMNS - filled)
        line = f"{self._label} {bar} {share:4.0%}  {self._amount(done)} of {self._amount(total)}"
        columns = shutil.get_terminal_size((100, 24)).columns
        say(f"\r{line[: columns - 1]}\x1b[K", stream=sys.stderr, end="")

    def _amount(self, count: int) -> str:
        if self._unit == "MB":
            return f"{count / _MB:,.0f} MB"
        return f"{count:,} {self._unit}"
