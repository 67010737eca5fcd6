"""Bytes, and a yes or no, for people."""

from __future__ import annotations

import sys
from typing import Final

from rewake.cli.terminal import say
from rewake.errors import UsageError

_UNITS: Final = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
SIZE_COLUMNS: Final = 12
"""Of a column of amounts: room for some thousand GB."""
_YES: Final = frozenset({"y", "yes"})


def amount(size: int) -> str:
    """Such as 1.2 MB; powers of ten, as disks are sold."""
    for unit, one in _UNITS:
        if size >= one:
            return f"{size / one:,.1f} {unit}"
    return f"{size:,} bytes"


_OTHERWISE: Final = "Add --yes to go on without a question, or --dry-run to only look."


def confirm(question: str, *, yes: bool, otherwise: str = _OTHERWISE) -> bool:
    """Whether to go on. Raises UsageError, with `otherwise` as its remedy, where nobody can be asked."""
    if yes:
        return True
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "Nothing was removed: there is no terminal to ask on.",
            remedy=otherwise,
        )
    say(f"{question} [y]es, [n]o: ", stream=sys.stderr, end="")
    return sys.stdin.readline().strip().lower() in _YES
