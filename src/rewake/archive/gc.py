"""Removes what no session needs any more: blobs without a name, leftovers of interrupted writes.

The rules kept here:

- First everything is looked at without a lock and announced; then, with the project's lock held
  exclusively, whatever changed meanwhile is looked at again, and only then something goes. So a blob
  that a session stores and names at the same time is never removed, and writers wait for a moment only.
- A blob counts as named if its name stands anywhere in a session's files, also of sessions in the trash.
- A session that can't be read may name anything: then nothing is removed.
- A leftover is one only if it is older than a day.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from rewake.archive.importing import INCOMING
from rewake.archive.names import named_in
from rewake.archive.trash import Trash, tree_size
from rewake.errors import SessionBusyError, StorageError
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk, crash_point, storage_error
from rewake.log.layout import Layout, SessionPaths
from rewake.log.lock import holder
from rewake.log.project_lock import ProjectLock

_LEFTOVER_AGE_S: Final = 86_400.0
_TEMPORARY: Final = ".tmp"
_NAMELESS: Final = frozenset({"trace.jsonl", "lock", "outputs", "git"})
_SHA256_CHARS: Final = 64

Kind = Literal["blob", "leftover"]
Progress = Callable[[int, int], None]
"""Called with the bytes of lines looked at and the bytes there are."""


class Useless(msgspec.Struct, frozen=True):
    """Something that nobody needs; `size` is the bytes that it takes on disk."""

    kind: Kind
    path: str
    size: int


class Collection(msgspec.Struct, frozen=True):
    """What would go from a project, and what stays: `kept` blobs of `kept_size` bytes."""

    project: str
    useless: tuple[Useless, ...]
    kept: int
    kept_size: int

    @property
    def size(self) -> int:
        """Bytes on disk that would be free."""
        return sum(item.size for item in self.useless)


class Collected(msgspec.Struct, frozen=True):
    """What went."""

    project: str
    blobs: int
    leftovers: int
    size: int


class _Stamp(NamedTuple):
    inode: int
    size: int
    mtime_ns: int


class Collector:
    """One project's blobs. `plan` only looks; `collect` removes what a plan found, where that holds."""

    def __init__(
        self, project: Path, home: Path, disk: Disk, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.project = project
        self._trash = Trash(home, disk)
        self._disk = disk
        self._clock = clock
        self._blobs = BlobStore(project / "blobs", disk, durable=False)
        self._known: dict[Path, tuple[_Stamp, set[str]]] = {}
        self._looked_for: set[str] = set()

    def plan(self, progress: Progress | None = None) -> Collection:
        """Look at everything; takes no lock. Raises StorageError where something can't be read."""
        try:
            stored = list(self._stored())
            named = self._named({path.name for path, _ in stored}, progress)
            useless: list[Useless] = []
            kept = kept_size = 0
            for path, size in stored:
                if path.name in named:
                    kept += 1
                    kept_size += size
                else:
                    useless.append(Useless("blob", str(path), size))
            useless.extend(self._leftovers())
        except OSError as error:
            raise _unreadable(error, self.project) from error
        return Collection(str(self.project), tuple(useless), kept, kept_size)

    def collect(self, plan: Collection) -> Collected:
        """Remove what the plan names and still nobody needs.

        Raises SessionBusyError while a session of the project is being written, and StorageError;
        what wasn't removed by then is still there.
        """
        if not self.project.is_dir():
            return Collected(str(self.project), 0, 0, 0)
        try:
            lock = ProjectLock(self.project, self._disk, "exclusive")
        except SessionBusyError as error:
            raise self._busy(error) from error
        with lock:
            try:
                return self._collect(plan)
            except OSError as error:
                raise _unreadable(error, self.project) from error

    def _collect(self, plan: Collection) -> Collected:
        blobs = {Path(item.path).name for item in plan.useless if item.kind == "blob"}
        named = self._named(blobs, None)
        leftovers = {item.path for item in self._leftovers()}
        counts = {"blob": 0, "leftover": 0}
        size = 0
        for item in plan.useless:
            path = Path(item.path)
            if item.kind == "blob":
                if path.name in named or not path.exists():
                    continue
                crash_point("before_remove_blob")
                path.unlink()
                crash_point("after_remove_blob")
            elif item.path not in leftovers:
                continue
            else:
                _remove(path)
            counts[item.kind] += 1
            size += item.size
        return Collected(str(self.project), counts["blob"], counts["leftover"], size)

    # --- what is named -------------------------------------------------------------------

    def _named(self, stored: set[str], progress: Progress | None) -> set[str]:
        """Which blobs any session may name; files that haven't changed since are not read again."""
        if not stored <= self._looked_for:
            self._known, self._looked_for = {}, stored
        files = list(self._files())
        total = sum(stamp.size for _, stamp in files)
        known: dict[Path, tuple[_Stamp, set[str]]] = {}
        named: set[str] = set()
        done = 0
        for path, stamp in files:
            before = self._known.get(path)
            if before is not None and before[0] == stamp:
                found = before[1]
            else:
                found = named_in(path, self._looked_for, self._blobs)
            known[path] = (stamp, found)
            named |= found
            done += stamp.size
            if progress is not None:
                progress(done, total)
        self._known = known
        return named

    def _files(self) -> Iterator[tuple[Path, _Stamp]]:
        """Everything of every session that may name a blob, also in the trash."""
        for directory in [*_subdirectories(self.project / "sessions"), *self._of_trash()]:
            for path in _may_name_blobs(directory):
                try:
                    found = path.stat()
                except FileNotFoundError:
                    continue  # finished meanwhile; what counts is looked at again under the lock
                if not stat.S_ISREG(found.st_mode):
                    continue  # a pipe or the like names nothing
                yield path, _Stamp(found.st_ino, found.st_size, found.st_mtime_ns)

    def _of_trash(self) -> Iterator[Path]:
        yield from (path for path in self._trash.sessions(self.project) if path.is_dir())

    # --- what is there -------------------------------------------------------------------

    def _stored(self) -> Iterator[tuple[Path, int]]:
        if not self._blobs.directory.is_dir():
            return
        with os.scandir(self._blobs.directory) as entries:
            # Only whole blobs: a temporary file may get its name while this looks at it.
            yield from sorted(
                (Path(entry.path), entry.stat().st_size)
                for entry in entries
                if len(entry.name) == _SHA256_CHARS
            )

    def _leftovers(self) -> Iterator[Useless]:
        """Temporary files, half-made imports, half-removed trash."""
        before = self._clock() - _LEFTOVER_AGE_S
        sessions = _subdirectories(self.project / "sessions")
        places = [self._blobs.directory, *sessions, *(path / "agents" for path in sessions)]
        there = [place for place in places if place.is_dir()]
        found = [path for place in there for path in place.iterdir() if _is_temporary(path)]
        found += [path for path in _subdirectories(self.project / INCOMING) if _is_temporary(path)]
        found += self._trash.leftovers()
        for path in sorted(found):
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue  # whoever was writing it has finished meanwhile
            if status.st_mtime < before:
                size = tree_size(path) if path.is_dir() else status.st_size
                yield Useless("leftover", str(path), size)

    # --- who is at work ------------------------------------------------------------------

    def _busy(self, error: SessionBusyError) -> SessionBusyError:
        """Names the sessions that are being written, as far as their locks tell."""
        found: list[str] = []
        for directory in _subdirectories(self.project / "sessions"):
            paths = SessionPaths(self.project, directory.name)
            who = holder(paths.lock, self._disk)
            if who is not None:
                found.append(f"{paths.session_id} by {who.describe()}")
        described = "; ".join(found) or error.holder
        return SessionBusyError(
            f"Nothing was removed: sessions of {self.project.name} are being written: {described}.",
            holder=described,
            remedy="Try again when they have ended; --dry-run works at any time.",
        )


def projects(home: Path) -> list[Path]:
    """The directories of all projects of a home."""
    return _subdirectories(Layout(home).projects)


def _is_temporary(path: Path) -> bool:
    return path.name.endswith(_TEMPORARY)


def _subdirectories(directory: Path) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _may_name_blobs(directory: Path) -> Iterator[Path]:
    """The files of one session: transcripts, copies of them by a cloud sync, journals, tables.

    Without what commands wrote, the trace, and a copy of git's own data, none of which anybody needs
    to find a blob.
    """
    try:
        with os.scandir(directory) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in _NAMELESS:
                yield from _may_name_blobs(Path(entry.path))
        elif entry.name not in _NAMELESS and not entry.name.endswith(_TEMPORARY):
            yield Path(entry.path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _unreadable(error: OSError, project: Path) -> StorageError:
    path = Path(error.filename) if isinstance(error.filename, str) else project
    told = storage_error(error, path, "read")
    return StorageError(
        f"{told.message} Nothing more was removed: what can't be read may name any blob.",
        path=str(path),
        remedy="Make it readable or delete that session, then try again.",
    )
