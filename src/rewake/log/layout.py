"""Where everything is under REWAKE_HOME (ARCHITECTURE.md, "On disk"), and how a session is found.

The rules kept here: a path is made only from names that were checked (an id never leaves its
folder), a project's directory is named after the real path where it was first seen so that no two
projects share one, and one unreadable directory never hides another.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from rewake.errors import SessionNotFoundError, StorageError, UsageError
from rewake.log.disk import Disk, storage_error
from rewake.log.git import main_root
from rewake.log.project import (
    Identity,
    find_by_place,
    find_by_repository,
    identify,
    read_identity,
    refreshed,
    still_is,
    write_identity,
)

HOME_VARIABLE: Final = "REWAKE_HOME"
_TRANSCRIPT: Final = "transcript.jsonl"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SLUG_PARTS: Final = 2  # the last two parts of a path tell a person which project it is
_SLUG_CHARS_MAX: Final = 60  # leaves room for the hash below the 255 bytes of a file name
_HASH_CHARS: Final = 12
_CANDIDATES_MAX: Final = 10
Problem = Callable[[Path, OSError], None]


def default_home(environ: Mapping[str, str]) -> Path:
    """REWAKE_HOME, else the platform's directory for user data."""
    chosen = environ.get(HOME_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    import platformdirs

    return platformdirs.user_data_path("rewake", appauthor=False)


def project_root(cwd: Path) -> Path:
    """The real path of the nearest directory upwards with a `.git` entry, else of `cwd` itself."""
    real = cwd.resolve()
    for directory in (real, *real.parents):
        if os.path.lexists(directory / ".git"):
            return directory
    return real


def where(paths: SessionPaths) -> tuple[Path, ...]:
    """The roots at which a session's project has been, the newest first; empty if none is recorded."""
    identity = read_identity(paths.project)
    return tuple(Path(place) for place in reversed(identity.roots)) if identity is not None else ()


def is_name(name: str) -> bool:
    """Whether `name` is safe as one part of a path."""
    return _NAME.fullmatch(name) is not None


def checked_name(name: str) -> str:
    """`name` if it is safe as one part of a path. Raises UsageError."""
    if not is_name(name):
        raise UsageError(
            f"{name!r} can't be used as an id.",
            remedy="Use letters, digits, '.', '_' and '-', beginning with a letter or a digit.",
        )
    return name


@dataclass(frozen=True, slots=True)
class SessionPaths:
    """The files of one session. Nothing here says that they exist."""

    project: Path
    session_id: str

    @property
    def directory(self) -> Path:
        """The session's own directory."""
        return self.project.joinpath("sessions", self.session_id)

    @property
    def transcript(self) -> Path:
        """The truth."""
        return self.project.joinpath("sessions", self.session_id, _TRANSCRIPT)

    @property
    def trace(self) -> Path:
        """Debug detail."""
        return self.directory / "trace.jsonl"

    @property
    def lock(self) -> Path:
        """Who is writing."""
        return self.project.joinpath("sessions", self.session_id, "lock")

    @property
    def outputs(self) -> Path:
        """What shell commands did, one directory per call."""
        return self.directory / "outputs"

    @property
    def files(self) -> Path:
        """What file tracking remembers, and the journal of a rewind of files."""
        return self.directory / "files"

    @property
    def agents(self) -> Path:
        """Transcripts of sub-agents."""
        return self.directory / "agents"

    @property
    def blobs(self) -> Path:
        """The project's blobs, shared by its sessions."""
        return self.project / "blobs"

    def output(self, call_id: str) -> Path:
        """The directory of one shell command."""
        return self.outputs / checked_name(call_id)

    def agent_transcript(self, agent_id: str) -> Path:
        """The sidechain of one sub-agent."""
        return self.agents / f"{checked_name(agent_id)}.jsonl"


@dataclass(frozen=True, slots=True)
class AgentPaths(SessionPaths):
    """The files of a sub-agent: its own transcript, everything else its session's."""

    agent_id: str
    within: Path

    @classmethod
    def of(cls, session: SessionPaths, agent_id: str) -> AgentPaths:
        """The files of an agent of `session`. Raises UsageError for an id that is no file name."""
        return cls(session.project, session.session_id, checked_name(agent_id), session.directory)

    @property
    def directory(self) -> Path:
        """The session's."""
        return self.within

    @property
    def transcript(self) -> Path:
        """The sidechain."""
        return self.within.joinpath("agents", f"{self.agent_id}.jsonl")

    @property
    def lock(self) -> Path:
        """The session's: who holds it writes all of its sidechains."""
        return self.within / "lock"


def refuse_existing(paths: SessionPaths) -> None:
    """Raise UsageError if the session has a transcript. Only the holder of its lock can be sure."""
    if paths.transcript.exists():
        raise UsageError(
            f"The session {paths.session_id} exists already.",
            remedy=f"Go on with it (--resume {paths.session_id}) or choose another id.",
        )


class Layout:
    """All projects and sessions under `home`. Reading creates nothing."""

    def __init__(self, home: Path) -> None:
        self.home = home

    @property
    def projects(self) -> Path:
        """One directory per project."""
        return self.home / "projects"

    def project_directory(self, root: Path) -> Path:
        """Where new sessions of the project at `root` are kept."""
        return self.project_directories(root)[0]

    def project_directories(self, root: Path) -> list[Path]:
        """Every directory with sessions of the project at `root`; the one for new ones comes first.

        All worktrees of a repository are one project, and a project that was moved or renamed is
        found again (`log/project.py`). The first directory need not exist.
        """
        real = root.resolve()
        main = main_root(real)
        directories = self._known_directories(main) or [self._free_directory(main)]
        # Before worktrees belonged together, each had a directory of its own.
        own = self._named_after(real)
        if real != main and own not in directories and own.is_dir():
            directories.append(own)
        return directories

    def _known_directories(self, main: Path) -> list[Path]:
        usual = self._named_after(main)
        if usual.is_dir() and _is_of(usual, main):
            return [usual]
        known = self._identities()
        found = find_by_place(known, main)
        if found:
            return found
        moved = find_by_repository(known, main)
        return [moved] if moved is not None else []

    def _identities(self) -> list[tuple[Path, Identity]]:
        known = []
        for directory in _directories(self.projects, lambda _path, _error: None):
            identity = read_identity(directory)
            if identity is not None:
                known.append((directory, identity))
        return known

    def _named_after(self, real: Path) -> Path:
        readable = "-".join(real.parts[1:][-_SLUG_PARTS:])
        slug = re.sub(r"[^A-Za-z0-9._]+", "-", readable)[-_SLUG_CHARS_MAX:].strip("-.") or "root"
        digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:_HASH_CHARS]
        return self.projects / f"{slug}-{digest}"

    def _free_directory(self, real: Path) -> Path:
        """The usual name, or one beside it where a project that has moved away has the usual one.

        One that another process has made for this very project meanwhile is the one.
        """
        usual = self._named_after(real)
        directory, number = usual, 1
        while directory.is_dir() and not _is_of(directory, real):
            number += 1
            directory = usual.with_name(f"{usual.name}-{number}")
        return directory

    def create_project(self, root: Path, disk: Disk, *, sync: bool) -> Path:
        """The project's directory, made with its identity if it isn't there. Idempotent.

        What the identity didn't know of the project yet (a new place, its first commit) is added.
        """
        directory = self.project_directory(root)
        main = main_root(root.resolve())
        known = read_identity(directory)
        identity = identify(main) if known is None else refreshed(known, main)
        if identity == known:
            return directory
        try:
            disk.make_directory(directory, sync=sync)
            # Durable with the identity beside it, so that the first blob needn't wait for it.
            disk.make_directory(directory / "blobs", sync=False)
            write_identity(directory, identity, disk, sync=sync)
        except OSError as error:
            raise storage_error(error, directory, "create") from error
        return directory

    def add_place(self, project: Path, root: Path, disk: Disk, *, sync: bool) -> None:
        """Make `root` one more place of a project that is there already; its newest stays that."""
        known = read_identity(project)
        if known is None or str(root) in known.roots or main_root(root) != root:
            return  # a worktree is found by its repository
        places = (*known.roots[:-1], str(root), *known.roots[-1:])
        try:
            write_identity(project, msgspec.structs.replace(known, roots=places), disk, sync=sync)
        except OSError as error:
            raise storage_error(error, project, "write to") from error

    def create_session(
        self, root: Path, session_id: str, disk: Disk, *, sync: bool
    ) -> SessionPaths:
        """Directories for a new session of the project at `root`; durable with `sync`.

        Raises UsageError when the id can't be used or has a transcript already, StorageError.
        """
        paths = SessionPaths(self.create_project(root, disk, sync=sync), checked_name(session_id))
        refuse_existing(paths)
        try:
            disk.make_directory(paths.directory, sync=sync)
        except OSError as error:
            raise storage_error(error, paths.directory, "create") from error
        if sync:
            self.make_durable(paths, disk)
        return paths

    def create_beside(self, paths: SessionPaths, disk: Disk, *, sync: bool) -> None:
        """The directory of a new session in a project that is there already (a fork's).

        Raises UsageError when the id can't be used or is taken, StorageError.
        """
        checked_name(paths.session_id)
        refuse_existing(paths)
        try:
            disk.make_directory(paths.directory, sync=sync)
        except OSError as error:
            raise storage_error(error, paths.directory, "create") from error
        if sync:
            self.make_durable(paths, disk)

    def make_durable(self, paths: SessionPaths, disk: Disk) -> None:
        """Sync every directory from the session's own up to the home's entry.

        For a session whose directories exist: who made them may not have got to sync them.
        """
        directory = paths.directory
        try:
            while directory != self.home:
                directory = directory.parent
                disk.sync_directory(directory)
            disk.sync_directory(self.home.parent)
        except OSError as error:
            raise storage_error(error, directory, "sync") from error

    def sessions(
        self, root: Path | None = None, *, on_problem: Problem | None = None
    ) -> Iterator[SessionPaths]:
        """Every session that has a transcript, of the project at `root` or of all; in no order.

        A directory that can't be read goes to `on_problem`; without one the OSError is raised.
        """
        return self._sessions(root, "", on_problem)

    def _sessions(
        self, root: Path | None, beginning: str, on_problem: Problem | None
    ) -> Iterator[SessionPaths]:
        projects = (
            _directories(self.projects, on_problem)
            if root is None
            else iter(self.project_directories(root))
        )
        for project in projects:
            for directory in _directories(project / "sessions", on_problem):
                if directory.name.startswith(beginning) and _is_file(
                    directory / _TRANSCRIPT, on_problem
                ):
                    yield SessionPaths(project, directory.name)

    def find(self, wanted: str, root: Path | None = None) -> SessionPaths:
        """The session with this id or with this unique beginning of one.

        Looks in the project at `root`, or in all. Raises SessionNotFoundError with the candidates,
        StorageError when it is there and can't be read.
        """
        problems: list[str] = []
        unreadable: list[StorageError] = []

        def note(path: Path, error: OSError) -> None:
            problems.append(f"{path} can't be read ({error.strerror})")
            if path.name == _TRANSCRIPT:
                unreadable.append(storage_error(error, path, "read"))

        matches = []
        for paths in self._sessions(root, wanted, note) if wanted else ():
            if paths.session_id == wanted:
                return paths
            matches.append(paths)
        if len(matches) == 1:
            return matches[0]
        if unreadable and not matches:
            raise unreadable[0]
        candidates = tuple(sorted(paths.session_id for paths in matches))
        raise _not_found(wanted, candidates, problems)


