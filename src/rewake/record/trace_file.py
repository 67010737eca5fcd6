"""The files of a trace: `trace.jsonl`, and older ones as `trace.1.jsonl`, `trace.2.jsonl`…

The rule kept here: a file that is full is renamed, the oldest one goes, and what is written is whole
lines, so that any reader finds JSON Lines in each of them.
"""

from __future__ import annotations

import os
from pathlib import Path

from rewake.log.disk import Disk, short_write_error, storage_error

FILE_BYTES_MAX = 16 << 20
FILES_MAX = 4


def older(path: Path, number: int) -> Path:
    """The name of the trace file that is `number` rotations old; 0 is the newest."""
    return path if number == 0 else path.with_name(f"{path.stem}.{number}{path.suffix}")


def trace_files(path: Path) -> list[Path]:
    """The files of the trace at `path` that are there, the oldest first."""
    found = [path] if path.exists() else []
    number = 1
    while older(path, number).exists():
        found.append(older(path, number))
        number += 1
    return found[::-1]


class TraceFile:
    """Appends whole lines. Raises StorageError; a file is at most one write over its limit."""

    def __init__(
        self, path: Path, disk: Disk, *, file_bytes_max: int = FILE_BYTES_MAX, files_max: int
    ) -> None:
        self.path = path
        self._disk = disk
        self._bytes_max = file_bytes_max
        self._files_max = files_max
        self._descriptor = self._open()
        self._size = path.stat().st_size
        self._is_torn = self._size > 0 and not _ends_a_line(path)

    def write(self, data: bytes) -> None:
        """Append `data`, which ends with a newline, to this file or to a new one."""
        if self._descriptor < 0:
            return
        if self._size and self._size + len(data) > self._bytes_max:
            self._rotate()
        if self._is_torn:  # what a crash or a full disk left costs its own line only
            data = b"\n" + data
        try:
            written = self._disk.write(self._descriptor, data)
        except OSError as error:
            raise storage_error(error, self.path, "write to") from error
        self._size += written
        if written:
            self._is_torn = not data[:written].endswith(b"\n")
        if written != len(data):
            raise short_write_error(self.path, written, len(data))

    def close(self) -> None:
        """Release the file; harmless when called twice."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._disk.close(descriptor)

    def _open(self) -> int:
        try:
            return self._disk.open_append(self.path)
        except OSError as error:
            raise storage_error(error, self.path, "open") from error

    def _rotate(self) -> None:
        self.close()
        there = len(trace_files(self.path))
        try:
            for number in range(min(there, self._files_max) - 1, -1, -1):
                if number + 1 >= self._files_max:
                    older(self.path, number).unlink()
                else:
                    self._disk.rename(older(self.path, number), older(self.path, number + 1))
        except OSError as error:
            raise storage_error(error, self.path, "rotate") from error
        finally:
            self._descriptor = self._open()
            self._size = self.path.stat().st_size if self.path.exists() else 0
            self._is_torn = self._is_torn and self._size > 0


def _ends_a_line(path: Path) -> bool:
    try:
        with path.open("rb") as opened:
            opened.seek(-1, os.SEEK_END)
            return opened.read(1) == b"\n"
    except OSError:
        return True  # what can't be read is no reason not to write
