"""News of commands in the background: what ended since the last request, told to the model once.

The rule kept here: the end of a command is one `resolved` line of the call that started it. It says
how the command ended, carries what it changed, and is what the model is told, all in one, so that
none of it can be on record without the others, and a command is told of once, also across resumes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio.to_thread
import msgspec

from rewake.log.disk import storage_error
from rewake.model.content import JsonObject, Text
from rewake.model.events import Outcome, Resolution, Result, ToolLifecycle
from rewake.resume import shell
from rewake.session.core import Session
from rewake.state.world import BackgroundCommand


@dataclass(slots=True)
class BackgroundNews:
    """The attendant that looks after a session's background commands, and its last look as a gate."""

    session: Session
    on_notice: Callable[[str], None]

    async def on_prompt(self, prompt: str | None) -> None:
        """Nothing: what there is to tell is told before the request."""

    async def holds_back(self) -> None:
        """Nothing; but what ended during the last answer is recorded, with what it changed.

        Later nobody could tell what that was, and gates after this one ask whether anything changed.
        """
        await self.before_request()

    async def before_request(self) -> None:
        """Record the end of each command that has ended. Raises StorageError."""
        if any(item.state == "running" for item in self.session.state.world.commands.values()):
            await anyio.to_thread.run_sync(self._look)

    def _look(self) -> None:
        for command in list(self.session.state.world.commands.values()):
            if command.state == "running" and record_end(self.session, command):
                self.on_notice(f"The background command {command.short_id} has ended.")


def record_end(session: Session, command: BackgroundCommand) -> bool:
    """Record how a command ended, if it has; durable on return. Raises StorageError.

    The model is told of it, unless it has read of it already.
    """
    directory = session.directory / command.output_directory
    if not shell.is_below(directory, session.directory):
        return False
    try:
        if shell.state_of(directory).state == "running":
            return False
        status = shell.inspect(directory)
    except OSError as error:
        raise storage_error(error, directory, "read") from error
    session.record(
        ToolLifecycle(
            tool_name="Bash",
            status="resolved",
            call_id=command.call_id,
            message_id=command.message_id,
            index=command.index,
            provider_call_id=command.provider_call_id,
            outcome=_outcome(session, command, status),
            result=None if command.told else _told(command, status),
            resolution=_resolution(command, status),
        ),
        barrier=True,
    )
    if session.tracker is not None:
        session.tracker.recorded(command.call_id)
    return True


def _outcome(session: Session, command: BackgroundCommand, status: shell.ShellStatus) -> Outcome:
    """How it ended, with what has changed meanwhile and is no other call's.

    Only the process that started a command has watched the project since.
    """
    ended = status.exit or shell.ShellExit()
    outcome = Outcome(exit_code=ended.exit_code, duration_ms=ended.duration_ms or None)
    tracker = session.tracker
    if tracker is None:
        return outcome
    if not tracker.is_open(command.call_id):
        why = f"the background command {command.short_id} went on after its agent"
        missed = {"reason": why, "paths": ["."], "count": 1}
        return msgspec.structs.replace(outcome, details={"not_covered": [missed]})
    outcome = tracker.after(command.call_id, outcome)
    details = {**outcome.details, "while_in_background": True}
    return msgspec.structs.replace(outcome, details=details)


def _resolution(command: BackgroundCommand, status: shell.ShellStatus) -> Resolution:
    evidence: JsonObject = {
        "command": command.command,
        "command_id": command.short_id,
        "output_directory": command.output_directory,
        "state": status.state,
    }
    if status.state != "finished":
        return Resolution("unknown", evidence, note=_how(status))
    evidence |= {"exit": msgspec.to_builtins(status.exit), "background": status.background}
    return Resolution("applied", evidence, note=_how(status))


def _how(status: shell.ShellStatus) -> str:
    if status.state == "finished":
        return shell.describe_exit(status)
    return (
        "It is gone without an exit code: it was killed from outside, or the machine was restarted. "
        "It may have done all, some or none of its work."
    )


def _told(command: BackgroundCommand, status: shell.ShellStatus) -> Result:
    text = (
        f"The background command {command.short_id} ({command.command}) has ended. {_how(status)} "
        f"Read the rest of its output with BashOutput."
    )
    return Result((Text(text),), is_error=status.exit is None or status.exit.exit_code != 0)
