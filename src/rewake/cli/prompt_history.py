"""The prompts typed before, for the arrow keys.

The rule kept here: prompts are private, so the file is made 0600 before anything is in it; and a
home that can't be written costs the history, not the conversation.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rewake.log.disk import Disk

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
