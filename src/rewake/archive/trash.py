"""Deleting a session, and taking it back.

The rules kept here:

- Deleting is a rename into `trash/<date>-<id>/`: at every moment the session is whole, either in its
  project or in the trash. Only emptying the trash removes anything, and it is asked for by name.
- A session that is being written can't be deleted.
- What forks of it need is given to them first: a second name (a hard link) of the transcript in each
  fork's own directory, `origins/<id>.jsonl`, where its lineage looks first. So their history doesn't
  depend on the trash, and nothing is copied.
- Blobs stay where they are as long as a session in the trash names them.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from rewake.errors import SessionNotFoundError, StorageError, UsageError
from rewake.log.disk import Disk, crash_point, short_write_error, storage_error
from rewake.log.layout import Layout, SessionPaths, checked_name
from rewake.log.lock import Holder, SessionLock
from rewake.log.project import read_identity
from rewake.log.project_lock import ForksLock, ProjectLock
from rewake.log.scan import Transcript
from rewake.model.codec import decode_line
from rewake.model.events import Event, SessionStart
from rewake.resume.lineage import ORIGINS, origin_path

TRASH: Final = "trash"
_NOTE: Final = "trash.json"
_SESSION: Final = "session"
_GOING: Final = ".removing"
_HEAD_BYTES: Final = 1 << 12
_BATCH_BYTES: Final = 1 << 20
# File systems without hard links say one of these.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK})


class _Note(msgspec.Struct, frozen=True):
    """What is needed to put a session back. `project` is its directory's name in the home."""

    session_id: str
    project: str
    deleted_at: str
    title: str = ""


class Trashed(msgspec.Struct, frozen=True):
    """A session in the trash. `deleted_at` is RFC 3339 in UTC, `size` the bytes of its own files.

    `project` is the project's root, empty where none is recorded, `project_key` the name of its
    directory in the home.
    """

    name: str
    session_id: str
    project: str
    project_key: str
    deleted_at: str
    title: str
    size: int
    path: str


class Deleted(msgspec.Struct, frozen=True):
    """Where a session went, and the forks of it that were given its transcript."""

    session_id: str
    trashed: Trashed
    forks: tuple[str, ...]


