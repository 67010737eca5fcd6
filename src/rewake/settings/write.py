"""Changes settings files: one writer at a time, all or nothing, and everything else in them kept.

The rules kept here:

- A change reads the file under a lock and writes it under the same lock, so that none is lost however
  many processes make one. The lock is on the file's directory and leaves nothing behind.
- What would be written is read and checked first. A broken file, one of a newer version and one that
  its owner has made read-only are refused and stay as they are.
- A file that is a link is written where it leads to; mode and owner stay. A link that came with a
  project and leads out of it is refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rewake.errors import SettingsError, StorageError
from rewake.log.disk import FILE_MODE, Disk, storage_error
from rewake.log.git import is_tracked
from rewake.log.lock import DirectoryLock
from rewake.settings.check import lookup
from rewake.settings.edit import Edit, difference, edited
from rewake.settings.keys import VERSION_KEY
from rewake.settings.load import LOCAL_STEM, FileSource, Places, refuse_bypass
from rewake.settings.migrations import CURRENT, migrate, version_of
from rewake.settings.source import (
    FORMATS,
    broken,
    decoded,
    find_file,
    is_toml,
    parsed,
    read_bytes,
    read_text,
    text_in,
)
from rewake.settings.spots import TextError, dotted

_SHARED_MODE: Final = 0o666  # of a file for the team, less the umask as for any other source file
_BOM: Final = b"\xef\xbb\xbf"
_IGNORED: Final = f"""\
# Personal settings and backups stay out of the repository.
.gitignore
{LOCAL_STEM}.*
*.bak
"""


@dataclass(frozen=True, slots=True)
class Written:
    """What a change did: the file as it is named, and its text before and after."""

    file: Path
    before: str
    after: str

    @property
    def is_changed(self) -> bool:
        """Whether anything was written."""
        return self.before != self.after

    def value(self, text: str, path: tuple[str, ...]) -> Any:
        """What one of the two texts says at `path`; None for nothing."""
        return lookup(read_text(text, is_toml=is_toml(self.file))[0], path)


@dataclass(frozen=True, slots=True)
class Migrated:
    """A file that was brought up to date; `backup` holds it as it was."""

    file: Path
    changes: tuple[str, ...]
    backup: Path


def change(
    places: Places, name: FileSource, edits: Sequence[Edit], disk: Disk, *, dry_run: bool = False
) -> Written:
    """Make the changes in one source; durable on return, and all of them or none.

    Raises SettingsError where the result couldn't be used, StorageError where it can't be written,
    BusyError where another process holds the directory for long.
    """
    file = file_of(places, name)

    def changed(text: str) -> str:
        return edited(text, edits, is_toml=is_toml(file))

    try:
        return rewrite(places, name, file, changed, disk, dry_run=dry_run)
    except SettingsError as error:
        if any(dotted(edit.path) == error.key for edit in edits):
            _speak_of_the_change(error, file)
        raise


def _speak_of_the_change(error: SettingsError, file: Path) -> None:
    """The place is one in a text that was never written: nobody could look there."""
    error.message = error.message.removeprefix(f"{file}:{error.line}:{error.column}: ")
    error.remedy = f"Nothing was changed. {error.remedy}"
    error.line = error.column = 0


def file_of(places: Places, name: FileSource) -> Path:
    """The source's file, or the one that would be made. Raises SettingsError where there are two."""
    directory, stem = places.directory(name), places.stem(name)
    return find_file(directory, stem) or directory / f"{stem}{FORMATS[0]}"


def replace(
    places: Places, name: FileSource, file: Path, disk: Disk, *, before: str, after: str
) -> Written:
    """Put a whole new text in the place of `before`, which may be a broken one.

    Raises as `change` does, and SettingsError if the file isn't `before` any more.
    """

    def changed(text: str) -> str:
        if text != before:
            raise SettingsError(
                f"{file} was changed by somebody else meanwhile, so it stays as it is now.",
                remedy="Look at what is there and change it again.",
                file=str(file),
            )
        return after

    return rewrite(places, name, file, changed, disk, may_be_broken=True)


def rewrite(
    places: Places,
    name: FileSource,
    file: Path,
    changed: Callable[[str], str],
    disk: Disk,
    *,
    dry_run: bool = False,
    keep: Callable[[Path], None] | None = None,
    may_be_broken: bool = False,
) -> Written:
    """Replace the file's text by what `changed` makes of it, on the same terms as `change`.

    `keep` is called with the file's real place just before it is replaced. What is there must be
    readable and of no newer version, unless it `may_be_broken`.
    """
    target = _target(places, name, file)
    if dry_run:
        before, after, _ = _made(name, file, target, changed, may_be_broken=may_be_broken)
        return Written(file, before, after)
    try:
        disk.make_directory(target.parent)
    except OSError as error:
        raise storage_error(error, target.parent, "make") from error
    with DirectoryLock(target.parent, disk):
        if find_file(places.directory(name), places.stem(name)) not in {file, None}:
            raise SettingsError(
                f"{file}:1:1: a file of the other format appeared beside it.",
                remedy="Keep one of the two and try again.",
                file=str(file),
            )
        before, after, data = _made(name, file, target, changed, may_be_broken=may_be_broken)
        if before != after:
            try:
                if keep is not None:
                    keep(target)
                if name == "local":
                    _ignore(file.parent, disk)
                _put(target, data, disk, _mode_of(name))
            except StorageError as error:
                raise _nothing_lost(error, target, data) from error
    return Written(file, before, after)


