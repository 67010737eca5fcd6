"""What the list of sessions shows, read from the two ends of each transcript.

The rule kept here: one broken session costs its own row, never the list; and a row costs the same
for a transcript of any size, as long as its last run ended as it should.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from rewake.errors import RewakeError
from rewake.log.disk import Disk
from rewake.log.layout import SessionPaths
from rewake.log.lock import Holder, holder
from rewake.log.scan import Transcript
from rewake.model.codec import decode_line
from rewake.model.content import plain_text
from rewake.model.events import Event, Message, Metadata, SessionStart, Terminal
from rewake.resume.load import BlobReader, load
from rewake.state.text import clip

SessionStateName = Literal["running", "done", "interrupted", "failed", "empty", "damaged"]

_HEAD_BYTES: Final = 1 << 14  # the session, its first run and an ordinary first prompt
_TAIL_BYTES: Final = 1 << 12  # the terminal event that an orderly run ends with
_TITLE_BYTES_MAX: Final = 200
_DONE: Final = "done"


class SessionInfo(msgspec.Struct, frozen=True):
    """One row. Times are RFC 3339 in UTC; `project` is the project's root as recorded.

    `pid` is that of the process that is writing it now, if one is.
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
        return _describe(paths, blobs, disk)
    except (OSError, RewakeError) as error:
        return SessionInfo(
            session_id=paths.session_id,
            title="",
            project="",
            created_at="",
            updated_at="",
            state="damaged",
            messages=None,
            size_bytes=0,
            path=str(paths.transcript),
            problem=str(error),
        )


class _Facts(msgspec.Struct):
    """What the lines read so far tell of a session."""

    title: str = ""
    first_prompt: str = ""
    project: str = ""
    created_at: str = ""
    messages: int | None = None
    terminal: Terminal | None = None
    events: int = 0


def _describe(paths: SessionPaths, blobs: BlobReader, disk: Disk) -> SessionInfo:
    transcript, lock = paths.transcript, paths.lock
    stat = transcript.stat()
    facts = _Facts()
    with Transcript(transcript) as reader:
        _read_head(reader, facts)
        newest = _read_tail(reader, facts)
        if newest is not None and facts.terminal is None:
            _read_active(reader, blobs, facts)
    writer = holder(lock, disk)
    updated = datetime.fromtimestamp(stat.st_mtime, UTC).isoformat(timespec="seconds")
    return SessionInfo(
        session_id=paths.session_id,
        title=facts.title or facts.first_prompt,
        project=facts.project,
        created_at=facts.created_at,
        updated_at=updated.replace("+00:00", "Z"),
        state=_state(facts, writer),
        messages=facts.messages,
        size_bytes=stat.st_size,
        path=str(transcript),
        pid=writer.pid if writer is not None else None,
    )


def _read_head(reader: Transcript, facts: _Facts) -> None:
    for offset, line in reader.lines_forward(block_bytes=_HEAD_BYTES):
        item = decode_line(line, offset)
        if not isinstance(item, Event):
            continue
        payload = item.payload
        facts.events += 1
        facts.created_at = facts.created_at or item.timestamp
        if isinstance(payload, SessionStart):
            root = payload.project.get("root")
            facts.project = root if isinstance(root, str) else ""
        elif isinstance(payload, Message) and payload.role == "user" and not payload.source:
            facts.first_prompt = clip(plain_text(payload.content), _TITLE_BYTES_MAX)
        if facts.first_prompt or item.offset > _HEAD_BYTES:
            return


def _read_tail(reader: Transcript, facts: _Facts) -> Event | None:
    """The newest event; an orderly end says in its terminal event what a list needs."""
    newest: Event | None = None
    start = reader.size()
    for item in reader.backward(block_bytes=_TAIL_BYTES):
        if start - item.offset > _TAIL_BYTES:
            break
        if not isinstance(item, Event):
            continue
        newest = newest or item
        payload = item.payload
        if isinstance(payload, Terminal):
            facts.terminal = payload
            title, messages = payload.details.get("title"), payload.details.get("messages")
            facts.title = facts.title or (title if isinstance(title, str) else "")
            facts.messages = messages if isinstance(messages, int) else None
            break
        if not isinstance(payload, Metadata):
            break
        title = payload.entries.get("title")
        facts.title = facts.title or (title if isinstance(title, str) else "")
    return newest


def _read_active(reader: Transcript, blobs: BlobReader, facts: _Facts) -> None:
    """An interrupted session has no summary at its end; its newest checkpoint is within a megabyte."""
    world = load(reader, blobs).state.world
    facts.title = world.title
    facts.messages = world.messages


def _state(facts: _Facts, writer: Holder | None) -> SessionStateName:
    if writer is not None:
        return "running"
    if facts.events == 0:
        return "empty"
    if facts.terminal is None:
        return "interrupted"
    if facts.terminal.reason == _DONE:
        return "done"
    return "interrupted" if facts.terminal.reason == "interrupted" else "failed"
