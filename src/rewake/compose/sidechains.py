"""Sub-agents of a session: their transcripts opened, woken and accounted for.

The rules kept here:

- The parent's transcript holds that an agent was spawned, and what came of it; the agent's own holds
  everything else. The first is durable before the second exists, and what an agent did is on record
  with the parent before the call that it worked for ends.
- Whoever holds the session's lock writes all of its sidechains, so none has a lock of its own.
- A sidechain that can't be read costs its agent, not the session.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from rewake.compose.place import Place
from rewake.compose.recording import Options, Shared, make_session
from rewake.compose.waking import Waking, open_calls, wake
from rewake.errors import RewakeError, SessionNotFoundError, UsageError
from rewake.log.appender import Appender
from rewake.log.blobs import BlobStore
from rewake.log.disk import storage_error
from rewake.log.layout import AgentPaths, SessionPaths, checked_name
from rewake.log.lock import boot_id
from rewake.log.scan import Transcript
from rewake.model.content import JsonObject, Usage
from rewake.model.events import AgentEvent, Change, SessionStart
from rewake.record.lines import Timestamps
from rewake.resume.agents import agent_facts, record_files, record_of
from rewake.resume.evidence import Settlement
from rewake.resume.listing import read_world
from rewake.resume.load import Loaded, load
from rewake.resume.running import OnRunning, settle_running
from rewake.resume.sidechains import Sidechain, events_since, found_in, has_changes, look
from rewake.session.core import Session
from rewake.session.ports import AgentEnd
from rewake.state.fold import SessionState
from rewake.state.world import AGENT_INTERRUPTED, AGENT_REPORTED, OpenAgent

_SPAWNED: Final = "spawned"
_RESUMED: Final = "resumed"


@dataclass(slots=True)
class Sidechains:
    """The agents of one open session, whose directory is `directory`; see `session.ports.Agents`."""

    at: Place
    paths: SessionPaths
    options: Options
    shared: Shared
    directory: Path
    _at_work: set[str] = field(default_factory=set)

    # --- one agent -----------------------------------------------------------------------

    def spawn(
        self,
        parent: Session,
        *,
        task: str,
        agent_type: str = "",
        agent_id: str | None = None,
        call_id: str = "",
        model: str = "",
        background: bool = False,
    ) -> Session:
        """See `session.ports.Agents`."""
        chosen = checked_name(agent_id or self.shared.ids())
        paths = self._paths(chosen)
        if paths.transcript.exists():
            raise UsageError(f"The agent {chosen} exists already.", remedy="Resume it.")
        spawned = AgentEvent(chosen, _SPAWNED, task, agent_type, call_id, background=background)
        parent.record(spawned, barrier=True)
        try:
            self.at.disk.make_directory(paths.transcript.parent, sync=self.options.sync)
        except OSError as error:
            raise storage_error(error, paths.transcript.parent, "create") from error
        options = replace(self.options, model=model or self.options.model)
        with ExitStack() as stack:
            appender = Appender(paths.transcript, self.at.disk, sync=self.options.sync)
            child = self._child(paths, SessionState(), options, appender)
            stack.callback(child.close)
            child.tracker = parent.tracker
            child.record(SessionStart(project=parent.state.world.project))
            child.record(options.run(self.at))
            facts = agent_facts(
                task=task,
                agent_type=agent_type,
                parent_call_id=call_id,
                parent_agent_id=parent.agent_id or "",
                background=background,
                started_at=self._now(),
            )
            child.metadata(**facts)
            self._write_record(child, "running")
            stack.pop_all()
        return child

    def reopen(
        self, parent: Session, agent_id: str, *, call_id: str = "", background: bool = False
    ) -> Session:
        """See `session.ports.Agents`."""
        known = parent.state.world.open_agents.get(agent_id)
        if agent_id in self._at_work or (known is not None and known.is_at_work):
            raise UsageError(f"The agent {agent_id} is at work.", remedy="Wait for its end.")
        origin = self.origin(parent, agent_id)
        if origin is None:
            raise SessionNotFoundError(
                f"There is no agent {agent_id!r} of this session that could go on.",
                remedy="`rewake agents` lists those it has.",
            )
        paths = self._paths(agent_id)
        agent_type, task = origin
        # Before the agent can do anything, so that whoever resumes after a crash wakes it.
        resumed = AgentEvent(agent_id, _RESUMED, task, agent_type, call_id, background=background)
        parent.record(resumed, barrier=True)
        with ExitStack() as stack:
            child, _ = self._opened(paths, "leave", stack)
            child.tracker = parent.tracker
            child.metadata(background=background or None)
            self._write_record(child, "running")
            stack.pop_all()
        return child

    def end(self, parent: Session, child: Session, status: AgentEnd, reason: str = "") -> None:
        """See `session.ports.Agents`."""
        with ExitStack() as stack:
            stack.callback(child.close)
            child.commit()
            details: JsonObject = {"reason": reason} if reason else {}
            self._account(parent, child.agent_id or "", status, details)
            self._write_record(child, status)

    def report(self, parent: Session, agent_id: str) -> None:
        """See `session.ports.Agents`."""
        parent.record(AgentEvent(agent_id, AGENT_REPORTED))

    def new_id(self) -> str:
        """See `session.ports.Agents`."""
        return self.shared.ids()

    def look(self, agent_id: str, *, since: str = "") -> Sidechain:
        """See `session.ports.Agents`."""
        try:
            path = self._paths(agent_id).transcript
        except UsageError as error:
            return Sidechain(agent_id, "unreadable", reason=error.message)
        return look(path, agent_id, self.shared.blobs, since=since)

    def _exists(self, agent_id: str) -> bool:
        try:
            return os.path.lexists(self._paths(agent_id).transcript)
        except UsageError:
            return False

    def origin(self, parent: Session, agent_id: str) -> tuple[str, str] | None:
        """See `session.ports.Agents`."""
        if not self._exists(agent_id):
            return None
        try:
            with Transcript(self._paths(agent_id).transcript) as reader:
                world = read_world(reader, self.shared.blobs)
        except (OSError, RewakeError):
            return None
        if _text(world.metadata.get("parent_agent_id")) != (parent.agent_id or ""):
            return None  # another agent's: what it does is accounted for there
        return _text(world.metadata.get("agent_type")), world.title

    # --- waking --------------------------------------------------------------------------

    def wake(self, parent: Session, on_running: OnRunning) -> Iterator[str]:
        """Settle what the agents at work were interrupted in; yields what the user should know.

        Each is left interrupted, or as ended where it had ended; those below it come first. What it
        did is accounted for in the parent. Durable with the next barrier.
        """
        for agent in list(parent.state.world.open_agents.values()):
            if agent.is_at_work:
                yield from self._wake(parent, agent, on_running)
                self._leave_to_its_call(parent, agent)

    def _leave_to_its_call(self, parent: Session, agent: OpenAgent) -> None:
        """A call that is still to be settled tells of its agent's end; nothing else need do so."""
        now = parent.state.world.open_agents.get(agent.agent_id)
        has_ended = now is not None and not now.is_at_work and now.status != AGENT_INTERRUPTED
        if has_ended and agent.call_id in parent.state.world.calls:
            self.report(parent, agent.agent_id)

    def _wake(self, parent: Session, agent: OpenAgent, on_running: OnRunning) -> Iterator[str]:
        name = f"Sub-agent {agent.agent_id}" + (f" ({agent.task})" if agent.task else "")
        if not self._exists(agent.agent_id):
            details = {"by": "recovery", "reason": "it never began"}
            parent.record(AgentEvent(agent.agent_id, "cancelled", details=details))
            return
        paths = self._paths(agent.agent_id)
        try:
            found = self._settled(paths, agent, on_running)
        except (OSError, RewakeError) as error:
            # Only this agent is left as it is. If it was the disk, the parent's next record fails.
            yield f"{name} can't be taken up: {error}"
            return
        status = _status_of(found)
        self._account(parent, agent.agent_id, status, {"by": "recovery", "steps": found.steps})
        if found.state == "unreadable":
            yield f"{name} can't be taken up: {found.reason}."
        elif status == AGENT_INTERRUPTED:
            yield f"{name} was interrupted after {found.steps} step{'s' * (found.steps != 1)}."
        else:
            yield f"{name} had ended before the session was interrupted: {status}."

    def _settled(self, paths: AgentPaths, agent: OpenAgent, on_running: OnRunning) -> Sidechain:
        """How far the agent came, with everything in its own transcript at rest."""
        loaded = self._loaded(paths)
        found = found_in(loaded, agent.agent_id, since=agent.call_id)
        if _is_at_rest(loaded.state):
            return found
        with ExitStack() as stack:
            child, found = self._opened(paths, on_running, stack, since=agent.call_id)
            ending = "done" if found.state == "done" else AGENT_INTERRUPTED
            child.terminal(ending, {"by": "recovery"})
            self._write_record(child, _status_of(found))
        return found

    def unknown(self, state: SessionState, seen: frozenset[str] = frozenset()) -> list[Settlement]:
        """The calls of agents at work that no evidence settles; reads only."""
        found: list[Settlement] = []
        for agent in state.world.open_agents.values():
            if not agent.is_at_work or agent.agent_id in seen or not self._exists(agent.agent_id):
                continue
            try:
                paths = self._paths(agent.agent_id)
                loaded = self._loaded(paths)
            except (OSError, RewakeError):
                continue  # whoever wakes it says so
            settlements = self._waking(paths, loaded, claim=False).settlements
            found += [item for item in settlements if item.resolution.verdict == "unknown"]
            found += self.unknown(loaded.state, seen | {agent.agent_id})
        return found

    # --- opening -------------------------------------------------------------------------

    def _opened(
        self, paths: AgentPaths, on_running: OnRunning, stack: ExitStack, *, since: str = ""
    ) -> tuple[Session, Sidechain]:
        """The agent's session, open for writing, in a new run, with everything settled.

        Also how far it had come before. `stack` closes it.
        """
        if self.options.sync:
            self._make_durable(paths)
        loaded = self._loaded(paths)  # before anything is changed: a newer version is refused here
        appender = Appender(paths.transcript, self.at.disk, sync=self.options.sync)
        stack.callback(appender.close)
        if appender.sealed is not None:
            loaded = self._loaded(paths)
        try:
            running = open_calls(loaded.state).values()
            settle_running(running, paths.directory, boot_id(), on_running)
        except OSError as error:
            raise storage_error(error, paths.outputs, "read") from error
        found = found_in(loaded, paths.agent_id, since=since)
        waking = self._waking(paths, loaded)
        child = self._child(paths, loaded.state, self.options, appender)
        stack.callback(child.close)
        child.checkpoint_is_behind(loaded.since_checkpoint, loaded.bytes_since_checkpoint)
        child.record(self.options.run(self.at, loaded.state.world.run))
        notices = tuple(self.wake(child, on_running))
        if self.options.resume_agents:
            waking = waking.without_agents(child.state.conversation)
        waking = self._with_changes(paths, waking)
        waking.record(child)
        child.resumed = msgspec.structs.replace(
            waking.resume_state(paths.session_id), notices=notices
        )
        child.commit()
        return child, found

    def _child(
        self, paths: AgentPaths, state: SessionState, options: Options, appender: Appender
    ) -> Session:
        child = make_session(self.at, paths, state, options, appender, shared=self.shared)
        child.sidechains = self
        self._at_work.add(paths.agent_id)
        child.on_close(lambda: self._at_work.discard(paths.agent_id))
        return child

    def _loaded(self, paths: AgentPaths) -> Loaded:
        with self.at.lineage(paths) as reader:
            return load(reader, self.shared.blobs)

    def _waking(self, paths: AgentPaths, loaded: Loaded, *, claim: bool = True) -> Waking:
        verify, read_blob = self.options.verify, self.shared.blobs.get
        return wake(self.at, paths, loaded, verify, claim=claim, read_blob=read_blob)

    def _with_changes(self, paths: AgentPaths, waking: Waking) -> Waking:
        blobs = self.shared.blobs
        if not isinstance(blobs, BlobStore) or not paths.files.exists():
            return waking
        from rewake.compose.files import settle_tracked  # not every session has a file history

        settlements = settle_tracked(self.at, paths, blobs, waking.calls, waking.settlements)
        return msgspec.structs.replace(waking, settlements=settlements)

    def _make_durable(self, paths: AgentPaths) -> None:
        """Sync the entry of the agents' directory: who made it may not have got to it."""
        try:
            self.at.disk.sync_directory(paths.directory)
        except OSError as error:
            raise storage_error(error, paths.directory, "sync") from error

    def _paths(self, agent_id: str) -> AgentPaths:
        name = checked_name(agent_id)
        return AgentPaths(self.paths.project, self.paths.session_id, name, self.directory)

    # --- accounting ----------------------------------------------------------------------

    def _account(
        self, parent: Session, agent_id: str, status: AgentEnd, details: JsonObject
    ) -> None:
        known = parent.state.world.open_agents.get(agent_id, OpenAgent(agent_id, status))
        blobs = self.shared.blobs
        since = events_since(self._paths(agent_id).transcript, blobs, known.since)
        changes: tuple[Change, ...] = ()
        if has_changes(since.events):
            from rewake.files.history import net_changes  # not every session has a file history

            changes = net_changes(since.events, blobs)
        parent.record(
            AgentEvent(
                agent_id,
                status,
                task=known.task,
                agent_type=known.agent_type,
                call_id=known.call_id,
                changes=changes,
                details=details,
                usage=since.usage if since.usage != Usage() else None,
            )
        )

    def _write_record(self, child: Session, status: str) -> None:
        agent_id = child.agent_id or ""
        files = record_files(self.directory / "agents", self.at.disk, sync=self.options.sync)
        ended_at = "" if status == "running" else self._now()
        files.write(agent_id, record_of(agent_id, child.state.world, status, ended_at))

    def _now(self) -> str:
        return Timestamps(self.at.clock_ns)()


def _is_at_rest(state: SessionState) -> bool:
    """Whether an agent ended in good order, so that its transcript needs no more word."""
    world = state.world
    waiting = any(call.status != "unknown" for call in world.calls.values())
    below = any(agent.is_at_work for agent in world.open_agents.values())
    return world.terminal is not None and not waiting and not below


def _status_of(found: Sidechain) -> AgentEnd:
    match found.state:
        case "done":
            return "completed"
        case "failed" | "unreadable":
            return "failed"
        case "absent" | "idle":
            return "cancelled"
        case _:
            return "interrupted"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
