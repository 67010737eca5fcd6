"""What was said and done in a session, ready to be written in a format for others.

The rule kept here: reading only; the whole branch is there, from before forks and compactions too, and
what can't be read costs only itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from rewake.errors import RewakeError
from rewake.log.blobs import BlobStore
from rewake.log.layout import SessionPaths
from rewake.log.scan import Transcript
from rewake.model.content import ToolCall
from rewake.model.events import AgentIntent, Change, Event, RunStart, ToolLifecycle
from rewake.resume.history import Compaction, History, whole_history
from rewake.resume.lineage import Ancestors, Lineage
from rewake.resume.load import inflate
from rewake.state.conversation import Answer, Entry


class Call(msgspec.Struct, frozen=True):
    """A tool call of a message, its answer if there is one, and what it changed."""

    index: int
    block: ToolCall
    answer: Answer | None
    changes: tuple[Change, ...]
    agent_id: str | None


class Said(msgspec.Struct, frozen=True):
    """A message with its calls. `compaction` is one that came right before it."""

    entry: Entry
    calls: tuple[Call, ...]
    compaction: Compaction | None


class Talk(msgspec.Struct, frozen=True):
    """A session's active branch. `app_version` and `model` are those of its newest run."""

    session_id: str
    said: tuple[Said, ...]
    last_compaction: Compaction | None
    app_version: str
    model: str


def read_talk(paths: SessionPaths, ancestors: Ancestors, blobs: BlobStore) -> Talk:
    """The session's. Raises StorageError, DamagedError."""
    with Lineage(Transcript(paths.transcript), ancestors) as reader:
        return _talk(paths.session_id, reader, blobs)


def read_agents(paths: SessionPaths, blobs: BlobStore) -> Iterator[Talk]:
    """Those of its sub-agents, by id."""
    for path in sorted(paths.agents.glob("*.jsonl")):
        try:
            with Lineage(Transcript(path), Ancestors(paths)) as reader:
                yield _talk(path.stem, reader, blobs)
        except RewakeError:
            continue  # a broken one costs only itself; `check` reports it


def _talk(session_id: str, reader: Lineage, blobs: BlobStore) -> Talk:
    history = whole_history(reader, blobs)
    ended: dict[str, ToolLifecycle] = {}
    agents: dict[tuple[str | None, int], str] = {}
    run = RunStart(0)
    below: Lineage | None = reader
    while below is not None:
        for event in _events(below, blobs):
            payload = event.payload
            if isinstance(payload, RunStart) and below is reader:
                run = payload
            elif isinstance(payload, ToolLifecycle):
                if isinstance(payload.intent, AgentIntent):
                    agents[payload.message_id, payload.index] = payload.intent.agent_id
                if payload.outcome is not None:
                    ended[event.event_id] = payload
        below = below.ancestor()
    places = {compaction.at: compaction for compaction in history.compactions}
    said = tuple(
        Said(entry, tuple(_calls(entry, ended, agents)), places.get(index))
        for index, entry in enumerate(history.entries)
    )
    return Talk(session_id, said, _last(history, places), run.app_version, run.model)


def _last(history: History, places: dict[int, Compaction]) -> Compaction | None:
    return places.get(len(history.entries))


def _events(reader: Lineage, blobs: BlobStore) -> Iterator[Event]:
    for item in reader.forward():
        if isinstance(item, Event) and item.event_type in {"run", "tool_lifecycle"}:
            yield inflate(item, blobs)[0]


def _calls(
    entry: Entry, ended: dict[str, ToolLifecycle], agents: dict[tuple[str | None, int], str]
) -> Iterator[Call]:
    blocks = [block for block in entry.message.content if isinstance(block, ToolCall)]
    for index, block in enumerate(blocks):
        answer = entry.answers[index] if index < len(entry.answers) else None
        phase = ended.get(answer.event_id) if answer is not None else None
        outcome = phase.outcome if phase is not None else None
        changes = outcome.changes if outcome is not None else ()
        yield Call(index, block, answer, changes, agents.get((entry.message_id, index)))
