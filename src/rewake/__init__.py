"""Durable sessions for coding agents.

    import rewake

    with rewake.open_session(project=".") as session:
        session.user("Make the tests pass")      # durable when it returns
        ...

Everything public is named here and loaded when it is first used, so `import rewake` costs nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from rewake.version import VERSION as __version__  # noqa: N811  # the name tools look for

if TYPE_CHECKING:
    from rewake.catalogue.search import SearchHit, SearchResult
    from rewake.compose.agent_records import (
        agents,
        end_agent,
        new_agent_id,
        remote_agents,
        resume_agent,
        spawn_agent,
    )
    from rewake.compose.archives import delete, export, gc, import_, restore, stats, trash
    from rewake.compose.commands import ShellCommand, shell_commands, stop_shell_command
    from rewake.compose.files import (
        file_changes,
        plan_rewind,
        rewind_files,
        track_files,
        undo_files_rewind,
    )
    from rewake.compose.finding import search
    from rewake.compose.memory import (
        forget_note,
        instructions,
        notes,
        read_note,
        search_notes,
        write_note,
    )
    from rewake.compose.place import NEWEST
    from rewake.compose.reports import Reported, report
    from rewake.compose.sessions import open_session, resolve, resume, sessions
    from rewake.compose.settings import load_settings, set_setting
    from rewake.compose.telemetry import send_recorded
    from rewake.compose.viewing import LiveView
    from rewake.errors import (
        ExitCode,
        InvalidValueError,
        ModelError,
        NoteConflictError,
        NoteNotFoundError,
        PoisonedError,
        RewakeError,
        SessionBusyError,
        SessionNotFoundError,
        SettingsError,
        StorageError,
        TelemetryError,
        UncertainError,
        UsageError,
    )
    from rewake.memory.note import Note
    from rewake.model.content import File, Image, Text, Thinking, ToolCall, ToolResult, Usage
    from rewake.model.events import (
        AgentIntent,
        Change,
        Event,
        FileChangeIntent,
        FileState,
        Message,
        OtherIntent,
        Outcome,
        ReadOnlyIntent,
        Resolution,
        Result,
        ShellIntent,
        Verification,
    )
    from rewake.record.trace import TraceOptions
    from rewake.resume.agents import AgentInfo
    from rewake.resume.evidence import Settlement
    from rewake.resume.remote import RemoteAgent, RemoteAgents
    from rewake.session.action import Action, FileChange
    from rewake.session.core import Session
    from rewake.session.ports import ResumeState
    from rewake.session.twin import AsyncSession
    from rewake.session.wire import anthropic_messages, from_anthropic, from_openai, openai_messages
    from rewake.state.view import ViewMessage

_HOMES = {
    "rewake.catalogue.search": ("SearchHit", "SearchResult"),
    "rewake.compose.agent_records": (
        "agents",
        "end_agent",
        "new_agent_id",
        "remote_agents",
        "resume_agent",
        "spawn_agent",
    ),
    "rewake.compose.archives": ("delete", "export", "gc", "import_", "restore", "stats", "trash"),
    "rewake.compose.files": (
        "file_changes",
        "plan_rewind",
        "rewind_files",
        "track_files",
        "undo_files_rewind",
    ),
    "rewake.compose.finding": ("search",),
    "rewake.compose.memory": (
        "forget_note",
        "instructions",
        "notes",
        "read_note",
        "search_notes",
        "write_note",
    ),
    "rewake.compose.place": ("NEWEST",),
    "rewake.compose.reports": ("Reported", "report"),
    "rewake.compose.commands": ("ShellCommand", "shell_commands", "stop_shell_command"),
    "rewake.compose.sessions": ("open_session", "resolve", "resume", "sessions"),
    "rewake.compose.settings": ("load_settings", "set_setting"),
    "rewake.compose.telemetry": ("send_recorded",),
    "rewake.compose.viewing": ("LiveView",),
    "rewake.errors": (
        "ExitCode",
        "InvalidValueError",
        "ModelError",
        "NoteConflictError",
        "NoteNotFoundError",
        "PoisonedError",
        "RewakeError",
        "SessionBusyError",
        "SessionNotFoundError",
        "SettingsError",
        "StorageError",
        "TelemetryError",
        "UncertainError",
        "UsageError",
    ),
    "rewake.memory.note": ("Note",),
    "rewake.model.content": (
        "File",
        "Image",
        "Text",
        "Thinking",
        "ToolCall",
        "ToolResult",
        "Usage",
    ),
    "rewake.model.events": (
        "AgentIntent",
        "Change",
        "Event",
        "FileChangeIntent",
        "FileState",
        "Message",
        "OtherIntent",
        "Outcome",
        "ReadOnlyIntent",
        "Resolution",
        "Result",
        "ShellIntent",
        "Verification",
    ),
    "rewake.record.trace": ("TraceOptions",),
    "rewake.resume.agents": ("AgentInfo",),
    "rewake.resume.evidence": ("Settlement",),
    "rewake.session.action": ("Action", "FileChange"),
    "rewake.session.core": ("Session",),
    "rewake.session.ports": ("ResumeState",),
    "rewake.resume.remote": ("RemoteAgent", "RemoteAgents"),
    "rewake.session.twin": ("AsyncSession",),
    "rewake.session.wire": (
        "anthropic_messages",
        "from_anthropic",
        "from_openai",
        "openai_messages",
    ),
    "rewake.state.view": ("ViewMessage",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "NEWEST",
    "Action",
    "AgentInfo",
    "AgentIntent",
    "AsyncSession",
    "Change",
    "Event",
    "ExitCode",
    "File",
    "FileChange",
    "FileChangeIntent",
    "FileState",
    "Image",
    "InvalidValueError",
    "LiveView",
    "Message",
    "ModelError",
    "Note",
    "NoteConflictError",
    "NoteNotFoundError",
    "OtherIntent",
    "Outcome",
    "PoisonedError",
    "ReadOnlyIntent",
    "RemoteAgent",
    "RemoteAgents",
    "Reported",
    "Resolution",
    "Result",
    "ResumeState",
    "RewakeError",
    "SearchHit",
    "SearchResult",
    "Session",
    "SessionBusyError",
    "SessionNotFoundError",
    "SettingsError",
    "Settlement",
    "ShellCommand",
    "ShellIntent",
    "StorageError",
    "TelemetryError",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolResult",
    "TraceOptions",
    "UncertainError",
    "Usage",
    "UsageError",
    "Verification",
    "ViewMessage",
    "__version__",
    "agents",
    "anthropic_messages",
    "delete",
    "end_agent",
    "export",
    "file_changes",
    "forget_note",
    "from_anthropic",
    "from_openai",
    "gc",
    "import_",
    "instructions",
    "load_settings",
    "new_agent_id",
    "notes",
    "open_session",
    "openai_messages",
    "plan_rewind",
    "read_note",
    "remote_agents",
    "report",
    "resolve",
    "restore",
    "resume",
    "resume_agent",
    "rewind_files",
    "search",
    "search_notes",
    "send_recorded",
    "sessions",
    "set_setting",
    "shell_commands",
    "spawn_agent",
    "stats",
    "stop_shell_command",
    "track_files",
    "trash",
    "undo_files_rewind",
    "write_note",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'rewake' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value  # found here the next time
    return value


def __dir__() -> list[str]:
    return list(__all__)


class _Package(ModuleType):
    """This package: `rewake.resume` and `rewake.report` are functions, also once the sub-packages of
    these names are loaded.

    The import system sets a sub-package as an attribute of its parent, which would hide the function.
    """

    @property
    def resume(self) -> object:
        """See `rewake.compose.sessions.resume`."""
        return __getattr__("resume")

    @resume.setter
    def resume(self, value: object) -> None:
        """Leave it as it is."""

    @property
    def report(self) -> object:
        """See `rewake.compose.reports.report`."""
        return __getattr__("report")

    @report.setter
    def report(self, value: object) -> None:
        """Leave it as it is."""


sys.modules[__name__].__class__ = _Package
