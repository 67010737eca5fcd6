"""Where sessions are kept and whose they are: a home, a project, and the real world's ports."""

from __future__ import annotations

import os
import secrets
import stat
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rewake.errors import SessionNotFoundError, StorageError, UsageError
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk, storage_error
from rewake.log.layout import Layout, SessionPaths, default_home, project_root
from rewake.log.scan import Transcript
from rewake.model.ids import IdGenerator
from rewake.record.ids import SharedIds
from rewake.resume.lineage import Ancestors, Lineage
from rewake.resume.listing import newest_first

if TYPE_CHECKING:
    from rewake.redaction.transcripts import TranscriptRedactor

NEWEST: Final = "newest"
"""`open_session(resume=NEWEST)`: the newest session of the project."""


MANAGED: Final = (
    Path("/Library/Application Support/Rewake") if sys.platform == "darwin" else Path("/etc/rewake")
)
"""Where an administrator puts settings that nobody overrides."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where sessions are kept and whose they are: a home, a project, and the real world's ports."""

    home: Path
    root: Path
    disk: Disk = field(default_factory=Disk)
    clock_ns: Callable[[], int] = time.time_ns
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    managed: Path = MANAGED

    @property
    def layout(self) -> Layout:
        """The directories under the home."""
        return Layout(self.home)

    def ids(self) -> IdGenerator:
        """A fresh generator on this place's clock, safe for threads."""
        return SharedIds(lambda: self.clock_ns() // 1_000_000, secrets.randbits)

    def blobs(self, paths: SessionPaths, *, durable: bool = False) -> BlobStore:
        """The blobs of a session's project."""
        return BlobStore(paths.blobs, self.disk, durable=durable)

    def redact(self) -> Callable[[object], object]:
        """Takes secrets out of JSON; slow to load. Values of this place's environment count as well."""
        from rewake.redaction.redactor import Redactor

        return Redactor(self.environ).value

    def transcript_redactor(self) -> TranscriptRedactor:
        """The same for payloads of events, whose structure it leaves alone."""
        from rewake.redaction.transcripts import TranscriptRedactor

        return TranscriptRedactor(self.environ)

    def lineage(self, paths: SessionPaths) -> Lineage:
        """A reader over a session's transcript and those it was forked from; close it."""
        return Lineage(Transcript(paths.transcript), Ancestors(paths, self.layout.find))


def place(
    project: str | Path = ".",
    home: str | Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Place:
    """The place for a project directory; `home` defaults to REWAKE_HOME, else the user's data.

    Raises UsageError for a home that is no directory; one that isn't there yet is made when needed.
    """
    chosen = Path(home).expanduser().absolute() if home is not None else default_home(environ)
    if _is_no_directory(chosen):
        raise UsageError(
            f"{chosen} can't hold sessions: it is no directory.",
            remedy="Set REWAKE_HOME to a directory, or leave it unset.",
        )
    return Place(chosen, project_root(Path(project)), environ=environ, managed=MANAGED)


def _is_no_directory(home: Path) -> bool:
    try:
        return not stat.S_ISDIR(home.stat().st_mode)
    except NotADirectoryError:
        return True
    except (OSError, ValueError):
        return False  # it is made, or whoever reads it says what is wrong


def find_session(at: Place, wanted: str) -> SessionPaths:
    """A session by id, unique beginning of an id, title, or NEWEST; this project's come first."""
    if wanted == NEWEST:
        return _newest(at)
    try:
        return at.layout.find(wanted, at.root)
    except SessionNotFoundError as error:
        if error.candidates:
            raise
    try:
        return at.layout.find(wanted)
    except SessionNotFoundError as error:
        if error.candidates:
            raise
        return _by_title(at, wanted, error)


def _newest(at: Place) -> SessionPaths:
    unreadable: list[StorageError] = []

    def note(path: Path, error: OSError) -> None:
        unreadable.append(storage_error(error, path, "read"))

    found = newest_first(at.layout.sessions(at.root, on_problem=note))
    if not found and unreadable:
        raise unreadable[0]
    if not found:
        raise SessionNotFoundError(
            f"The project {at.root} has no session yet.",
            remedy="Start one, or list those of all projects with `rewake sessions --all`.",
        )
    # One that ended before its first line was written is nothing to go on with.
    return next((paths for paths, _ in found if not _is_empty(paths)), found[0][0])


def _is_empty(paths: SessionPaths) -> bool:
    try:
        return paths.transcript.stat().st_size == 0
    except OSError:
        return False  # whoever opens it is told what is wrong with it


def _by_title(at: Place, wanted: str, not_found: SessionNotFoundError) -> SessionPaths:
    from rewake.catalogue.listing import list_sessions  # a database, which an id doesn't need

    for root in (at.root, None):
        listed = list_sessions(at.home, at.disk, root, on_problem=lambda _path, _error: None)
        titled = [
            SessionPaths(Path(info.path).parents[2], info.session_id)
            for info in listed.rows
            if info.title.casefold() == wanted.casefold()
        ]
        if len(titled) == 1:
            return titled[0]
        if titled:
            names = tuple(paths.session_id for paths in titled)
            raise SessionNotFoundError(
                f"{len(titled)} sessions are called {wanted!r}: {', '.join(names)}.",
                candidates=names,
                remedy="Give the id of one of them.",
            )
    _tell_of_trash(at, wanted, not_found)
    raise not_found


def _tell_of_trash(at: Place, wanted: str, not_found: SessionNotFoundError) -> None:
    from rewake.archive.trash import Trash

    found = [one for one in Trash(at.home, at.disk).entries() if one.session_id.startswith(wanted)]
    if len(found) == 1:
        not_found.remedy = (
            f"It is in the trash: `rewake trash restore {found[0].session_id}` brings it back."
        )
