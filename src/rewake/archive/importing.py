"""Takes a session out of an archive and puts it under a project of this home.

The rules kept here:

- The whole archive is read and checked before anything of it is written: every name, size and hash.
- A session that is here is never changed: the same content is no work, other content is refused.
- The session appears in one step (a rename), when all of it is durable. What a killed import leaves
  is in `incoming/`, where nobody looks for sessions.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from rewake.archive.container import (
    MANIFEST,
    PROJECT,
    TOTAL_BYTES_MAX,
    TRANSCRIPT,
    ArchiveReader,
    Manifest,
    Member,
    read_manifest,
    refused,
)
from rewake.archive.lines import with_session_id
from rewake.errors import SessionNotFoundError, StorageError, UsageError
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk, crash_point, short_write_error, storage_error
from rewake.log.layout import Layout, SessionPaths, checked_name
from rewake.log.project_lock import ProjectLock
from rewake.model.codec import decode_line
from rewake.model.events import Event
from rewake.resume.lineage import ORIGINS

INCOMING: Final = "incoming"
_BATCH_BYTES: Final = 1 << 20
_BLOB_BYTES_MAX: Final = 2 << 30  # a blob is held in memory, here as everywhere
_FREE_BYTES_MIN: Final = 16 << 20

Outcome = Literal["imported", "already_here"]


class Imported(msgspec.Struct, frozen=True):
    """What became of an archive. `project` is the directory in the home, `size` the bytes unpacked.

    `recorded_root` is where the session worked before: paths in its conversation are those.
    """

    outcome: Outcome
    session_id: str
    project: str
    size: int
    redacted: int
    recorded_root: str
    incomplete: tuple[str, ...] = ()


class Checked(msgspec.Struct, frozen=True):
    """An archive of which everything was found in order."""

    path: Path
    manifest: Manifest
    recorded_root: str

    @property
    def size(self) -> int:
        """Bytes unpacked."""
        return sum(member.size for member in self.manifest.members)


# --- checking --------------------------------------------------------------------------------


def check_archive(path: Path, *, bytes_max: int = TOTAL_BYTES_MAX) -> Checked:
    """Read all of an archive and write nothing. Raises ArchiveError, StorageError."""
    found: dict[str, Member] = {}
    manifest: Manifest | None = None
    root = ""
    with ArchiveReader(path, bytes_max=bytes_max) as reader:
        for name, size, content in reader.members():
            if manifest is not None:
                raise refused(path, "its manifest is not its last member")
            if name == MANIFEST:
                manifest = read_manifest(path, b"".join(content))
                continue
            head, digest = _hashed(content)
            found[name] = Member(name, size, digest)
            if name.startswith("blobs/") and (name != f"blobs/{digest}" or size > _BLOB_BYTES_MAX):
                raise refused(path, f"the content of {name} is another one")
            if name == TRANSCRIPT:
                root = _recorded_root(head)
    if manifest is None:
        raise refused(path, "it has no manifest")
    _compare(path, manifest, found)
    return Checked(path, manifest, root)


def _hashed(content: Iterable[bytes]) -> tuple[bytes, str]:
    """The first piece and the hash of all."""
    digest = hashlib.sha256()
    head = b""
    for piece in content:
        head = head or piece
        digest.update(piece)
    return head, digest.hexdigest()


def _recorded_root(head: bytes) -> str:
    first = decode_line(head.split(b"\n", 1)[0])
    project = getattr(first.payload, "project", {}) if isinstance(first, Event) else {}
    root = project.get("root") if isinstance(project, dict) else None
    return root if isinstance(root, str) else ""


def _compare(path: Path, manifest: Manifest, found: dict[str, Member]) -> None:
    stated = {member.path: member for member in manifest.members}
    if len(stated) != len(manifest.members):
        raise refused(path, "its manifest names a member twice")
    for name in sorted({*stated, *found}):
        if stated.get(name) != found.get(name):
            why = "is missing" if name not in found else "isn't what its manifest says"
            raise refused(path, f"{name} {why}")
    if TRANSCRIPT not in found:
        raise refused(path, "it has no transcript")
    origins = {f"origins/{number}.jsonl" for number in range(len(manifest.origins))}
    if {name for name in found if name.startswith("origins/")} != origins:
        raise refused(path, "its origins aren't those that its manifest names")
    for session_id in (manifest.session_id, *manifest.origins):
        try:
            checked_name(session_id)
        except UsageError as error:
            raise refused(path, error.message) from error


# --- importing -------------------------------------------------------------------------------


def import_session(
    checked: Checked, home: Path, root: Path, disk: Disk, *, new_id: str | None = None
) -> Imported:
    """Put the session under the project at `root`, under `new_id` if that is given. Durable on return.

    Raises UsageError where another session has its id, ArchiveError where the file changed since it
    was checked, and StorageError; there is then no such session, and the next try starts anew.
    """
    layout = Layout(home)
    session_id = checked_name(new_id if new_id is not None else checked.manifest.session_id)
    rename = (checked.manifest.session_id, session_id) if new_id is not None else None
    here = _existing(layout, session_id)
    if here is not None:
        _require_same(checked, here, rename)
        layout.make_durable(here, disk)  # an earlier import may have failed in its last sync
        return _report(checked, here, "already_here")
    _require_space(checked, home)
    project = layout.create_project(root, disk, sync=True)
    paths = SessionPaths(project, session_id)
    with ProjectLock(project, disk, "shared"):
        staging = project / INCOMING / f"{os.urandom(8).hex()}.tmp"
        try:
            disk.make_directory(staging)
            _unpack(checked, staging, BlobStore(paths.blobs, disk, durable=True), disk, rename)
            crash_point("before_appear")
            disk.make_directory(paths.directory.parent)
            _appear(staging, paths, disk)
            crash_point("after_appear")
            disk.sync_directory(paths.directory.parent)
            disk.sync_directory(staging.parent)
        except OSError as error:
            raise storage_error(error, staging, "import into") from error
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return _report(checked, paths, "imported")


def _appear(staging: Path, paths: SessionPaths, disk: Disk) -> None:
    try:
        disk.rename(staging, paths.directory)
    except OSError as error:
        if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
            raise _taken(paths.session_id) from error  # another import was faster
        raise


def _existing(layout: Layout, session_id: str) -> SessionPaths | None:
    try:
        found = layout.find(session_id)
    except SessionNotFoundError:
        return None
    return found if found.session_id == session_id else None


def _require_same(checked: Checked, here: SessionPaths, rename: tuple[str, str] | None) -> None:
    """Whether what is here begins with what the archive has; going on since is no difference."""
    if rename is not None:
        raise _taken(here.session_id)
    (theirs,) = [item for item in checked.manifest.members if item.path == TRANSCRIPT]
    digest = hashlib.sha256()
    left = theirs.size
    try:
        with here.transcript.open("rb") as file:
            while left > 0 and (piece := file.read(min(left, _BATCH_BYTES))):
                digest.update(piece)
                left -= len(piece)
    except OSError as error:
        raise storage_error(error, here.transcript, "read") from error
    if left or digest.hexdigest() != theirs.sha256:
        raise _taken(here.session_id)


def _taken(session_id: str) -> UsageError:
    return UsageError(
        f"There is another session {session_id} here, and its content differs from the archive's.",
        remedy="Import it under another id (--as NEW_ID), or delete the one here first"
        f" (rewake delete {session_id}).",
    )


def _require_space(checked: Checked, home: Path) -> None:
    place = next(path for path in (home, *home.parents) if path.exists())
    free = shutil.disk_usage(place).free
    if checked.size + _FREE_BYTES_MIN > free:
        raise StorageError(
            f"The session takes up to {checked.size:,} bytes and {free:,} are free in {home}.",
            path=str(home),
            remedy="Free some space, then import it again.",
        )


def _unpack(
    checked: Checked,
    staging: Path,
    blobs: BlobStore,
    disk: Disk,
    rename: tuple[str, str] | None,
) -> None:
    """Write every member, compared with the manifest once more: the file may have changed since."""
    stated = {member.path: member for member in checked.manifest.members}
    directories = {staging}
    with ArchiveReader(checked.path, bytes_max=checked.size + (64 << 20)) as reader:
        for name, _, content in reader.members():
            if name in {MANIFEST, PROJECT}:
                continue
            member = stated.get(name)
            if member is None:
                raise refused(checked.path, "it changed while it was imported")
            if name.startswith("blobs/"):
                if blobs.put(b"".join(content)) != member.sha256:
                    raise refused(checked.path, "it changed while it was imported")
                continue
            target = staging / _place(name, checked.manifest)
            disk.make_directory(target.parent)
            directories.update({target.parent, target.parent.parent})
            lines = rename is not None and _is_own_lines(name)
            _write(target, content, member, disk, rename if lines else None)
            crash_point("after_unpack_member")
    for directory in directories:
        if directory.is_relative_to(staging):
            disk.sync_directory(directory)
    disk.sync_directory(staging.parent)


def _is_own_lines(name: str) -> bool:
    return name == TRANSCRIPT or (name.startswith("session/agents/") and name.endswith(".jsonl"))


def _place(name: str, manifest: Manifest) -> Path:
    """Where a member goes in the session's directory."""
    kind, _, rest = name.partition("/")
    if kind == "origins":
        number = int(rest.removesuffix(".jsonl"))
        return Path(ORIGINS, f"{manifest.origins[number]}.jsonl")
    return Path(rest)


