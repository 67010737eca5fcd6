r"""Appending to one transcript. Nothing on disk is ever rewritten, and nothing is read to append.

The rules kept here:

- One batch is one `write(2)` on a descriptor in append mode.
- At open, a tail without its newline gets the newline and nothing else: a whole record becomes
  committed, garbage becomes one corrupt line that every reader reports.
- A short write, a failed sync, or any exception between a write and its book-keeping (a
  KeyboardInterrupt too) poisons the appender. Nothing is retried: a second fsync after a failed one
  succeeds without having written anything, so this process never writes the session again.

Open it only while holding the session's lock.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NoReturn

import msgspec

from rewake.errors import PoisonedError, StorageError
from rewake.log.disk import Disk, crash_point, removed_error, short_write_error, storage_error
from rewake.log.forking import give_up_in_forked_children
from rewake.log.scan import Transcript
from rewake.model.codec import TornTail, decode_line
from rewake.model.events import Event

_WRITING: Final = "a write was interrupted before it was accounted for."
_SYNCING: Final = "a sync was interrupted before its result was known."
_FORKED: Final = "this process is a forked child of the one that writes the session."
_CLOSED: Final = "it is closed."


class SealedTail(msgspec.Struct, frozen=True):
    """A tail that had no newline when the file was opened.

    `recovered` tells whether it was a whole event, which is committed now; otherwise its `size`
    bytes at `offset` are one corrupt line.
    """

    offset: int
    size: int
    recovered: bool


class Appender:
    """Writes to one transcript. With `sync` the file's directory entry is durable after opening.

    `last_event_id` is the newest readable event of the file as it was opened and `next_seq` the
    number of the next line: corrupt lines after that event count, since they take up a line each.
    """

    def __init__(self, path: Path, disk: Disk, *, sync: bool) -> None:
        self.path = path
        self.sealed: SealedTail | None = None
        self.last_event_id: str | None = None
        self.next_seq = 0
        self.size = 0
        self._disk = disk
        self._trouble: str | None = None
        self._unsynced = True
        try:
            created = not path.exists()
            self._descriptor = disk.open_append(path)
        except OSError as error:
            raise storage_error(error, path, "open") from error
        give_up_in_forked_children(self)
        try:
            if sync:  # also of a file that is there: who created it may have died before its sync
                self._sync_entry()
            if not created:
                self._read_tail()
        except BaseException:
            self.close()
            raise

    def append(self, data: bytes) -> int:
        """Hand complete lines to the operating system; returns the offset where they start.

        On return they survive the death of this process. Raises StorageError if they could not be
        written whole, PoisonedError if an earlier call failed.
        """
        if self._trouble is not None:
            self._refuse()
        self._trouble = _WRITING
        crash_point("before_write_event")
        try:
            written = self._disk.write(self._descriptor, data)
        except OSError as error:
            self._fail(storage_error(error, self.path, "write to"))
        if written != len(data):
            self._fail(short_write_error(self.path, written, len(data)))
        crash_point("after_write_event")
        offset = self.size
        self.size = offset + written
        self._unsynced = True
        self._trouble = None
        return offset

    def sync(self) -> None:
        """On return all that was appended survives a power loss. Raises like `append`."""
        if self._trouble is not None:
            self._refuse()
        if not self._unsynced:
            return
        self._trouble = _SYNCING
        crash_point("before_sync_event")
        try:
            self._disk.sync(self._descriptor)
            is_removed = self._disk.is_removed(self._descriptor)
        except OSError as error:
            self._fail(storage_error(error, self.path, "sync"))
        if is_removed:
            self._fail(removed_error(self.path))
        crash_point("after_sync_event")
        self._unsynced = False
        self._trouble = None

    def close(self) -> None:
        """Release the descriptor without syncing; harmless when called twice.

        Raises StorageError where the file system tells only now that a write failed.
        """
        descriptor, self._descriptor = self._descriptor, -1
        self._trouble = self._trouble or _CLOSED
        if descriptor < 0:
            return
        try:
            self._disk.close(descriptor)
        except OSError as error:
            raise storage_error(error, self.path, "close") from error

    def abandon_after_fork(self) -> None:
        """Give up in a forked child; the parent is not affected."""
        self._trouble = _FORKED
        self.close()

    def _fail(self, error: StorageError) -> NoReturn:
        self._trouble = error.message
        raise error from error.__cause__

    def _refuse(self) -> NoReturn:
        raise PoisonedError(
            f"Nothing more is written to {self.path}: {self._trouble}",
            path=str(self.path),
            remedy="Resume the session: what was acknowledged before is kept.",
        )

    def _sync_entry(self) -> None:
        try:
            self._disk.sync_directory(self.path.parent)
        except OSError as error:
            raise storage_error(error, self.path.parent, "sync") from error

    def _read_tail(self) -> None:
        """Learn where the file ends, after closing a torn tail."""
        with Transcript(self.path) as transcript:
            self.size = transcript.size()
            corrupt_after = 0
            for offset, line, complete in transcript.lines_backward(self.size):
                found = decode_line(line, offset)
                is_event = isinstance(found, Event)
                if not complete:
                    self._seal(TornTail(offset, line), recovered=is_event)
                if isinstance(found, Event):
                    self.last_event_id = found.event_id
                    self.next_seq = found.seq + 1 + corrupt_after
                    return
                corrupt_after += 1
            self.next_seq = corrupt_after

    def _seal(self, tail: TornTail, *, recovered: bool) -> None:
        self.append(b"\n")
        self.sealed = SealedTail(tail.offset, len(tail.line), recovered)
