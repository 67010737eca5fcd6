"""Writes a prompt in the user's own editor."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rewake.cli.editor import is_edited
from rewake.errors import UsageError


def edited(text: str) -> str | None:
    """The text as the editor left it; None where there is no editor or it failed."""
    # Readable by nobody else, as every file that `tempfile` makes.
    with tempfile.TemporaryDirectory(prefix="rewake-") as directory:
        file = Path(directory, "prompt.md")
        file.write_text(text, "utf-8")
        try:
            ended_well = is_edited(file)
        except UsageError:
            return None
        return file.read_text("utf-8", "replace").rstrip("\n") if ended_well else None
