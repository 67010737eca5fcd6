"""Opens sessions for writing: new ones, recorded ones, forks, and ones that leave nothing behind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from rewake.compose.place import Place
from rewake.compose.recording import MemoryBlobs, Options, Shared, make_session, shared_by
from rewake.compose.sidechains import Sidechains
from rewake.compose.waking import Waking, load_session, open_calls, wake
from rewake.errors import SessionBusyError, UsageError
from rewake.log.appender import Appender
from rewake.log.disk import storage_error
from rewake.log.git import branch_name
from rewake.log.layout import SessionPaths, refuse_existing
from rewake.log.lock import boot_id, this_process
from rewake.log.project_lock import ForksLock, WriterLocks, lock_for_writing
from rewake.model.content import JsonObject
from rewake.model.events import Event, ForkOrigin, SessionStart
from rewake.record.lines import Timestamps
from rewake.record.recorder import Recorder
from rewake.resume.lineage import Lineage
from rewake.resume.load import Loaded, conversation_at, load
from rewake.resume.running import OnRunning, end_commands, settle_running
from rewake.session.core import Session
from rewake.session.ports import ResumeState
from rewake.state.conversation import Conversation
from rewake.state.fold import SessionState
from rewake.state.world import World

OnUnknown = Literal["tell", "stop"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What to do with calls that evidence doesn't settle, and with commands that still run."""

    on_unknown: OnUnknown
    on_running: OnRunning


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
        session = _reopened(at, paths, loaded, options, appender)
        stack.callback(session.close)
        agents = _sidechains(session)
        if asked.on_unknown == "stop":
            waking.stop_if_unknown(paths.session_id, agents.unknown(loaded.state))
        found = waking.resume_state(paths.session_id)  # before anything is recorded
        if loaded.newest is None:
            session.record(SessionStart(project=_project(at)))
        session.record(options.run(at, loaded.state.world.run))
        notices = tuple(agents.wake(session, asked.on_running))
        if options.resume_agents:
            waking = waking.without_agents(session.state.conversation)
        _wake_up(at, paths, session, waking, found, durable=options.sync)
        if session.resumed is not None:
            told = (*notices, *session.resumed.notices)
            session.resumed = msgspec.structs.replace(session.resumed, notices=told)
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
    from rewake.compose.settings import redacts  # most sessions are given theirs

    options = Options("disk", "", "", {}, None, trace=False, redact=redacts(at))
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
    """See `shared_by` and `make_session`."""
    shared = shared_by(at, paths, options, after=after, recorded_as=recorded_as)
    session = make_session(at, paths, state, options, appender, shared=shared)
    session.sidechains = Sidechains(at, paths, options, shared, paths.directory)
    return session


def _sidechains(session: Session) -> Sidechains:
    if not isinstance(session.sidechains, Sidechains):
        raise TypeError("a session that was opened here has its sidechains from here")
    return session.sidechains


def _in_memory(at: Place, session_id: str, state: SessionState, options: Options) -> Session:
    import shutil  # these two cost a tenth of the start-up of everything that opens a session
    import tempfile

    ids = at.ids()
    blobs = MemoryBlobs()
    # Commands write their output to files even in a session that keeps none of them, and so do
    # sub-agents their transcripts, for as long as it is open.
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
        blobs=blobs,
        boot_id=boot_id(),
        verify=options.verify,
    )
    paths = SessionPaths(directory, session_id)
    shared = Shared(ids, run_id, blobs, session_id, options.sinks, redact)
    session.sidechains = Sidechains(at, paths, options, shared, directory)
    session.on_close(lambda: shutil.rmtree(directory, ignore_errors=True))
    session.on_close(lambda: end_commands(directory / "outputs"))
    session.record(SessionStart(project=_project(at)))
    session.record(options.run(at))
    return session
