"""AGENTS.md, CLAUDE.md and what they import: which files apply where, in which order, and why.

The rules kept here:

- Far to near: the user's own, then from the repository's root down to where the work is. Of one
  directory `AGENTS.md` before `CLAUDE.md`, and each shared file before its `.local` sibling.
- A file is one file, whatever names and links lead to it, and is read once.
- Nothing from outside of the project gets in unless the user has allowed its directory, and no secret
  ever: names, links, permission rules and contents are looked at. What is refused is said, with its
  reason.
- Everything is bounded; what is cut or left out is said too, and what is nearest goes first.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from rewake.memory.imports import imports_in, looks_like_a_path
from rewake.memory.reading import Read, UnreadableError, read_text
from rewake.memory.secret_files import secret_reason

NAMES: Final = ("AGENTS.md", "CLAUDE.md", "AGENTS.local.md", "CLAUDE.local.md")
_USER_NAMES: Final = ("AGENTS.md", "CLAUDE.md")
FILE_BYTES_MAX: Final = 32_768
"""About 8,000 tokens: more than that nobody follows, and other agents read as much."""
TOTAL_BYTES_MAX: Final = 98_304
_DEPTH_MAX: Final = 5
_FILES_MAX: Final = 100
Level = Literal["user", "project"]


@dataclass(frozen=True, slots=True)
class InstructionFile:
    """One file that applies. `shown` is how it is called: from the project's root where it is inside.

    `text` is what the model gets, `sha256` of that; `size` is the file's own bytes. `why` says what it
    applies to; an import names the file that asked for it in `imported_by`.
    """

    path: Path
    shown: str
    level: Level
    why: str
    text: str
    sha256: str
    size: int
    imported_by: str = ""
    is_cut: bool = False
    is_damaged: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """A file that was asked for and isn't given. `notable` is worth telling without being asked."""

    shown: str
    reason: str
    imported_by: str = ""
    notable: bool = True


@dataclass(frozen=True, slots=True)
class Applying:
    """What applies, far to near, and what was refused. `present` are all that could be read."""

    files: tuple[InstructionFile, ...] = ()
    refused: tuple[Refused, ...] = ()
    present: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where files may come from. All paths are real ones.

    `forbids` knows the user's rules against reading a file (as it is shown); `secrets_in` the kinds of
    secrets in a text.
    """

    home: Path
    root: Path
    import_directories: tuple[Path, ...] = ()
    user_home: Path | None = None
    forbids: Callable[[str], bool] = lambda _shown: False
    secrets_in: Callable[[str], tuple[str, ...]] = lambda _text: ()
    total_bytes_max: int = TOTAL_BYTES_MAX


def directories_down_to(root: Path, path: Path) -> tuple[Path, ...]:
    """The directories from `root` down to `path`; only the root where that isn't below it."""
    if path != root and root not in path.parents:
        return (root,)
    between = [path, *path.parents]
    return tuple(reversed(between[: between.index(root) + 1]))


