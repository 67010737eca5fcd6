"""One archive with everything of a session: its lines, those it was forked from, blobs, outputs.

The rules kept here:

- Nothing is changed and no lock is taken: a session at work is exported as far as its last whole line.
- What an archive needs to be resumed anywhere is in it: of each origin, the lines up to the fork.
- The same session gives the same bytes; with redaction (the default), secrets are taken out.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO, Final, cast

import msgspec

from rewake.archive.container import (
    PROJECT,
    TRANSCRIPT,
    ArchiveWriter,
    Manifest,
    NewFile,
    Redaction,
)
from rewake.archive.lines import Rewrite, rewritten
from rewake.archive.names import payload_of, referred
from rewake.errors import StorageError
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk, storage_error
from rewake.log.layout import SessionPaths
from rewake.log.lock import holder
from rewake.log.project import FILE_NAME
from rewake.log.scan import Transcript
from rewake.redaction.redactor import Moved, Redactor
from rewake.resume.lineage import Ancestors, Lineage

_CHUNK_BYTES: Final = 1 << 18
_SPOOL_BYTES: Final = (
    8 << 20
)  # what is redacted waits in memory up to here, then in a nameless file


class Exported(msgspec.Struct, frozen=True):
    """What was written: `size` in bytes, `redacted` secrets by kind.

    `incomplete` says in a sentence each what of the session was missing and so isn't in it.
    """

    session_id: str
    path: str
    size: int
    members: int
    redacted: dict[str, int]
    incomplete: tuple[str, ...]


class _Transcript(msgspec.Struct, frozen=True):
    """One file of lines: where it is, where it goes, and how much of it counts."""

    path: Path
    member: str
    size: int


def export_session(
    paths: SessionPaths,
    ancestors: Ancestors,
    output: Path,
    disk: Disk,
    redactor: Redactor | None,
) -> Exported:
    """Write the archive at `output`, replacing what is there. Durable on return.

    Without `redactor` the copy is exact. Raises SessionNotFoundError, and StorageError; `output` is
    then what it was.
    """
    with NewFile(output, disk) as file:
        export = _Export(paths, ancestors, disk, redactor, ArchiveWriter(file))
        try:
            manifest = export.run()
        except OSError as error:
            failed = Path(error.filename) if error.filename else output
            raise storage_error(error, failed, "export from") from error
        file.commit()
    return Exported(
        session_id=paths.session_id,
        path=str(output),
        size=file.size,
        members=len(manifest.members) + 1,
        redacted=manifest.redaction.kinds,
        incomplete=manifest.incomplete,
    )


class _Export:
    """One export, member by member: blobs first, since lines say what those are called now."""

    def __init__(
        self,
        paths: SessionPaths,
        ancestors: Ancestors,
        disk: Disk,
        redactor: Redactor | None,
        writer: ArchiveWriter,
    ) -> None:
        self._paths = paths
        self._ancestors = ancestors
        self._disk = disk
        self._redactor = redactor
        self._writer = writer
        self._blobs = BlobStore(paths.blobs, disk, durable=False)
        self._added: set[str] = set()
        self._origins: list[str] = []
        self._incomplete: list[str] = []

    def run(self) -> Manifest:
        transcripts = [
            *self._ancestry(),
            *self._agents(),
            _Transcript(self._paths.transcript, TRANSCRIPT, self._size()),
        ]
        contents, payloads = self._referred(transcripts)
        for sha256 in sorted(contents - payloads):
            self._blob(sha256, is_payload=False)
        for sha256 in sorted(payloads):
            self._blob(sha256, is_payload=True)
        self._project()
        self._outputs()
        for transcript in transcripts:
            self._lines(transcript)
        kinds = dict(sorted(self._redactor.counts.items())) if self._redactor is not None else {}
        manifest = Manifest(
            session_id=self._paths.session_id,
            members=tuple(self._writer.members),
            redaction=Redaction(self._redactor is not None, sum(kinds.values()), kinds),
            origins=tuple(self._origins),
            incomplete=tuple(self._incomplete),
        )
        self._writer.finish(manifest)
        return manifest

    # --- what there is -------------------------------------------------------------------

    def _size(self) -> int:
        """How much of the transcript counts: while it is written, up to its last whole line."""
        path = self._paths.transcript
        is_written = holder(self._paths.lock, self._disk) is not None
        try:
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                return _end_of_last_line(file, size) if is_written else size
        except OSError as error:
            raise storage_error(error, path, "read") from error

    def _ancestry(self) -> Iterator[_Transcript]:
        """The transcripts that this one was forked from, each up to the event it was forked at."""
        reader = Lineage(Transcript(self._paths.transcript), self._ancestors)
        with reader:
            below = reader
            while below.origin is not None:
                origin = below.origin
                above = below.ancestor()
                event = above.transcript.find(origin.event_id) if above is not None else None
                if above is None or event is None:
                    self._incomplete.append(
                        f"The session {origin.session_id}, from which it was forked, is gone."
                    )
                    return
                number = len(self._origins)
                self._origins.append(origin.session_id)
                end = event.offset + len(event.line) + 1
                yield _Transcript(above.transcript.path, f"origins/{number}.jsonl", end)
                below = above

    def _agents(self) -> Iterator[_Transcript]:
        for path in _regular_files(self._paths.agents):
            if path.suffix == ".jsonl":
                member = f"session/agents/{path.name}"
                yield _Transcript(path, member, path.stat().st_size)

    def _referred(self, transcripts: Iterable[_Transcript]) -> tuple[set[str], set[str]]:
        """The blobs that the lines refer to, and those of them that hold payloads."""
        contents: set[str] = set()
        payloads: set[str] = set()
        for transcript in transcripts:
            with transcript.path.open("rb") as file:
                left = transcript.size
                for line in file:
                    left -= len(line)
                    if left < 0:
                        break
                    if b'"sha256"' not in line:
                        continue
                    spilled, payload = payload_of(line.rstrip(b"\n"), self._blobs)
                    if spilled is not None:
                        payloads.add(spilled)
                    contents.update(referred(payload))
        return contents, payloads

    # --- members -------------------------------------------------------------------------

    def _blob(self, sha256: str, *, is_payload: bool) -> None:
        """One blob, if it is there; a hash of content that was only read names none."""
        if not self._blobs.has(sha256):
            if is_payload:
                self._incomplete.append(f"The payload {sha256} is gone; its preview is left.")
            return
        try:
            data = self._blobs.get(sha256)
        except StorageError as error:
            if isinstance(error.__cause__, OSError):
                raise
            self._incomplete.append(f"The blob {sha256} is damaged.")
            return
        if self._redactor is not None:
            data = self._redacted(sha256, data, is_payload=is_payload)
            moved = self._redactor.moved.get(sha256)
            sha256 = moved.sha256 if moved is not None else sha256
        member = f"blobs/{sha256}"
        if sha256 not in self._added:
            self._added.add(sha256)
            self._writer.add(member, (data,), len(data))

    def _redacted(self, sha256: str, data: bytes, *, is_payload: bool) -> bytes:
        redactor = cast("Redactor", self._redactor)
        new = redactor.json(data) if is_payload else redactor.data(data)
        if new is not data:
            redactor.moved[sha256] = Moved(hashlib.sha256(new).hexdigest(), len(new))
        return new

    def _project(self) -> None:
        path = self._paths.project / FILE_NAME
        if path.is_file():
            self._small(path, PROJECT)

    def _outputs(self) -> None:
        for path in _regular_files(self._paths.agents):
            if path.suffix != ".jsonl":
                self._small(path, f"session/agents/{path.name}")
        if not self._paths.outputs.is_dir():
            return
        for directory in sorted(self._paths.outputs.iterdir()):
            if directory.is_dir() and not directory.is_symlink():
                for path in _regular_files(directory):
                    self._output(path, f"session/outputs/{directory.name}/{path.name}")

    def _small(self, path: Path, member: str) -> None:
        data = path.read_bytes()
        if self._redactor is not None:
            data = self._redactor.json(data)
        self._writer.add(member, (data,), len(data))

    def _output(self, path: Path, member: str) -> None:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if self._redactor is None:
                self._writer.add(member, _chunks(file, size), size)
            else:
                self._spooled(member, self._redactor.stream(file, size))

    def _lines(self, transcript: _Transcript) -> None:
        with transcript.path.open("rb") as file:
            if self._redactor is None:
                self._writer.add(transcript.member, _chunks(file, transcript.size), transcript.size)
                return
            rewrite: Rewrite = self._redactor.line
            self._spooled(transcript.member, rewritten(file, rewrite, transcript.size))

    def _spooled(self, member: str, content: Iterable[bytes]) -> None:
        """A member whose size is known only when it has been made."""
        with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as spool:
            for piece in content:
                spool.write(piece)
            size = spool.tell()
            spool.seek(0)
            self._writer.add(member, _chunks(cast("IO[bytes]", spool), size), size)


def _chunks(file: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0:
        piece = file.read(min(size, _CHUNK_BYTES))
        if not piece:
            return
        size -= len(piece)
        yield piece


def _regular_files(directory: Path) -> list[Path]:
    """By name; what is no plain file has no place in a session."""
    try:
        entries = sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [path for path in entries if path.is_file() and not path.is_symlink()]


def _end_of_last_line(file: BinaryIO, size: int) -> int:
    while size > 0:
        start = max(size - _CHUNK_BYTES, 0)
        file.seek(start)
        newline = file.read(size - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        size = start
    return 0
