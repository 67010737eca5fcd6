"""The archive as a file: plain tar (ustar) in one Zstandard frame, with a manifest as its last member.

The rules kept here:

- Written beside its place, synced and renamed, 0600; the same members give the same bytes.
- Read without trust: only regular files with names of the known forms, each once, none larger than
  what is left of the limit. Links, devices, extended headers and everything else are refused, so
  `tar tf` shows what a reader sees.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType, TracebackType
from typing import BinaryIO, Final, Protocol, Self

import msgspec

from rewake.errors import DamagedError, StorageError
from rewake.log.disk import Disk, crash_point, short_write_error, storage_error

FORMAT_NAME: Final = "rewake-archive"
FORMAT_VERSION: Final = 1
MANIFEST: Final = "manifest.json"
PROJECT: Final = "project.json"
TRANSCRIPT: Final = "session/transcript.jsonl"

_NAME_PART: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
_KNOWN_NAME: Final = re.compile(
    rf"manifest\.json|project\.json|session/transcript\.jsonl|session/agents/{_NAME_PART}"
    rf"|session/outputs/{_NAME_PART}/{_NAME_PART}|origins/{_NAME_PART}\.jsonl|blobs/[0-9a-f]{{64}}"
)
_BLOCK: Final = 512
_CHUNK_BYTES: Final = 1 << 18
_MANIFEST_BYTES_MAX: Final = 64 << 20  # half a million members
_MEMBERS_MAX: Final = 500_000
_LEVEL: Final = (
    6  # an archive is written once and carried about: measured 15 % smaller than level 1
)
_WINDOW_LOG_MAX: Final = 27  # 128 MiB: what a hostile frame may make a reader allocate
TOTAL_BYTES_MAX: Final = 64 << 30


class ArchiveError(DamagedError):
    """An archive that is damaged, hostile or of a newer version. Nothing of it was taken over."""


class Member(msgspec.Struct, frozen=True):
    """One file of the archive; `size` in bytes, `sha256` of its content."""

    path: str
    size: int
    sha256: str


class Redaction(msgspec.Struct, frozen=True):
    """Whether secrets were taken out, how many, and of which kinds."""

    enabled: bool
    redacted: int = 0
    kinds: dict[str, int] = {}


class Manifest(msgspec.Struct, frozen=True):
    """What an archive says of itself. `origins` are the ids of the sessions it was forked from."""

    session_id: str
    members: tuple[Member, ...]
    redaction: Redaction
    format: str = FORMAT_NAME
    version: int = FORMAT_VERSION
    min_reader_version: int = FORMAT_VERSION
    origins: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()


class _Compressor(Protocol):
    def compress(self, data: bytes) -> bytes: ...

    def flush(self) -> bytes: ...


def zstd_module() -> ModuleType:
    """3.14's `compression.zstd`, or the same from PyPI."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


# --- writing ---------------------------------------------------------------------------------


class NewFile:
    """A file written beside its place; `commit` puts it there, leaving the block without removes it.

    On return of `commit` it is durable. Raises StorageError; what stood there before is then whole.
    """

    def __init__(self, path: Path, disk: Disk) -> None:
        self.path = path
        self.size = 0
        self._disk = disk
        self._temporary = path.parent / f".{path.name}.{os.urandom(8).hex()}.tmp"
        try:
            self._descriptor = disk.open_append(self._temporary)
        except OSError as error:
            raise storage_error(error, path, "create") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()
        self._temporary.unlink(missing_ok=True)

    def write(self, data: bytes) -> None:
        """Append."""
        if not data:
            return
        try:
            written = self._disk.write(self._descriptor, data)
        except OSError as error:
            raise storage_error(error, self.path, "write") from error
        if written != len(data):
            raise short_write_error(self.path, written, len(data))
        self.size += written

    def commit(self) -> None:
        """Sync, rename, sync the directory."""
        try:
            self._disk.sync(self._descriptor)
            self._close()
            crash_point("before_rename_archive")
            self._disk.rename(self._temporary, self.path)
            crash_point("after_rename_archive")
            self._disk.sync_directory(self.path.parent)
        except OSError as error:
            raise storage_error(error, self.path, "write") from error

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._disk.close(descriptor)


