"""Puts the coding agent together: a session, a model, the tools and the permissions around them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import anyio

from rewake.agent.agent_types import BUILT_IN
from rewake.agent.background import BackgroundNews
from rewake.agent.execute import CallObserver, Executor
from rewake.agent.gate import TodoGate, VerifyGate
from rewake.agent.loop import HELD_BACK_MAX, Limits, Loop, Observer
from rewake.agent.permissions import Ask, PermissionMode, Permissions
from rewake.agent.ports import Attendant, Gate, Guard, Model, Tool, ToolContext
from rewake.agent.prompt import system_prompt
from rewake.agent.subagents import (
    DEPTH_MAX,
    MAX_STEPS,
    PARALLEL_MAX,
    Rules,
    Subagents,
)
from rewake.agent.tools import builtin_tools
from rewake.agent.tools.task import task_tools
from rewake.agent.tracing import TracedModel
from rewake.agent.workers import AgentProgress
from rewake.compose.extensions import Extensions, beside
from rewake.compose.files import track_files
from rewake.compose.memory import briefed, home_of, remembering
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
    """What a user chose for this run; settings fill in what is None.

    Without `waits_for_agents` the run ends although sub-agents in the background are at work.
    """

    permission_mode: PermissionMode | None = None
    ask: Ask | None = None
    waits_for_agents: bool = True


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
    attendants: tuple[Attendant, ...] = (),
    gates: tuple[Gate, ...] = (),
    guards: tuple[Guard, ...] = (),
    home: Path | None = None,
    open_model: Callable[[str], Model] | None = None,
    on_agent: Callable[[AgentProgress], None] | None = None,
) -> Loop:
    """The loop over `session`, ready to run. `tools` default to the built-in ones.

    `extensions` come from `load_extensions`; call `Loop.end` before the session is closed.
    `attendants`, `gates` and `guards` come before those of the extensions. `home` is
    where the user's memory and instructions are; default: where the session is recorded. With the
    built-in tools it has sub-agents: `open_model` opens the models that their types name, and
    `on_agent` hears how far each is.
    """
    track_files(session, observer.on_notice)
    given = settings.permissions
    permissions = Permissions(
        options.permission_mode or given.mode or "default", given.allow, given.deny, options.ask
    )
    remembers = remembering(session, model, settings, observer.on_notice, cwd=cwd, home=home)
    has_agents = tools is None
    if tools is None:
        tools = (*builtin_tools(), *remembers.tools)
    at_hand = {tool.spec.name: tool for tool in tools}
    added = beside(
        extensions or Extensions(),
        session,
        at_hand,
        cwd=cwd,
        mode=lambda: permissions.mode,
        notice=observer.on_notice,
    )
    news = BackgroundNews(session, observer.on_notice)
    executor = Executor(
        session=session,
        tools=at_hand,
        context=_context(session, settings, permissions, added.readable_directories, cwd=cwd),
        permissions=permissions,
        observer=observer,
        guards=(*guards, *added.guards),
    )
    loop = Loop(
        session=session,
        model=TracedModel(model, session.trace, content=settings.trace.content is not False),
        executor=executor,
        system="\n\n".join(filter(None, (system_prompt(session.root), added.system))),
        observer=observer,
        limits=Limits(settings.max_steps, settings.max_cost_usd),
        compact_at_tokens=settings.compact_at_tokens,
        attendants=(
            *attendants,
            *added.attendants,  # a prompt that a hook blocks recalls nothing
            *remembers.attendants,
            news,
        ),
        briefing=remembers.briefing.before_prompt,
        gates=(*gates, news, *_gates(session, executor, settings), *added.gates),
        held_back_max=settings.verify_max or HELD_BACK_MAX,
        endings=added.endings,
    )

    if has_agents:
        rules = replace(
            _rules(settings, options),
            types=(extensions or Extensions()).types,
            accompany=_companion(session, settings, observer.on_notice, cwd=cwd, home=home),
            open_model=open_model,
            on_progress=on_agent or (lambda _progress: None),
        )
        _give_agents(loop, rules, at_hand)
    return loop


def _context(
    session: Session,
    settings: Settings,
    permissions: Permissions,
    readable: tuple[Path, ...],
    *,
    cwd: Path,
) -> ToolContext:
    return ToolContext(
        project=session.root,
        cwd=cwd,
        session_directory=session.directory,
        blobs=session.blobs,
        files=session,
        extra_directories=tuple(
            session.root.joinpath(os.path.expanduser(path)).resolve()  # noqa: PTH111  # never raises
            for path in settings.permissions.additional_directories
        ),
        readable_directories=readable,
        todos=lambda: session.state.conversation.todos,
        commands=lambda: session.state.world.commands,
        # Not the bound method: a rewind puts another conversation in its place.
        output_read=lambda command: session.state.conversation.output_read.get(command),  # noqa: PLW0108
        boot_id=boot_id(),
        forbids=permissions.forbids,
    )


def _companion(
    session: Session,
    settings: Settings,
    notice: Callable[[str], None],
    *,
    cwd: Path,
    home: Path | None,
) -> Callable[[Loop], None]:
    """A sub-agent gets the project's instructions too, and hears of its own commands."""

    def accompany(agent: Loop) -> None:
        theirs = home or home_of(session)
        briefing = briefed(agent.session, agent.model, settings, cwd=cwd, home=theirs)
        agent.briefing = briefing.before_prompt
        news = BackgroundNews(agent.session, notice)
        agent.attendants = (briefing, news)
        agent.gates = (news,)

    return accompany


def _rules(settings: Settings, options: AgentOptions) -> Rules:
    given = settings.agents
    return Rules(
        types=BUILT_IN,
        places=anyio.Semaphore(given.parallel_max or PARALLEL_MAX),
        depth_max=DEPTH_MAX if given.depth_max is None else given.depth_max,
        max_steps=given.max_steps or MAX_STEPS,
        waits=options.waits_for_agents,
        task_tools=task_tools,
    )


def _give_agents(loop: Loop, rules: Rules, at_hand: dict[str, Tool]) -> None:
    if loop.session.sidechains is None:
        return
    agents = Subagents(loop, loop.session.sidechains, rules)
    if rules.depth_max > 0:
        # The dictionary that the executor has, and that tools of MCP servers are put into later.
        at_hand.update({tool.spec.name: tool for tool in task_tools(agents)})


def _gates(session: Session, executor: Executor, settings: Settings) -> tuple[Gate, ...]:
    todos = TodoGate(session, executor.permissions)
    if not (settings.verify or "").strip():
        return (todos,)
    return (todos, VerifyGate(session, executor, settings.verify or ""))


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
