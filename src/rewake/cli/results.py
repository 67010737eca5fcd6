"""The result of a run as one JSON object; docs/guide/cli.md lists its keys."""

from __future__ import annotations

from collections.abc import Sequence

from rewake.agent.loop import RunResult
from rewake.cli.commands import command_object
from rewake.cli.jsonout import error_object
from rewake.cli.opening import Agent
from rewake.cli.resumed import action_object, damage_object
from rewake.cli.running import exit_code, status
from rewake.compose.commands import running_in
from rewake.errors import RewakeError, SessionBusyError, UncertainError
from rewake.model.content import JsonObject, Usage
from rewake.model.events import Event, ToolLifecycle
from rewake.resume.evidence import Settlement
from rewake.session.ports import ResumeState


def result_object(agent: Agent, result: RunResult, cut_short: Sequence[Event]) -> JsonObject:
    """Everything about a run that ended. `cut_short` are the `resolved` events that it wrote itself."""
    session, resumed = agent.session, agent.session.resumed
    found = _found(resumed) if resumed is not None else _found_nothing()
    found["uncertain_actions"] += [_cut_short_object(event) for event in cut_short]
    return {
        "status": status(result),
        "response": result.response,
        "session_id": session.session_id,
        "run_id": session.run_id,
        "terminal_reason": result.reason,
        "exit_code": int(exit_code(result)),
        "steps": result.steps,
        "usage": usage_object(result.usage),
        "model": agent.model.name,
        "resumed": resumed is not None,
        **found,
        "project": str(session.root),
        "transcript": str(session.transcript) if session.transcript is not None else None,
        "unfinished": list(result.unfinished),
        "running_commands": [command_object(command) for command in running_in(session)],
        "error": error_object(result.error) if result.error is not None else None,
    }


def failed_command(error: RewakeError) -> JsonObject:
    """What a command other than `-p --json` answers when it can't do its work."""
    return {
        "status": "error",
        "session_id": session_of(error),
        "error": error_object(error),
    }


def session_of(error: RewakeError) -> str | None:
    """The session that an error is about, where it knows."""
    return error.session_id if isinstance(error, SessionBusyError | UncertainError) else None


def failed_run(error: RewakeError) -> JsonObject:
    """The same keys for a run that could not even begin."""
    return {
        "status": "error",
        "response": "",
        "session_id": session_of(error),
        "run_id": None,
        "terminal_reason": "error",
        "exit_code": int(error.exit_code),
        "steps": 0,
        "usage": usage_object(Usage()),
        "model": None,
        "resumed": False,
        **_found_nothing(),
        "project": None,
        "transcript": None,
        "unfinished": [],
        "running_commands": [],
        "error": error_object(error),
    }


def usage_object(usage: Usage) -> JsonObject:
    """Tokens and US dollars."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cost_usd": usage.cost_usd,
    }


def _found_nothing() -> JsonObject:
    return {"uncertain_actions": [], "pending_actions": [], "damage": []}


def _found(resumed: ResumeState) -> JsonObject:
    def actions(settlements: tuple[Settlement, ...]) -> list[JsonObject]:
        return [action_object(item, resumed.calls.get(item.call_id)) for item in settlements]

    return {
        "uncertain_actions": actions(resumed.uncertain),
        "pending_actions": actions(resumed.pending),
        "damage": [damage_object(item) for item in resumed.damage],
    }


def _cut_short_object(event: Event) -> JsonObject:
    payload = event.payload
    if not isinstance(payload, ToolLifecycle) or payload.resolution is None:
        raise TypeError("only resolved calls are cut short")
    return {
        "call_id": payload.call_id,
        "tool_name": payload.tool_name,
        "provider_call_id": payload.provider_call_id,
        "status": "started",
        "verdict": payload.resolution.verdict,
        "evidence": payload.resolution.evidence,
        "note": payload.resolution.note,
    }
