"""The agents of a session as a list shows them: from their records, corrected by their transcripts.

The rule kept here: a transcript is believed and a record only fills in what the transcript can't tell;
a record that says `running` of a session that nobody writes is stale. One broken file costs its row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from rewake.errors import RewakeError
from rewake.log.disk import Disk
from rewake.log.layout import SessionPaths
from rewake.log.records import RecordFiles
from rewake.log.scan import Transcript
from rewake.model.content import JsonObject, Usage
from rewake.resume.listing import read_world
from rewake.resume.load import BlobReader
from rewake.resume.sidechains import CUT_SHORT, agent_files
from rewake.state.world import World

RECORD_SUFFIX: Final = ".meta.json"


class AgentRecord(msgspec.Struct, frozen=True):
    """`agents/<agent_id>.meta.json`. Times are RFC 3339 in UTC; `ended_at` is empty while it runs.

    `status` is `running`, `completed`, `failed`, `cancelled` or `interrupted`. `steps` and `usage` are
    those of all its runs; the agents below it count in `usage`.
    """

    agent_id: str
    status: str
    task: str = ""
    agent_type: str = ""
    parent_call_id: str = ""
    parent_agent_id: str = ""
    model: str = ""
    started_at: str = ""
    ended_at: str = ""
    steps: int = 0
    usage: Usage = Usage()
    background: bool = False


class AgentInfo(msgspec.Struct, frozen=True):
    """One row of a list of agents. `depth` is 1 for an agent of the session itself."""

    agent_id: str
    status: str
    task: str
    agent_type: str
    parent_call_id: str
    parent_agent_id: str
    depth: int
    model: str
    started_at: str
    ended_at: str
    steps: int
    usage: Usage
    background: bool
    size_bytes: int
    path: str
    problem: str | None = None


def agent_facts(
    *,
    task: str,
    agent_type: str,
    parent_call_id: str,
    parent_agent_id: str,
    background: bool,
    started_at: str,
) -> JsonObject:
    """What an agent's own transcript says of its origin, as metadata. What is empty is left out."""
    facts: JsonObject = {
        "title": task,
        "agent_type": agent_type,
        "parent_call_id": parent_call_id,
        "parent_agent_id": parent_agent_id,
        "started_at": started_at,
        "background": background,
    }
    return {key: value for key, value in facts.items() if value}


def record_of(agent_id: str, world: World, status: str, ended_at: str = "") -> AgentRecord:
    """The record that an agent's transcript gives."""
    facts = world.metadata
    return AgentRecord(
        agent_id=agent_id,
        status=status,
        task=_text(facts, "title"),
        agent_type=_text(facts, "agent_type"),
        parent_call_id=_text(facts, "parent_call_id"),
        parent_agent_id=_text(facts, "parent_agent_id"),
        model=world.run.model if world.run is not None else "",
        started_at=_text(facts, "started_at"),
        ended_at=ended_at,
        steps=world.step,
        usage=world.usage,
        background=facts.get("background") is True,
    )


def _text(facts: JsonObject, key: str) -> str:
    value = facts.get(key)
    return value if isinstance(value, str) else ""


def record_files(directory: Path, disk: Disk, *, sync: bool = False) -> RecordFiles[AgentRecord]:
    """The records in the directory of a session's agents."""
    return RecordFiles(directory, RECORD_SUFFIX, AgentRecord, disk, sync=sync)