def _write(
    target: Path,
    content: Iterable[bytes],
    member: Member,
    disk: Disk,
    rename: tuple[str, str] | None,
) -> None:
    digest = hashlib.sha256()

    def hashed() -> Iterator[bytes]:
        for piece in content:
            digest.update(piece)
            yield piece

    descriptor = disk.open_append(target)
    try:
        for piece in hashed() if rename is None else _renamed(hashed(), *rename):
            written = disk.write(descriptor, piece) if piece else 0
            if written != len(piece):
                raise short_write_error(target, written, len(piece))
        disk.sync(descriptor)
    finally:
        disk.close(descriptor)
    if digest.hexdigest() != member.sha256:
        raise refused(target, "it changed while it was imported")


def _renamed(content: Iterable[bytes], old: str, new: str) -> Iterator[bytes]:
    rest = b""
    for piece in content:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield with_session_id(line, old, new) + b"\n"
    yield with_session_id(rest, old, new) if rest else b""


def _report(checked: Checked, paths: SessionPaths, outcome: Outcome) -> Imported:
    manifest = checked.manifest
    return Imported(
        outcome=outcome,
        session_id=paths.session_id,
        project=str(paths.project),
        size=checked.size if outcome == "imported" else 0,
        redacted=manifest.redaction.redacted,
        recorded_root=checked.recorded_root,
        incomplete=manifest.incomplete,
    )
