"""Writes a prompt in the user's own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Final

_EDITORS: Final = ("editor", "nano", "vi")


def edited(text: str) -> str | None:
    """The text as the editor left it; None where there is no editor or it failed."""
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    # Readable by nobody else, as every file that `tempfile` makes.
    with tempfile.TemporaryDirectory(prefix="rewake-") as directory:
        file = Path(directory, "prompt.md")
        file.write_text(text, "utf-8")
        for editor in [chosen] if chosen else _EDITORS:
            try:
                ended = subprocess.run([*shlex.split(editor), str(file)], check=False)
            except (OSError, ValueError):
                continue
            if ended.returncode == 0:
                return file.read_text("utf-8", "replace").rstrip("\n")
            return None
    return None
