"""Puts a repaired transcript in the place of the damaged one, and keeps that.

The rules kept here (write ordering):

1. the repaired sibling is written and synced, under a temporary name;
2. the original gets a second name that no file has yet, and the directory is synced;
3. the sibling is renamed over the transcript, and the directory is synced.

So at every moment the transcript is the old file or the new one, both whole. After a crash, the
sibling and the second name are found by the next repair, which removes the one and goes on with the
other. Only the holder of the session's lock may call anything here.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rewake.doctor.surroundings import KEPT_PREFIX, is_kept_original
from rewake.log.disk import Disk, crash_point, short_write_error, storage_error

_BATCH_BYTES: Final = 1 << 20  # one write; a megabyte costs no more a byte than a larger one
_SIBLING: Final = ".repaired.tmp"
# File systems without hard links say one of these.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK})


def sibling_of(transcript: Path) -> Path:
    """Where the repaired file is written. One name, since only one process repairs at a time."""
    return transcript.with_name(f".{transcript.name}{_SIBLING}")


def remove_leftover(transcript: Path) -> Path | None:
    """Remove what an interrupted repair left of its sibling; its path if there was one."""
    sibling = sibling_of(transcript)
    try:
        sibling.unlink()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, sibling, "remove") from error
    return sibling


class Sibling:
    """The repaired file while it is written. Leaving the block without `swap` removes it."""

    def __init__(self, transcript: Path, disk: Disk) -> None:
        self.path = sibling_of(transcript)
        self._transcript = transcript
        self._disk = disk
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        try:
            self._descriptor = disk.open_append(self.path)
        except OSError as error:
            raise storage_error(error, self.path, "create") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()
        remove_leftover(self._transcript)

    def write(self, data: Iterable[bytes]) -> None:
        """Append. Raises StorageError."""
        for piece in data:
            self._waiting.append(piece)
            self._waiting_bytes += len(piece)
        if self._waiting_bytes >= _BATCH_BYTES:
            self._flush()

    def swap(self, moment: str) -> Path:
        """Sync, keep the original under a name with `moment` (such as 20260101T120000Z), take over.

        Returns the original's new path. Raises StorageError; the transcript is then as it was.
        """
        self._flush()
        crash_point("before_sync_repaired")
        try:
            self._disk.sync(self._descriptor)
            self._close()
            crash_point("after_sync_repaired")
            kept = self._keep_original(moment)
            crash_point("after_keep_original")
            self._disk.sync_directory(self._transcript.parent)
            crash_point("before_swap_repaired")
            self._disk.rename(self.path, self._transcript)
            crash_point("after_swap_repaired")
            self._disk.sync_directory(self._transcript.parent)
        except OSError as error:
            raise storage_error(error, self._transcript, "replace") from error
        return kept

    def _flush(self) -> None:
        data = b"".join(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        if not data:
            return
        try:
            written = self._disk.write(self._descriptor, data)
        except OSError as error:
            raise storage_error(error, self.path, "write to") from error
        if written != len(data):
            raise short_write_error(self.path, written, len(data))

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._disk.close(descriptor)

    def _keep_original(self, moment: str) -> Path:
        already = _second_name(self._transcript)
        if already is not None:
            return already
        stem = f"{self._transcript.stem}.{KEPT_PREFIX}{moment}"
        for number in count(1):
            suffix = "" if number == 1 else f"-{number}"
            kept = self._transcript.with_name(f"{stem}{suffix}.jsonl")
            try:
                self._disk.link(self._transcript, kept)
            except FileExistsError:
                continue
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                if kept.exists():
                    continue
                self._copy_original(kept)
            return kept
        raise AssertionError  # the numbers don't end

    def _copy_original(self, kept: Path) -> None:
        """Without hard links: a copy that gets its name when it is whole."""
        temporary = kept.with_name(f".{kept.name}.tmp")
        temporary.unlink(missing_ok=True)
        descriptor = self._disk.open_append(temporary)
        try:
            with self._transcript.open("rb") as original:
                while data := original.read(_BATCH_BYTES):
                    written = self._disk.write(descriptor, data)
                    if written != len(data):
                        raise short_write_error(temporary, written, len(data))
            self._disk.sync(descriptor)
        finally:
            self._disk.close(descriptor)
        self._disk.rename(temporary, kept)


def _second_name(transcript: Path) -> Path | None:
    """The name that an interrupted repair gave this very file."""
    for path in transcript.parent.iterdir():
        if is_kept_original(transcript, path.name) and path.samefile(transcript):
            return path
    return None
