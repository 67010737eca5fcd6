"""Memory and instructions of a project: for programs, for the command line, and for the agent.

The rule kept here: everything is read from plain files when it is asked for; a program, the command line
and the agent see the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rewake.agent.briefing import Briefing
from rewake.agent.loop import Loop
from rewake.agent.ports import Attendant, Model, Tool
from rewake.agent.providers.choose import open_model
from rewake.agent.recall import BYTES_MAX, NOTES_MAX, Recall
from rewake.agent.rules import parse_rule
from rewake.agent.tools.memory import MemoryStore, MemoryTool
from rewake.agent.tools.memory_read import MemoryReadTool
from rewake.compose.place import Place, place
from rewake.compose.settings import load_for
from rewake.errors import NoteNotFoundError, UsageError
from rewake.log.disk import Disk
from rewake.memory.directory import (
    SCOPES,
    Changed,
    Listing,
    MemoryDirectory,
    Scope,
    Stored,
    note_bytes,
)
from rewake.memory.instructions import (
    TOTAL_BYTES_MAX,
    Applying,
    Bounds,
    Instructions,
    directories_down_to,
)
from rewake.memory.likeness import Proposal, proposals
from rewake.memory.note import Note
from rewake.session.core import Session
from rewake.settings.schema import Settings

if TYPE_CHECKING:
    from rewake.memory.ranking import Hit

_MEMORY: Final = "memory"
# Of a small window, instructions take at most about a quarter and recalled notes a sixteenth, at three
# bytes a token.
_INSTRUCTION_BYTES_PER_TOKEN: Final = 3 / 4
_RECALL_BYTES_PER_TOKEN: Final = 3 / 16
_CONTEXT_TOKENS_DEFAULT: Final = 128_000


# --- for programs ----------------------------------------------------------------------------


def memory_directories(at: Place) -> dict[Scope, MemoryDirectory]:
    """The project's memory and the user's. Nothing is made."""
    return _directories(at.layout.project_directory(at.root), at.home, at.disk)


def _directories(project: Path, home: Path, disk: Disk) -> dict[Scope, MemoryDirectory]:
    return {
        "project": MemoryDirectory(project / _MEMORY, "project", disk),
        "user": MemoryDirectory(home / _MEMORY, "user", disk),
    }


@dataclass(frozen=True, slots=True)
class Notes:
    """All notes, the project's first; what could not be read; what could be joined or looked at again."""

    notes: tuple[Stored, ...]
    problems: tuple[tuple[str, str], ...]
    proposals: tuple[Proposal, ...]


def notes(
    project: str | Path = ".", *, home: str | Path | None = None, scope: Scope | None = None
) -> Notes:
    """The notes of a project's memory and of the user's, or of one of them."""
    directories = memory_directories(place(project, home))
    listings = [directories[one].listing() for one in _scopes(scope)]
    found = tuple(stored for listing in listings for stored in listing.notes)
    return Notes(found, _problems(listings), tuple(proposals(found, now())))


def _problems(listings: Sequence[Listing]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (str(problem.path), problem.reason) for one in listings for problem in one.problems
    )


def search_notes(
    query: str,
    project: str | Path = ".",
    *,
    home: str | Path | None = None,
    scope: Scope | None = None,
    limit: int = 10,
) -> list[Hit]:
    """The notes with words of `query`, best first; `Hit.passes` is whether a prompt would recall it.

    Raises SearchUnavailableError where this Python's SQLite has no FTS5.
    """
    from rewake.memory.ranking import rank  # a database

    at = place(project, home)
    directories = memory_directories(at)
    chosen = [directories[one] for one in _scopes(scope)]
    return rank(chosen, query, cache=_cache(at), disk=at.disk, limit=limit, every_word=True)


def _cache(at: Place) -> Path | None:
    directory = at.layout.project_directory(at.root)
    return directory if directory.is_dir() else None


