"""What users add to the agent: skills, commands, hooks, MCP servers; and how it is put beside the loop.

The rules kept here: nothing of it is imported where nothing of it is there; what can't be used is a
sentence for the user and never an error; what a project's own files would run waits for the user's
trust (settings see to that for hooks and servers).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio.to_thread

from rewake.agent.agent_types import BUILT_IN, AgentType
from rewake.agent.ports import Attendant, Ending, Gate, Guard, Tool
from rewake.agent.tools.environment import for_command
from rewake.log.disk import Disk
from rewake.session.core import Session
from rewake.settings.schema import Settings

if TYPE_CHECKING:
    from rewake.agent.commands import Commands
    from rewake.agent.hooks import Hook, Hooks
    from rewake.agent.mcp.config import ServerConfig
    from rewake.agent.mcp.hub import McpHub
    from rewake.agent.skills import Skills
    from rewake.agent.written import Problem, Root

_INSTALL: Final = 'pip install "rewake[mcp]"'
PROJECT_DIRECTORIES: Final = (".rewake", ".claude")


@dataclass(frozen=True, slots=True)
class Extensions:
    """What was found, before any session. `problems` are sentences about what can't be used.

    `types` are those of sub-agents.
    """

    skills: Skills | None = None
    commands: Commands | None = None
    hooks: tuple[Hook, ...] = ()
    servers: tuple[ServerConfig, ...] = ()
    server_wait_s: float | None = None
    problems: tuple[str, ...] = ()
    types: Mapping[str, AgentType] = field(default_factory=lambda: BUILT_IN)


@dataclass(frozen=True, slots=True)
class Additions:
    """What extensions add to a loop. `endings` come when the session is about to be closed."""

    system: str = ""
    readable_directories: tuple[Path, ...] = ()
    attendants: tuple[Attendant, ...] = ()
    gates: tuple[Gate, ...] = ()
    guards: tuple[Guard, ...] = ()
    endings: tuple[Ending, ...] = ()


def load_extensions(
    home: Path, root: Path, settings: Settings, environ: Mapping[str, str] = os.environ
) -> Extensions:
    """The extensions of a project: what its own and the home's directories and the settings hold."""
    skills, commands = load_written(home, root)
    problems = [str(one) for found in (skills, commands) if found for one in found.problems]
    hooks: list[Hook] = []
    if settings.hooks:
        from rewake.agent.hooks import hooks_in

        hooks, found_problems = hooks_in(settings.hooks, "the settings")
        problems += found_problems
    servers: list[ServerConfig] = []
    if settings.mcp_servers:
        from rewake.agent.mcp.config import server_configs

        servers, found_problems = server_configs(settings.mcp_servers, environ)
        problems += found_problems
        if servers and find_spec("mcp") is None:
            problems.append(f"MCP servers need the extra mcp: {_INSTALL}")
            servers = []
    types, of_types = load_types(home, root)
    problems += [str(one) for one in of_types]
    return Extensions(
        skills=skills,
        commands=commands,
        hooks=tuple(hooks),
        servers=tuple(servers),
        server_wait_s=settings.mcp_wait_s,
        problems=tuple(problems),
        types=types,
    )


def load_types(home: Path, root: Path) -> tuple[Mapping[str, AgentType], tuple[Problem, ...]]:
    """The types of sub-agents that a project has, and what is wrong with the files of some."""
    places = [*(root / name for name in PROJECT_DIRECTORIES), home]
    if not any((place / "agents").is_dir() for place in places):
        return BUILT_IN, ()
    from rewake.agent import defined_types

    return defined_types.load_types(_roots(home, root))


def _roots(home: Path, root: Path) -> list[Root]:
    from rewake.agent.written import Root

    real = root.resolve()
    roots = [Root(root / name, "project", real) for name in PROJECT_DIRECTORIES]
    return [*roots, Root(home, "user")]


def load_written(home: Path, root: Path) -> tuple[Skills | None, Commands | None]:
    """The skills and commands, the nearest first; None where no directory holds any."""
    places = [*(root / name for name in PROJECT_DIRECTORIES), home]
    if not any((place / kind).is_dir() for place in places for kind in ("skills", "commands")):
        return None, None
    from rewake.agent.commands import load_commands
    from rewake.agent.skills import load_skills

    roots = _roots(home, root)
    skills = load_skills(roots)
    return skills, load_commands(roots, skills)


def beside(
    extensions: Extensions,
    session: Session,
    tools: dict[str, Tool],
    *,
    cwd: Path,
    mode: Callable[[], str],
    notice: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
) -> Additions:
    """What stands beside the loop of this session, and more `tools`, now and before later requests."""
    system = ""
    readable: tuple[Path, ...] = ()
    skills = extensions.skills
    if skills is not None and skills.skills:
        from rewake.agent.skills import SkillTool

        tools["Skill"] = SkillTool(skills)
        system = skills.listing()
        readable = tuple(skill.directory.resolve() for skill in skills.skills)
    environment = for_command(environ, frozenset(), str(cwd)) | {
        "REWAKE_PROJECT_DIR": str(session.root),
        "CLAUDE_PROJECT_DIR": str(session.root),  # the name that hooks of other agents look for
    }
    attendants: list[Attendant] = []
    endings: list[Ending] = []
    hooks: tuple[Hooks, ...] = ()
    if extensions.hooks:
        from rewake.agent.hooks import Hooks

        hooks = (Hooks(session, extensions.hooks, cwd, environment, mode, notice),)
        attendants.append(hooks[0])
        endings.append(hooks[0].end)
    if extensions.servers:
        hub = _hub(extensions, session, cwd, environment)
        from rewake.agent.mcp.tool import FIRST_WAIT_S, McpAttendant

        wait_s = extensions.server_wait_s or FIRST_WAIT_S
        attendants.append(McpAttendant(hub, tools, notice, wait_s))
        endings.append(partial(_close, hub))
    return Additions(system, readable, tuple(attendants), hooks, hooks, tuple(endings))


def _hub(
    extensions: Extensions, session: Session, cwd: Path, environment: Mapping[str, str]
) -> McpHub:
    """The session's servers, being started; they end with the session at the latest."""
    from rewake.agent.mcp.hub import start_hub

    hub = start_hub(
        extensions.servers,
        root=session.root,
        cwd=cwd,
        environment=environment,
        log_directory=session.directory / "mcp",
        disk=Disk(),
    )
    session.on_close(hub.close)
    return hub


async def _close(hub: McpHub, _reason: str) -> None:
    await anyio.to_thread.run_sync(hub.close)
