"""Bash: a shell command whose end is on record whether or not the agent lives to see it.

The rule kept here: the agent only starts the wrapper and waits. Output goes to files, never through
pipes, so neither the agent's death nor a process left in the background blocks or loses anything.
The protocol is docs/format.md, "Shell"; `rewake.resume.shell` reads what it leaves behind.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from rewake.agent.ports import Prepared, ToolContext, ToolInputError, ToolOutput, ToolSpec
from rewake.agent.tools import environment, shell_wrapper
from rewake.agent.tools.arguments import parse
from rewake.log.disk import Disk
from rewake.model.content import JsonObject, Text
from rewake.model.events import Outcome, ShellIntent, Verification
from rewake.resume import shell
from rewake.state.world import short_id

TIMEOUT_MS_DEFAULT: Final = 120_000
TIMEOUT_MS_MAX: Final = 600_000
BACKGROUND_TIMEOUT_MS_DEFAULT: Final = 12 * 3_600_000
# More at once than anybody has a use for; what runs is also what a session has to keep in mind.
BACKGROUND_MAX: Final = 30
OUTPUT_BYTES_MAX: Final = 64 << 20
# Linux takes 128 KiB for one argument.
_COMMAND_BYTES_MAX: Final = 100_000
# The wrapper needs half a second to end a command; a wrapper that takes longer is stuck.
_STOP_SECONDS_MAX: Final = 5

# Commands whose exit code says whether the work is right; the session memory keeps the newest.
_CHECK: Final = re.compile(
    r"(?:^|[;&|]\s*)(?:\w+=\S*\s+)*(?:(?:uv|poetry|pdm|hatch|npx|bunx)\s+(?:run\s+)?)?(?:python3?\s+-m\s+)?"
    r"(?:pytest|unittest|tox|nox|mypy|pyright|ruff\s+check|tsc|eslint|jest|vitest|ctest|rspec"
    r"|cargo\s+(?:test|check|build|clippy)|go\s+(?:test|build|vet)|make(?:\s+(?:test|check|all))?"
    r"|(?:npm|pnpm|yarn|bun)\s+(?:run\s+)?(?:test|build|lint)|mvn|gradle|\./gradlew|dotnet\s+(?:test|build))"
    r"(?=$|[\s;&|])"
)


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`description` is for the user who is asked."""

    command: str
    timeout_ms: int | None = None
    description: str = ""
    run_in_background: bool = False


@dataclass(frozen=True, slots=True)
class _Plan:
    call_id: str
    intent: ShellIntent
    timeout_ms: int