def migrate_file(
    places: Places, name: FileSource, disk: Disk, *, dry_run: bool = False
) -> Migrated | None:
    """Bring one source's file up to date, with a backup of how it was; None where it is.

    A file of a newer version is left alone. Raises as `change` does; then the file is as it was.
    """
    file = find_file(places.directory(name), places.stem(name))
    if file is None or parsed(name, str(file), text_in(file), file).version > CURRENT:
        return None
    notes: tuple[str, ...] = ()
    version = 0

    def changed(text: str) -> str:
        nonlocal notes, version
        before, _ = read_text(text, is_toml=is_toml(file))
        after, _ = read_text(text, is_toml=is_toml(file))
        version = version_of(before)
        notes = migrate(after)
        return edited(text, difference(before, after), is_toml=is_toml(file))

    def keep(target: Path) -> None:
        _keep(target, version, disk)
        if name != "user":
            _ignore(file.parent, disk)

    rewrite(places, name, file, changed, disk, dry_run=dry_run, keep=keep)
    if not notes:
        return None
    return Migrated(file, notes, _backup(_target(places, name, file), version))


def _made(
    name: FileSource,
    file: Path,
    target: Path,
    changed: Callable[[str], str],
    *,
    may_be_broken: bool,
) -> tuple[str, str, bytes]:
    """Text before, text after, and the bytes to write."""
    data = read_bytes(target)
    before = decoded(file, data)
    if not may_be_broken:
        _refuse_broken(file, before)
    after = changed(before)
    if after != before:
        made = parsed(name, str(file), after, file)
        if name == "project" and not _bypasses(read_text(before, is_toml=is_toml(file))[0]):
            refuse_bypass(made)  # what was so before is no reason to refuse the way out of it
        _refuse_read_only(target)
    return before, after, (_BOM if data.startswith(_BOM) else b"") + after.encode()


def _bypasses(data: Mapping[str, Any]) -> bool:
    return bool(lookup(data, ("permissions", "mode")) == "bypass")


def _refuse_broken(file: Path, text: str) -> None:
    try:
        data, _ = read_text(text, is_toml=is_toml(file))
    except TextError as error:
        raise broken(file, text, error) from error
    version = version_of(data)
    if version > CURRENT:
        raise SettingsError(
            f"{file} is of a newer Rewake (settings_version {version}), so it isn't changed.",
            remedy="Use that version, or change the file by hand.",
            file=str(file),
            key=VERSION_KEY,
            expected=f"at most {CURRENT}",
            found=str(version),
        )


def _nothing_lost(error: StorageError, target: Path, data: bytes) -> StorageError:
    if read_bytes(target) == data:  # only the last sync failed
        state = "The settings are changed, but a power loss may take that back."
    else:
        state = "The settings are as they were."
    return StorageError(
        f"{error.message} {state}",
        path=str(target),
        remedy="Free some space or make the place writable, then try again.",
    )


def _refuse_read_only(target: Path) -> None:
    """A rename would replace it all the same, but whoever took the right away meant it."""
    try:
        mode = target.stat().st_mode
    except OSError:
        return  # there is none yet, or writing says what is wrong
    if not mode & stat.S_IWUSR or not os.access(target, os.W_OK):
        raise StorageError(
            f"{target} is read-only, so it isn't changed.",
            path=str(target),
            remedy=f"Allow it with `chmod u+w {target}`, or set the key in another file.",
        )


def _target(places: Places, name: FileSource, file: Path) -> Path:
    """Where the file really is."""
    target = Path(os.path.realpath(file))
    if name == "user" or not (target != file and is_tracked(places.root, file)):
        return target
    if target.is_relative_to(places.root.resolve()):
        return target
    raise SettingsError(
        f"{file} is a link that came with the project and leads out of it, to {target}.",
        remedy="Replace it by a file, or change that file by hand.",
        file=str(file),
    )


def _mode_of(name: FileSource) -> int:
    return _SHARED_MODE if name == "project" else FILE_MODE


def _put(target: Path, data: bytes, disk: Disk, mode: int) -> None:
    """Write under the lock; what a killed writer left goes first."""
    for leftover in target.parent.glob(f".{target.name}.*.tmp"):
        disk.remove(leftover)
    try:
        like = target.stat()
    except FileNotFoundError:
        like = None
    disk.write_atomic(target, data, mode, like=like)


def _backup(target: Path, version: int) -> Path:
    return target.with_name(f"{target.name}.v{version}.bak")


def _keep(target: Path, version: int, disk: Disk) -> None:
    """One backup per version: the first one is how the user left it."""
    backup = _backup(target, version)
    if not backup.exists():
        disk.write_atomic(backup, read_bytes(target), like=target.stat())


def _ignore(directory: Path, disk: Disk) -> None:
    """Keep the personal file out of commits; written once, what the user makes of it counts."""
    ignoring = directory / ".gitignore"
    if not os.path.lexists(ignoring):
        disk.write_atomic(ignoring, _IGNORED.encode(), _SHARED_MODE)