def list_agents(
    paths: SessionPaths, blobs: BlobReader, disk: Disk, *, is_written: bool
) -> list[AgentInfo]:
    """The agents of a session, each after the one it belongs to, the oldest first.

    `is_written`: a process holds the session, so that what has no end is at work. Never raises for
    what is wrong with an agent: it is the row's problem.
    """
    records, damaged = record_files(paths.agents, disk).list()
    known = {record.agent_id: record for record in records}
    problems = {item.record_id: f"its record: {item.problem}" for item in damaged}
    rows: dict[str, AgentInfo] = {}
    for path in agent_files(paths.directory):
        rows[path.stem] = _row(path, known.pop(path.stem, None), blobs, is_written=is_written)
    for agent_id, record in known.items():  # spawned, and the process died before its transcript
        path = paths.agents / f"{agent_id}.jsonl"
        status = _of_record(record.status, is_written=is_written)
        rows[agent_id] = _info(record, status, 0, path, "it has no transcript")
    for agent_id, problem in problems.items():
        if agent_id in rows and rows[agent_id].problem is None:
            rows[agent_id] = msgspec.structs.replace(rows[agent_id], problem=problem)
    return _nested(rows)


def _row(
    path: Path, record: AgentRecord | None, blobs: BlobReader, *, is_written: bool
) -> AgentInfo:
    known = record or AgentRecord(path.stem, "")
    try:
        size = path.stat().st_size
        with Transcript(path) as reader:
            world = read_world(reader, blobs)
    except (OSError, RewakeError) as error:
        status = _of_record(known.status, is_written=is_written) or "damaged"
        return _info(known, status, 0, path, str(error))
    status = _status(world, known.status, is_written=is_written)
    ended = known.ended_at or world.updated_at
    found = record_of(path.stem, world, status, "" if status == "running" else ended)
    if not found.task and not found.started_at:  # not one event, or another program's
        found = msgspec.structs.replace(known, status=status)
    return _info(found, status, size, path, None)


def _status(world: World, recorded: str, *, is_written: bool) -> str:
    reason = world.terminal.reason if world.terminal is not None else ""
    if reason == "done":
        return "completed"
    if reason and reason not in CUT_SHORT:
        return "failed"
    if not reason and is_written:
        return "running"
    return "cancelled" if recorded == "cancelled" else "interrupted"


def _of_record(status: str, *, is_written: bool) -> str:
    return "interrupted" if status == "running" and not is_written else status


def _info(
    record: AgentRecord, status: str, size: int, path: Path, problem: str | None
) -> AgentInfo:
    return AgentInfo(
        agent_id=record.agent_id,
        status=status,
        task=record.task,
        agent_type=record.agent_type,
        parent_call_id=record.parent_call_id,
        parent_agent_id=record.parent_agent_id,
        depth=1,
        model=record.model,
        started_at=record.started_at,
        ended_at=record.ended_at,
        steps=record.steps,
        usage=record.usage,
        background=record.background,
        size_bytes=size,
        path=str(path),
        problem=problem,
    )


def _nested(rows: dict[str, AgentInfo]) -> list[AgentInfo]:
    """Parents before children; one whose parent isn't here, or is below itself, stands at the top."""
    children: dict[str, list[AgentInfo]] = {}
    # By the call that spawned them: those that began side by side stand as they were asked for.
    for row in sorted(rows.values(), key=lambda row: (row.parent_call_id, row.agent_id)):
        parent = row.parent_agent_id if row.parent_agent_id in rows else ""
        children.setdefault(parent, []).append(row)
    ordered: dict[str, AgentInfo] = {}

    def place(row: AgentInfo, depth: int) -> None:
        waiting = [(row, depth)]
        while waiting:
            one, deep = waiting.pop()
            if one.agent_id in ordered:
                continue
            ordered[one.agent_id] = msgspec.structs.replace(one, depth=deep)
            waiting += [(below, deep + 1) for below in reversed(children.get(one.agent_id, []))]

    for row in children.get("", []):
        place(row, 1)
    for row in rows.values():  # a circle of damaged records
        place(row, 1)
    return list(ordered.values())


def matching(rows: list[AgentInfo], wanted: str) -> list[AgentInfo]:
    """The agents that an id or the beginning (or end) of one names; an exact id names one."""
    exact = [row for row in rows if row.agent_id == wanted]
    return exact or [row for row in rows if _names(row.agent_id, wanted)]


def _names(agent_id: str, wanted: str) -> bool:
    return bool(wanted) and (agent_id.startswith(wanted) or agent_id.endswith(wanted))
