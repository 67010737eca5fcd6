"""Takes files back with a journal, so that a crash at any moment is finished by the next start.

The rules kept here:

- The journal, and a blob of every content that will be replaced, are durable before the first change.
- Each path changes at once. Deletions come first, the deepest before what holds them; then the rest.
- When a path can't be changed, what was changed before it is taken back, and the error says so.
- Whoever finishes a journal changes a path only if it is what the journal says it was, or is what a
  write of the journal left half done. A path that somebody changed meanwhile is left alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from rewake.errors import StorageError
from rewake.files.place import Placer
from rewake.files.plan import Step
from rewake.log.disk import Disk, crash_point
from rewake.model.events import Change, FileChangeIntent, FileState
from rewake.resume.chain import FileVerdict, observe, path_of, settle_files

_NAME: Final = "rewind"
Scope = Literal["files", "both"]


class Journal(msgspec.Struct, frozen=True):
    """What is being done. `leaf_id` is the session's last event before it.

    `operation_id` names the temporary files; `conversation_id` is where a conversation goes that goes
    back with the files (`scope` both).
    """

    operation_id: str
    leaf_id: str
    target_id: str
    scope: Scope
    conversation_id: str | None
    undoes: str | None
    changes: tuple[Change, ...]
    conflicts: tuple[Change, ...]


class Finished(msgspec.Struct, frozen=True):
    """A rewind that a crash had cut short: what became of it. `left` paths had been changed since."""

    journal: Journal
    changes: tuple[Change, ...]
    left: tuple[Change, ...]
    rolled_back: bool
    error: str = ""

    def sentence(self) -> str:
        """For the user."""
        count = len(self.changes)
        paths = f"{count} path{'' if count == 1 else 's'}"
        if self.rolled_back:
            return (
                f"A rewind of files was cut short and could not be finished ({self.error}): it was "
                "rolled back, the files are as they were before it."
            )
        more = ""
        if self.left:
            names = ", ".join(change.path for change in self.left)
            more = f" Changed by somebody else meanwhile and left alone: {names}."
        return f"A rewind of files was cut short; it has been finished ({paths}).{more}"


Keep = Callable[[bytes], str]


class Rewinder:
    """Applies and finishes rewinds of one session. `directory` is the session's place for it."""

    def __init__(
        self, directory: Path, disk: Disk, put_blob: Keep, read_blob: Callable[[str], bytes]
    ) -> None:
        self._directory = directory
        self._disk = disk
        self._put_blob = put_blob
        self._read_blob = read_blob

    @property
    def path(self) -> Path:
        """The journal."""
        return self._directory / _NAME

    def apply(self, journal: Journal, steps: Sequence[Step]) -> None:
        """Change the files. The journal stays until `done`. Raises StorageError: nothing is changed.

        An interruption (KeyboardInterrupt, a crash) leaves the journal to be finished.
        """
        for step in steps:
            self._keep_actual(step)
        self._disk.make_directory(self._directory)
        self._disk.write_atomic(self.path, msgspec.json.encode(journal))
        crash_point("after_rewind_journal")
        done: list[Change] = []
        try:
            with self._placer(journal) as placer:
                for change in in_order(journal.changes):
                    actual = observe(path_of(change))
                    if actual == change.after:
                        continue  # another name of a file that has been written
                    if actual != change.before:
                        raise _ChangedMeanwhileError(change.path)
                    done.append(change)  # before it is tried: a kind is changed in two system calls
                    placer.put(path_of(change), change.after)
                placer.sync()
        except (OSError, StorageError) as error:
            self._roll_back(journal, done)
            self.done()
            raise StorageError(
                f"The files could not be taken back ({_words(error)}); none of them was changed.",
                path=os.fspath(self._directory),
                remedy="Set right what the message says, then rewind again.",
            ) from error

    def done(self) -> None:
        """The rewind is on record: the journal has served."""
        self.path.unlink(missing_ok=True)
        self._disk.sync_directory(self._directory)

    def pending(self) -> Journal | None:
        """The journal of a rewind that was cut short, if there is one."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=Journal)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            raise StorageError(
                f"The journal of an unfinished rewind, {self.path}, can't be read: {error}.",
                path=os.fspath(self.path),
                remedy="Move it away to open the session; files it was changing may be half done.",
            ) from error

    def finish(self, journal: Journal) -> Finished:
        """Do what is left of a rewind, or take it back if that can't be done; then call `done`.

        Raises StorageError if neither works; the journal then stays.
        """
        intent = FileChangeIntent(tuple(in_order(journal.changes)))
        verdicts = settle_files([(journal.operation_id, intent)], self._read_blob, clean=True)
        made: list[Change] = []
        left: list[Change] = []
        try:
            with self._placer(journal) as placer:
                for verdict in verdicts[journal.operation_id]:
                    change = verdict.change
                    if verdict.verdict == "unknown" and not _is_between_kinds(verdict):
                        left.append(change)
                        continue
                    if verdict.verdict != "applied" or not _has_mode(path_of(change), change.after):
                        placer.put(path_of(change), change.after)
                    made.append(change)
                placer.sync()
        except (OSError, StorageError) as error:
            applied = [v.change for v in verdicts[journal.operation_id] if v.verdict == "applied"]
            self._roll_back(journal, [*applied, *made])
            return Finished(journal, (), (), rolled_back=True, error=_words(error))
        return Finished(journal, tuple(made), tuple(left), rolled_back=False)

    def _placer(self, journal: Journal) -> Placer:
        return Placer(journal.operation_id, self._read_blob)

    def _roll_back(self, journal: Journal, changes: Iterable[Change]) -> None:
        unique = {path_of(change): change for change in changes}
        back = [
            msgspec.structs.replace(change, before=change.after, after=change.before)
            for change in unique.values()
        ]
        try:
            with self._placer(journal) as placer:
                for change in in_order(back):
                    if observe(path_of(change)) != change.after:
                        placer.put(path_of(change), change.after)
                placer.sync()
        except OSError as error:
            raise StorageError(
                f"A rewind of files could neither be finished nor rolled back: {_words(error)}.",
                path=os.fspath(self.path),
                remedy="Set right what the message says; opening the session again goes on with it.",
            ) from error

    def _keep_actual(self, step: Step) -> None:
        """The content that will be replaced, as a blob: an undo brings it back."""
        if step.actual.kind != "file" or step.actual.sha256 == step.left.sha256:
            return  # what the agent left is a blob that an event names
        with open(step.path, "rb") as file:  # noqa: PTH123  # a path in bytes
            sha256 = self._put_blob(file.read())
        if sha256 != step.actual.sha256:
            raise StorageError(
                f"{step.shown} is being changed by somebody else right now.",
                path=step.shown,
                remedy="Nothing was changed; rewind again when that has ended.",
            )


class _ChangedMeanwhileError(OSError):
    """A path isn't what the plan had found."""


