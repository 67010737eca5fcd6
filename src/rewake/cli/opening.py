"""From the user's choices to an agent at work: project, settings, model, session, loop.

The rules kept here: what can be wrong with the choices is found before a session is created; a
resumed session goes on where it was, with the model and the permissions that it had, wherever the
command was typed; and what can't be brought back is said. Permission mode bypass never comes back
by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, cast

from rewake.agent.loop import Loop
from rewake.agent.permissions import Ask, PermissionMode
from rewake.agent.ports import Model, Tool
from rewake.agent.providers.choose import open_model
from rewake.agent.workers import AgentProgress
from rewake.cli.commands import sentence_of_running
from rewake.cli.options import AgentChoices
from rewake.cli.settled import settings_of
from rewake.compose.agents import (
    AgentOptions,
    RunObserver,
    build_agent,
    telemetry_sinks,
    trace_options,
)
from rewake.compose.extensions import Extensions, load_extensions
from rewake.compose.place import Place, find_session, place
from rewake.compose.sessions import open_session
from rewake.compose.settings import bring_up_to_date
from rewake.errors import RewakeError, StorageError, UsageError
from rewake.log.layout import SessionPaths, project_root
from rewake.log.scan import Transcript
from rewake.model.content import Usage, plain_text
from rewake.model.events import Event
from rewake.resume.listing import read_world
from rewake.session.core import Session
from rewake.session.ports import Blobs
from rewake.settings.load import Loaded


@dataclass(slots=True)
class LateBlobs:
    """The session's blobs, for a model that is opened before the session is."""

    session: Session | None = None

    def put(self, data: bytes) -> str:
        """Keep `data` in the session's blobs."""
        return self._blobs().put(data)

    def get(self, sha256: str) -> bytes:
        """The bytes from the session's blobs."""
        return self._blobs().get(sha256)

    def _blobs(self) -> Blobs:
        if self.session is None:
            raise StorageError("No session is open yet.", path="", remedy="Open one first.")
        return self.session.blobs


@dataclass(slots=True)
class Agent:
    """A session with a loop on it. `about` says which model was chosen and why, and the like.

    `warnings` are what the user must not overlook about the settings; `small_model` is the one that
    they name for titles. `is_guarded`: rules may be missing, so nothing is allowed by a rule.
    """

    session: Session
    model: Model
    loop: Loop
    about: tuple[str, ...]
    before: Usage = field(default_factory=Usage)
    warnings: tuple[str, ...] = ()
    small_model: str | None = None
    extensions: Extensions = field(default_factory=Extensions)
    is_guarded: bool = False

    async def close(self) -> None:
        """Commit and release everything. Raises StorageError if that fails."""
        ended = self.session.state.world.terminal
        try:
            await self.loop.end(ended.reason if ended is not None else "other")
        finally:
            try:
                await self.model.close()
            finally:
                self.session.close()


def working_directory(choices: AgentChoices) -> Path:
    """`--cwd`, else where the command was typed. Raises UsageError where there is none."""
    try:
        cwd = (choices.cwd or Path()).resolve(strict=True)
    except OSError as error:
        raise UsageError(
            f"The working directory {choices.cwd or '.'} can't be used: {error.strerror}.",
            remedy="Give an existing directory as --cwd.",
        ) from error
    if not cwd.is_dir():
        raise UsageError(f"{cwd} is no directory.", remedy="Give a directory as --cwd.")
    return cwd


def taken_up(choices: AgentChoices) -> tuple[AgentChoices, str]:
    """The choices with the exact id of the session to resume, and with what it had before.

    The second part is a sentence if it works somewhere else than where the command was typed.
    Raises SessionNotFoundError, and UsageError if its project is gone.
    """
    if choices.resume is None:
        return choices, ""
    cwd = working_directory(choices)
    at = place(cwd)
    paths = find_session(at, choices.resume)
    with Transcript(paths.transcript) as reader:
        world = read_world(reader, at.blobs(paths))
    exact = replace(choices, resume=paths.session_id)
    if world.run is None:
        return exact, ""
    exact = replace(exact, model_before=world.run.model, mode_before=world.run.permission_mode)
    if choices.cwd is not None:
        return exact, ""
    return _where_it_was(exact, cwd, at, paths, world.run.cwd)


def _where_it_was(
    choices: AgentChoices, cwd: Path, at: Place, paths: SessionPaths, before: str
) -> tuple[AgentChoices, str]:
    """The choices with the directory that the session worked in, if that is still its project's."""
    directories = at.layout.project_directories
    there = Path(before)
    if before and there.is_dir() and paths.project in directories(project_root(there)):
        if there.resolve() == cwd:
            return choices, ""
        return replace(choices, cwd=there), f"Working where the session did, in {there}."
    if paths.project in directories(at.root):
        state = "belongs to another project" if there.is_dir() else "is not there any more"
        told = f"{before} {state}; working in {cwd}." if before else ""
        return replace(choices, cwd=cwd), told
    raise UsageError(
        f"The project {before} of session {paths.session_id} is not there any more.",
        remedy="Say where to work instead with --cwd.",
    )


