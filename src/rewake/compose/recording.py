"""Makes the `Session` over a transcript that is open for writing: a session's own or a sub-agent's.

The rule kept here: what a session and its sub-agents have in common (ids, run, blobs, sinks, the name
that their lines carry) is made once, with the session.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rewake.catalogue.notes import note_session
from rewake.compose.place import Place
from rewake.errors import StorageError
from rewake.log.appender import Appender
from rewake.log.layout import AgentPaths, SessionPaths
from rewake.log.lock import boot_id
from rewake.model.events import Event, RunStart
from rewake.model.ids import IdGenerator
from rewake.record.recorder import Durability, Recorder
from rewake.record.sinks import KeptOpen, Sink, SinkProblem
from rewake.record.trace import TraceOptions, TraceSink
from rewake.resume.evidence import Verify
from rewake.resume.listing import summarise
from rewake.session.core import Session
from rewake.session.ports import Blobs
from rewake.state.fold import SessionState
from rewake.version import VERSION


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller chose for the run; an empty text is as in the run before.

    With `resume_agents` the caller lets interrupted sub-agents go on, so their calls stay open.
    """

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
    resume_agents: bool = False

    @property
    def sync(self) -> bool:
        """Whether what is committed survives a power loss."""
        return self.durability == "disk"

    def run(self, at: Place, before: RunStart | None = None) -> RunStart:
        """The first line of a run after the run `before`."""
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


@dataclass(frozen=True, slots=True)
class Shared:
    """What a session has in common with its sub-agents; `recorded_as` is the id in their lines."""

    ids: IdGenerator
    run_id: str
    blobs: Blobs
    recorded_as: str
    sinks: tuple[Sink, ...] = ()
    redact: Callable[[bytes], bytes] | None = None
    trace: TraceSink | None = None


def shared_by(
    at: Place,
    paths: SessionPaths,
    options: Options,
    *,
    after: str | None = None,
    recorded_as: str | None = None,
) -> Shared:
    """For a session at `paths`.

    `after` is an event that its ids must come after (the one it was forked from). `recorded_as` is
    the session that the lines name, where it isn't called like its directory.
    """
    ids = at.ids()
    if after is not None:
        ids.seed(after)
    trace = _trace(at, paths, options)
    return Shared(
        ids=ids,
        run_id=ids(),
        blobs=at.blobs(paths, durable=options.sync),
        recorded_as=recorded_as or paths.session_id,
        sinks=(*options.sinks, trace) if trace is not None else options.sinks,
        redact=at.transcript_redactor().json if options.redact else None,
        trace=trace,
    )


def make_session(
    at: Place,
    paths: SessionPaths,
    state: SessionState,
    options: Options,
    appender: Appender,
    *,
    shared: Shared,
) -> Session:
    """The session whose transcript `appender` writes; a sub-agent's if `paths` are."""
    agent_id = paths.agent_id if isinstance(paths, AgentPaths) else None
    is_main = agent_id is None
    sinks = shared.sinks if is_main else tuple(KeptOpen(sink) for sink in shared.sinks)
    trace = shared.trace

    def recorder(fold: Callable[[Event], None]) -> Recorder:
        return Recorder(
            session_id=shared.recorded_as,
            run_id=shared.run_id,
            # The agents of a session that is kept in memory have transcripts as long as it lives.
            durability="process" if options.durability == "memory" else options.durability,
            ids=shared.ids,
            fold=fold,
            transcript=appender,
            blobs=shared.blobs,
            sinks=sinks,
            on_recorded=options.on_recorded,
            on_problem=options.on_problem,
            on_synced=trace.committed if trace is not None and is_main else None,
            redact=shared.redact,
            agent_id=agent_id,
            clock_ns=at.clock_ns,
        )

    session = Session(
        session_id=paths.session_id,
        run_id=shared.run_id,
        root=at.root,
        directory=paths.directory,
        state=state,
        make_recorder=recorder,
        blobs=shared.blobs,
        boot_id=boot_id(),
        transcript=paths.transcript,
        lineage=lambda: at.lineage(paths),
        file=appender,
        verify=options.verify,
        agent_id=agent_id,
    )
    if trace is not None:
        session.trace = trace
    if is_main:
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
