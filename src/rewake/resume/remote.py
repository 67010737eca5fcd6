"""Records of agents that run somewhere else: which session they work for, where, and whether they live.

The rules kept here: a record is replaced as a whole, the last writer's counts; a damaged one is listed
as damaged and hides no other. What an agent does is in its session's events; a record only helps to
find it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from rewake.log.disk import Disk
from rewake.log.records import DamagedRecord, RecordFiles
from rewake.model.content import JsonObject

REMOTE_SUFFIX = ".remote.json"


class RemoteAgent(msgspec.Struct, frozen=True):
    """One agent. `heartbeat_at` is when it was heard of last (RFC 3339 in UTC); statuses are free text.

    `session_id` is the session that it works on, which may be on another store.
    """

    agent_id: str
    session_id: str = ""
    host: str = ""
    status: str = ""
    heartbeat_at: str = ""
    task: str = ""
    details: JsonObject = msgspec.field(default_factory=dict)


class RemoteAgents(Protocol):
    """Where such records are kept. Any store may have them; all methods raise StorageError."""

    def write(self, agent: RemoteAgent) -> None:
        """Put it in place of the record of this id, if there is one. Durable on return.

        Raises UsageError for an id that can't be used as a name.
        """
        ...

    def read(self, agent_id: str) -> RemoteAgent:
        """Raises SessionNotFoundError where there is none, DamagedError where it can't be read."""
        ...

    def delete(self, agent_id: str) -> bool:
        """Whether there was one. Durable on return."""
        ...

    def list(self) -> tuple[list[RemoteAgent], list[DamagedRecord]]:
        """All records, in the order of their ids, and those that can't be read."""
        ...


def remote_files(directory: Path, disk: Disk, *, sync: bool = False) -> RecordFiles[RemoteAgent]:
    """The records in the directory of a session's agents."""
    return RecordFiles(directory, REMOTE_SUFFIX, RemoteAgent, disk, sync=sync)


class LocalRemoteAgents:
    """Records as files in the directory of a session's agents."""

    def __init__(self, directory: Path, disk: Disk, *, sync: bool = True) -> None:
        self._files = remote_files(directory, disk, sync=sync)

    def write(self, agent: RemoteAgent) -> None:
        """See `RemoteAgents`."""
        self._files.write(agent.agent_id, agent)

    def read(self, agent_id: str) -> RemoteAgent:
        """See `RemoteAgents`."""
        return self._files.read(agent_id)

    def delete(self, agent_id: str) -> bool:
        """See `RemoteAgents`."""
        return self._files.delete(agent_id)

    def list(self) -> tuple[list[RemoteAgent], list[DamagedRecord]]:
        """See `RemoteAgents`."""
        return self._files.list()
