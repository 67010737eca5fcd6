"""What the list of sessions shows, read from the beginning and the active end of each transcript.

The rules kept here: one broken session costs its own row, never the list; a row costs the same for
a transcript of any size, because the world's fold begins at the newest checkpoint and needs none of
the conversation; and whether a session is running is asked of its lock, never remembered.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from rewake.errors import RewakeError
from rewake.log.disk import Disk
from rewake.log.layout import SessionPaths
from rewake.log.lock import holder
from rewake.log.scan import Transcript
from rewake.model.codec import decode_line
from rewake.model.events import Event
from rewake.resume.load import BlobReader, inflate, refuse_newer
from rewake.state.fold import FOLD_VERSION, checkpoint_of
from rewake.state.world import World

RestingStateName = Literal["done", "interrupted", "failed", "empty", "damaged"]
SessionStateName = Literal["running"] | RestingStateName

_HEAD_BYTES: Final = 1 << 12  # the first line of a session that is no fork
_DONE: Final = "done"
_INTERRUPTED: Final = "interrupted"
# The ends of a run that were asked for; what was to be done is not done, and nothing went wrong.
_STOPPED: Final = frozenset(
    {"interrupted", "terminated", "hangup", "max_steps", "max_cost", "unfinished"}
)


class Summary(msgspec.Struct, frozen=True):
    """What a transcript says of its session. Times are RFC 3339 in UTC, tokens are the sum of all runs.

    `project` is the root as recorded and `branch` the git branch, empty where none was. `title` is
    the one given, else the beginning of the first prompt. `cost_usd` is None where no price is known.
    """

    title: str = ""
    first_prompt: str = ""
    last_prompt: str = ""
    tags: tuple[str, ...] = ()
    project: str = ""
    branch: str = ""
    created_at: str = ""
    last_event_at: str = ""
    state: RestingStateName = "empty"
    messages: int | None = None
    calls: int | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    problem: str | None = None


class SessionInfo(msgspec.Struct, frozen=True):
    """One row. Times are RFC 3339 in UTC; `project` is the project's root as recorded.

    `pid` is that of the process that is writing it now, if one is. The other fields are those of
    `Summary`.
    """

    session_id: str
    title: str
    project: str
    created_at: str
    updated_at: str
    state: SessionStateName
    messages: int | None
    size_bytes: int
    path: str
    pid: int | None = None
    problem: str | None = None
    first_prompt: str = ""
    last_prompt: str = ""
    tags: tuple[str, ...] = ()
    branch: str = ""
    calls: int | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


def newest_first(sessions: Iterable[SessionPaths]) -> list[tuple[SessionPaths, float]]:
    """The sessions with their time of last change (Unix seconds), newest first."""
    found: list[tuple[SessionPaths, float]] = []
    for paths in sessions:
        try:
            found.append((paths, paths.transcript.stat().st_mtime))
        except OSError:
            # It was deleted meanwhile, or can't be looked at: `describe` says so in its row.
            found.append((paths, 0.0))
    found.sort(key=lambda item: (item[1], item[0].session_id), reverse=True)
    return found


def describe(paths: SessionPaths, blobs: BlobReader, disk: Disk) -> SessionInfo:
    """One session's row. Never raises for what is wrong with that session: it is the row's problem."""
    try:
        stat = paths.transcript.stat()
    except OSError as error:
        return row(paths, Summary(state="damaged", problem=str(error)), 0, None, disk)
    return row(paths, read_summary(paths, blobs), stat.st_size, stat.st_mtime, disk)


def row(
    paths: SessionPaths, summary: Summary, size_bytes: int, changed_at: float | None, disk: Disk
) -> SessionInfo:
    """The row of a session whose summary is known; asks the lock who is writing it now.

    `changed_at` is Unix seconds, None where the file can't be looked at.
    """
    problem, pid = summary.problem, None
    try:
        writer = holder(paths.lock, disk)
        pid = writer.pid if writer is not None else None
        is_running = writer is not None
    except RewakeError as error:
        problem, is_running = problem or str(error), False
    return SessionInfo(
        session_id=paths.session_id,
        title=summary.title,
        project=summary.project,
        created_at=summary.created_at,
        updated_at=_rfc3339(changed_at) if changed_at is not None else "",
        state="running" if is_running else summary.state,
        messages=summary.messages,
        size_bytes=size_bytes,
        path=str(paths.transcript),
        pid=pid,
        problem=problem,
        first_prompt=summary.first_prompt,
        last_prompt=summary.last_prompt,
        tags=summary.tags,
        branch=summary.branch,
        calls=summary.calls,
        input_tokens=summary.input_tokens,
        output_tokens=summary.output_tokens,
        cost_usd=summary.cost_usd,
    )


def _rfc3339(unix_seconds: float) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# --- what a transcript says ------------------------------------------------------------------


def read_summary(paths: SessionPaths, blobs: BlobReader) -> Summary:
    """The summary of a session that is not open. Never raises: what is wrong is its `problem`."""
    try:
        with Transcript(paths.transcript) as reader:
            first = _first_event(reader)
            if first is None:
                return _without_events(reader)
            refuse_newer(first)
            world = read_world(reader, blobs)
    except (OSError, RewakeError) as error:
        return Summary(state="damaged", problem=str(error))
    return summarise(world, first.timestamp)


def _without_events(reader: Transcript) -> Summary:
    if next(reader.lines_forward(block_bytes=_HEAD_BYTES), None) is None:
        return Summary()
    return Summary(state="damaged", problem=f"Not one event can be read in {reader.size()} bytes.")


def summarise(world: World, created_at: str = "") -> Summary:
    """The summary of a session whose world is folded already, such as that of an open one."""
    branch, root = world.project.get("branch"), world.project.get("root")
    return Summary(
        title=world.title,
        first_prompt=world.first_prompt,
        last_prompt=world.last_prompt,
        tags=tags_of(world.metadata.get("tags")),
        project=root if isinstance(root, str) else "",
        branch=branch if isinstance(branch, str) else "",
        created_at=created_at,
        last_event_at=world.updated_at,
        state=_state(world),
        messages=world.messages,
        calls=sum(world.calls_ended.values()) + len(world.calls),
        input_tokens=world.usage.input_tokens,
        output_tokens=world.usage.output_tokens,
        cost_usd=world.usage.cost_usd,
    )


def tags_of(value: object) -> tuple[str, ...]:
    """The tags in a session's metadata: a list of texts, or one text with commas."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple):
        return ()
    return tuple(tag.strip() for tag in value if isinstance(tag, str) and tag.strip())