class BashTool:
    """Runs a command in the project with bash, or with sh where there is no bash."""

    read_only = False
    spec = ToolSpec(
        name="Bash",
        description=(
            "Runs a shell command in the project's directory and gives its output and exit code. "
            "Each call is a new shell: cd and variables don't carry over. There is no terminal and "
            "no input. Long output is shown with its head and tail; the rest is in a file that the "
            f"result names. The time limit is {TIMEOUT_MS_DEFAULT // 1000} s, at most "
            f"{TIMEOUT_MS_MAX // 1000} s with timeout_ms. With run_in_background it goes on after this "
            "call, for servers and long work: you get an id for BashOutput and KillShell, are told "
            "when it ends, and it survives the end of the session. Prefer Read, Grep, Glob, Edit and "
            "Write for files."
        ),
        parameters={
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command for bash -c."},
                "timeout_ms": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Milliseconds after which the command is killed. In the background "
                    f"the default is {BACKGROUND_TIMEOUT_MS_DEFAULT // 3_600_000} h, and 0 is no limit.",
                },
                "run_in_background": {
                    "type": "boolean",
                    "description": "Start the command and don't wait for it.",
                },
                "description": {
                    "type": "string",
                    "description": "What the command does, in five to ten words.",
                },
            },
            "required": ["command"],
            "additionalProperties": False,
        },
    )

    def __init__(self, output_bytes_max: int = OUTPUT_BYTES_MAX) -> None:
        self._output_bytes_max = output_bytes_max

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:
        given = parse("Bash", Arguments, arguments)
        _check_command(given.command)
        timeout_ms = _timeout_ms(given)
        if given.run_in_background:
            _check_room(context)
        intent = ShellIntent(
            given.command,
            str(context.cwd),
            f"outputs/{call_id}",
            timeout_ms,
            given.run_in_background,
        )
        where = " in the background" if given.run_in_background else ""
        return Prepared(
            intent=intent,
            subject=given.command,
            summary=given.description or f"Run{where} {_first_line(given.command)}",
            preview=given.command,
            data=_Plan(call_id, intent, timeout_ms),
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:
        plan = prepared.data
        if not isinstance(plan, _Plan):
            raise TypeError("this call was not prepared by Bash")
        directory = context.session_directory / plan.intent.output_directory
        try:
            process, report = self._start(plan, directory, context)
        except OSError as error:
            # Whoever looks later must find what this answer says: that the command never ran.
            shell.inspect(directory, claim=True)
            message = f"The command could not be started: {error}. Nothing was run."
            return ToolOutput((Text(message),), is_error=True)
        try:
            is_free = await anyio.to_thread.run_sync(_wait, report, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            # In a thread: where several commands are ended at once, their times don't add up.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_stop, process)
            raise
        except BaseException:
            _stop(process)
            raise
        if is_free:
            _reap_later(process)
        else:
            process.wait()
        if plan.intent.background:
            return _started(plan, shell.inspect(directory), directory)
        return _output(plan, shell.inspect(directory), directory)

    def _start(
        self, plan: _Plan, directory: Path, context: ToolContext
    ) -> tuple[subprocess.Popen[bytes], int]:
        """The wrapper, and the end of the pipe on which it says that it need not be waited for."""
        _reap()
        Disk().make_directory(directory)
        # Never inherited by other commands: whoever has this descriptor counts as this command.
        alive = Disk().open_lock(directory / shell.ALIVE)
        reading, writing = os.pipe()
        try:
            Disk().lock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
            command = [
                *(sys.executable, "-I", "-S", str(Path(shell_wrapper.__file__))),
                *(str(directory), plan.intent.cwd, str(plan.timeout_ms)),
                *(str(self._output_bytes_max), str(alive), str(writing)),
                *(str(int(plan.intent.background)), _shell(), plan.intent.command),
            ]
            process = subprocess.Popen(
                [os.fsencode(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment.for_command(os.environ, context.secrets, plan.intent.cwd),
                cwd=directory,
                pass_fds=(alive, writing),
                start_new_session=True,
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(alive)
            os.close(writing)
        return process, reading


# Wrappers that watch over what goes on in the background: this process's children, so it has to take
# note of their end some time.
_WATCHING: Final[set[int]] = set()


def _reap_later(process: subprocess.Popen[bytes]) -> None:
    _WATCHING.add(process.pid)
    process.returncode = (
        0  # or its destructor would complain of a child that still runs, on purpose
    )


def _reap() -> None:
    for pid in tuple(_WATCHING):
        try:
            has_ended = os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:  # this is a forked copy, whose children they are not
            has_ended = True
        if has_ended:
            _WATCHING.discard(pid)


def _wait(report: int) -> bool:
    """Until the wrapper has ended (False), or says that nobody need wait for it any longer (True)."""
    try:
        return bool(os.read(report, 1))
    finally:
        os.close(report)


def _timeout_ms(given: Arguments) -> int:
    timeout_ms = given.timeout_ms
    if given.run_in_background:
        if timeout_ms is not None and timeout_ms < 0:
            raise ToolInputError("timeout_ms must be 0 (no limit) or more.")
        return BACKGROUND_TIMEOUT_MS_DEFAULT if timeout_ms is None else timeout_ms
    if timeout_ms is None:
        return TIMEOUT_MS_DEFAULT
    if not 0 < timeout_ms <= TIMEOUT_MS_MAX:
        raise ToolInputError(
            f"timeout_ms must be between 1 and {TIMEOUT_MS_MAX}. Start what takes longer with "
            "run_in_background and look at it later."
        )
    return timeout_ms


def _check_room(context: ToolContext) -> None:
    running = [item.short_id for item in context.commands().values() if item.state == "running"]
    if len(running) >= BACKGROUND_MAX:
        raise ToolInputError(
            f"{len(running)} commands run in the background already. End one with KillShell first: "
            f"{', '.join(running)}."
        )


def _check_command(command: str) -> None:
    if not command.strip():
        raise ToolInputError("command is empty.")
    if "\0" in command:
        raise ToolInputError("command contains a NUL character; write it without.")
    try:
        size = len(os.fsencode(command))
    except UnicodeEncodeError as error:
        raise ToolInputError(
            f"command has a character that is no valid Unicode at position {error.start}."
        ) from error
    if size > _COMMAND_BYTES_MAX:
        raise ToolInputError(
            f"command has {size} bytes, more than the system takes. Write a script with Write and "
            "run that."
        )


def _first_line(command: str) -> str:
    return command.strip().split("\n", 1)[0][:200]


def _shell() -> str:
    return "/bin/bash" if Path("/bin/bash").exists() else shutil.which("bash") or "/bin/sh"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Have the wrapper end the command and everything it started, and wait for that.

    Blocks: whoever cancels must not go on while the command still changes files.
    """
    process.terminate()
    try:
        process.wait(_STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _started(plan: _Plan, status: shell.ShellStatus, directory: Path) -> ToolOutput:
    """What is said of a command that goes on by itself. It may have ended by now; that is told next."""
    if status.state == "never_started":
        raise ShellLostError(f"The wrapper of the command ended before it began; see {directory}.")
    command_id = short_id(plan.call_id)
    hours = f"{plan.timeout_ms / 3_600_000:.3g} h"
    limit = f"It is ended after {hours}." if plan.timeout_ms else "It has no time limit."
    text = (
        f"Started in the background as {command_id}. {limit} You will be told when it ends. Read what "
        f"it writes with BashOutput, end it with KillShell. Its output is in {directory}."
    )
    details: JsonObject = {
        "output_directory": plan.intent.output_directory,
        "in_background": True,
        "command_id": command_id,
    }
    return ToolOutput((Text(text),), outcome=Outcome(details=details))


def _output(plan: _Plan, status: shell.ShellStatus, directory: Path) -> ToolOutput:
    if status.state != "finished":
        raise ShellLostError(
            f"The wrapper of the command ended without a record of how the command ended "
            f"({status.state}); see {directory}."
        )
    ended = status.exit or shell.ShellExit()
    passed = ended.exit_code == 0
    output = shell.describe_output(status) or "(no output)"
    check = _CHECK.search(plan.intent.command)
    outcome = Outcome(
        exit_code=ended.exit_code,
        duration_ms=ended.duration_ms,
        verification=Verification(_first_line(plan.intent.command), passed) if check else None,
        details={
            "output_directory": plan.intent.output_directory,
            "timed_out": ended.timed_out,
            "output_limit": ended.output_limit,
            "output_bytes_dropped": ended.output_bytes_dropped,
            "background": status.background,
        },
    )
    text = f"{output}\n{shell.describe_exit(status)}"
    return ToolOutput((Text(text),), is_error=not passed, outcome=outcome)


class ShellLostError(Exception):
    """Somebody killed the wrapper; the call is settled by evidence."""
