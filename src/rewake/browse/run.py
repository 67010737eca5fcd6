"""Runs the browser in the terminal: to look around, or to pick one session."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from rewake.compose.place import Place
from rewake.errors import RewakeError

if TYPE_CHECKING:
    from rewake.browse.app import Browser, Choice


class BrowserFailedError(RewakeError):
    """The browser couldn't start or has stopped at an error, which it has shown."""


def browse(at: Place, *, everywhere: bool) -> Choice | None:
    """Browse until the user leaves; what to go on with, None for nothing.

    Raises BrowserFailedError.
    """
    return _result(_browser(at, everywhere=everywhere))


def pick_session(at: Place) -> str | None:
    """The id of the session that the user picked; None for none. Raises BrowserFailedError."""
    choice = _result(_browser(at, picks=True))
    return choice.session_id if choice is not None else None


async def pick_session_async(at: Place) -> str | None:
    """The same inside an event loop."""
    app = _browser(at, picks=True)
    choice = await app.run_async()
    _require_success(app)
    return choice.session_id if choice is not None else None


def _browser(at: Place, *, everywhere: bool = False, picks: bool = False) -> Browser:
    # Importing the toolkit and starting it is a fifth faster so; the browser enables it again.
    gc.disable()
    try:
        from rewake.browse.app import Browser
    except ImportError as error:
        gc.enable()
        raise BrowserFailedError(
            f"The browser can't be started: {error}.", remedy="Install textual again."
        ) from error
    return Browser(at, everywhere=everywhere, picks=picks)


def _result(app: Browser) -> Choice | None:
    choice = app.run()
    _require_success(app)
    return choice


def _require_success(app: Browser) -> None:
    if app.return_code:
        raise BrowserFailedError(
            "The browser stopped at an error, which is shown above.",
            remedy="List the sessions with `rewake sessions`.",
        )