def _not_found(
    wanted: str, candidates: tuple[str, ...], problems: list[str]
) -> SessionNotFoundError:
    but = f" ({'; '.join(problems)})" if problems else ""
    if not candidates:
        return SessionNotFoundError(
            f"There is no session {wanted!r}{but}.",
            remedy="`rewake sessions --all` lists those there are.",
        )
    shown = ", ".join(candidates[:_CANDIDATES_MAX])
    return SessionNotFoundError(
        f"{len(candidates)} sessions begin with {wanted!r}: {shown}{but}.",
        candidates=candidates,
        remedy="Give more of the id.",
    )


def _is_of(directory: Path, root: Path) -> bool:
    """Whether a directory named after `root` is (or is about to be) of the project there now."""
    identity = read_identity(directory)
    return identity is None or still_is(identity, root)


def _is_file(path: Path, on_problem: Problem | None) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        if on_problem is None:
            raise
        on_problem(path, error)
        return False


def _directories(path: Path, on_problem: Problem | None) -> Iterator[Path]:
    try:
        with os.scandir(path) as entries:
            names = [entry.name for entry in entries if entry.is_dir()]
    except FileNotFoundError:
        return
    except OSError as error:
        if on_problem is None:
            raise
        on_problem(path, error)
        return
    for name in names:
        yield path / name
