"""Sub-agents for programs with a loop of their own: begin, go on, end, list; and records of agents that
run elsewhere.

The rule kept here: looking opens nothing for writing and takes no lock; a session may be looked at
while it is being written.
"""

from __future__ import annotations

from pathlib import Path

from rewake.compose.place import Place, find_session, place
from rewake.errors import SessionNotFoundError, UsageError
from rewake.log.layout import AgentPaths, SessionPaths
from rewake.log.lock import holder
from rewake.resume.agents import AgentInfo, list_agents, matching
from rewake.resume.remote import LocalRemoteAgents, RemoteAgents
from rewake.session.core import Session
from rewake.session.ports import AgentEnd, Agents


def new_agent_id(session: Session) -> str:
    """An id that no agent has yet, for the intent of the call that an agent will work for."""
    return _sidechains(session).new_id()


def spawn_agent(
    session: Session,
    task: str,
    *,
    agent_type: str = "",
    agent_id: str | None = None,
    call_id: str = "",
    model: str = "",
    background: bool = False,
) -> Session:
    """The session of a new sub-agent: a `Session` like any other, whose transcript is its own.

    `task` says in a few words what it is for. `call_id` is the call that it works for, whose intent is
    `AgentIntent(agent_id)`: a crash leaves that call to be settled from the agent's transcript. In the
    `background` it outlives the call. That it was spawned is durable on return. Record its prompt as a
    user's message, its end with `terminal`, then call `end_agent`. Raises UsageError for an id that is
    in use, StorageError.
    """
    return _sidechains(session).spawn(
        session,
        task=task,
        agent_type=agent_type,
        agent_id=agent_id,
        call_id=call_id,
        model=model,
        background=background,
    )


def resume_agent(session: Session, agent_id: str, *, call_id: str = "") -> Session:
    """The session of an agent that ended or was interrupted, open again, to go on in its transcript.

    What it was interrupted in is settled: `Session.resumed` tells. Raises SessionNotFoundError,
    UsageError while it is at work, StorageError.
    """
    return _sidechains(session).reopen(session, agent_id, call_id=call_id)


def end_agent(session: Session, agent: Session, status: AgentEnd, reason: str = "") -> None:
    """Close an agent's session, and record in `session` how it ended, what it changed and used.

    Durable with the next barrier, such as the end of the call that it worked for.
    """
    _sidechains(session).end(session, agent, status, reason)


def _sidechains(session: Session) -> Agents:
    if session.sidechains is None:
        raise UsageError("This session has no agents.", remedy="Open it with open_session.")
    return session.sidechains


def agents(
    session: str | Session, *, project: str | Path = ".", home: str | Path | None = None
) -> list[AgentInfo]:
    """The sub-agents of a session, each after the one it belongs to, the oldest first.

    `session` is an open one, or an id, a unique beginning of one, a title or NEWEST. A broken agent is
    a row with a problem. Raises SessionNotFoundError.
    """
    at = place(project, home)
    if isinstance(session, Session):
        paths = _paths_of(session)
        return list_agents(paths, session.blobs, at.disk, is_written=True)
    return agents_at(at, find_session(at, session))


def agents_at(at: Place, paths: SessionPaths) -> list[AgentInfo]:
    """The same of a session that was found."""
    is_written = holder(paths.lock, at.disk) is not None
    return list_agents(paths, at.blobs(paths), at.disk, is_written=is_written)


def find_agent(at: Place, paths: SessionPaths, wanted: str) -> AgentPaths:
    """The agent that an id, or a unique beginning or end of one, names. Raises SessionNotFoundError."""
    rows = agents_at(at, paths)
    found = matching(rows, wanted)
    if len(found) != 1:
        listed = ", ".join(row.agent_id for row in found or rows) or "none"
        raise SessionNotFoundError(
            f"{len(found) or 'No'} agents of session {paths.session_id} are called {wanted!r}.",
            candidates=tuple(row.agent_id for row in found),
            remedy=f"Its agents: {listed}.",
        )
    return AgentPaths.of(paths, found[0].agent_id)


def remote_agents(
    session: str | Session, *, project: str | Path = ".", home: str | Path | None = None
) -> RemoteAgents:
    """The records of agents that work for a session elsewhere; kept with the session, durably.

    Needs no lock: each record is replaced as a whole. Raises SessionNotFoundError.
    """
    at = place(project, home)
    paths = _paths_of(session) if isinstance(session, Session) else find_session(at, session)
    return LocalRemoteAgents(paths.agents, at.disk)


def _paths_of(session: Session) -> SessionPaths:
    directory = session.directory
    if session.transcript is None:  # it lives in a directory of its own
        return AgentPaths(directory, session.session_id, "", directory)
    return SessionPaths(directory.parents[1], session.session_id)
