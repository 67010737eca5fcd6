"""What is checked or repaired: a session in its place under a home, or a bare transcript file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from rewake.errors import SessionNotFoundError, UsageError
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk
from rewake.log.layout import AgentPaths, SessionPaths
from rewake.log.scan import Transcript
from rewake.resume.lineage import Ancestors, OpenTranscript
from rewake.resume.sidechains import agent_files

_SESSIONS: Final = "sessions"
_AGENTS: Final = "agents"


@dataclass(frozen=True, slots=True)
class Subject:
    """A transcript; `session` says where it belongs, None for a file outside of any home.

    `blobs` are the project's, None where nobody knows where they are.
    """

    transcript: Path
    session: SessionPaths | None = None
    blobs: BlobStore | None = None

    @classmethod
    def of(cls, session: SessionPaths, disk: Disk) -> Self:
        """A session of a home."""
        blobs = BlobStore(session.blobs, disk, durable=False)
        return cls(session.transcript, session, blobs)

    @classmethod
    def at(cls, path: Path, disk: Disk) -> Self:
        """What stands at a path: a transcript, or the directory of a session.

        It counts as a session of a home if it lies as one does (format.md, "On disk").
        """
        absolute = path.absolute()
        if os.path.isdir(absolute):  # noqa: PTH112  # unlike Path's, it never raises
            absolute = absolute / "transcript.jsonl"
        agent = _agent_at(absolute)
        if agent is not None:
            return cls.of(agent, disk)
        directory = absolute.parent
        session = SessionPaths(directory.parent.parent, directory.name)
        if directory.parent.name == _SESSIONS and session.transcript == absolute:
            return cls.of(session, disk)
        return cls(absolute)

    @property
    def lock(self) -> Path:
        """What a writer of this transcript locks."""
        if isinstance(self.session, AgentPaths):
            return self.session.lock
        return self.transcript.parent / "lock"

    @property
    def agent_id(self) -> str | None:
        """Which sub-agent's transcript it is, None for a session's own."""
        return self.session.agent_id if isinstance(self.session, AgentPaths) else None

    def agents(self, disk: Disk) -> Iterator[Self]:
        """The transcripts of the session's sub-agents; a sub-agent's has none below it."""
        if self.session is None or self.agent_id is not None:
            return
        for path in agent_files(self.session.directory):
            try:
                yield type(self).of(AgentPaths.of(self.session, path.stem), disk)
            except UsageError:
                continue  # no agent of ours has such a name

    @property
    def name(self) -> str | None:
        """The session's id as its directory says it."""
        return self.session.session_id if self.session is not None else None

    def require(self) -> None:
        """Raises SessionNotFoundError unless something is there."""
        try:
            self.transcript.stat()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise SessionNotFoundError(
                f"There is no transcript at {self.transcript}.",
                remedy="`rewake sessions --all` lists the sessions there are.",
            ) from error
        except OSError:
            return  # it is there; who reads it says what is wrong with it

    def ancestors(self) -> OpenTranscript:
        """Opens the transcripts that this one was forked from."""
        return Ancestors(self.session) if self.session is not None else _nowhere


def _agent_at(path: Path) -> AgentPaths | None:
    """The sub-agent whose transcript lies here as one does in a home."""
    directory = path.parent.parent
    if path.parent.name != _AGENTS or directory.parent.name != _SESSIONS:
        return None
    try:
        found = AgentPaths.of(SessionPaths(directory.parent.parent, directory.name), path.stem)
    except UsageError:
        return None
    return found if found.transcript == path else None


def _nowhere(session_id: str) -> Transcript:
    raise SessionNotFoundError(
        f"Where {session_id!r} is isn't known here.",
        remedy="A fork needs its origin in the same project's directory.",
    )
