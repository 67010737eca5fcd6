"""Which project a directory is: `project.json`, and how it is found again after a move or a rename.

The rules kept here:

- A path that a project is known to have been at is that project, unless the project lives elsewhere
  now and another repository has taken the place.
- Else the repository tells: the same first commit and the same origin are the same project; the same
  first commit without an origin is, if nothing is left where the project was (a copy beside its
  original is a project of its own).
- Looking changes nothing. Only the start of a session writes down what was found.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from rewake.log import git
from rewake.log.disk import Disk

FILE_NAME: Final = "project.json"
_VERSION: Final = 1
_ROOTS_MAX: Final = 50  # moved more often than that, the oldest place is forgotten


class Identity(msgspec.Struct, frozen=True):
    """What a project is known by. `roots` are real paths, the newest last.

    `first_commit` is empty where git was asked in vain.
    """

    version: int = _VERSION
    roots: tuple[str, ...] = ()
    origin: str | None = None
    first_commit: str | None = None


def read_identity(directory: Path) -> Identity | None:
    """The identity in a project's directory; None where there is none that can be read."""
    try:
        # By the standard library: a path that isn't UTF-8 stands there with lone surrogates.
        return msgspec.convert(json.loads((directory / FILE_NAME).read_bytes()), Identity)
    except (OSError, ValueError, RecursionError, msgspec.ValidationError):
        return None


def write_identity(directory: Path, identity: Identity, disk: Disk, *, sync: bool) -> None:
    """Put it there. Raises StorageError."""
    plain = msgspec.to_builtins(identity)
    known = {name: value for name, value in plain.items() if value is not None}
    disk.write_atomic(directory / FILE_NAME, json.dumps(known).encode("ascii") + b"\n", sync=sync)


def identify(root: Path) -> Identity:
    """The identity of the project at the real path `root` as it is now. Runs git once."""
    return Identity(
        roots=(str(root),), origin=git.origin_url(root), first_commit=git.first_commit(root)
    )


def refreshed(known: Identity, root: Path) -> Identity:
    """What is known with what `root` has to add; the same if that is nothing.

    Runs git only for a repository whose first commit isn't known yet.
    """
    roots = known.roots
    if not any(is_same_place(place, root) for place in roots[-1:]):
        others = [place for place in roots if not is_same_place(place, root)]
        roots = (*others, str(root))[-_ROOTS_MAX:]
    first = known.first_commit if known.first_commit is not None else git.first_commit(root)
    return msgspec.structs.replace(
        known, roots=roots, origin=git.origin_url(root) or known.origin, first_commit=first
    )


def still_is(known: Identity, root: Path) -> bool:
    """Whether a project known to have been at `root` is what is there now.

    Asks git only where the project was seen elsewhere since and is still there.
    """
    if not known.first_commit or not known.roots or is_same_place(known.roots[-1], root):
        return True
    elsewhere = any(
        Path(place, ".git").exists() for place in known.roots if not is_same_place(place, root)
    )
    return not elsewhere or git.has_commit(root, known.first_commit)


def find_by_place(known: Iterable[tuple[Path, Identity]], root: Path) -> list[Path]:
    """The directories of projects that have been at `root`, also under another spelling of it."""
    return [
        directory
        for directory, identity in known
        if any(is_same_place(place, root) for place in identity.roots) and still_is(identity, root)
    ]


def find_by_repository(known: Iterable[tuple[Path, Identity]], root: Path) -> Path | None:
    """The directory of the project that the repository at `root` is, having moved there."""
    candidates = [(place, item) for place, item in known if item.first_commit]
    if not candidates or not git.has_commits(root):
        return None
    origin = git.origin_url(root)
    likely = [
        (directory, identity)
        for directory, identity in candidates
        if (origin is not None and origin == identity.origin)
        or (
            (origin is None or identity.origin is None)
            and not any(Path(place).exists() for place in identity.roots)
        )
    ]
    first = git.first_commit(root) if likely else None
    for directory, identity in likely:
        if identity.first_commit == first:
            return directory
    return None


def is_same_place(place: str, root: Path) -> bool:
    """Whether two paths are one directory: on some file systems case or composition make none.

    `root` is a real path. Only spellings of one name are compared: a hard-linked or mounted
    directory of another name is another place.
    """
    if place == str(root):
        return True
    if _folded(place) != _folded(str(root)):
        return False
    try:
        return Path(place).samefile(root)
    except (OSError, ValueError):
        return False


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
