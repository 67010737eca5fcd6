"""Text on its way to a terminal: cleaned, cut to the width, coloured only where colour is wanted.

The rule kept here: text that came from a model, a file, a command or a user's prompt never reaches
the terminal with control sequences or characters that change the direction of writing.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TextIO

from rewake.screentext import clean as clean  # noqa: PLC0414  # commands look for it here
from rewake.screentext import fit as fit  # noqa: PLC0414
from rewake.screentext import one_line as one_line  # noqa: PLC0414
from rewake.screentext import width as width  # noqa: PLC0414

_UNFINISHED: Final = re.compile(
    r"(?:\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)|\x9b[0-?]*[ -/]*|\r)\Z"
)
# A pipe without a reader, a terminal that was closed.
GONE: Final = frozenset({errno.EPIPE, errno.EIO})
_HELD_CHARS_MAX: Final = 4096  # a sequence longer than this is none; don't hold a stream up for it


class StreamCleaner:
    """Cleans text that comes in pieces, also where a sequence is cut apart between two of them."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """The clean text that is certain by now."""
        text = self._held + piece
        unfinished = _UNFINISHED.search(text)
        if unfinished is None or len(text) - unfinished.start() > _HELD_CHARS_MAX:
            self._held = ""
            return clean(text)
        self._held = text[unfinished.start() :]
        return clean(text[: unfinished.start()])

    def finish(self) -> str:
        """What was held back."""
        held, self._held = self._held, ""
        return clean(held)


@dataclass(frozen=True, slots=True)
class Style:
    """Colours, or nothing at all where they aren't wanted. What is coloured must be clean."""

    enabled: bool

    def _in(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.enabled and text else text

    def bold(self, text: str) -> str:
        return self._in("1", text)

    def dim(self, text: str) -> str:
        return self._in("2", text)

    def red(self, text: str) -> str:
        return self._in("31", text)

    def green(self, text: str) -> str:
        return self._in("32", text)

    def yellow(self, text: str) -> str:
        return self._in("33", text)

    def cyan(self, text: str) -> str:
        return self._in("36", text)


def style_for(stream: TextIO, environ: Mapping[str, str] = os.environ) -> Style:
    """Colour only on a terminal that knows it, and not under NO_COLOR (https://no-color.org)."""
    wanted = not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    return Style(wanted and stream.isatty())


def can_browse(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether there is a terminal that can show more than lines."""
    has_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
    return has_terminal and environ.get("TERM", "") not in {"", "dumb"}


def prepare_streams() -> None:
    """Let a character that the terminal's encoding doesn't have cost itself, not the program."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def let_readers_leave() -> None:
    """End quietly when a pager or `head` has seen enough, as every Unix tool does.

    Only for commands that do nothing but print.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def say(text: str = "", *, stream: TextIO | None = None, end: str = "\n") -> None:
    """Print and flush; `text` must be clean. A reader that has gone away is no error.

    Neither is a terminal that was closed.
    """
    out = sys.stdout if stream is None else stream
    try:
        out.write(text + end)
        out.flush()
    except OSError as error:
        if error.errno not in GONE:
            raise
        silence(out)


def silence(stream: TextIO) -> None:
    """Nobody reads this stream any more: let what is still written to it go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def note(text: str) -> None:
    """One clean line to stderr."""
    say(clean(text), stream=sys.stderr)


def diff_lines(preview: str, style: Style) -> str:
    """A diff with its added and removed lines coloured."""
    coloured = []
    for line in clean(preview).split("\n"):
        if line.startswith(("+++", "---")):
            coloured.append(style.bold(line))
        elif line.startswith("+"):
            coloured.append(style.green(line))
        elif line.startswith("-"):
            coloured.append(style.red(line))
        elif line.startswith("@@"):
            coloured.append(style.cyan(line))
        else:
            coloured.append(line)
    return "\n".join(coloured)
