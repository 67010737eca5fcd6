"""`rewake reindex`: make the catalogue of sessions anew from the transcripts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from rewake.catalogue.rebuild import reindex
from rewake.cli.bar import Bar
from rewake.cli.terminal import clean, note, say
from rewake.compose.place import place

_MB: Final = 1_000_000


def reindex_sessions(cwd: Path | None, *, everywhere: bool, as_json: bool) -> int:
    """Rebuild and say what was read; returns the exit status. Raises CatalogueUnusableError."""
    at = place(cwd or ".")
    began = time.monotonic()
    with Bar("Indexing") as bar:
        done = reindex(at.home, at.disk, None if everywhere else at.root, progress=bar.show)
    taken = time.monotonic() - began
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json(done)
        return 0
    for problem in done.problems:
        note(problem)
    where = "all projects" if everywhere else clean(str(at.root))
    say(
        f"Indexed {done.sessions:,} sessions of {where}: {done.bytes_read / _MB:,.1f} MB,"
        f" {done.passages:,} passages, {taken:.1f} s."
    )
    return 0
