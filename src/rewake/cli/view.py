"""`rewake view`: the live view, until Ctrl-C."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

from rewake.cli.report import show_in_browser
from rewake.cli.terminal import note, say
from rewake.compose.place import find_session, place
from rewake.compose.viewing import LiveView
from rewake.errors import UsageError


def view_sessions(
    session: str | None, cwd: Path | None, *, port: int, open_: bool, redact: bool
) -> int:
    """Serve until a signal comes; returns the exit status. Raises SessionNotFoundError, UsageError."""
    at = place(cwd or ".")
    chosen = find_session(at, session).session_id if session is not None else None
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: ended.set())
    try:
        view = LiveView(at.root, home=at.home, port=port, redact=redact)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"Port {port} can't be listened on: {error}.", remedy="Choose another one with --port."
        ) from error
    with view:
        address = view.address + (f"&s={chosen}" if chosen is not None else "")
        say(address)
        note("Whoever has this address can read your sessions. Ctrl-C ends it.")
        if open_:
            show_in_browser(address)
        ended.wait()
    return 0
