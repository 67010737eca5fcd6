"""A memory directory: notes as Markdown files, the index beside them, and how both change.

The rules kept here:

- A change is made under the directory's lock, of a note that is as its writer saw it, by a rename: two
  processes that write one note don't lose a word, the second is told to read again.
- The index is brought up to date with each change and never in the way of one: what can't be merged is
  left alone and reported.
- Everything is bounded: notes, bytes of a note, the size of what is read.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from rewake.errors import NoteConflictError, NoteNotFoundError, StorageError, UsageError
from rewake.log.disk import FILE_MODE, Disk, storage_error
from rewake.memory.index_file import INDEX_BYTES_MAX, INDEX_NAME, merged_index
from rewake.memory.note import NOTE_BYTES_MAX, Note, checked_note_name, parse_note, render_note
from rewake.memory.reading import Read, UnreadableError, read_text

Scope = Literal["user", "project"]
SCOPES: Final[tuple[Scope, ...]] = ("project", "user")

NOTES_MAX: Final = 1_000
"""What a directory takes; more than a person keeps in order, and ranked in 30 ms."""
_NOTES_SEEN_MAX: Final = 5_000  # somebody else's files: beyond that the rest is reported, not read
_READ_BYTES_MAX: Final = 4 * NOTE_BYTES_MAX  # a person may write more than an agent
_LOCK_WAIT_S: Final = 5.0
_LOCK_PAUSE_S: Final = 0.005
_AGAIN: Final = "Read it again, then change what is there now."


@dataclass(frozen=True, slots=True)
class Stored:
    """A note in its place. `sha256` is of the file's bytes."""

    scope: Scope
    path: Path
    note: Note
    sha256: str
    size: int
    mtime_ns: int
    data: bytes = field(repr=False, default=b"")
    mode: int = FILE_MODE
    is_cut: bool = False

    @property
    def name(self) -> str:
        """What it is called."""
        return self.note.name

    def written(self) -> datetime:
        """When it was last written, as far as it says so; else when its file was.

        A note says the day, and its file the time of that day.
        """
        touched = datetime.fromtimestamp(self.mtime_ns / 1e9, UTC)
        for said in (self.note.updated, self.note.created):
            with suppress(ValueError):
                moment = datetime.fromisoformat(said) if said else None
                if moment is not None:
                    if said == touched.date().isoformat():
                        return touched
                    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return touched


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that should be a note and isn't one; `reason` says why."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Listing:
    """All notes of a directory by name, and what could not be read."""

    notes: tuple[Stored, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """A file before and after a change; None means that it isn't there. Modes are permission bits."""

    path: Path
    before: bytes | None
    after: bytes | None
    mode: int


@dataclass(frozen=True, slots=True)
class Changed:
    """What a change did, the note first; `problem` says why the index could not be brought along."""

    files: tuple[Written, ...]
    problem: str = ""


class MemoryDirectory:
    """The notes at `path`, which need not be there. Reading makes nothing."""

    def __init__(self, path: Path, scope: Scope, disk: Disk) -> None:
        self.path = path
        self.scope: Scope = scope
        self._disk = disk

    # --- reading -----------------------------------------------------------------------------

    def is_there(self) -> bool:
        """Whether there is a directory at all."""
        return os.path.isdir(self.path)  # noqa: PTH112  # never raises

    def files(self) -> dict[str, os.stat_result]:
        """The files that may be notes, by their names without `.md`, in order.

        Raises StorageError when the directory is there and can't be read.
        """
        found: dict[str, os.stat_result] = {}
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    if _is_note_file(entry.name):
                        with suppress(FileNotFoundError):
                            found[entry.name[:-3]] = entry.stat(follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise storage_error(error, self.path, "read") from error
        return dict(sorted(found.items())[:_NOTES_SEEN_MAX])

    def listing(self) -> Listing:
        """Every note. One that can't be read hides no other."""
        notes: list[Stored] = []
        problems: list[Problem] = []
        try:
            names = self.files()
        except StorageError as error:
            return Listing(problems=(Problem(self.path, error.message),))
        for name in names:
            try:
                notes.append(self._read(name))
            except UnreadableError as error:
                problems.append(Problem(self._file(name), str(error)))
            except FileNotFoundError:
                continue  # gone meanwhile
        return Listing(tuple(notes), tuple(problems))

    def read(self, name: str) -> Stored:
        """One note by its name. Raises UsageError, NoteNotFoundError."""
        try:
            return self._read(self._known(name))
        except FileNotFoundError as error:
            raise NoteNotFoundError(
                f"There is no {self.scope} note called {name!r}.",
                remedy="List them with `rewake memory list`.",
            ) from error
        except UnreadableError as error:
            raise NoteNotFoundError(
                f"The note {self._file(name)} can't be used: {error}.",
                remedy="Look at the file, or move it away.",
            ) from error

    def current(self, name: str) -> Stored:
        """The note of one of `files()`. Raises FileNotFoundError, UnreadableError."""
        return self._read(name)

    def find(self, name: str) -> Stored | None:
        """One note, None where there is none. Raises UsageError, NoteNotFoundError if it is no note."""
        known = self._known(name)
        return self.read(known) if os.path.lexists(self._file(known)) else None

    def index(self) -> str:
        """`MEMORY.md` as it is; empty where there is none that can be read."""
        try:
            return read_text(self.path / INDEX_NAME, INDEX_BYTES_MAX).text
        except (FileNotFoundError, UnreadableError):
            return ""

    def place(self, name: str) -> Path:
        """The real path at which a note of this name is, or would be. Raises UsageError."""
        return Path(os.path.realpath(self.path)) / f"{self._known(name)}.md"

    def _known(self, name: str) -> str:
        """The name of a note that is there, whatever a person called it, or one that a note may get."""
        bare = name.removesuffix(".md")
        try:
            return checked_note_name(bare)
        except UsageError:
            if bare in self.files():  # what is an entry of the directory can't lead out of it
                return bare
            raise

    def _file(self, name: str) -> Path:
        return self.path / f"{name}.md"

    def _read(self, name: str) -> Stored:
        return self._stored(name, read_text(self._file(name), _READ_BYTES_MAX))

    def _stored(self, name: str, read: Read) -> Stored:
        return Stored(
            scope=self.scope,
            path=self._file(name),
            note=parse_note(name, read.text),
            sha256=read.sha256,
            size=read.size,
            mtime_ns=read.mtime_ns,
            data=read.data,
            mode=read.mode,
            is_cut=read.is_cut,
        )

    # --- changing ----------------------------------------------------------------------------

    def write(self, note: Note, base: str | None) -> Changed:
        """Put the note there, and into the index. `base` is the SHA-256 it has now, None: it is new.

        Durable on return. Raises NoteConflictError when it is not as `base` says, UsageError for a note
        that is too long or one too many, StorageError.
        """
        data = note_bytes(note)
        with self._held():
            before = self._as_expected(note.name, base)
            self._refuse_one_too_many(before)
            mode = before.mode if before is not None else FILE_MODE
            self._disk.write_atomic(self._file(note.name), data, mode)
            changed = Written(
                self.place(note.name), before.data if before is not None else None, data, mode
            )
            return self._with_index(changed, before)

    def forget(self, name: str, base: str | None = None) -> Changed:
        """Remove the note and its line in the index. Durable on return. Raises as `write` does.

        Without `base` whatever is there goes. Raises NoteNotFoundError where nothing is.
        """
        with self._held():
            before = self.read(name)
            if base is not None and before.sha256 != base:
                raise self._conflict(name)
            try:
                self._file(before.name).unlink()
                self._disk.sync_directory(self.path)
            except OSError as error:
                raise storage_error(error, self._file(name), "remove") from error
            changed = Written(self.place(name), before.data, None, before.mode)
            return self._with_index(changed, before)

    def _as_expected(self, name: str, base: str | None) -> Stored | None:
        before = self.find(name)
        if before is None and base is not None:
            raise self._conflict(name)
        if before is not None and before.sha256 != base:
            raise self._conflict(name)
        if before is not None and before.is_cut:
            raise UsageError(
                f"The note {name} is too long to be changed here.", remedy="Edit its file."
            )
        return before

    def _conflict(self, name: str) -> NoteConflictError:
        return NoteConflictError(
            f"The {self.scope} note {name} is not as you saw it: somebody else changed it.",
            remedy=_AGAIN,
        )

    def _refuse_one_too_many(self, before: Stored | None) -> None:
        if before is None and len(self.files()) >= NOTES_MAX:
            raise UsageError(
                f"The {self.scope} memory has {NOTES_MAX} notes already, which is all it takes.",
                remedy="Forget or join some first; `rewake memory list` names likely ones.",
            )

    def _with_index(self, changed: Written, was: Stored | None) -> Changed:
        """Bring the index along. The note itself is done, so nothing here may undo that."""
        path = self.path / INDEX_NAME
        try:
            read = read_text(path, INDEX_BYTES_MAX)
        except FileNotFoundError:
            read = None
        except UnreadableError as error:
            return Changed((changed,), f"{path} was left as it is: {error}")
        if read is not None and read.is_cut:
            return Changed((changed,), f"{path} was left as it is: it is too long")
        data = read.data if read is not None else None
        notes = [stored.note for stored in self.listing().notes]
        merged = merged_index(data, notes, was.note if was is not None else None)
        if merged == data:
            return Changed((changed,))
        mode = read.mode if read is not None else FILE_MODE
        try:
            self._disk.write_atomic(path, merged, mode)
        except StorageError as error:
            return Changed((changed,), f"{path} was left as it is: {error.message}")
        place = Path(os.path.realpath(self.path)) / INDEX_NAME
        return Changed((changed, Written(place, data, merged, mode)))

    @contextmanager
    def _held(self) -> Iterator[None]:
        """The directory, made if it isn't there, and nobody else's meanwhile."""
        lock = self.path.with_name(f"{self.path.name}.lock")
        try:
            self._disk.make_directory(self.path)
            descriptor = self._disk.open_lock(lock)
        except OSError as error:
            raise storage_error(error, self.path, "create") from error
        try:
            _take(self._disk, descriptor, lock)
            self._remove_leftovers()
            yield
        finally:
            self._disk.close(descriptor)

    def _remove_leftovers(self) -> None:
        """What writers that died left: with the lock held, nobody is at work on it."""
        with suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                if (
                    entry.name.startswith(".")
                    and entry.name.endswith(".tmp")
                    and ".md." in entry.name
                ):
                    Path(entry.path).unlink(missing_ok=True)


def note_bytes(note: Note) -> bytes:
    """The note's file. Raises UsageError when it is too long or says nothing."""
    if not note.body.strip():
        raise UsageError("A note must say something.", remedy="Give it a text.")
    try:
        data = render_note(note).encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            "The note has a character that is no valid Unicode.", remedy="Write it without."
        ) from error
    if len(data) > NOTE_BYTES_MAX:
        raise UsageError(
            f"The note has {len(data)} bytes; {NOTE_BYTES_MAX} is all a note takes.",
            remedy="Keep what matters, or make two notes of it.",
        )
    return data


def _is_note_file(name: str) -> bool:
    return name.endswith(".md") and not name.startswith(".") and name.lower() != INDEX_NAME.lower()


def _take(disk: Disk, descriptor: int, lock: Path) -> None:
    deadline = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            disk.lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise StorageError(
                    f"Another process has held {lock} for {_LOCK_WAIT_S:g} s.",
                    path=str(lock),
                    remedy="Try again when it is done.",
                ) from error
            time.sleep(_LOCK_PAUSE_S)
        except OSError as error:
            raise storage_error(error, lock, "lock") from error
        else:
            return
