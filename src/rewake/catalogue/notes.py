"""What sessions say of themselves at their end, one line each, until the catalogue takes it in.

The rules kept here: a session pays one `write` and no database; a note is a hint with the size and
time of the file it was made from, so a lost, torn or stale one costs the reading of one transcript;
and nothing that goes wrong here reaches the session.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from rewake.catalogue.files import Found, found_of
from rewake.errors import RewakeError
from rewake.log.disk import Disk
from rewake.log.layout import SessionPaths
from rewake.log.scan import Transcript
from rewake.model.codec import decode_line
from rewake.model.events import Event
from rewake.resume.listing import Summary

_NAME: Final = "catalogue.notes"
_END_BYTES: Final = 1 << 12
_FILE_BYTES_MAX: Final = (
    4 << 20
)  # nobody has listed for ten thousand sessions: they can be read then


class _Note(msgspec.Struct, frozen=True):
    project: bytes
    session_id: bytes
    size: int
    mtime_ns: int
    summary: Summary


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(_Note).decode


def note_session(home: Path, paths: SessionPaths, summary: Summary) -> None:
    """Note the summary of a session whose transcript has just been committed. Best effort.

    Never raises for the disk's sake and never waits: what isn't noted is read when it is listed.
    """
    disk = Disk()
    try:
        found = found_of(paths)
        created_at, last_event_at = _ends(paths.transcript)
        if last_event_at != summary.last_event_at:
            return  # something of what the summary tells never got to the file
        summary = msgspec.structs.replace(summary, created_at=created_at)
        line = _encode(
            _Note(
                os.fsencode(paths.project),
                os.fsencode(paths.session_id),
                found.size,
                found.mtime_ns,
                summary,
            )
        )
        descriptor = disk.open_append(home / _NAME)
        try:
            if os.fstat(descriptor).st_size < _FILE_BYTES_MAX:
                disk.write(descriptor, line + b"\n")
        finally:
            disk.close(descriptor)
    except (OSError, RewakeError, UnicodeEncodeError):
        return  # the session is what counts, and it is on disk


def read_notes(home: Path) -> list[tuple[Found, Summary]]:
    """The notes there are, in the order in which they were made."""
    try:
        content = (home / _NAME).read_bytes()
    except OSError:
        return []
    notes = []
    for line in content.split(b"\n"):
        try:
            note = _decode(line)
        except msgspec.MsgspecError:
            continue  # torn, or of another version
        found = Found(
            note.mtime_ns, os.fsdecode(note.session_id), os.fsdecode(note.project), note.size, 0
        )
        notes.append((found, note.summary))
    return notes


def drop_notes(home: Path) -> None:
    """They were taken in."""
    try:
        (home / _NAME).unlink(missing_ok=True)
    except OSError:
        return  # they are taken in once more the next time


def _ends(transcript: Path) -> tuple[str, str]:
    """When the first and the last event were recorded."""
    created_at = last_event_at = ""
    with Transcript(transcript) as reader:
        for offset, line in reader.lines_forward(block_bytes=_END_BYTES):
            first = decode_line(line, offset)
            if isinstance(first, Event):
                created_at = first.timestamp
                break
        for last in reader.backward(block_bytes=_END_BYTES):
            if isinstance(last, Event):
                last_event_at = last.timestamp
                break
    return created_at, last_event_at
