"""Where the prompt of `-p` comes from: the argument, stdin, or both.

The rule kept here: input that was piped in is never left out silently.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from typing import Final

from rewake.cli.terminal import note
from rewake.errors import UsageError

STDIN: Final = "-"
# A program that starts others may leave them a pipe that never says anything: don't wait for ever.
_FIRST_BYTE_WAIT_S: Final = 3.0
_READ_BYTES: Final = 1 << 16


def full_prompt(argument: str, *, may_be_empty: bool) -> str | None:
    """The prompt; None for an empty one. Raises UsageError unless that is allowed."""
    if argument == STDIN:
        text = _decoded(_read_all())
    else:
        text = _joined(argument, _piped())
    if text.strip():
        return text
    if may_be_empty:
        return None
    raise UsageError(
        "The prompt is empty.",
        remedy='Write it after -p, or pipe it in: echo "…" | rewake -p -',
    )


def _joined(argument: str, piped: str) -> str:
    if not piped.strip():
        return argument
    return f"{argument}\n\n{piped}" if argument.strip() else piped


def _piped() -> str:
    """What was piped in besides the prompt; empty for a terminal, a device or a silent pipe."""
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError, AttributeError):
        return ""  # stdin is closed
    if stat.S_ISREG(mode):
        return _decoded(_read_all())
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return ""
    readable, _, _ = select.select([descriptor], [], [], _FIRST_BYTE_WAIT_S)
    if not readable:
        note(
            f"Nothing came through the pipe on stdin within {_FIRST_BYTE_WAIT_S:g} s, so it is not "
            "waited for. Use -p - to wait, or < /dev/null to say that there is none."
        )
        return ""
    return _decoded(_read_all())


def _read_all() -> bytes:
    if sys.stdin is None:
        return b""
    pieces = []
    while piece := os.read(sys.stdin.fileno(), _READ_BYTES):
        pieces.append(piece)
    return b"".join(pieces)


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")
