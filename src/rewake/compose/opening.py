"""Opens sessions for writing: new ones, recorded ones, forks, and ones that leave nothing behind."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from rewake.catalogue.notes import note_session
from rewake.compose.place import Place
from rewake.compose.waking import Waking, load_session, open_calls, wake
from rewake.errors import SessionBusyError, StorageError, UsageError
from rewake.log.appender import Appender
from rewake.log.disk import storage_error
from rewake.log.git import branch_name
from rewake.log.layout import SessionPaths, refuse_existing
from rewake.log.lock import boot_id, this_process
from rewake.log.project_lock import ForksLock, WriterLocks, lock_for_writing
from rewake.model.content import JsonObject
from rewake.model.events import Event, ForkOrigin, RunStart, SessionStart
from rewake.model.ids import IdGenerator
from rewake.record.lines import Timestamps
from rewake.record.recorder import Durability, Recorder
from rewake.record.sinks import Sink, SinkProblem
from rewake.record.trace import TraceOptions, TraceSink
from rewake.resume.evidence import Verify
from rewake.resume.lineage import Lineage
from rewake.resume.listing import summarise
from rewake.resume.load import Loaded, conversation_at, load
from rewake.resume.running import OnRunning, settle_running
from rewake.session.core import ResumeState, Session
from rewake.state.conversation import Conversation
from rewake.state.fold import SessionState
from rewake.state.world import World
from rewake.version import VERSION

OnUnknown = Literal["tell", "stop"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What to do with calls that evidence doesn't settle, and with commands that still run."""

    on_unknown: OnUnknown
    on_running: OnRunning


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller chose for the run; an empty text is as in the run before."""

    durability: Durability
    model: str
    permission_mode: str
    verify: dict[str, Verify]
    on_recorded: Callable[[Event], None] | None
    trace: bool
    cwd: str = ""
    trace_options: TraceOptions = field(default_factory=TraceOptions)
    redact: bool = False
    sinks: tuple[Sink, ...] = ()
    on_problem: Callable[[SinkProblem], None] | None = None

    @property
    def sync(self) -> bool:
        return self.durability == "disk"

    def run(self, at: Place, before: RunStart | None = None) -> RunStart:
        known = before or RunStart(0)
        return RunStart(
            generation=known.generation + 1,
            host=os.uname().nodename if hasattr(os, "uname") else "",
            boot_id=boot_id(),
            pid=os.getpid(),
            app_version=VERSION,
            cwd=self.cwd or known.cwd or str(at.root),
            model=self.model or known.model,
            permission_mode=self.permission_mode or known.permission_mode,
        )


def open_new(at: Place, session_id: str | None, options: Options) -> Session:
    """A new session, its first lines recorded."""
    chosen = session_id or at.ids()()
    state = SessionState()
    if options.durability == "memory":
        return _in_memory(at, chosen, state, options)
    paths = at.layout.create_session(at.root, chosen, at.disk, sync=options.sync)
    with ExitStack() as stack:
        lock = stack.enter_context(_lock(at, paths))
        refuse_existing(paths)  # again: another process may have made and left it meanwhile
        appender = Appender(paths.transcript, at.disk, sync=options.sync)
        session = _session(at, paths, state, options, appender)
        stack.callback(session.close)
        session.record(SessionStart(project=_project(at)))
        session.record(options.run(at))
        stack.pop_all()
    session.on_close(lock.release)
    return session


def open_existing(at: Place, paths: SessionPaths, asked: Asked, options: Options) -> Session:
    """A recorded session, its interrupted calls settled and that recorded. Durable on return."""
    if options.durability == "memory":
        raise UsageError(
            "A recorded session can't be resumed without recording.",
            remedy="Leave out --no-session-persistence.",
        )
    with ExitStack() as stack:
        lock = stack.enter_context(_lock(at, paths))
        loaded, appender = _loaded_for_writing(at, paths, options, stack)
        running = open_calls(loaded.state).values()
        try:
            settle_running(running, paths.directory, boot_id(), asked.on_running)
        except OSError as error:
            raise storage_error(error, paths.outputs, "read") from error
        waking = wake(at, paths, loaded, options.verify)
        if asked.on_unknown == "stop":
            waking.stop_if_unknown(paths.session_id)
        found = waking.resume_state(paths.session_id)  # before anything is recorded
        session = _reopened(at, paths, loaded, options, appender)
        stack.callback(session.close)
        if loaded.newest is None:
            session.record(SessionStart(project=_project(at)))
        session.record(options.run(at, loaded.state.world.run))
        _wake_up(at, paths, session, waking, found, durable=options.sync)
        session.commit()
        stack.pop_all()
    session.on_close(lock.release)
    return session


def _wake_up(
    at: Place,
    paths: SessionPaths,
    session: Session,
    waking: Waking,
    found: ResumeState,
    *,
    durable: bool,
) -> None:
    """Record the verdicts, with what interrupted commands changed, and finish a rewind of files."""
    finish_rewind: Callable[[Session], str | None] | None = None
    if paths.files.exists():
        # Not every session has a file history, and its modules are slow to load.
        from rewake.compose import files

        finish_rewind = files.finish_rewind
        blobs = at.blobs(paths, durable=durable)
        settlements = files.settle_tracked(at, paths, blobs, waking.calls, waking.settlements)
        waking = msgspec.structs.replace(waking, settlements=settlements)
    waking.record(session)
    told = waking.resume_state(paths.session_id)
    session.resumed = msgspec.structs.replace(found, pending=told.pending, uncertain=told.uncertain)
    notice = finish_rewind(session) if finish_rewind is not None else None
    if notice is not None:
        session.resumed = msgspec.structs.replace(session.resumed, notices=(notice,))


def open_for_notes(at: Place, paths: SessionPaths) -> Session:
    """A recorded session, open for a fact about it (a title, tags, a rewind) and for nothing else.

    No run begins and nothing is settled: whoever resumes it finds it as it was.
    """
    options = Options("disk", "", "", {}, None, trace=False)
    with ExitStack() as stack:
        lock = stack.enter_context(_lock(at, paths))
        loaded, appender = _loaded_for_writing(at, paths, options, stack)
        session = _reopened(at, paths, loaded, options, appender)
        stack.pop_all()
    session.on_close(lock.release)
    return session


def _reopened(
    at: Place, paths: SessionPaths, loaded: Loaded, options: Options, appender: Appender
) -> Session:
    # A copied or renamed directory holds another session's lines; new ones must be of that
    # session too, or no reader would take them for a part of it.
    recorded_as = loaded.newest.session_id if loaded.newest is not None else None
    session = _session(at, paths, loaded.state, options, appender, recorded_as=recorded_as)
    session.checkpoint_is_behind(loaded.since_checkpoint, loaded.bytes_since_checkpoint)
    return session


def _loaded_for_writing(
    at: Place, paths: SessionPaths, options: Options, stack: ExitStack
) -> tuple[Loaded, Appender]:
    """What a locked session holds, and its file, the torn tail sealed; `stack` closes the file."""
    if options.sync:
        at.layout.make_durable(paths, at.disk)
    # Before anything is changed: a transcript of a newer version is refused here.
    loaded = load_session(at, paths)
    appender = Appender(paths.transcript, at.disk, sync=options.sync)
    stack.callback(appender.close)
    if appender.sealed is not None:
        # A whole record that only lacked its newline is there now, or one more corrupt line.
        loaded = load_session(at, paths)
    return loaded, appender


def open_fork(
    at: Place,
    origin: SessionPaths,
    target_id: str | None,
    session_id: str | None,
    options: Options,
    *,
    project: JsonObject | None = None,
) -> Session:
    """A new session that goes on from `target_id` of another (None: from its end).

    The origin is only read, also while somebody writes it; its events are shared by reference, so
    a fork costs the same whatever its origin's size. It lives beside its origin. `project` is what
    its first line says of the project besides the usual.
    """
    if options.durability == "memory":
        raise UsageError(
            "A fork can't be made without recording.",
            remedy="Leave out --no-session-persistence.",
        )
    with ForksLock(origin.project, at.disk):  # its origin can't be deleted meanwhile
        return _fork(at, origin, target_id, session_id, options, project=project or {})


def _fork(
    at: Place,
    origin: SessionPaths,
    target_id: str | None,
    session_id: str | None,
    options: Options,
    *,
    project: JsonObject,
) -> Session:
    with at.lineage(origin) as reader:
        conversation, forked_from, was = _fork_point(at, origin, reader, target_id)
    paths = SessionPaths(origin.project, session_id or at.ids()())
    at.layout.create_beside(paths, at.disk, sync=options.sync)
    state = SessionState(conversation, World())
    checkpoint = state.checkpoint()
    with ExitStack() as stack:
        lock = stack.enter_context(_lock(at, paths))
        refuse_existing(paths)
        appender = Appender(paths.transcript, at.disk, sync=options.sync)
        session = _session(at, paths, state, options, appender, after=forked_from.event_id)
        stack.callback(session.close)
        session.record(
            SessionStart(
                project=_project(at) | project, forked_from=forked_from, checkpoint=checkpoint
            )
        )
        session.record(msgspec.structs.replace(options.run(at, was.run), generation=1))
        session.metadata(title=f"{was.title} (fork)" if was.title else None)
        session.commit()  # who deletes the origin sees from now on that this session needs it
        stack.pop_all()
    session.on_close(lock.release)
    return session


def _fork_point(
    at: Place, origin: SessionPaths, reader: Lineage, target_id: str | None
) -> tuple[Conversation, ForkOrigin, World]:
    """The conversation at the target, the event it is forked from, and the origin's world."""
    loaded = load(reader, at.blobs(origin))
    if target_id is None:
        if loaded.newest is None:
            raise UsageError(
                f"The session {origin.session_id} is empty.", remedy="Start a new one instead."
            )
        forked_from = ForkOrigin(origin.session_id, loaded.newest.event_id)
        return loaded.state.conversation, forked_from, loaded.state.world
    conversation, target = conversation_at(reader, at.blobs(origin), target_id)
    return conversation, ForkOrigin(target.session_id, target.event_id), loaded.state.world


