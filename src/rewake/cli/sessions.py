"""`rewake sessions`: what there is to resume, newest first.

The rule kept here: one session or directory that can't be read costs its own row, and is told.
"""

from __future__ import annotations

import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rewake.catalogue.listing import list_sessions as list_of_sessions
from rewake.cli.bar import Bar
from rewake.cli.lists import rows
from rewake.cli.terminal import clean, let_readers_leave, note, say, style_for
from rewake.compose.place import place
from rewake.resume.listing import SessionInfo

_SHOWN: Final = 50  # more than a screen


def list_sessions(cwd: Path | None, *, as_json: bool, everywhere: bool, limit: int | None) -> int:
    """Print the list, or an array of objects; returns the exit status."""
    let_readers_leave()
    if as_json:
        from rewake.cli.jsonout import to_json

        found, _, _ = newest(cwd, everywhere=everywhere, limit=limit)
        say(to_json(found))
    else:
        print_sessions(cwd, everywhere=everywhere, limit=limit)
    return 0


def print_sessions(cwd: Path | None, *, everywhere: bool, limit: int | None) -> None:
    """Print a table; without a limit the newest 50."""
    shown = _SHOWN if limit is None else limit
    found, total, root = newest(cwd, everywhere=everywhere, limit=shown)
    if not found:
        where = "" if everywhere else f" in {clean(str(root))}"
        say(f"No sessions{where} yet." + ("" if everywhere else " --all looks everywhere."))
        return
    lines = rows(
        found,
        now=datetime.now(UTC),
        columns=shutil.get_terminal_size((100, 24)).columns,
        style=style_for(sys.stdout),
        with_project=everywhere,
    )
    for line in lines:
        say(line)
    if total > len(found):
        say(f"{total - len(found)} older ones are not shown; --limit 0 shows all.")


def newest(
    cwd: Path | None, *, everywhere: bool, limit: int | None
) -> tuple[list[SessionInfo], int, Path]:
    """The newest sessions (0 or None: all of them), how many there are, and the project's root."""
    at = place(cwd or ".")

    def tell(path: Path, error: OSError) -> None:
        note(f"{path} can't be read: {error.strerror or error}.")

    root = None if everywhere else at.root
    with Bar("Reading", "sessions") as bar:
        listed = list_of_sessions(
            at.home, at.disk, root, limit=limit, on_problem=tell, progress=bar.show
        )
    return listed.rows, listed.total, at.root
