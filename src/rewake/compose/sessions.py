"""Opens sessions: the real disk, clock and randomness meet the session's ports here.

`open_session` and `resume` are the library's front door; the command line uses the same two.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from rewake.errors import SessionNotFoundError, StorageError, UncertainError, UsageError
from rewake.log.appender import Appender
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk
from rewake.log.layout import Layout, SessionPaths, default_home, project_root
from rewake.log.lock import SessionLock, boot_id, this_process
from rewake.log.scan import Transcript
from rewake.model.content import Text
from rewake.model.events import (
    Event,
    Outcome,
    Resolution,
    Result,
    RunStart,
    SessionStart,
    Terminal,
    ToolLifecycle,
)
from rewake.model.ids import IdGenerator
from rewake.record.lines import Timestamps
from rewake.record.recorder import Durability, Recorder
from rewake.record.sinks import Sink
from rewake.record.trace import TraceSink
from rewake.resume.evidence import Settlement, Verify, settle
from rewake.resume.listing import SessionInfo, describe, newest_first
from rewake.resume.load import Loaded, load
from rewake.resume.lost import lost_changes
from rewake.resume.running import OnRunning, settle_running
from rewake.session.core import ResumeState, Session
from rewake.state.conversation import Conversation
from rewake.state.fold import SessionState
from rewake.state.world import OpenCall
from rewake.version import VERSION

OnUnknown = Literal["tell", "stop"]
NEWEST = "newest"
"""`open_session(resume=NEWEST)`: the newest session of the project."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where sessions are kept and whose they are: a home, a project, and the real world's ports."""

    home: Path
    root: Path
    disk: Disk = field(default_factory=Disk)
    clock_ns: Callable[[], int] = time.time_ns

    @property
    def layout(self) -> Layout:
        """The directories under the home."""
        return Layout(self.home)

    def ids(self) -> IdGenerator:
        """A fresh generator on this place's clock."""
        return IdGenerator(lambda: self.clock_ns() // 1_000_000, secrets.randbits)

    def blobs(self, paths: SessionPaths, *, durable: bool = False) -> BlobStore:
        """The blobs of a session's project."""
        return BlobStore(paths.blobs, self.disk, durable=durable)


def place(
    project: str | Path = ".",
    home: str | Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Place:
    """The place for a project directory; `home` defaults to REWAKE_HOME, else the user's data."""
    chosen = Path(home).expanduser().absolute() if home is not None else default_home(environ)
    return Place(chosen, project_root(Path(project)))


def open_session(
    project: str | Path = ".",
    *,
    resume: str | None = None,
    session_id: str | None = None,
    home: str | Path | None = None,
    durability: Durability = "disk",
    model: str = "",
    permission_mode: str = "",
    on_unknown: OnUnknown = "tell",
    on_running: OnRunning = "leave",
    verify: Mapping[str, Verify] | None = None,
    on_recorded: Callable[[Event], None] | None = None,
    trace: bool = True,
) -> Session:
    """Open a new session of `project`, or go on with one.

    `resume` is an id, a unique beginning of one, a title, or NEWEST. What was interrupted is
    settled by evidence and recorded before this returns; `Session.resumed` tells what was found.
    `on_running` says what to do with a command that outlived its agent: leave it, wait for it or
    stop it. `verify` maps tool names to hooks that know whether an interrupted call happened.
    `durability` is what a commit means: `disk` survives a power loss, `process` the death of the
    process, `memory` nothing (no file is made).

    Raises SessionBusyError when another process writes it, SessionNotFoundError, UncertainError
    (`on_unknown="stop"` and a call that evidence can't settle; nothing is recorded then),
    StorageError, UnreadableVersionError.
    """
    at = place(project, home)
    options = _Options(durability, model, permission_mode, dict(verify or {}), on_recorded, trace)
    asked = _Asked(on_unknown, on_running)
    if resume is None:
        return _open_new(at, session_id, options)
    if session_id is not None:
        raise UsageError(
            "A session is either resumed or given a new id.",
            remedy="Leave out session_id when resuming.",
        )
    return _open_existing(at, find_session(at, resume), asked, options)


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
    loaded = _load(at, paths)
    calls = open_calls(loaded.state)
    settlements = _settle(at, paths, calls, dict(verify or {}), claim=False)
    lost = lost_changes(loaded.state.world.written, boot_id())
    return _resume_state(paths.session_id, loaded, calls, settlements, lost)


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
    with open_session(project, resume=session, home=home, trace=False) as opened:
        waiting = opened.state.world.calls
        matches = [key for key in waiting if key.startswith(call) or key.endswith(call)]
        if len(matches) != 1:
            listed = ", ".join(waiting) or "none"
            raise UsageError(
                f"{len(matches)} interrupted calls of {opened.session_id} are called {call!r}.",
                remedy=f"Calls that wait for a verdict: {listed}.",
            )
        known = waiting[matches[0]]
        words = "was applied" if verdict == "applied" else "was NOT applied"
        said = f" They say: {note}" if note else ""
        text = f"The user has looked: this call {words}.{said}"
        resolution = Resolution(verdict, {}, "user", note)
        settlement = Settlement(known.call_id, resolution, Outcome(), Result((Text(text),)))
        _record_settlement(opened, known, settlement)
        opened.terminal("interrupted")
    return known.call_id


def sessions(
    project: str | Path = ".",
    *,
    home: str | Path | None = None,
    everywhere: bool = False,
    limit: int | None = None,
) -> list[SessionInfo]:
    """The sessions of a project (or of all), newest first. A broken one is a row with a problem."""
    at = place(project, home)
    found = at.layout.sessions(
        None if everywhere else at.root, on_problem=lambda _path, _error: None
    )
    return [describe(paths, at.blobs(paths), at.disk) for paths, _ in newest_first(found)[:limit]]


def find_session(at: Place, wanted: str) -> SessionPaths:
    """A session by id, unique beginning of an id, title, or NEWEST; this project's come first."""
    if wanted == NEWEST:
        return _newest(at)
    try:
        return at.layout.find(wanted, at.root)
    except SessionNotFoundError as error:
        if error.candidates:
            raise
    try:
        return at.layout.find(wanted)
    except SessionNotFoundError as error:
        if error.candidates:
            raise
        return _by_title(at, wanted, error)


def _newest(at: Place) -> SessionPaths:
    found = newest_first(at.layout.sessions(at.root))
    if not found:
        raise SessionNotFoundError(
            f"The project {at.root} has no session yet.",
            remedy="Start one, or list those of all projects with `rewake sessions --all`.",
        )
    return found[0][0]


def _by_title(at: Place, wanted: str, not_found: SessionNotFoundError) -> SessionPaths:
    for root in (at.root, None):
        rows = newest_first(at.layout.sessions(root, on_problem=lambda _path, _error: None))
        titled = [
            paths
            for paths, _ in rows
            if describe(paths, at.blobs(paths), at.disk).title.casefold() == wanted.casefold()
        ]
        if len(titled) == 1:
            return titled[0]
        if titled:
            names = tuple(paths.session_id for paths in titled)
            raise SessionNotFoundError(
                f"{len(titled)} sessions are called {wanted!r}: {', '.join(names)}.",
                candidates=names,
                remedy="Give the id of one of them.",
            )
    raise not_found


# --- opening ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Asked:
    """What to do with calls that evidence doesn't settle, and with commands that still run."""

    on_unknown: OnUnknown
    on_running: OnRunning


@dataclass(frozen=True, slots=True)
class _Options:
    durability: Durability
    model: str
    permission_mode: str
    verify: dict[str, Verify]
    on_recorded: Callable[[Event], None] | None
    trace: bool

    @property
    def sync(self) -> bool:
        return self.durability == "disk"

    def run(self, at: Place, generation: int) -> RunStart:
        return RunStart(
            generation=generation,
            host=os.uname().nodename if hasattr(os, "uname") else "",
            boot_id=boot_id(),
            pid=os.getpid(),
            app_version=VERSION,
            cwd=str(at.root),
            model=self.model,
            permission_mode=self.permission_mode,
        )


def _open_new(at: Place, session_id: str | None, options: _Options) -> Session:
    chosen = session_id or at.ids()()
    state = SessionState()
    if options.durability == "memory":
        return _in_memory(at, chosen, state, options)
    paths = at.layout.create_session(at.root, chosen, at.disk, sync=options.sync)
    with ExitStack() as stack:
        lock = stack.enter_context(_lock(at, paths))
        appender = Appender(paths.transcript, at.disk, sync=options.sync)
        session = _session(at, paths, state, options, appender)
        stack.callback(session.close)
        session.record(SessionStart(project={"root": str(at.root)}))
        session.record(options.run(at, 1))
        stack.pop_all()
    session.on_close(lock.release)
    return session


def _open_existing(at: Place, paths: SessionPaths, asked: _Asked, options: _Options) -> Session:
    if options.durability == "memory":
        raise UsageError(
            "A recorded session can't be resumed without recording.",
            remedy="Leave out --no-session-persistence.",
        )
    with ExitStack() as stack:
        lock = stack.enter_context(_lock(at, paths))
        if options.sync:
            at.layout.make_durable(paths, at.disk)
        # Before anything is changed: a transcript of a newer version is refused here.
        loaded = _load(at, paths)
        appender = Appender(paths.transcript, at.disk, sync=options.sync)
        stack.callback(appender.close)
        if appender.sealed is not None:
            # A whole record that only lacked its newline is there now, or one more corrupt line.
            loaded = _load(at, paths)
        calls = open_calls(loaded.state)
        settle_running(calls.values(), paths.directory, boot_id(), asked.on_running)
        settlements = _settle(at, paths, calls, options.verify)
        lost = lost_changes(loaded.state.world.written, boot_id())
        if asked.on_unknown == "stop":
            _stop_if_unknown(paths.session_id, settlements)
        session = _session(at, paths, loaded.state, options, appender)
        session.checkpoint_is_behind(loaded.since_checkpoint, loaded.bytes_since_checkpoint)
        stack.callback(session.close)
        session.resumed = _resume_state(paths.session_id, loaded, calls, settlements, lost)
        if loaded.newest is None:
            session.record(SessionStart(project={"root": str(at.root)}))
        session.record(options.run(at, loaded.state.world.generation + 1))
        already_told = {
            key for key, call in loaded.state.world.calls.items() if call.status == "running"
        }
        for item in settlements:
            if item.resolution.verdict == "still_running" and item.call_id in already_told:
                continue
            _record_settlement(session, calls[item.call_id], item)
        for call, item in lost:
            _record_settlement(session, call, item)
        session.commit()
        stack.pop_all()
    session.on_close(lock.release)
    return session


def _load(at: Place, paths: SessionPaths) -> Loaded:
    with Transcript(paths.transcript) as reader:
        return load(reader, at.blobs(paths))


def _lock(at: Place, paths: SessionPaths) -> SessionLock:
    now = Timestamps(at.clock_ns)()
    return SessionLock(paths.lock, at.disk, this_process(now, " ".join(sys.argv[:1])))


def _session(
    at: Place, paths: SessionPaths, state: SessionState, options: _Options, appender: Appender
) -> Session:
    ids = at.ids()
    blobs = at.blobs(paths, durable=options.sync)
    sinks: tuple[Sink, ...] = _trace(paths, at.disk) if options.trace else ()
    run_id = ids()

    def recorder(fold: Callable[[Event], None]) -> Recorder:
        return Recorder(
            session_id=paths.session_id,
            run_id=run_id,
            durability=options.durability,
            ids=ids,
            fold=fold,
            transcript=appender,
            blobs=blobs,
            sinks=sinks,
            on_recorded=options.on_recorded,
            clock_ns=at.clock_ns,
        )

    return Session(
        session_id=paths.session_id,
        run_id=run_id,
        root=at.root,
        directory=paths.directory,
        state=state,
        make_recorder=recorder,
        blobs=blobs,
        boot_id=boot_id(),
        transcript=paths.transcript,
        file=appender,
        verify=options.verify,
    )


def _trace(paths: SessionPaths, disk: Disk) -> tuple[Sink, ...]:
    """The trace is best effort: without it the session goes on."""
    try:
        return (TraceSink(paths.trace, disk),)
    except StorageError as error:
        print(f"rewake: no trace is written: {error}", file=sys.stderr)  # noqa: T201  # best effort, said once
        return ()


class MemoryBlobs:
    """Contents of a session that leaves nothing behind."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        """Keep `data` as long as this object lives."""
        sha256 = hashlib.sha256(data).hexdigest()
        self._contents[sha256] = data
        return sha256

    def get(self, sha256: str) -> bytes:
        """The bytes. Raises StorageError when they are not there."""
        try:
            return self._contents[sha256]
        except KeyError:
            raise StorageError(
                f"There is no content {sha256}.", path="", remedy="Keep it first."
            ) from None


def _in_memory(at: Place, session_id: str, state: SessionState, options: _Options) -> Session:
    ids = at.ids()
    # Commands write their output to files even in a session that keeps none of them.
    directory = Path(tempfile.mkdtemp(prefix="rewake-"))
    run_id = ids()

    def recorder(fold: Callable[[Event], None]) -> Recorder:
        return Recorder(
            session_id=session_id,
            run_id=run_id,
            durability="memory",
            ids=ids,
            fold=fold,
            on_recorded=options.on_recorded,
            clock_ns=at.clock_ns,
        )

    session = Session(
        session_id=session_id,
        run_id=run_id,
        root=at.root,
        directory=directory,
        state=state,
        make_recorder=recorder,
        blobs=MemoryBlobs(),
        boot_id=boot_id(),
        verify=options.verify,
    )
    session.on_close(lambda: shutil.rmtree(directory, ignore_errors=True))
    session.record(SessionStart(project={"root": str(at.root)}))
    session.record(options.run(at, 1))
    return session


# --- settling --------------------------------------------------------------------------------


def open_calls(state: SessionState) -> dict[str, OpenCall]:
    """The calls that wait for a verdict, by the id that their settlement has.

    One that a person must decide about (`unknown`) waits for no other evidence. A command that was
    found running is looked at again.

    A call that its message asked for and that has no line of its own never began, where intents
    are recorded at all; it is listed under an id made of its message and place.
    """
    calls = {
        call_id: msgspec.structs.replace(call, status="started")
        if call.status == "running"
        else call
        for call_id, call in state.world.calls.items()
        if call.status != "unknown"
    }
    if not state.world.uses_actions:
        return calls
    known = {(call.message_id, call.index) for call in state.world.calls.values()}
    for entry, index, call in state.conversation.unanswered():
        if not entry.sealed and (entry.message_id, index) not in known:
            key = f"{entry.message_id}/{index}"
            calls[key] = OpenCall(
                call_id=key,
                tool_name=call.name,
                status="requested",
                message_id=entry.message_id,
                index=index,
                provider_call_id=call.provider_call_id,
            )
    return calls


def _settle(
    at: Place,
    paths: SessionPaths,
    calls: dict[str, OpenCall],
    verify: dict[str, Verify],
    *,
    claim: bool = True,
) -> list[Settlement]:
    return settle(
        list(calls.values()),
        session_directory=paths.directory,
        boot_id=boot_id(),
        verify=verify,
        read_blob=at.blobs(paths).get,
        claim=claim,
    )


def _stop_if_unknown(session_id: str, settlements: list[Settlement]) -> None:
    unknown = [item for item in settlements if item.resolution.verdict == "unknown"]
    if unknown:
        names = ", ".join(item.call_id for item in unknown)
        raise UncertainError(
            f"The session {session_id} has interrupted calls that no evidence settles: {names}.",
            remedy="Look at what they left, then resume with --on-unknown tell.",
        )


def _record_settlement(session: Session, call: OpenCall, item: Settlement) -> None:
    session.record(
        ToolLifecycle(
            tool_name=call.tool_name,
            status="resolved",
            call_id=call.call_id,
            message_id=call.message_id,
            index=call.index,
            provider_call_id=call.provider_call_id,
            outcome=item.outcome,
            result=item.result,
            resolution=item.resolution,
        )
    )


def _resume_state(
    session_id: str,
    loaded: Loaded,
    calls: dict[str, OpenCall],
    settlements: list[Settlement],
    lost: list[tuple[OpenCall, Settlement]],
) -> ResumeState:
    conversation: Conversation = loaded.state.conversation
    terminal: Terminal | None = loaded.state.world.terminal
    pending = {call_id for call_id, call in calls.items() if call.status == "requested"}
    return ResumeState(
        session_id=session_id,
        messages=tuple(conversation.entries),
        pending=tuple(item for item in settlements if item.call_id in pending),
        uncertain=(
            *(item for item in settlements if item.call_id not in pending),
            *(item for _, item in lost),
        ),
        calls={**calls, **{call.call_id: call for call, _ in lost}},
        memory=conversation.memory.render(),
        summary=conversation.summary,
        terminal=terminal,
        damage=tuple(loaded.damage),
    )
