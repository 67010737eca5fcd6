"""Reports from a program: `rewake.report`. The command line uses it, too."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from rewake.archive.container import NewFile
from rewake.compose.place import Place, find_session, place
from rewake.errors import UsageError
from rewake.log.layout import SessionPaths
from rewake.record.lines import Timestamps
from rewake.report.clean import Cleaner
from rewake.report.page import GENERATOR, page
from rewake.report.telling import Telling
from rewake.resume.lineage import Ancestors

_HEAD_BYTES: Final = 512
_PART_BYTES: Final = 2 << 20

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes there are."""


class Reported(msgspec.Struct, frozen=True):
    """A report that was written. `redacted` counts what was taken out by kind, None where nothing was
    looked for; `left_out` counts contents that didn't fit.
    """

    session_id: str
    path: str
    size: int
    redacted: dict[str, int] | None
    left_out: int


def report(
    session: str,
    output: str | Path | None = None,
    *,
    redact: bool = True,
    force: bool = False,
    project: str | Path = ".",
    home: str | Path | None = None,
    environ: Mapping[str, str] = os.environ,
    progress: Progress | None = None,
) -> Reported:
    """Write a session as one HTML file that needs nothing else, and no network. Durable on return.

    Without `output` it is `rewake-ID.html` in the current directory. With `redact` secrets are taken
    out, also the values of those variables of `environ` that look like keys. A session at work is told
    as far as its last whole line. `progress` hears of the bytes read and those there are. A report that is there is replaced, any other file only with `force`.

    Raises SessionNotFoundError, StorageError, UsageError (the file is then what it was).
    """
    at = place(project, home)
    paths = find_session(at, session)
    named = Path(output) if output is not None else Path(f"rewake-{paths.session_id}.html")
    target = named.expanduser().absolute()
    _require_free(target, force=force)
    cleaner = Cleaner(environ if redact else None)
    telling = telling_of(at, paths, cleaner)
    _read(telling, progress)
    with NewFile(target, at.disk) as file:
        for piece in page(telling, at.disk, Timestamps(at.clock_ns)()):
            file.write(piece)
        file.commit()
    store = telling.main.story.store
    left_out = store.base + store.rows_left_out
    return Reported(paths.session_id, str(target), file.size, cleaner.counts, left_out)


def _read(telling: Telling, progress: Progress | None) -> None:
    """As far as it is written now: one that is at work may go on for as long as this takes."""
    size = telling.paths.transcript.stat().st_size if telling.paths.transcript.exists() else 0
    while telling.main.catch_up(_PART_BYTES) and telling.main.offset < size:
        if progress is not None:
            progress(telling.main.offset, size)


def telling_of(at: Place, paths: SessionPaths, cleaner: Cleaner) -> Telling:
    """The telling of a session, nothing read yet."""
    return Telling(paths, Ancestors(paths, at.layout.find), at.blobs(paths), cleaner)


def _require_free(target: Path, *, force: bool) -> None:
    if target.is_dir():
        raise UsageError(f"{target} is a directory.", remedy="Give the name of a file in it.")
    if not target.parent.is_dir():
        raise UsageError(
            f"There is no directory {target.parent} to write to.",
            remedy="Make it, or name another file with -o.",
        )
    if force or not target.exists():
        return
    with target.open("rb") as file:
        if GENERATOR not in file.read(_HEAD_BYTES):
            raise UsageError(
                f"{target} is there and is no report.",
                remedy="Name another file with -o, or replace it with --force.",
            )
