"""After a reboot: do the files still have what the log says was written to them?

A completed call's files were synced before its outcome was recorded, so a mismatch means that a disk
or a file system did not keep its word (or that somebody else wrote since, which the time tells).

The rule kept here: only what was written in an earlier boot and since the newest checkpoint is
looked at, so the cost is bounded; and a file that somebody changed later is not called lost.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from rewake.model.content import JsonObject, Text
from rewake.model.events import FileChangeIntent, FileState, Outcome, Resolution, Result
from rewake.resume.chain import content_of, observe
from rewake.resume.evidence import Settlement
from rewake.state.world import OpenCall, Written

# Coarse time stamps of file systems (FAT: 2 s) must not make our own write look like a later one.
_LATER_SECONDS: Final = 2.0


def lost_changes(
    written: Mapping[str, Written], boot_id: str, interrupted: Iterable[OpenCall]
) -> list[tuple[OpenCall, Settlement]]:
    """The calls whose files no longer have what they wrote, one verdict a path.

    A path that an `interrupted` call was changing is left out: that call's own verdict says what is
    there now. Nothing when the machine wasn't restarted since, or where its boots can't be told
    apart.
    """
    if not boot_id:
        return []
    found: list[tuple[OpenCall, Settlement]] = []
    in_doubt = {
        change.path
        for call in interrupted
        if isinstance(call.intent, FileChangeIntent)
        for change in call.intent.changes
    }
    for path, known in written.items():
        # A path that isn't UTF-8 stands here with replacements, so nothing can be looked up by it.
        if path in in_doubt or "\ufffd" in path:
            continue
        if known.boot_id and known.boot_id != boot_id:
            evidence = _mismatch(path, known)
            if evidence is not None:
                found.append((known.call, _settlement(path, known, evidence)))
    return found


def _mismatch(path: str, known: Written) -> JsonObject | None:
    """What is there instead, or None where the file is as it was left or was changed later."""
    actual, changed_at = _look(Path(path))
    if content_of(actual) == content_of(known.after):
        return None
    is_old = content_of(actual) == content_of(known.before)
    if not is_old and changed_at is not None and changed_at > _written_at(known) + _LATER_SECONDS:
        return None
    return {
        "path": path,
        "expected": msgspec.to_builtins(known.after),
        "actual": msgspec.to_builtins(actual),
        "is_as_before_the_call": is_old,
        "blob": known.after.sha256,
    }


def _written_at(known: Written) -> float:
    """Unix seconds; before everything where another program wrote a time that is none."""
    try:
        return datetime.fromisoformat(known.timestamp).timestamp()
    except ValueError:
        return 0.0


def _look(path: Path) -> tuple[FileState, float | None]:
    try:
        return observe(os.fsencode(path)), path.lstat().st_mtime
    except (FileNotFoundError, NotADirectoryError):
        return FileState(), None
    except OSError:
        # What can't be read can't be called lost.
        return FileState("file"), float("inf")


def _settlement(path: str, known: Written, evidence: JsonObject) -> Settlement:
    text = (
        f"The machine was restarted, and {path} no longer has what this {known.call.tool_name} call "
        "had written: its change was LOST. Read the file, then make the change again if it is still "
        "wanted."
    )
    resolution = Resolution("lost", evidence, "recovery", "the file is not as the log says")
    return Settlement(
        known.call.call_id, resolution, Outcome(), Result((Text(text),), is_error=True)
    )
