"""From the user's choices to an agent at work: project, settings, model, session, loop.

The rules kept here: what can be wrong with the choices is found before a session is created; and a
resumed session works in the project that it belongs to, wherever the command was typed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from rewake.agent.loop import Loop
from rewake.agent.permissions import Answer, Permissions, Question
from rewake.agent.ports import Model, Tool
from rewake.agent.providers.choose import open_model
from rewake.cli.options import AgentChoices
from rewake.compose.agents import AgentOptions, RunObserver, build_agent
from rewake.compose.place import find_session, place
from rewake.compose.sessions import open_session
from rewake.errors import StorageError, UsageError
from rewake.model.content import Usage
from rewake.model.events import Event
from rewake.resume.listing import describe
from rewake.session.core import Blobs, Session
from rewake.settings.load import load_settings


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
    """A session with a loop on it. `about_model` says which model was chosen and why."""

    session: Session
    model: Model
    loop: Loop
    about_model: str
    before: Usage = field(default_factory=Usage)

    async def close(self) -> None:
        """Commit and release everything. Raises StorageError if that fails."""
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


def resumed_project(choices: AgentChoices) -> tuple[AgentChoices, str]:
    """The choices with the exact id of the session to resume and with the project it belongs to.

    The second part is a sentence if that isn't where the command was typed. Raises
    SessionNotFoundError, and UsageError if the project is gone.
    """
    if choices.resume is None:
        return choices, ""
    cwd = working_directory(choices)
    at = place(cwd)
    paths = find_session(at, choices.resume)
    exact = replace(choices, resume=paths.session_id)
    if choices.cwd is not None or paths.project == at.layout.project_directory(at.root):
        return exact, ""
    project = describe(paths, at.blobs(paths), at.disk).project
    if not project:
        return exact, ""
    if not Path(project).is_dir():
        raise UsageError(
            f"The project {project} of session {paths.session_id} is not there any more.",
            remedy="Say where to work instead with --cwd.",
        )
    return replace(exact, cwd=Path(project)), f"Working in the session's project, {project}."


def open_agent(
    choices: AgentChoices,
    observer: RunObserver,
    *,
    ask: Callable[[Question], Answer] | None,
    on_recorded: Callable[[Event], None] | None = None,
) -> Agent:
    """Open everything; `choices` come from `resumed_project`.

    Raises whatever can be wrong with them, each as a RewakeError with its remedy.
    """
    cwd = working_directory(choices)
    at = place(cwd)
    settings = load_settings(at.home, at.root)
    Permissions(
        "default", settings.permissions.allow, settings.permissions.deny
    )  # can they be read?
    blobs = LateBlobs()
    model, about = open_model(
        choices.model,
        environ=os.environ,
        settings_model=settings.model,
        blobs=blobs,
        cwd=cwd,
    )
    session = open_session(
        at.root,
        resume=choices.resume,
        session_id=choices.session_id,
        durability="disk" if choices.persist else "memory",
        model=model.name,
        permission_mode=choices.permission_mode or settings.permissions.mode or "default",
        on_unknown=choices.on_unknown,
        on_running=choices.on_running,
        fork=choices.fork,
        at_message=choices.resume_at,
        on_recorded=on_recorded,
    )
    blobs.session = session
    options = AgentOptions(choices.permission_mode, ask, choices.max_steps, choices.max_cost)
    loop = build_agent(session, model, observer, settings, options, cwd=cwd, tools=_tools(choices))
    return Agent(session, model, loop, about)


def _tools(choices: AgentChoices) -> tuple[Tool, ...] | None:
    if choices.demo_project is None:
        return None
    from rewake.cli.demo_project import narrowed_tools

    return narrowed_tools()