def read_note(
    name: str,
    project: str | Path = ".",
    *,
    home: str | Path | None = None,
    scope: Scope | None = None,
) -> Stored:
    """One note; the project's comes before the user's. Raises NoteNotFoundError, UsageError."""
    stored = find_note(name, project, home=home, scope=scope)
    if stored is None:
        which = f"{scope} note" if scope is not None else "note"
        raise NoteNotFoundError(
            f"There is no {which} called {name!r}.", remedy="List them with `rewake memory list`."
        )
    return stored


def find_note(
    name: str,
    project: str | Path = ".",
    *,
    home: str | Path | None = None,
    scope: Scope | None = None,
) -> Stored | None:
    """The same, None where there is none. Raises NoteNotFoundError for what has the name and is no note."""
    directories = memory_directories(place(project, home))
    found = (directories[one].find(name) for one in _scopes(scope))
    return next((stored for stored in found if stored is not None), None)


def write_note(
    note: Note,
    project: str | Path = ".",
    *,
    home: str | Path | None = None,
    scope: Scope = "project",
    base: str | None = None,
    allow_secrets: bool = False,
) -> Changed:
    """Write a note; `base` is the SHA-256 of the one it replaces, None: there is none. Durable on return.

    Raises NoteConflictError when what is there is something else, UsageError for a note that is too long
    or looks like a secret (unless `allow_secrets`), StorageError.
    """
    at = place(project, home)
    note_bytes(note)
    kinds = () if allow_secrets else SecretFinder()(f"{note.description}\n{note.body}")
    if kinds:
        raise UsageError(
            f"The note holds what looks like a secret ({', '.join(kinds)}).",
            remedy="Leave it out, or allow it (`rewake memory edit --allow-secrets`): notes are plain text that goes into later prompts.",
        )
    if scope == "project":
        at.layout.create_project(at.root, at.disk, sync=True)
    return memory_directories(at)[scope].write(note, base)


def forget_note(
    name: str,
    project: str | Path = ".",
    *,
    home: str | Path | None = None,
    scope: Scope | None = None,
    base: str | None = None,
) -> Stored:
    """Remove a note and its line in the index; returns what it was. Durable on return.

    Raises NoteNotFoundError, NoteConflictError when it isn't as `base` (a SHA-256) says, StorageError.
    """
    stored = read_note(name, project, home=home, scope=scope)
    directories = memory_directories(place(project, home))
    directories[stored.scope].forget(stored.name, base or stored.sha256)
    return stored


def instructions(
    path: str | Path | None = None,
    project: str | Path = ".",
    *,
    home: str | Path | None = None,
    settings: Settings | None = None,
) -> Applying:
    """Which instruction files apply to work at `path` (a file or a directory; default: `project`).

    Far to near, with what was refused and why. `settings` default to the project's.
    """
    at = place(project, home)
    chosen = settings if settings is not None else load_for(at).settings
    found = Instructions(_bounds(at.home, at.root, chosen, TOTAL_BYTES_MAX))
    here = Path(project).resolve()
    there = (here / path).resolve() if path is not None else here
    return found.applying(directories_down_to(at.root, there if there.is_dir() else there.parent))


def instructions_of(loop: Loop) -> Applying:
    """Which instruction files apply to an agent's conversation as it stands; none if it has no briefing."""
    briefings = [one for one in loop.attendants if isinstance(one, Briefing)]
    return briefings[0].applying() if briefings else Applying()


def _scopes(scope: Scope | None) -> tuple[Scope, ...]:
    return SCOPES if scope is None else (scope,)


def now() -> datetime:
    """The time, in the user's zone."""
    return datetime.now().astimezone()


@dataclass(slots=True)
class SecretFinder:
    """Names the kinds of secrets in a text. Its patterns are loaded when it is first asked."""

    _find: Callable[[str], Sequence[str]] | None = field(default=None, repr=False)

    def __call__(self, text: str) -> tuple[str, ...]:
        """The kinds, each once, in the order in which they stand."""
        if self._find is None:
            from rewake.redaction.detector import Detector, secret_values  # half a second

            detector = Detector(secret_values(os.environ))
            self._find = lambda asked: [found.kind for found in detector.find(asked)]
        return tuple(dict.fromkeys(self._find(text)))


