"""Directories that a file tool makes for a new file: they are changes, too, and go back with it.

The rule kept here: which directories were missing is on disk before the call may make them, so that
they are known also when the call was interrupted. Nothing is written when none is missing. Calls may
run at the same time.
"""

# Paths are bytes here, because they may be no text.
# ruff: noqa: PTH120

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from rewake.files.names import change
from rewake.log.disk import Disk
from rewake.model.events import Change, FileState, Outcome
from rewake.resume.chain import path_of

_NAME: Final = "directories"


class _Expected(msgspec.Struct, frozen=True):
    calls: dict[str, list[bytes]]


class Directories:
    """The directories that the file calls at work have to make, by call."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory = directory
        self._disk = disk
        self._missing: dict[str, list[bytes]] = {}

    def expect(self, call_id: str, changes: Sequence[Change]) -> None:
        """Before the call: note what is missing. Durable on return."""
        missing: set[bytes] = set()
        for one in changes:
            if one.after.kind != "absent":
                missing.update(_missing_above(path_of(one)))
        if missing:
            self._missing[call_id] = sorted(missing)
            self._disk.make_directory(self._directory)
            data = msgspec.msgpack.encode(_Expected(self._missing))
            self._disk.write_atomic(self._directory / _NAME, data)

    def made(self, call_id: str, outcome: Outcome) -> Outcome:
        """After the call: the outcome with the directories that are there now.

        A directory that two calls had to make is on record with the one that ends first.
        """
        missing = self._missing.pop(call_id, None)
        if not missing:
            return outcome
        for other, paths in self._missing.items():
            self._missing[other] = [path for path in paths if path not in missing]
        return _with_directories(outcome, missing)

    def recovered(self, outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
        """The same for calls that another process had begun, in their order."""
        try:
            data = (self._directory / _NAME).read_bytes()
            expected = msgspec.msgpack.decode(data, type=_Expected)
        except (OSError, msgspec.DecodeError):
            return dict(outcomes)
        self._missing = expected.calls
        return {call_id: self.made(call_id, outcome) for call_id, outcome in outcomes.items()}


def _missing_above(path: bytes) -> list[bytes]:
    missing = []
    parent = os.path.dirname(path)
    while not os.path.lexists(parent):
        missing.append(parent)
        parent = os.path.dirname(parent)
    return missing


def _with_directories(outcome: Outcome, missing: Sequence[bytes]) -> Outcome:
    made = []
    for path in missing:
        try:
            status = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISDIR(status.st_mode):
            state = FileState("directory", mode=stat.S_IMODE(status.st_mode))
            made.append(change(path, FileState(), state))
    if not made:
        return outcome
    return msgspec.structs.replace(outcome, changes=(*outcome.changes, *made))