def read_world(reader: Transcript, blobs: BlobReader) -> World:
    """The world as `load` would fold it, without the conversation.

    Reads back to the newest usable checkpoint, which is within a megabyte of the end, or the whole
    file where there is none.
    """
    later: list[Event] = []
    world = World()
    for item in reader.backward():
        if not isinstance(item, Event):
            continue
        event, _ = inflate(item, blobs)
        later.append(event)
        restored = _restored(event)
        if restored is not None:
            world = restored
            break
    seen: set[str] = set()
    for event in reversed(later):
        if event.event_id not in seen:
            seen.add(event.event_id)
            world.apply(event)
    if world.run is not None and later:
        refuse_newer(msgspec.structs.replace(later[-1], payload=world.run))
    return world


def _restored(event: Event) -> World | None:
    checkpoint = checkpoint_of(event)
    if checkpoint is None or checkpoint.fold_version != FOLD_VERSION:
        return None
    try:
        return msgspec.convert(checkpoint.state.get("world"), World)
    except msgspec.ValidationError:
        return None  # `load` doesn't use it either and reports it; here an older one does as well


def _first_event(reader: Transcript) -> Event | None:
    for offset, line in reader.lines_forward(block_bytes=_HEAD_BYTES):
        item = decode_line(line, offset)
        if isinstance(item, Event):
            return item
    return None


def _state(world: World) -> RestingStateName:
    if world.terminal is None:
        return _INTERRUPTED
    if world.terminal.reason == _DONE:
        return _DONE
    return _INTERRUPTED if world.terminal.reason in _STOPPED else "failed"