class Trash:
    """The trash of a home."""

    def __init__(self, home: Path, disk: Disk) -> None:
        self.directory = home / TRASH
        self._layout = Layout(home)
        self._disk = disk

    # --- looking -------------------------------------------------------------------------

    def entries(self) -> list[Trashed]:
        """What is in it, the newest first."""
        found = [self._trashed(entry, note) for entry, note in self._entries()]
        found.sort(key=lambda item: (item.deleted_at, item.name), reverse=True)
        return found

    def _trashed(self, entry: Path, note: _Note) -> Trashed:
        identity = read_identity(self._layout.projects / note.project)
        return Trashed(
            name=entry.name,
            session_id=note.session_id,
            project=identity.roots[-1] if identity is not None and identity.roots else "",
            project_key=note.project,
            deleted_at=note.deleted_at,
            title=note.title,
            size=tree_size(entry / _SESSION),
            path=str(entry / _SESSION),
        )

    def sessions(self, project: Path) -> Iterator[Path]:
        """The directories of the sessions in the trash that belong to a project, or may do so."""
        for entry in self._directories():
            note = _read_note(entry)
            if note is None or note.project == project.name:
                yield entry / _SESSION

    def find(self, wanted: str) -> Trashed:
        """By session id, a unique beginning of one, or the entry's name. Raises SessionNotFoundError."""
        entries = self.entries()
        exact = [item for item in entries if wanted in {item.session_id, item.name}]
        matches = exact or [item for item in entries if item.session_id.startswith(wanted)]
        if len(matches) == 1:
            return matches[0]
        names = tuple(item.name for item in matches)
        raise SessionNotFoundError(
            f"{len(matches) or 'No'} session{'s' * (len(matches) != 1)} in the trash"
            f" {'is' if len(matches) == 1 else 'are'} called {wanted!r}.",
            candidates=names,
            remedy=f"Give the name of one of them: {', '.join(names)}."
            if names
            else "`rewake trash` lists what is there.",
        )

    def _directories(self) -> list[Path]:
        try:
            return sorted(path for path in self.directory.iterdir() if path.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _entries(self) -> Iterator[tuple[Path, _Note]]:
        for entry in self._directories():
            note = _read_note(entry)
            if note is not None and not entry.name.endswith(_GOING) and _is_there(entry):
                yield entry, note

    # --- deleting ------------------------------------------------------------------------

    def delete(self, paths: SessionPaths, holder: Holder, *, title: str = "") -> Deleted:
        """Move a session here. Durable on return; `holder` says who is doing it, and when.

        Raises SessionBusyError while a process writes it, and StorageError; the session is then
        where it was.
        """
        note = _Note(paths.session_id, paths.project.name, holder.started_at, title)
        with ExitStack() as stack:
            stack.enter_context(SessionLock(paths.lock, self._disk, holder))
            stack.enter_context(ProjectLock(paths.project, self._disk, "shared"))
            stack.enter_context(ForksLock(paths.project, self._disk))
            try:
                forks = self._give_to_forks(paths)
                entry = self._move(paths, note)
            except OSError as error:
                raise storage_error(error, paths.directory, "delete") from error
        trashed = self._trashed(entry, note)
        return Deleted(paths.session_id, trashed, forks)

    def _move(self, paths: SessionPaths, note: _Note) -> Path:
        entry = self._free_entry(note)
        self._disk.make_directory(entry)
        self._disk.write_atomic(entry / _NOTE, msgspec.json.encode(note) + b"\n")
        crash_point("before_delete_session")
        self._disk.rename(paths.directory, entry / _SESSION)
        crash_point("after_delete_session")
        self._disk.sync_directory(entry)
        self._disk.sync_directory(paths.directory.parent)
        return entry

    def _free_entry(self, note: _Note) -> Path:
        name = f"{note.deleted_at[:10]}-{note.session_id}"
        entry, number = self.directory / name, 1
        while entry.exists():
            if not _is_there(entry):
                return entry  # a delete that was killed before it took effect
            number += 1
            entry = self.directory / f"{name}-{number}"
        return entry

    def _give_to_forks(self, paths: SessionPaths) -> tuple[str, ...]:
        """Each session that goes on from this one gets its transcript, and what that one held."""
        held = [paths.transcript, *_held(paths.directory)]
        forks = _descendants(paths.session_id, self._all_directories())
        for name, directory in forks.items():
            for source in held:
                target = (
                    origin_path(directory, paths.session_id)
                    if source == paths.transcript
                    else directory / ORIGINS / source.name
                )
                if name != paths.session_id and not target.exists():
                    self._give(source, target)
        return tuple(sorted(forks))

    def _all_directories(self) -> Iterator[tuple[str, Path]]:
        for paths in self._layout.sessions(on_problem=lambda _path, _error: None):
            yield paths.session_id, paths.directory
        for entry, note in self._entries():
            yield note.session_id, entry / _SESSION

    def _give(self, source: Path, target: Path) -> None:
        self._disk.make_directory(target.parent)
        crash_point("before_give_origin")
        try:
            self._disk.link(source, target)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            _copy(source, target, self._disk)
        self._disk.sync_directory(target.parent)

    # --- restoring -----------------------------------------------------------------------

    def restore(self, trashed: Trashed) -> SessionPaths:
        """Put a session back where it was. Durable on return.

        Raises UsageError where a session of its id is there again, StorageError; it is then still
        in the trash.
        """
        project = self._layout.projects / checked_name(trashed.project_key)
        paths = SessionPaths(project, checked_name(trashed.session_id))
        entry = self.directory / trashed.name
        try:
            self._disk.make_directory(paths.directory.parent)
            with ProjectLock(project, self._disk, "shared"):
                if paths.directory.exists():
                    raise UsageError(
                        f"There is a session {paths.session_id} again in {project}.",
                        remedy="Delete that one first, then restore this one.",
                    )
                crash_point("before_restore_session")
                self._disk.rename(entry / _SESSION, paths.directory)
                crash_point("after_restore_session")
                self._disk.sync_directory(paths.directory.parent)
                self._disk.sync_directory(entry)
                _remove_tree(entry)
        except OSError as error:
            raise storage_error(error, entry, "restore") from error
        return paths

    # --- emptying ------------------------------------------------------------------------

    def remove(self, trashed: Trashed) -> None:
        """Remove a session for good; its blobs go with the next `gc`. Raises StorageError."""
        entry = self.directory / trashed.name
        going = entry.with_name(f"{entry.name}{_GOING}")
        try:
            self._disk.rename(entry, going)
            self._disk.sync_directory(self.directory)
            crash_point("after_remove_entry")
            _remove_tree(going)
        except OSError as error:
            raise storage_error(error, entry, "remove") from error

    def leftovers(self) -> list[Path]:
        """What a killed delete, restore or removal has left: nothing of it is a session any more."""
        return [
            entry
            for entry in self._directories()
            if entry.name.endswith(_GOING) or not _is_there(entry)
        ]


# --- forks -----------------------------------------------------------------------------------


def origin_of(transcript: Path) -> str | None:
    """The session that a transcript says it was forked from. Raises nothing: damage has no origin."""
    try:
        with Transcript(transcript) as reader:
            for offset, line in reader.lines_forward(block_bytes=_HEAD_BYTES):
                first = decode_line(line, offset)
                if isinstance(first, Event) and isinstance(first.payload, SessionStart):
                    origin = first.payload.forked_from
                    return origin.session_id if origin is not None else None
                return None
    except (OSError, StorageError):
        return None
    return None


def _held(directory: Path) -> list[Path]:
    """The transcripts of origins that a session holds itself."""
    return sorted((directory / ORIGINS).glob("*.jsonl"))


def _descendants(session_id: str, sessions: Iterator[tuple[str, Path]]) -> dict[str, Path]:
    """The sessions that go on from this one, directly or by way of others."""
    children: dict[str, list[tuple[str, Path]]] = {}
    for name, directory in sessions:
        for transcript in (directory / "transcript.jsonl", *_held(directory)):
            origin = origin_of(transcript)
            if origin is not None:
                children.setdefault(origin, []).append((name, directory))
    found: dict[str, Path] = {}
    waiting = [session_id]
    while waiting:
        for name, directory in children.get(waiting.pop(), []):
            if name not in found:
                found[name] = directory
                waiting.append(name)
    return found


# --- files -----------------------------------------------------------------------------------


def _read_note(entry: Path) -> _Note | None:
    try:
        return msgspec.json.decode((entry / _NOTE).read_bytes(), type=_Note)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _is_there(entry: Path) -> bool:
    return (entry / _SESSION).is_dir()


def tree_size(directory: Path) -> int:
    """The bytes of all files below; what can't be looked at counts nothing."""
    total = 0
    for path in directory.rglob("*"):
        try:
            found = path.lstat()
        except OSError:
            continue  # it went meanwhile
        total += found.st_size
    return total


def _remove_tree(directory: Path) -> None:
    shutil.rmtree(directory)


def _copy(source: Path, target: Path, disk: Disk) -> None:
    """Where there are no hard links: a copy that gets its name when it is whole and durable."""
    temporary = target.with_name(f".{target.name}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = disk.open_append(temporary)
    try:
        with source.open("rb") as original:
            while data := original.read(_BATCH_BYTES):
                written = disk.write(descriptor, data)
                if written != len(data):
                    raise short_write_error(temporary, written, len(data))
        disk.sync(descriptor)
    finally:
        disk.close(descriptor)
    disk.rename(temporary, target)
