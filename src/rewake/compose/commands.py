"""The shell commands of a session as a user sees them: what runs, what it says, and how to end it.

The rule kept here: the transcript says which commands there are, their output directories say what
became of them. Nothing is recorded here, so this may be asked of a session that an agent works on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from rewake.compose.place import Place, find_session, place
from rewake.errors import RewakeError, SessionNotFoundError, UsageError
from rewake.log.disk import storage_error
from rewake.log.layout import SessionPaths
from rewake.log.lock import boot_id
from rewake.log.scan import Transcript
from rewake.model.events import ShellIntent
from rewake.resume import running, shell
from rewake.resume.listing import read_world
from rewake.resume.load import BlobReader
from rewake.resume.sidechains import agent_files
from rewake.session.core import Session
from rewake.state.world import BackgroundCommand, World, short_id


class ShellCommand(msgspec.Struct, frozen=True):
    """A command and what became of it. `id` is what the model calls it; times are RFC 3339 UTC.

    `has_processes`: it, or something that it started, lives. One that isn't `in_background` was
    interrupted together with its agent. `output` is the directory with `stdout` and `stderr`.
    """

    id: str
    call_id: str
    command: str
    state: Literal["running", "finished", "vanished"]
    in_background: bool
    has_processes: bool
    started_at: str
    ended_at: str
    exit_code: int | None
    ended: str
    output_bytes: int
    output: str
    agent_id: str = ""


def shell_commands(
    session: str, *, project: str | Path = ".", home: str | Path | None = None
) -> list[ShellCommand]:
    """The background commands of a session, its sub-agents' too, and others that outlived it.

    Oldest first. The fifty newest of each agent are known. Raises SessionNotFoundError, StorageError.
    """
    at = place(project, home)
    return list(_commands(at, find_session(at, session)))


def stop_shell_command(
    session: str, command: str, *, project: str | Path = ".", home: str | Path | None = None
) -> ShellCommand:
    """End a command with everything that it started; returns what became of it.

    `command` is its id or its call's. The agent is told when it goes on. Raises
    SessionNotFoundError where there is no such command, UsageError where it can't be ended from here.
    """
    at = place(project, home)
    paths = find_session(at, session)
    wanted = _one(_commands(at, paths), command)
    try:
        is_gone = running.stop(Path(wanted.output), boot_id())
    except OSError as error:
        raise storage_error(error, Path(wanted.output), "read") from error
    if not is_gone:
        raise UsageError(
            f"The command {wanted.id} can't be ended from here: which processes are its own can't be "
            "told, or they don't react.",
            remedy="End it on the machine, or in the container, where it runs.",
        )
    return _one(_commands(at, paths), command)


def find_command(
    session: str, command: str, *, project: str | Path = ".", home: str | Path | None = None
) -> ShellCommand:
    """One command by its id. Raises SessionNotFoundError where there is none."""
    return _one(shell_commands(session, project=project, home=home), command)


def commands_of(session: Session) -> list[ShellCommand]:
    """The same for an open session, without its sub-agents' commands."""
    return list(_of_world(session.state.world, session.directory, ""))


def running_in(session: Session) -> list[ShellCommand]:
    """The background commands of a session and its sub-agents that still run; it may be closed.

    Sidechains are read only where a command lives that isn't the session's own.
    """
    own = [item for item in commands_of(session) if item.in_background]
    found = [item for item in own if item.state == "running"]
    if session.transcript is None or not _lives_another(session, {item.call_id for item in found}):
        return found
    paths = SessionPaths(session.directory.parents[1], session.session_id)
    for world, agent_id in _agents(paths, session.blobs):
        theirs = _of_world(world, session.directory, agent_id)
        found += [item for item in theirs if item.in_background and item.state == "running"]
    return found


def _lives_another(session: Session, known: set[str]) -> bool:
    paths = SessionPaths(session.directory.parents[1], session.session_id)
    if not paths.agents.is_dir() or not paths.outputs.is_dir():
        return False
    others = [output for output in paths.outputs.iterdir() if output.name not in known]
    return any(shell.state_of(output).is_alive for output in others)


def _one(commands: Iterable[ShellCommand], wanted: str) -> ShellCommand:
    known = list(commands)
    found = [item for item in known if wanted in {item.id, item.call_id}]
    if len(found) == 1:
        return found[0]
    raise SessionNotFoundError(
        f"There is no command {wanted!r} in this session.",
        candidates=tuple(item.id for item in known),
        remedy="`rewake commands` lists them.",
    )


def _commands(at: Place, paths: SessionPaths) -> Iterator[ShellCommand]:
    blobs = at.blobs(paths)
    with Transcript(paths.transcript) as reader:
        yield from _of_world(read_world(reader, blobs), paths.directory, "")
    for world, agent_id in _agents(paths, blobs):
        yield from _of_world(world, paths.directory, agent_id)


def _agents(paths: SessionPaths, blobs: BlobReader) -> Iterator[tuple[World, str]]:
    """What the transcripts of sub-agents say; one that can't be read hides no other."""
    for transcript in agent_files(paths.directory):
        try:
            with Transcript(transcript) as reader:
                world = read_world(reader, blobs)
        except (OSError, RewakeError):
            continue  # `rewake agents` and `rewake check` say what is wrong with it
        yield world, transcript.stem


def _of_world(world: World, directory: Path, agent_id: str) -> Iterator[ShellCommand]:
    """The known commands, and calls that are open although something of their command lives."""
    commands = dict(world.commands)
    for call in world.calls.values():
        if isinstance(call.intent, ShellIntent) and call.call_id not in commands:
            intent = call.intent
            commands[call.call_id] = BackgroundCommand(
                call.call_id, intent.command, intent.cwd, intent.output_directory, call.started_at
            )
    for command in commands.values():
        output = directory / command.output_directory
        if not shell.is_below(output, directory):
            continue
        in_background = command.call_id in world.commands
        try:
            found = _seen(command, output, agent_id, in_background=in_background)
        except OSError as error:
            raise storage_error(error, output, "read") from error
        if in_background or found.has_processes:
            yield found


def _seen(
    command: BackgroundCommand, output: Path, agent_id: str, *, in_background: bool
) -> ShellCommand:
    status = shell.inspect(output)
    ended = status.exit or shell.ShellExit()
    state: Literal["running", "finished", "vanished"]
    match status.state:
        case "running" | "finished":
            state = status.state
        case "vanished" | "never_started":
            state = "vanished"
    return ShellCommand(
        id=short_id(command.call_id),
        call_id=command.call_id,
        command=command.command,
        state=state,
        in_background=in_background,
        has_processes=state == "running" or status.background,
        started_at=status.start.started_at or command.started_at,
        ended_at=ended.finished_at,
        exit_code=ended.exit_code,
        ended=shell.describe_exit(status) if state == "finished" else "",
        output_bytes=status.stdout.size + status.stderr.size,
        output=str(output),
        agent_id=agent_id,
    )