def _lock(at: Place, paths: SessionPaths) -> WriterLocks:
    now = Timestamps(at.clock_ns)()
    try:
        return lock_for_writing(paths, at.disk, this_process(now, " ".join(sys.argv[:1])))
    except SessionBusyError as error:
        error.session_id = paths.session_id
        raise


def _project(at: Place) -> JsonObject:
    branch = branch_name(at.root)
    return {"root": str(at.root), "branch": branch} if branch else {"root": str(at.root)}


def _session(
    at: Place,
    paths: SessionPaths,
    state: SessionState,
    options: Options,
    appender: Appender,
    *,
    after: str | None = None,
    recorded_as: str | None = None,
) -> Session:
    """`after` is an event that this session's ids must come after (the one it was forked from).

    `recorded_as` is the session that the lines name, where it isn't called like its directory.
    """
    ids: IdGenerator = at.ids()
    if after is not None:
        ids.seed(after)
    blobs = at.blobs(paths, durable=options.sync)
    trace = _trace(at, paths, options)
    redact = at.transcript_redactor().json if options.redact else None
    run_id = ids()

    def recorder(fold: Callable[[Event], None]) -> Recorder:
        return Recorder(
            session_id=recorded_as or paths.session_id,
            run_id=run_id,
            durability=options.durability,
            ids=ids,
            fold=fold,
            transcript=appender,
            blobs=blobs,
            sinks=(*options.sinks, trace) if trace is not None else options.sinks,
            on_recorded=options.on_recorded,
            on_problem=options.on_problem,
            on_synced=trace.committed if trace is not None else None,
            redact=redact,
            clock_ns=at.clock_ns,
        )

    session = Session(
        session_id=paths.session_id,
        run_id=run_id,
        root=at.root,
        directory=paths.directory,
        state=state,
        make_recorder=recorder,
        blobs=blobs,
        boot_id=boot_id(),
        transcript=paths.transcript,
        lineage=lambda: at.lineage(paths),
        file=appender,
        verify=options.verify,
    )
    if trace is not None:
        session.trace = trace
    session.on_close(lambda: note_session(at.home, paths, summarise(session.state.world)))
    return session


