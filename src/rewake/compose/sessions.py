"""The library's front door: open, resume, resolve and list sessions. The command line uses it too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from rewake.compose.opening import Asked, OnUnknown, open_existing, open_fork, open_new
from rewake.compose.place import find_session, place
from rewake.compose.recording import Options
from rewake.compose.waking import load_session, record_settlement, wake
from rewake.errors import UsageError
from rewake.model.content import Text
from rewake.model.events import Event, Outcome, Resolution, Result
from rewake.record.recorder import Durability
from rewake.record.sinks import Sink, SinkProblem
from rewake.record.trace import TraceOptions
from rewake.resume.evidence import Settlement, Verify
from rewake.resume.listing import SessionInfo
from rewake.resume.running import OnRunning
from rewake.session.core import Session
from rewake.session.ports import ResumeState
from rewake.state.world import OpenCall


def open_session(
    project: str | Path = ".",
    *,
    resume: str | None = None,
    fork: bool = False,
    with_files: str | Path | None = None,
    at_message: str | None = None,
    session_id: str | None = None,
    home: str | Path | None = None,
    durability: Durability = "disk",
    model: str = "",
    permission_mode: str = "",
    on_unknown: OnUnknown = "tell",
    on_running: OnRunning = "leave",
    verify: Mapping[str, Verify] | None = None,
    on_recorded: Callable[[Event], None] | None = None,
    trace: bool | TraceOptions = True,
    redact: bool = False,
    sinks: Sequence[Sink] = (),
    on_problem: Callable[[SinkProblem], None] | None = None,
    resume_agents: bool = False,
) -> Session:
    """Open a new session of `project`, or go on with one.

    `resume` is an id, a unique beginning of one, a title, or NEWEST. What was interrupted is
    settled by evidence and recorded before this returns; `Session.resumed` tells what was found.
    With `at_message` the conversation goes back to just after that message (and the answers to its
    calls); what followed stays in the file as a branch. With `fork` a new session goes on from
    there instead, and the one resumed is only read. With `with_files` the fork gets the project's
    files as well, in that directory (one that isn't there, or is empty): a worktree where there is
    git, a copy elsewhere, the files as they were at `at_message` if that is given. It works there.
    `on_running` says what to do with a command that outlived its agent: leave it, wait for it or
    stop it. `verify` maps tool names to hooks that know whether an interrupted call happened.
    `trace` says whether there is a debug log beside the transcript, and how much of it is kept; secrets
    are taken out of it. With `redact` they are taken out of the transcript as well, before it is
    written: the model is not told them either. Contents of files, which a rewind brings back to the
    byte, and what commands print into files of their own are kept as they are. `sinks` are told of
    each event after it was written; they are best effort and closed with the session. `on_problem`
    hears of the first failure of each of them and of the trace.
    `on_recorded` and `sinks` hear of every event, also of those of sub-agents, which have an
    `agent_id`. With `resume_agents` the caller lets sub-agents that were interrupted go on by itself,
    and calls that they work for stay open; otherwise each such call gets its verdict.
    `durability` is what a commit means: `disk` survives a power loss, `process` the death of the
    process, `memory` nothing (no file is made).

    Raises SessionBusyError when another process writes it, SessionNotFoundError, UncertainError
    (`on_unknown="stop"` and a call that evidence can't settle; nothing is recorded then),
    StorageError, UnreadableVersionError.
    """
    if durability not in get_args(Durability):
        raise UsageError(f"{durability!r} is no durability.", remedy="Say disk, process or memory.")
    at = place(project, home)
    hooks = dict(verify or {})
    # Who names no model does something to a session; where its agent works is as it was.
    cwd = str(Path(project).resolve()) if model or resume is None else ""
    options = Options(
        durability,
        model,
        permission_mode,
        hooks,
        on_recorded,
        trace is not False,
        cwd,
        trace if isinstance(trace, TraceOptions) else TraceOptions(),
        redact,
        tuple(sinks),
        on_problem,
        resume_agents,
    )
    if resume is None:
        if fork or at_message is not None or with_files is not None:
            raise UsageError(
                "A fork, or a message to go back to, needs a session to resume.",
                remedy="Say which one with resume.",
            )
        return open_new(at, session_id, options)
    if with_files is not None and not fork:
        raise UsageError("Only a fork takes files along.", remedy="Add fork.")
    paths = find_session(at, resume)
    if with_files is not None:
        from rewake.compose.beside import open_fork_with_files  # slow to load

        return open_fork_with_files(
            at, paths, at_message, session_id, options, directory=Path(with_files)
        )
    if fork:
        return open_fork(at, paths, at_message, session_id, options)
    if session_id is not None:
        raise UsageError(
            "A session is either resumed or given a new id.",
            remedy="Leave out session_id when resuming, or fork.",
        )
    session = open_existing(at, paths, Asked(on_unknown, on_running), options)
    if at_message is not None:
        try:
            session.rewind(at_message)
        except BaseException:
            session.close()
            raise
    return session


def resume(
    session: str,
    *,
    project: str | Path = ".",
    home: str | Path | None = None,
    verify: Mapping[str, Verify] | None = None,
) -> ResumeState:
    """What a session would wake up as, without opening it for writing: nothing is recorded.

    Reading a session that another process writes is fine; its open calls then look interrupted.
    """
    at = place(project, home)
    paths = find_session(at, session)
    waking = wake(at, paths, load_session(at, paths), dict(verify or {}), claim=False)
    return waking.resume_state(paths.session_id)


def resolve(
    session: str,
    call: str,
    verdict: Literal["applied", "not_applied"],
    *,
    note: str = "",
    project: str | Path = ".",
    home: str | Path | None = None,
) -> str:
    """Record what only a person knows of an interrupted call; returns the call's id.

    `call` is its id or a unique beginning or end of it. The model is told with the next request.
    Durable on return. Raises UsageError when no call of that id waits for a verdict.
    """
    at = place(project, home)
    # Calls that sub-agents work for stay open: whoever resumes the session lets them go on.
    options = Options("disk", "", "", {}, None, trace=False, resume_agents=True)
    paths = find_session(at, session)
    # Before the session is opened, because opening begins a run and settles what evidence settles.
    world = load_session(at, paths).state.world
    _waiting(world.calls, call, paths.session_id)
    with open_existing(at, paths, Asked("tell", "leave"), options) as opened:
        known = _waiting(opened.state.world.calls, call, opened.session_id)
        words = "was applied" if verdict == "applied" else "was NOT applied"
        said = f" They say: {note}" if note else ""
        text = f"The user has looked: this call {words}.{said}"
        resolution = Resolution(verdict, {}, "user", note)
        settlement = Settlement(known.call_id, resolution, Outcome(), Result((Text(text),)))
        record_settlement(opened, known, settlement)
        # What a person says of a call changes nothing about how the run before ended.
        opened.terminal(world.terminal.reason if world.terminal is not None else "interrupted")
    return known.call_id


def _waiting(waiting: Mapping[str, OpenCall], call: str, session_id: str) -> OpenCall:
    """The one call that `call` names, or a UsageError."""
    matches = [key for key in waiting if key.startswith(call) or key.endswith(call)]
    if len(matches) != 1:
        listed = ", ".join(waiting) or "none"
        raise UsageError(
            f"{len(matches)} interrupted calls of {session_id} are called {call!r}.",
            remedy=f"Calls that wait for a verdict: {listed}.",
        )
    return waiting[matches[0]]


def sessions(
    project: str | Path = ".",
    *,
    home: str | Path | None = None,
    everywhere: bool = False,
    limit: int | None = None,
) -> list[SessionInfo]:
    """The sessions of a project (or of all), newest first. A broken one is a row with a problem."""
    from rewake.catalogue.listing import list_sessions  # a database, which opening doesn't need

    at = place(project, home)
    if limit == 0:
        return []
    root = None if everywhere else at.root
    listed = list_sessions(
        at.home, at.disk, root, limit=limit, on_problem=lambda _path, _error: None
    )
    return listed.rows
