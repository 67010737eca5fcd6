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

import anyio.to_thread
import msgspec

from rewake.agent.ports import Prepared, ToolContext, ToolInputError, ToolOutput, ToolSpec
from rewake.agent.tools import environment, shell_wrapper
from rewake.agent.tools.arguments import parse
from rewake.log.disk import Disk
from rewake.model.content import JsonObject, Text
from rewake.model.events import Outcome, ShellIntent, Verification
from rewake.resume import shell

TIMEOUT_MS_DEFAULT: Final = 120_000
TIMEOUT_MS_MAX: Final = 600_000
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


@dataclass(frozen=True, slots=True)
class _Plan:
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
            f"{TIMEOUT_MS_MAX // 1000} s with timeout_ms. Prefer Read, Grep, Glob, Edit and Write "
            "for files."
        ),
        parameters={
            "type": "object",
            "properties": {
                "command": {"type": "string", "description": "The command for bash -c."},
                "timeout_ms": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": TIMEOUT_MS_MAX,
                    "description": "Milliseconds after which the command is killed.",
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
        timeout_ms = TIMEOUT_MS_DEFAULT if given.timeout_ms is None else given.timeout_ms
        if not 0 < timeout_ms <= TIMEOUT_MS_MAX:
            raise ToolInputError(
                f"timeout_ms must be between 1 and {TIMEOUT_MS_MAX}. Start what takes longer in the "
                "background (nohup … &) and look at it later."
            )
        intent = ShellIntent(given.command, str(context.cwd), f"outputs/{call_id}", timeout_ms)
        return Prepared(
            intent=intent,
            subject=given.command,
            summary=given.description or f"Run {_first_line(given.command)}",
            preview=given.command,
            data=_Plan(intent, timeout_ms),
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:
        plan = prepared.data
        if not isinstance(plan, _Plan):
            raise TypeError("this call was not prepared by Bash")
        directory = context.session_directory / plan.intent.output_directory
        try:
            process = self._start(plan, directory, context)
        except OSError as error:
            # Whoever looks later must find what this answer says: that the command never ran.
            shell.inspect(directory, claim=True)
            message = f"The command could not be started: {error}. Nothing was run."
            return ToolOutput((Text(message),), is_error=True)
        try:
            await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
        except BaseException:
            _stop(process)
            raise
        return _output(plan, shell.inspect(directory), directory)

    def _start(self, plan: _Plan, directory: Path, context: ToolContext) -> subprocess.Popen[bytes]:
        Disk().make_directory(directory)
        # Never inherited by other commands: whoever has this descriptor counts as this command.
        alive = Disk().open_lock(directory / shell.ALIVE)
        try:
            Disk().lock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
            command = [
                *(sys.executable, "-I", "-S", str(Path(shell_wrapper.__file__))),
                *(str(directory), plan.intent.cwd, str(plan.timeout_ms)),
                *(str(self._output_bytes_max), str(alive), _shell(), plan.intent.command),
            ]
            return subprocess.Popen(
                [os.fsencode(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment.for_command(os.environ, context.secrets, plan.intent.cwd),
                cwd=directory,
                pass_fds=(alive,),
                start_new_session=True,
            )
        finally:
            os.close(alive)


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

    Blocks, because whoever cancels must not go on while the command still changes files.
    """
    process.terminate()
    try:
        process.wait(_STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


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
            "background": status.background,
        },
    )
    text = f"{output}\n{shell.describe_exit(status)}"
    return ToolOutput((Text(text),), is_error=not passed, outcome=outcome)


class ShellLostError(Exception):
    """Somebody killed the wrapper; the call is settled by evidence."""
