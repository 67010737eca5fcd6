"""The application around the screens: what it may do, how it works in the background, its themes.

The rules kept here: reading and writing happen in threads, never in the interface; one look at a
session at a time, and one that nobody waits for any more isn't begun; a change that fails is told
with its remedy and the browser goes on.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar

from rich.theme import Theme
from textual.app import App
from textual.binding import Binding, BindingType

from rewake.browse.sessions_screen import SessionsScreen
from rewake.compose.place import Place
from rewake.errors import RewakeError
from rewake.screentext import clean

# Rich's own puts code on black, also on a light screen.
_MARKDOWN: Final = Theme({"markdown.code": "bold cyan", "markdown.table.header": "bold"})

T = TypeVar("T")

_LIGHT_BACKGROUNDS: Final = frozenset({"7", "15"})


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user left the browser for: to go on with this session."""

    session_id: str


class Browser(App[Choice | None]):
    """The browser; with `picks` Enter chooses a session instead of looking into it."""

    TITLE = "Rewake"
    CSS_PATH = "browse.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "keys", "Keys", key_display="?"),
        Binding("l", "change_light", "Light/dark", show=False),
        Binding("q", "leave", "Quit"),
        Binding("ctrl+c,ctrl+q", "leave", "Quit", show=False, priority=True),
    ]

    def __init__(
        self,
        at: Place,
        *,
        everywhere: bool = False,
        picks: bool = False,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._has_colour = not environ.get("NO_COLOR")
        # Only with the terminal's own colours does the toolkit leave out all of them.
        super().__init__(ansi_color=None if self._has_colour else True)
        self.at = at
        self._looks = ThreadPoolExecutor(1, "look")
        self._list = SessionsScreen(everywhere=everywhere, picks=picks)
        self._set_light(is_light=_has_light_background(environ))

    def get_default_screen(self) -> SessionsScreen:
        """The list."""
        return self._list

    def on_mount(self) -> None:
        """Collect garbage again once the screen is there (see `run.py`)."""
        self.console.push_theme(_MARKDOWN)
        self.call_after_refresh(_collect_again)

    def on_unmount(self) -> None:
        """Nobody waits for looks any more."""
        gc.enable()
        self._looks.shutdown(wait=False, cancel_futures=True)

    # --- light and dark ------------------------------------------------------------------

    @property
    def is_dark(self) -> bool:
        """Whether the background is dark."""
        return self.current_theme.dark

    def _set_light(self, *, is_light: bool) -> None:
        # Without colour the terminal's own two are used, and nothing is painted over them.
        family = "textual" if self._has_colour else "ansi"
        self.theme = f"{family}-{'light' if is_light else 'dark'}"

    def action_change_light(self) -> None:
        """From light to dark and back."""
        self._set_light(is_light=self.is_dark)

    # --- in the background ---------------------------------------------------------------

    async def look(self, read: Callable[[], T]) -> T:
        """Read in the one thread for looks. Raises what `read` raises."""
        return await asyncio.get_running_loop().run_in_executor(self._looks, read)

    def change(self, act: Callable[[], T], then: Callable[[T], None]) -> None:
        """Change something in a thread; `then` is called with the result if that went well."""

        async def work() -> None:
            try:
                result = await asyncio.to_thread(act)
            except RewakeError as error:
                self.tell_error(error)
                return
            then(result)

        self.run_worker(work(), group="change")

    def tell(self, text: str) -> None:
        """A note to the user."""
        self.notify(clean(text), markup=False)

    def tell_error(self, error: RewakeError) -> None:
        """What went wrong and what to do about it."""
        text = f"{error.message} {error.remedy}".strip()
        self.notify(clean(text), severity="error", timeout=10, markup=False)

    def changed(self, session_id: str) -> None:
        """A session isn't as listed any more, or is new: read the list again."""
        self._list.reload(keep=session_id)

    # --- leaving -------------------------------------------------------------------------

    def resume(self, session_id: str) -> None:
        """Leave, to go on with this session."""
        self.exit(Choice(session_id))

    def copy(self, text: str) -> None:
        """Put a text into the clipboard of the user's terminal, also over ssh (OSC 52)."""
        self.copy_to_clipboard(text)
        self.tell(f"Copied {text}")

    def action_leave(self) -> None:
        """Leave, with nothing to go on with."""
        self.exit(None)

    def action_keys(self) -> None:
        """Show the keys."""
        from rewake.browse.dialogs import Help

        if not isinstance(self.screen, Help):
            self.push_screen(Help())


def _collect_again() -> None:
    gc.freeze()
    gc.enable()


def _has_light_background(environ: Mapping[str, str]) -> bool:
    """What terminals that say so say of their colours: COLORFGBG is `foreground;background`."""
    return environ.get("COLORFGBG", "").rsplit(";", 1)[-1] in _LIGHT_BACKGROUNDS
