"""Small records as files: one JSON object each, replaced as a whole.

The rules kept here: a reader sees the old record or the new one; a record that can't be read is listed
as damaged and hides no other; a record is a convenience, and who can't read one loses no fact.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from rewake.errors import DamagedError, SessionNotFoundError
from rewake.log.disk import Disk, storage_error
from rewake.log.layout import checked_name

_Record = TypeVar("_Record", bound=msgspec.Struct)
RECORD_BYTES_MAX = 1 << 20
"""Larger files are no records of ours; they are not read."""


class DamagedRecord(msgspec.Struct, frozen=True):
    """A record's file that can't be read, and why."""

    record_id: str
    path: str
    problem: str


class RecordFiles(Generic[_Record]):
    """The records of one type in one directory: `<id><suffix>`."""

    def __init__(
        self, directory: Path, suffix: str, record_type: type[_Record], disk: Disk, *, sync: bool
    ) -> None:
        self.directory = directory
        self._suffix = suffix
        self._type = record_type
        self._decoder = msgspec.json.Decoder(record_type)
        self._disk = disk
        self._sync = sync

    def path(self, record_id: str) -> Path:
        """Where a record is. Raises UsageError for an id that is no file name."""
        return self.directory / f"{checked_name(record_id)}{self._suffix}"

    def write(self, record_id: str, record: _Record) -> None:
        """Put the record in place of the one before; durable on return, where that was asked for.

        Raises StorageError; the one before is still there then.
        """
        path = self.path(record_id)
        try:
            self._disk.make_directory(self.directory, sync=self._sync)
        except OSError as error:
            raise storage_error(error, self.directory, "create") from error
        self._disk.write_atomic(path, msgspec.json.encode(record) + b"\n", sync=self._sync)

    def read(self, record_id: str) -> _Record:
        """The record. Raises SessionNotFoundError, DamagedError, StorageError."""
        path = self.path(record_id)
        found = self._read(path)
        if isinstance(found, str):
            raise DamagedError(
                f"The record {path} can't be read: {found}.", remedy="Write it anew or delete it."
            )
        if found is None:
            raise SessionNotFoundError(
                f"There is no record of {record_id!r}.", remedy="List those there are."
            )
        return found

    def delete(self, record_id: str) -> bool:
        """Remove a record; whether there was one. Raises StorageError."""
        path = self.path(record_id)
        try:
            path.unlink()
            if self._sync:
                self._disk.sync_directory(self.directory)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise storage_error(error, path, "delete") from error
        return True

    def list(self) -> tuple[list[_Record], list[DamagedRecord]]:
        """All records in the order of their ids, and those that can't be read. Raises StorageError."""
        records: list[_Record] = []
        damaged: list[DamagedRecord] = []
        for path in self._paths():
            found = self._read(path)
            if isinstance(found, str):
                record_id = path.name.removesuffix(self._suffix)
                damaged.append(DamagedRecord(record_id, str(path), found))
            elif found is not None:
                records.append(found)
        return records, damaged

    def _paths(self) -> Iterator[Path]:
        try:
            names = sorted(entry.name for entry in self.directory.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise storage_error(error, self.directory, "read") from error
        for name in names:
            if name.endswith(self._suffix) and not name.startswith("."):
                yield self.directory / name

    def _read(self, path: Path) -> _Record | str | None:
        """The record, what is wrong with it, or None where there is none."""
        try:
            with path.open("rb") as file:
                data = file.read(RECORD_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            return error.strerror or str(error)
        if len(data) > RECORD_BYTES_MAX:
            return f"it is larger than {RECORD_BYTES_MAX} bytes"
        try:
            return self._decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return str(error)