class AgentsObserver(RunObserver, Protocol):
    """Who watches a run with its sub-agents."""

    def on_agent(self, progress: AgentProgress) -> None:
        """A sub-agent has come further."""


def open_agent(
    choices: AgentChoices,
    observer: AgentsObserver,
    *,
    ask: Ask | None,
    on_recorded: Callable[[Event], None] | None = None,
) -> Agent:
    """Open everything; `choices` come from `taken_up`.

    Raises whatever can be wrong with them, each as a RewakeError with its remedy.
    """
    cwd = working_directory(choices)
    at = place(cwd)
    loaded = settings_of(choices, at)
    settings = loaded.settings
    warnings = (*loaded.notices(), *bring_up_to_date(at, loaded))
    mode, about_mode = _mode(choices, loaded)
    extensions = load_extensions(at.home, at.root, settings)
    blobs = LateBlobs()
    model, about_model = _model(choices, loaded, blobs, cwd)
    session = open_session(
        cwd,
        resume=choices.resume,
        session_id=choices.session_id,
        durability="disk" if choices.persist else "memory",
        model=model.name,
        permission_mode=mode,
        on_unknown=choices.on_unknown,
        on_running=choices.on_running,
        fork=choices.fork,
        with_files=choices.with_files,
        at_message=choices.resume_at,
        on_recorded=on_recorded,
        trace=trace_options(settings),
        redact=settings.redact_transcript is True,
        sinks=telemetry_sinks(at, settings),
        on_problem=lambda problem: observer.on_notice(
            f"The session goes on without {problem.sink}: {problem.message}"
        ),
        resume_agents=True,
    )
    blobs.session = session
    about_files: tuple[str, ...] = ()
    if choices.with_files is not None:
        # Its project is the copy from here on; the user is told what the model is.
        cwd = session.root
        about_files = (plain_text(session.messages[-1].message.content),)
    options = AgentOptions(mode, ask)
    loop = build_agent(
        session,
        model,
        observer,
        settings,
        options,
        cwd=cwd,
        tools=_tools(choices),
        extensions=extensions,
        home=at.home,
        open_model=lambda name: open_model(
            name, environ=os.environ, settings_model=None, blobs=blobs, cwd=cwd
        )[0],
        on_agent=observer.on_agent,
    )
    still_running = filter(None, (sentence_of_running(session),))
    about = (*about_model, *about_mode, *about_files, *still_running)
    warnings = (*warnings, *extensions.problems)
    return Agent(
        session,
        model,
        loop,
        about,
        warnings=warnings,
        small_model=settings.small_model,
        extensions=extensions,
        is_guarded=loaded.is_guarded,
    )


def _mode(choices: AgentChoices, loaded: Loaded) -> tuple[PermissionMode, tuple[str, ...]]:
    """The permission mode: as asked for, else as before, else as the settings say.

    Where rules may be missing, or an administrator says which, nothing comes before the settings but
    a mode that only looks.
    """
    usual = loaded.settings.permissions.mode or "default"
    if loaded.managed("permissions.mode") is not None:
        return usual, ()
    if loaded.is_guarded:
        return ("plan" if "plan" in {usual, choices.mode_before} else "default"), ()
    if choices.permission_mode is not None:
        return choices.permission_mode, ()
    before = choices.mode_before
    if before in {"default", "acceptEdits", "plan"}:
        return cast("PermissionMode", before), ()
    if before != "bypass" or usual == "bypass":
        return usual, ()
    told = f"Permission mode {usual}: bypass, which the run before had, never comes back by itself."
    return usual, (told,)


def _model(
    choices: AgentChoices, loaded: Loaded, blobs: LateBlobs, cwd: Path
) -> tuple[Model, tuple[str, ...]]:
    """The model: as asked for, else the one before if it can be opened now, else as usual."""

    def opened(name: str | None) -> tuple[Model, str]:
        return open_model(name, environ=os.environ, settings_model=usual, blobs=blobs, cwd=cwd)

    usual = loaded.settings.model
    before = choices.model_before
    if loaded.managed("model") is not None:
        model, about = opened(None)
        return model, (about,)
    if choices.model is not None or not before:
        model, about = opened(choices.model)
        return model, (about,)
    try:
        model, _ = opened(before)
    except RewakeError as error:
        model, about = opened(None)
        return model, (f"{before}, the model of the run before, can't be used: {error}", about)
    return model, (f"Model: {before} (as in the run before).",)


def _tools(choices: AgentChoices) -> tuple[Tool, ...] | None:
    if choices.demo_project is None:
        return None
    from rewake.cli.demo_project import narrowed_tools

    return narrowed_tools()
