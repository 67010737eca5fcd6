"""The prompts typed before, for the arrow keys.

The rule kept here: prompts are private, so the file is made 0600 before anything is in it, and where a
transcript is kept without secrets, so is it; and a home that can't be written costs the history, not the
conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rewake.log.disk import Disk

if TYPE_CHECKING:
    from prompt_toolkit.history import History

_FILE: Final = "prompt_history"


def history_file(home: Path) -> Path | None:
    """The file, made if it isn't there; None where it can't be written."""
    disk = Disk()
    path = home / _FILE
    try:
        disk.make_directory(home, sync=False)
        disk.close(disk.open_append(path))
    except OSError:
        return None
    return path


def kept_prompts(
    path: Path, make_redact: Callable[[], Callable[[object], object]] | None = None
) -> History:
    """The prompts in the file and those to come. With `make_redact` those are written without secrets;
    it is called for the first one, because a detector is slow to load.
    """
    from prompt_toolkit.history import FileHistory

    class Kept(FileHistory):
        redact: Callable[[object], object] | None = None

        def store_string(self, string: str) -> None:
            if make_redact is not None:
                self.redact = self.redact or make_redact()
                string = str(self.redact(string))
            with suppress(OSError):  # a full disk must not keep a prompt from being sent
                super().store_string(string)

        def load_history_strings(self) -> Iterable[str]:
            try:
                return super().load_history_strings()
            except OSError:
                return ()  # it was made a moment ago; whatever became of it

    return Kept(str(path))
