"""The user's own editor, opened on a file.

The rule kept here: what the user has chosen is what is started; only who has chosen none gets one that
most systems have.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Final

from rewake.errors import UsageError

_USUAL: Final = ("editor", "nano", "vi")


def chosen_editor() -> str:
    """The command in VISUAL, else in EDITOR; empty where there is neither."""
    return os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""


def is_edited(file: Path) -> bool:
    """Open the file and wait; whether the editor ended well. Raises UsageError where none can be started."""
    chosen = chosen_editor()
    problem = "there is none"
    for editor in [chosen] if chosen else _USUAL:
        try:
            return subprocess.run([*shlex.split(editor), str(file)], check=False).returncode == 0
        except OSError as error:
            problem = error.strerror or str(error)
        except ValueError as error:  # a quote that has no end
            problem = str(error)
    raise UsageError(
        f"The editor {chosen or ' or '.join(_USUAL)} can't be started: {problem}.",
        remedy="Set EDITOR to another one.",
    )
