"""BashOutput and KillShell: what a command in the background has written, and its end.

The rules kept here: everything is read from the command's output directory, so it makes no difference
which process started it; how far the model has read is recorded in the outcome, so that a resumed
agent reads on from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import anyio
import anyio.to_thread
import msgspec

from rewake.agent.ports import Prepared, ToolContext, ToolInputError, ToolOutput, ToolSpec
from rewake.agent.tools.arguments import parse
from rewake.model.content import JsonObject, Text
from rewake.model.events import Outcome, OutputRead, ReadOnlyIntent
from rewake.resume import running, shell
from rewake.state.world import BackgroundCommand

WAIT_MS_MAX: Final = 600_000
_LOOK_SECONDS: Final = 0.1
_NOTHING_NEW: Final = "(nothing new)"


class ReadArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Without `id` the commands are listed."""

    id: str = ""
    start: Literal["new", "beginning"] = "new"
    filter: str = ""
    wait_ms: int = 0


@dataclass(frozen=True, slots=True)
class _Wanted:
    command: BackgroundCommand | None
    given: ReadArguments


class BashOutputTool:
    """What a background command has written since the model last read it."""

    read_only = True
    spec = ToolSpec(
        name="BashOutput",
        description=(
            "Reads what a command that was started with run_in_background has written since you last "
            "read it, and says whether it still runs. Without an id it lists the commands. Use wait_ms "
            "to wait for its end rather than sleeping in Bash."
        ),
        parameters={
            "type": "object",
            "properties": {
                "id": {"type": "string", "description": "The id that Bash gave."},
                "start": {
                    "type": "string",
                    "enum": ["new", "beginning"],
                    "description": "Where to read from. Default: what is new.",
                },
                "filter": {"type": "string", "description": "Only lines that contain this text."},
                "wait_ms": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": WAIT_MS_MAX,
                    "description": "Wait for its end first, at most so many milliseconds.",
                },
            },
            "additionalProperties": False,
        },
    )

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:  # noqa: ARG002  # the port's
        given = parse("BashOutput", ReadArguments, arguments)
        if not 0 <= given.wait_ms <= WAIT_MS_MAX:
            raise ToolInputError(f"wait_ms must be between 0 and {WAIT_MS_MAX}.")
        command = find(given.id, context) if given.id else None
        summary = (
            "List the background commands"
            if command is None
            else f"Read the output of {command.short_id}: {command.command}"
        )
        return Prepared(
            intent=ReadOnlyIntent(), subject=given.id, summary=summary, data=_Wanted(command, given)
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:
        wanted = prepared.data
        if not isinstance(wanted, _Wanted):
            raise TypeError("this call was not prepared by BashOutput")
        if wanted.command is None:
            return await anyio.to_thread.run_sync(_list, context)
        directory = directory_of(wanted.command, context)
        with anyio.move_on_after(wanted.given.wait_ms / 1000):
            while wanted.given.wait_ms and shell.state_of(directory).state == "running":  # noqa: ASYNC110  # nothing here hears of its end
                await anyio.sleep(_LOOK_SECONDS)
        return await anyio.to_thread.run_sync(_read, wanted.command, wanted.given, context)


def find(wanted: str, context: ToolContext) -> BackgroundCommand:
    """The background command of this id, short or whole. Raises ToolInputError."""
    commands = context.commands()
    found = [item for item in commands.values() if wanted in {item.call_id, item.short_id}]
    if len(found) == 1:
        return found[0]
    known = ", ".join(item.short_id for item in commands.values()) or "none"
    raise ToolInputError(
        f"There is no background command {wanted!r} in this session. Known ones: {known}."
    )


def directory_of(command: BackgroundCommand, context: ToolContext) -> Path:
    """Where its output is. Raises ToolInputError where the transcript claims a foreign place."""
    directory = context.session_directory / command.output_directory
    if not shell.is_below(directory, context.session_directory):
        raise ToolInputError(f"The recorded output directory of {command.short_id} is not usable.")
    return directory


def _list(context: ToolContext) -> ToolOutput:
    lines = [
        f"{command.short_id}  {_state_now(command, context)}  {command.command}"
        for command in context.commands().values()
    ]
    return ToolOutput((Text("\n".join(lines) or "No command was started in the background."),))


def _state_now(command: BackgroundCommand, context: ToolContext) -> str:
    status = shell.inspect(directory_of(command, context))
    return describe(status)


def describe(status: shell.ShellStatus) -> str:
    """The state of a background command in a sentence."""
    match status.state:
        case "running":
            return "Still running."
        case "finished":
            return shell.describe_exit(status)
        case "vanished":
            return "Gone: it was killed from outside or with the machine, and left no exit code."
        case "never_started":
            return "Its output directory is gone."


def _read(command: BackgroundCommand, given: ReadArguments, context: ToolContext) -> ToolOutput:
    directory = directory_of(command, context)
    # The state first: what a command wrote before its end is there when it has ended.
    status = shell.inspect(directory)
    ended = status.state != "running"
    before = context.output_read(command.call_id)
    if before is None or given.start == "beginning":
        before = OutputRead(command.call_id)
    out, err = (
        shell.read_from(directory / name, offset, only=given.filter, ended=ended)
        for name, offset in ((shell.STDOUT, before.stdout), (shell.STDERR, before.stderr))
    )
    parts = [out.text.rstrip("\n")]
    if err.text.strip():
        parts.append("[stderr]\n" + err.text.rstrip("\n"))
    said = "\n".join(part for part in parts if part) or _NOTHING_NEW
    read = OutputRead(command.call_id, out.end, err.end, ended)
    details: JsonObject = {"command_id": command.short_id, "state": status.state}
    return ToolOutput(
        (Text(f"{said}\n{describe(status)}"),), outcome=Outcome(output_read=read, details=details)
    )


class KillArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which command to end."""

    id: str


class KillShellTool:
    """Ends a background command.

    It counts as reading, so that nobody is asked: it only takes back what the agent itself began, and
    done twice it does nothing more, so after a crash it may be repeated.
    """

    read_only = True
    spec = ToolSpec(
        name="KillShell",
        description="Ends a command that was started with run_in_background, and all it started.",
        parameters={
            "type": "object",
            "properties": {"id": {"type": "string", "description": "The id that Bash gave."}},
            "required": ["id"],
            "additionalProperties": False,
        },
    )

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:  # noqa: ARG002  # the port's
        command = find(parse("KillShell", KillArguments, arguments).id, context)
        return Prepared(
            intent=ReadOnlyIntent(),
            subject=command.short_id,
            summary=f"End {command.short_id}: {command.command}",
            serial_keys=(command.call_id,),
            data=command,
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:
        command = prepared.data
        if not isinstance(command, BackgroundCommand):
            raise TypeError("this call was not prepared by KillShell")
        return await anyio.to_thread.run_sync(_kill, command, context)


def _kill(command: BackgroundCommand, context: ToolContext) -> ToolOutput:
    directory = directory_of(command, context)
    was_alive = shell.state_of(directory).is_alive
    is_gone = running.stop(directory, context.boot_id)
    status = shell.inspect(directory)
    if not is_gone:
        text = (
            f"{command.short_id} could not be ended: its processes can't be told from others here "
            "(another machine or container runs them), or they don't react."
        )
        return ToolOutput((Text(text),), is_error=True)
    said = describe(status) if was_alive else f"It had ended before. {describe(status)}"
    before = context.output_read(command.call_id) or OutputRead(command.call_id)
    read = msgspec.structs.replace(before, ended=True)
    return ToolOutput((Text(said),), outcome=Outcome(output_read=read))