def _trace(at: Place, paths: SessionPaths, options: Options) -> TraceSink | None:
    """The trace is best effort: without it the session goes on."""
    if not options.trace:
        return None
    try:
        return TraceSink(
            paths.trace,
            at.disk,
            options=dataclasses.replace(options.trace_options, make_redact=at.redact),
        )
    except StorageError as error:
        print(f"rewake: no trace is written: {error}", file=sys.stderr)  # noqa: T201  # best effort, said once
        return None


class MemoryBlobs:
    """Contents of a session that leaves nothing behind."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        """Keep `data` as long as this object lives."""
        sha256 = hashlib.sha256(data).hexdigest()
        self._contents[sha256] = data
        return sha256

    def put_all(self, contents: Iterable[bytes]) -> list[str]:
        """Keep several."""
        return [self.put(data) for data in contents]

    def get(self, sha256: str) -> bytes:
        """The bytes. Raises StorageError when they are not there."""
        try:
            return self._contents[sha256]
        except KeyError:
            raise StorageError(
                f"There is no content {sha256}.", path="", remedy="Keep it first."
            ) from None


def _in_memory(at: Place, session_id: str, state: SessionState, options: Options) -> Session:
    import shutil  # these two cost a tenth of the start-up of everything that opens a session
    import tempfile

    ids = at.ids()
    # Commands write their output to files even in a session that keeps none of them.
    directory = Path(tempfile.mkdtemp(prefix="rewake-"))
    redact = at.transcript_redactor().json if options.redact else None
    run_id = ids()

    def recorder(fold: Callable[[Event], None]) -> Recorder:
        return Recorder(
            session_id=session_id,
            run_id=run_id,
            durability="memory",
            ids=ids,
            fold=fold,
            sinks=options.sinks,
            on_recorded=options.on_recorded,
            on_problem=options.on_problem,
            redact=redact,
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
    session.record(SessionStart(project=_project(at)))
    session.record(options.run(at))
    return session