class ArchiveWriter:
    """Adds members to a `NewFile`; `finish` closes the tar and the frame. Committing is the caller's."""

    def __init__(self, file: NewFile) -> None:
        zstd = zstd_module()
        options = {
            zstd.CompressionParameter.compression_level: _LEVEL,
            zstd.CompressionParameter.checksum_flag: 1,
        }
        self.members: list[Member] = []
        self._file = file
        self._compressor: _Compressor = zstd.ZstdCompressor(options=options)

    def add(self, path: str, content: Iterable[bytes], size: int) -> Member:
        """Add a file of exactly `size` bytes. Raises StorageError where the content has another size."""
        if _KNOWN_NAME.fullmatch(path) is None:
            raise ValueError(f"no member of an archive is called {path!r}")
        header = tarfile.TarInfo(path)
        header.size, header.mode = size, 0o600
        try:
            self._put(header.tobuf(tarfile.USTAR_FORMAT))
        except ValueError as error:
            raise StorageError(
                f"{path} ({size} bytes) doesn't fit into an archive: {error}.",
                path=path,
                remedy="Shorten its name or make it smaller than 8 GiB.",
            ) from error
        digest = hashlib.sha256()
        written = 0
        for piece in content:
            digest.update(piece)
            written += len(piece)
            self._put(piece)
        if written != size:
            raise StorageError(
                f"{path} changed while it was exported.", path=path, remedy="Export it again."
            )
        self._put(bytes(-size % _BLOCK))
        member = Member(path, size, digest.hexdigest())
        if path != MANIFEST:
            self.members.append(member)
        return member

    def finish(self, manifest: Manifest) -> None:
        """Add the manifest and end the archive."""
        data = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
        self.add(MANIFEST, (data,), len(data))
        self._put(bytes(2 * _BLOCK))
        self._file.write(self._compressor.flush())

    def _put(self, data: bytes) -> None:
        self._file.write(self._compressor.compress(data))


# --- reading ---------------------------------------------------------------------------------


class ArchiveReader:
    """The members of an archive in order. Close it, or use it with `with`.

    Raises StorageError where the file can't be opened, ArchiveError for what is no archive or breaks
    the rules of one.
    """

    def __init__(self, path: Path, *, bytes_max: int = TOTAL_BYTES_MAX) -> None:
        zstd = zstd_module()
        self.path = path
        self._left = bytes_max
        self._error: type[Exception] = zstd.ZstdError
        options = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG_MAX}
        try:
            self._raw = path.open("rb")
        except OSError as error:
            raise storage_error(error, path, "open") from error
        self._file: BinaryIO = zstd.ZstdFile(self._raw, "rb", options=options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._raw.close()

    def members(self) -> Iterator[tuple[str, int, Iterator[bytes]]]:
        """Path, size and content of each. Content that isn't taken is read over."""
        seen: set[str] = set()
        while True:
            block = self._exactly(_BLOCK)
            if block.count(0) == _BLOCK:
                self._end()
                return
            header = self._header(block)
            if header.name in seen:
                raise self._refused(f"it has two members called {header.name!r}")
            if len(seen) == _MEMBERS_MAX:
                raise self._refused(f"it has more than {_MEMBERS_MAX} members")
            seen.add(header.name)
            content = self._content(header.size)
            yield header.name, header.size, content
            for _ in content:
                pass
            self._exactly(-header.size % _BLOCK)

    def _header(self, block: bytes) -> tarfile.TarInfo:
        try:
            header = tarfile.TarInfo.frombuf(block, "ascii", "strict")
        except (tarfile.HeaderError, UnicodeDecodeError, ValueError) as error:
            raise self._refused(f"it is no archive of a session ({error})") from error
        if header.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise self._refused(f"{header.name!r} is no regular file")
        if _KNOWN_NAME.fullmatch(header.name) is None:
            raise self._refused(f"{header.name!r} has no place in it")
        if header.size < 0 or header.size > self._left:
            raise self._refused(f"{header.name!r} is larger than what may be unpacked")
        if header.name == MANIFEST and header.size > _MANIFEST_BYTES_MAX:
            raise self._refused("its manifest is too large")
        self._left -= header.size
        return header

    def _content(self, size: int) -> Iterator[bytes]:
        while size > 0:
            piece = self._exactly(min(size, _CHUNK_BYTES))
            size -= len(piece)
            yield piece

    def _end(self) -> None:
        """Read to the end, so that a compressed stream that was cut short there is noticed, too."""
        while piece := self._piece(_CHUNK_BYTES):
            self._left -= len(piece)
            if piece.count(0) != len(piece) or self._left < 0:
                raise self._refused("something follows its end")

    def _piece(self, count: int) -> bytes:
        try:
            return self._file.read(count)
        except EOFError as error:
            raise self._refused("it ends too early") from error
        except self._error as error:
            raise self._refused(f"it can't be decompressed ({error})") from error
        except OSError as error:
            raise storage_error(error, self.path, "read") from error

    def _exactly(self, count: int) -> bytes:
        pieces: list[bytes] = []
        while count > 0:
            piece = self._piece(count)
            if not piece:
                raise self._refused("it ends too early")
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)

    def _refused(self, why: str) -> ArchiveError:
        return refused(self.path, why)


def refused(path: Path, why: str) -> ArchiveError:
    """What the user is told of an archive that isn't taken."""
    return ArchiveError(
        f"{path} was not imported: {why}.",
        remedy="Nothing was changed. Export the session again and compare the file's checksum.",
    )


def read_manifest(path: Path, data: bytes) -> Manifest:
    """Raises ArchiveError."""
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise refused(path, f"its manifest can't be read ({error})") from error
    if manifest.format != FORMAT_NAME:
        raise refused(path, f"its manifest is of format {manifest.format!r}")
    if manifest.min_reader_version > FORMAT_VERSION:
        raise ArchiveError(
            f"{path} needs a reader of version {manifest.min_reader_version}; this Rewake reads"
            f" version {FORMAT_VERSION}.",
            remedy="Upgrade Rewake to import it; nothing was changed.",
        )
    return manifest