class Instructions:
    """Finds what applies. Looking again is cheap: a file is read anew only when it has changed."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._read: dict[Path, tuple[tuple[int, ...], Read | UnreadableError]] = {}
        self._imports: dict[str, list[str]] = {}
        self._secrets: dict[str, tuple[str, ...]] = {}

    def applying(self, directories: Iterable[Path]) -> Applying:
        """What applies to work in these directories of the project, and the user's own."""
        search = _Search(self)
        search.directory(self.bounds.home, "user", _USER_NAMES)
        for directory in dict.fromkeys(directories):
            search.directory(directory, "project", NAMES)
        return search.result()

    def shown(self, real: Path) -> str:
        """How a file is called."""
        root = self.bounds.root
        return str(real.relative_to(root)) if root in real.parents else str(real)

    # --- reading, remembered -----------------------------------------------------------------

    def read(self, real: Path) -> Read:
        """The file. Raises FileNotFoundError, UnreadableError."""
        try:
            status = real.lstat()
        except (OSError, ValueError) as error:
            raise FileNotFoundError(str(real)) from error
        state = (
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
        known = self._read.get(real)
        if known is None or known[0] != state:
            known = (state, _read(real))
            self._read[real] = known
        if isinstance(known[1], UnreadableError):
            raise known[1]
        return known[1]

    def imports(self, text: str) -> list[str]:
        """What the text asks for."""
        key = _digest(text)
        if key not in self._imports:
            self._imports[key] = imports_in(text)
        return self._imports[key]

    def secrets(self, text: str) -> tuple[str, ...]:
        """Which kinds of secrets stand in the text."""
        key = _digest(text)
        if key not in self._secrets:
            self._secrets[key] = self.bounds.secrets_in(text)
        return self._secrets[key]


def _read(real: Path) -> Read | UnreadableError:
    try:
        return read_text(real, FILE_BYTES_MAX)
    except UnreadableError as error:
        return error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(slots=True)
class _Search:
    """One look: what was found so far, and which files were met."""

    instructions: Instructions
    files: list[InstructionFile] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    met: dict[tuple[int, int] | Path, str] = field(default_factory=dict)

    @property
    def bounds(self) -> Bounds:
        return self.instructions.bounds

    def result(self) -> Applying:
        """Far to near, within the bound: the nearest files go first, whatever is farther is left out."""
        left = self.bounds.total_bytes_max
        given: list[InstructionFile] = []
        refused = list(self.refused)
        for file in reversed(self.files):
            size = len(file.text.encode())
            if size > left:
                reason = f"the {self.bounds.total_bytes_max} bytes for instructions are used up"
                refused.append(Refused(file.shown, reason, file.imported_by))
                continue
            left -= size
            given.append(file)
        present = frozenset(file.shown for file in self.files)
        return Applying(tuple(reversed(given)), tuple(refused), present)

    def directory(self, directory: Path, level: Level, names: Iterable[str]) -> None:
        """Add the files of one directory, each with its imports behind it."""
        for name in names:
            path = directory / name
            if not os.path.lexists(path):
                continue
            shown = str(path) if level == "user" else self.instructions.shown(path)
            real = self._real(path)
            why = self._why(directory, level)
            # The user's own file may be a link to anywhere: it is the user who put it there.
            outside = level == "project" and not self._is_allowed(real, level)
            if outside:
                self.refused.append(Refused(shown, f"it leads out of the project, to {real}"))
                continue
            self._file(real, shown, level, why)

    def _why(self, directory: Path, level: Level) -> str:
        if level == "user":
            return "everything the user does"
        if directory == self.bounds.root:
            return "the whole project"
        return f"work in {self.instructions.shown(directory)}"

    def _real(self, path: Path) -> Path:
        return Path(os.path.realpath(path))

    def _file(
        self, real: Path, shown: str, level: Level, why: str, by: tuple[str, ...] = ()
    ) -> None:
        reason = self._reason_against(real, shown, is_import=bool(by))
        if reason is not None:
            self.refused.append(Refused(shown, reason, by[-1] if by else ""))
            return
        read = self._open(real, shown, by)
        if read is None:
            return
        text = _whole_lines(read)
        self.files.append(
            InstructionFile(
                path=real,
                shown=shown,
                level=level,
                why=why,
                text=text,
                sha256=_digest(text),
                size=read.size,
                imported_by=by[-1] if by else "",
                is_cut=read.is_cut,
                is_damaged=read.is_damaged,
            )
        )
        for asked in self.instructions.imports(text):
            self._import(asked, real, level, why, (*by, shown))

    def _open(self, real: Path, shown: str, by: tuple[str, ...]) -> Read | None:
        """The file's text, unless it was met before or can't be given."""
        importer = by[-1] if by else ""
        try:
            read = self.instructions.read(real)
        except FileNotFoundError:
            self.refused.append(Refused(shown, "it leads nowhere", importer))
            return None
        except UnreadableError as error:
            self.refused.append(Refused(shown, str(error), importer))
            return None
        identity = (read.device, read.inode)
        same = self.met.get(identity) or self.met.get(real)
        if same is not None:
            reason = f"it is the same file as {same}, which is given"
            self.refused.append(Refused(shown, reason, importer, notable=False))
            return None
        kinds = self.instructions.secrets(read.text) if by else ()
        if kinds:
            said = f"it holds what looks like a secret ({', '.join(kinds)})"
            self.refused.append(Refused(shown, said, importer))
            return None
        self.met[identity] = self.met[real] = shown
        return read

    # --- imports -----------------------------------------------------------------------------

    def _import(
        self, asked: str, importer: Path, level: Level, why: str, by: tuple[str, ...]
    ) -> None:
        path = self._asked_path(asked, importer)
        if path is None or not os.path.lexists(path):
            if looks_like_a_path(asked):
                self.refused.append(Refused(asked, "there is no such file", by[-1], notable=False))
            return
        real = self._real(path)
        shown = self.instructions.shown(real)
        if os.path.isdir(real):  # noqa: PTH112  # never raises
            self.refused.append(Refused(shown, "it is a directory", by[-1], notable=False))
        elif not self._is_allowed(real, level):
            reason = "it is outside of the project and not in instructions.import_directories"
            self.refused.append(Refused(shown, reason, by[-1]))
        elif len(by) > _DEPTH_MAX:
            self.refused.append(Refused(shown, f"imports go {_DEPTH_MAX} deep at most", by[-1]))
        elif len(self.files) >= _FILES_MAX:
            self.refused.append(Refused(shown, f"{_FILES_MAX} files are given already", by[-1]))
        else:
            self._file(real, shown, level, why, by)

    def _asked_path(self, asked: str, importer: Path) -> Path | None:
        if asked.startswith("~"):
            home = self.bounds.user_home
            return home / asked[2:] if home is not None and asked.startswith("~/") else None
        return None if "\0" in asked else importer.parent / asked

    def _is_allowed(self, real: Path, level: Level) -> bool:
        """Whether a real path may be read: in the project, in an allowed directory, beside the user's."""
        bounds = self.bounds
        allowed = (bounds.root, *bounds.import_directories)
        if any(directory in real.parents for directory in allowed):
            return True
        return level == "user" and real.parent == bounds.home

    def _reason_against(self, real: Path, shown: str, *, is_import: bool) -> str | None:
        if is_import or shown != self.instructions.shown(real):
            secret = secret_reason(real)
            if secret is not None:
                return secret
        if self.bounds.forbids(self.instructions.shown(real)):
            return "a permission rule forbids reading it"
        return None


def _whole_lines(read: Read) -> str:
    """The text; of one that was cut only whole lines."""
    if not read.is_cut:
        return read.text
    end = read.text.rfind("\n")
    return read.text[: end + 1] if end > 0 else read.text


def said_of(file: InstructionFile) -> dict[str, str]:
    """What stands beside a file's text in a prompt."""
    said = {"path": file.shown, "for": file.why}
    if file.imported_by:
        said["imported_by"] = file.imported_by
    if file.is_cut:
        said["cut"] = f"only the first {len(file.text.encode())} of {file.size} bytes"
    if file.is_damaged:
        said["damaged"] = "bytes that are no UTF-8 were replaced"
    return said
