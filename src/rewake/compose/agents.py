"""Puts the coding agent together: a session, a model, the tools and the permissions around them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rewake.agent.background import BackgroundNews
from rewake.agent.execute import CallObserver, Executor
from rewake.agent.loop import Limits, Loop, Observer
from rewake.agent.permissions import Ask, PermissionMode, Permissions
from rewake.agent.ports import Model, Tool, ToolContext
from rewake.agent.prompt import system_prompt
from rewake.agent.tools import builtin_tools
from rewake.agent.tracing import TracedModel
from rewake.compose.extensions import Extensions, beside
from rewake.compose.files import track_files
from rewake.compose.memory import remembering
from rewake.compose.place import Place
from rewake.log.lock import boot_id
from rewake.record.sinks import Sink
from rewake.record.trace import TraceOptions
from rewake.session.core import Session
from rewake.settings.schema import Settings


class RunObserver(Observer, CallObserver, Protocol):
    """Who watches both the answers and the calls."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """What a user chose for this run; settings fill in what is None."""

    permission_mode: PermissionMode | None = None
    ask: Ask | None = None


def build_agent(
    session: Session,
    model: Model,
    observer: RunObserver,
    settings: Settings,
    options: AgentOptions,
    *,
    cwd: Path,
    tools: tuple[Tool, ...] | None = None,
    extensions: Extensions | None = None,
    home: Path | None = None,
) -> Loop:
    """The loop over `session`, ready to run. `tools` default to the built-in ones.

    `extensions` come from `load_extensions`; call `Loop.end` before the session is closed. `home` is
    where the user's memory and instructions are; default: where the session is recorded.
    """
    track_files(session, observer.on_notice)
    given = settings.permissions
    permissions = Permissions(
        options.permission_mode or given.mode or "default", given.allow, given.deny, options.ask
    )
    added = beside(
        extensions or Extensions(),
        session,
        cwd=cwd,
        mode=lambda: permissions.mode,
        notice=observer.on_notice,
    )
    context = ToolContext(
        project=session.root,
        cwd=cwd,
        session_directory=session.directory,
        blobs=session.blobs,
        files=session,
        extra_directories=tuple(
            session.root.joinpath(os.path.expanduser(path)).resolve()  # noqa: PTH111  # never raises
            for path in given.additional_directories
        ),
        readable_directories=added.readable_directories,
        todos=lambda: session.state.conversation.todos,
        commands=lambda: session.state.world.commands,
        # Not the bound method: a rewind puts another conversation in its place.
        output_read=lambda command: session.state.conversation.output_read.get(command),  # noqa: PLW0108
        boot_id=boot_id(),
        forbids=permissions.forbids,
    )
    remembers = remembering(session, model, settings, observer.on_notice, cwd=cwd, home=home)
    if tools is None:
        tools = (*builtin_tools(), *remembers.tools)
    executor = Executor(
        session=session,
        tools={tool.spec.name: tool for tool in (*tools, *added.tools)},
        context=context,
        permissions=permissions,
        observer=observer,
        guards=added.guards,
    )
    return Loop(
        session=session,
        model=TracedModel(model, session.trace, content=settings.trace.content is not False),
        executor=executor,
        system="\n\n".join(filter(None, (system_prompt(session.root), added.system))),
        observer=observer,
        limits=Limits(settings.max_steps, settings.max_cost_usd),
        compact_at_tokens=settings.compact_at_tokens,
        attendants=(
            *remembers.attendants,
            BackgroundNews(session, observer.on_notice),
            *added.attendants,
        ),
        briefing=remembers.briefing.before_prompt,
        gates=added.gates,
        endings=added.endings,
    )


def trace_options(settings: Settings) -> TraceOptions | bool:
    """What the settings say of the trace; False where there shall be none."""
    given = settings.trace
    if given.enabled is False:
        return False
    usual = TraceOptions()
    return TraceOptions(
        given.file_bytes_max or usual.file_bytes_max,
        given.files_max or usual.files_max,
        content=given.content is not False,
    )


def telemetry_sinks(at: Place, settings: Settings) -> tuple[Sink, ...]:
    """The sink for OpenTelemetry, if the settings ask for it. Raises UsageError without the extra."""
    if settings.telemetry.enabled is not True:
        return ()
    from rewake.compose.telemetry import telemetry_sink  # slow to load

    return (telemetry_sink(at, settings.telemetry),)
