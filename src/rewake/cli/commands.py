"""`rewake commands`: what runs in the background of a session, what it says, and how to end it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from rewake.cli.amounts import amount
from rewake.cli.jsonout import to_json
from rewake.cli.terminal import clean, let_readers_leave, one_line, say, style_for
from rewake.compose.commands import (
    ShellCommand,
    find_command,
    running_in,
    shell_commands,
    stop_shell_command,
)
from rewake.errors import UsageError
from rewake.model.content import JsonObject
from rewake.resume import shell
from rewake.session.core import Session

_COMMAND_CHARS: Final = 60


def show_commands(session: str, cwd: Path | None, *, as_json: bool) -> int:
    """List the commands of a session; returns the exit status."""
    let_readers_leave()
    found = shell_commands(session, project=cwd or ".")
    if as_json:
        say(to_json([command_object(item) for item in found]))
    else:
        print_commands(found)
    return 0


def show_output(session: str, command: str, cwd: Path | None, *, as_json: bool) -> int:
    """Print what a command has written, both streams, long output with its middle left out."""
    let_readers_leave()
    found = find_command(session, command, project=cwd or ".")
    status = shell.inspect(Path(found.output))
    if as_json:
        texts = {"stdout": status.stdout.text, "stderr": status.stderr.text}
        say(to_json({**command_object(found), **texts}))
        return 0
    say(clean(shell.describe_output(status)) or "(no output)")
    say(style_for(sys.stdout).dim(one_line(f"{found.id}: {_state(found)}")))
    return 0


def stop_command(session: str, command: str, cwd: Path | None, *, as_json: bool) -> int:
    """End a command; returns the exit status."""
    found = stop_shell_command(session, command, project=cwd or ".")
    say(to_json(command_object(found)) if as_json else one_line(f"{found.id}: {_state(found)}"))
    return 0


def only_one(output: str | None, stop: str | None) -> None:
    """Raises UsageError when two things are wanted at once."""
    if output is not None and stop is not None:
        raise UsageError("One thing at a time.", remedy="Give either --output or --stop.")


def print_commands(found: list[ShellCommand]) -> None:
    """Print a table: id, state, since when, size of the output, the command; then where that is."""
    style = style_for(sys.stdout)
    if not found:
        say("No command was started in the background.")
    for item in found:
        size = amount(item.output_bytes)
        what = one_line(item.command)
        shown = what if len(what) <= _COMMAND_CHARS else what[: _COMMAND_CHARS - 1] + "…"
        since = item.started_at[:19].replace("T", " ")
        say(f"{one_line(item.id):<9} {since:<20} {size:>8}  {shown}")
        agent = f"agent {item.agent_id}, " if item.agent_id else ""
        say(style.dim(one_line(f"          {agent}{_state(item)} {item.output}")))


def sentence_of_running(session: Session) -> str:
    """One line on what goes on after the end of a run; empty when nothing does."""
    found = running_in(session)
    if not found:
        return ""
    names = ", ".join(f"{item.id} ({one_line(item.command)[:_COMMAND_CHARS]})" for item in found)
    return (
        f"Still running in the background: {names}. "
        f"See: rewake commands {one_line(session.session_id)}"
    )


def command_object(command: ShellCommand) -> JsonObject:
    """A command for JSON output; docs/guide/cli.md lists its keys."""
    return {name: getattr(command, name) for name in command.__struct_fields__}


def _state(command: ShellCommand) -> str:
    match command.state:
        case "running" if command.in_background:
            return "Running."
        case "running":
            return "Running, although its call was interrupted."
        case "vanished":
            return "Gone without an exit code: killed from outside, or with the machine."
        case _:
            return command.ended