def _bounds(home: Path, root: Path, settings: Settings, total_bytes_max: int) -> Bounds:
    denied = [parse_rule(rule) for rule in settings.permissions.deny]
    user_home = Path(os.path.expanduser("~"))  # noqa: PTH111  # never raises
    return Bounds(
        home=Path(os.path.realpath(home)),
        root=Path(os.path.realpath(root)),
        import_directories=tuple(
            Path(os.path.realpath(root / os.path.expanduser(one)))  # noqa: PTH111  # never raises
            for one in settings.instructions.import_directories
        ),
        user_home=user_home if user_home.is_absolute() else None,
        forbids=lambda shown: any(rule.denies("Read", shown) for rule in denied),
        secrets_in=SecretFinder(),
        total_bytes_max=total_bytes_max,
    )


# --- for the agent ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Remembering:
    """What an agent gets: its briefing, what attends to its requests, and the tools."""

    briefing: Briefing
    attendants: tuple[Attendant, ...]
    tools: tuple[Tool, ...] = ()


def remembering(
    session: Session,
    model: Model,
    settings: Settings,
    on_notice: Callable[[str], None],
    *,
    cwd: Path,
    home: Path | None = None,
) -> Remembering:
    """The parts for an agent on `session`. One that is kept in memory only has no memory directories.

    `home` defaults to where the session is recorded.
    """
    is_recorded = session.transcript is not None
    project = session.directory.parents[1]
    home = home or home_of(session)
    window = model.context_tokens or _CONTEXT_TOKENS_DEFAULT
    briefing = briefed(session, model, settings, cwd=cwd, home=home, on_notice=on_notice)
    if not is_recorded or settings.memory.enabled is False:
        return Remembering(briefing, (briefing,))
    disk = Disk()
    directories = _directories(project, home, disk)
    store = MemoryStore(directories, session.session_id, now, SecretFinder(), disk, project)
    tools = (MemoryTool(store), MemoryReadTool(store))
    if settings.memory.recall is False:
        return Remembering(briefing, (briefing,), tools)
    recall = Recall(
        session,
        [directories[scope] for scope in SCOPES],
        cache=project,
        disk=disk,
        now=now,
        on_notice=on_notice,
        judge=_judge(session, settings, cwd),
        notes_max=_or_default(settings.memory.recall_notes_max, NOTES_MAX),
        time_ms_max=settings.memory.recall_time_ms_max,
        bytes_max=min(BYTES_MAX, int(window * _RECALL_BYTES_PER_TOKEN)),
    )
    return Remembering(briefing, (briefing, recall), tools)


def home_of(session: Session) -> Path:
    """Where the user's memory and instructions are, for a session (not a sub-agent's).

    One that is in memory lives in a directory of its own, where nobody keeps instructions.
    """
    return session.directory.parents[3] if session.transcript is not None else session.directory


def briefed(
    session: Session,
    model: Model,
    settings: Settings,
    *,
    cwd: Path,
    home: Path,
    on_notice: Callable[[str], None] | None = None,
) -> Briefing:
    """What gives a session, or a sub-agent's, the instructions that apply to it.

    `on_notice` hears of what is refused.
    """
    window = model.context_tokens or _CONTEXT_TOKENS_DEFAULT
    instruction_bytes = min(TOTAL_BYTES_MAX, int(window * _INSTRUCTION_BYTES_PER_TOKEN))
    found = Instructions(_bounds(home, session.root, settings, instruction_bytes))
    return Briefing(session, found, Path(os.path.realpath(cwd)), on_notice)


def _or_default(chosen: int | None, default: int) -> int:
    return chosen if chosen is not None else default


def _judge(session: Session, settings: Settings, cwd: Path) -> Callable[[], Model] | None:
    name = settings.small_model
    if name is None:
        return None

    def opened() -> Model:
        model, _ = open_model(
            name, environ=os.environ, settings_model=None, blobs=session.blobs, cwd=cwd
        )
        return model

    return opened