def _words(error: OSError | StorageError) -> str:
    if isinstance(error, _ChangedMeanwhileError):
        return f"{error} was changed by somebody else meanwhile"
    if isinstance(error, StorageError):
        return error.message
    where = f": {os.fsdecode(error.filename)}" if error.filename is not None else ""
    return f"{error.strerror or error}{where}"


def _is_between_kinds(verdict: FileVerdict) -> bool:
    """Whether a directory was being replaced, or made in a file's place: two system calls."""
    kinds = {verdict.change.before.kind, verdict.change.after.kind}
    return verdict.actual is not None and verdict.actual.kind == "absent" and "directory" in kinds


def _has_mode(path: bytes, wanted: FileState) -> bool:
    if wanted.mode is None or wanted.kind not in {"file", "directory"}:
        return True
    return observe(path).mode == wanted.mode


def in_order(changes: Iterable[Change]) -> list[Change]:
    """Deletions first, what is inside before what holds it; then the rest from the outside inwards.

    A directory that makes place for a file is emptied before, and removed together with that.
    """
    listed = list(changes)
    going = [one for one in listed if one.after.kind == "absent"]
    coming = [one for one in listed if one.after.kind != "absent"]
    going.sort(key=path_of, reverse=True)
    coming.sort(key=path_of)
    return [*going, *coming]
