"""The completion gate: open todos and a failing check send the model back before a run counts as done.

The rules kept here:

- Only fresh evidence counts: a check that passed before the newest change, whoever made that change
  and in whatever run, has to be made again; one that nothing was changed after is not repeated.
- The check is a recorded call like any other: intent, outcome, changes, verdict after a crash. It runs
  without being asked for because the user's own settings name it; what forbids it still does.
- What is still missing in the end is said, never hidden behind a last answer that sounds done.
- In permission mode `plan` nothing is to be done, so nothing is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import anyio.to_thread
import msgspec

from rewake.agent.execute import Executor
from rewake.agent.permissions import Permissions
from rewake.agent.ports import Prepared, Ruling, ToolContext, ToolOutput, Unfinished
from rewake.agent.tools.bash import TIMEOUT_MS_MAX, BashTool
from rewake.model.content import JsonObject, plain_text
from rewake.model.events import ShellIntent, Verification
from rewake.resume import running
from rewake.session.core import Session
from rewake.state.text import clip

_TODOS_MAX: Final = 12
_ITEM_BYTES_MAX: Final = 200
# About a thousand tokens: the end of a check's output is where it says what is wrong.
_TAIL_LINES: Final = 60
_TAIL_CHARS: Final = 4_000


@dataclass(slots=True)
class TodoGate:
    """Sends the model back to a todo list with open items, but not twice for nothing.

    A model that has made no call since it was sent back has said what it has to say: the run ends, and
    the items are named as unfinished.
    """

    session: Session
    permissions: Permissions
    _calls_before: int = -1

    async def holds_back(self) -> str | Unfinished | None:
        if self.permissions.mode == "plan":
            return None
        todos = self.session.state.conversation.todos
        open_todos = [todo for todo in todos if todo.status in {"pending", "in_progress"}]
        if not open_todos:
            self._calls_before = -1
            return None
        shown = [
            f"- [{todo.status}] {clip(todo.content, _ITEM_BYTES_MAX)}"
            for todo in open_todos[:_TODOS_MAX]
        ]
        if len(open_todos) > _TODOS_MAX:
            shown.append(f"- … and {len(open_todos) - _TODOS_MAX} more")
        listed = "\n".join(shown)
        calls = sum(self.session.state.world.calls_ended.values())
        if calls == self._calls_before:
            self._calls_before = -1
            return Unfinished(f"Todo items are still open:\n{listed}")
        self._calls_before = calls
        return (
            f"[rewake] Todo items are still open:\n{listed}\nFinish them, or mark with TodoWrite what is "
            "done or no longer wanted. If you can't go on without the user, say so again and end."
        )


@dataclass(slots=True)
class VerifyGate:
    """Runs the check command of the settings when something was changed since it last passed."""

    session: Session
    executor: Executor
    command: str
    _bash: _CheckTool = field(init=False)

    def __post_init__(self) -> None:
        self._bash = _CheckTool(self.command)

    def is_due(self) -> bool:
        """Whether something was changed since the check last passed, or it has failed since."""
        world = self.session.state.world
        check = world.checks.get(self.command)
        if check is None:
            return world.has_changes
        return check.stale or not check.passed

    async def holds_back(self) -> str | Unfinished | None:
        if self.executor.permissions.mode == "plan" or not self.is_due():
            return None
        output = await self.check()
        if not output.is_error:
            return None
        said = _tail(plain_text(output.content))
        if output.outcome.details.get("denied"):
            return Unfinished(f"The check `{self.command}` was not run. {said}")
        return (
            f"[rewake] This is not finished: the check `{self.command}` failed. The end of what it "
            f"says:\n{said}\nMend that, then finish. The check runs again by itself."
        )

    async def check(self) -> ToolOutput:
        """Run the check, due or not; its result is on record, and in session memory, on return.

        What an earlier run of the agent has left of it is ended first. Raises StorageError.
        """
        await anyio.to_thread.run_sync(self._end_earlier)
        arguments: JsonObject = {
            "command": self.command,
            "timeout_ms": TIMEOUT_MS_MAX,
            "description": f"Check: {clip(self.command, _ITEM_BYTES_MAX)}",
        }
        allowed = Ruling("allow", "the settings name it as the check")
        return await self.executor.run_unasked(self._bash, arguments, allowed)

    def _end_earlier(self) -> None:
        """Two checks at once would be in each other's way."""
        for call in self.session.state.world.calls.values():
            intent = call.intent
            if not isinstance(intent, ShellIntent) or intent.command != self.command:
                continue
            if call.message_id is None and call.status == "running":
                directory = self.session.directory / intent.output_directory
                running.stop(directory, self.executor.context.boot_id)


class _CheckTool:
    """Bash, with the exit code as the check's result, whatever the command is called."""

    read_only = False

    def __init__(self, command: str) -> None:
        self._bash = BashTool()
        self._command = command
        self.spec = self._bash.spec

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:
        return self._bash.prepare(call_id, arguments, context)

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:
        output = await self._bash.run(prepared, context)
        verification = Verification(self._command, not output.is_error)
        outcome = msgspec.structs.replace(output.outcome, verification=verification)
        return ToolOutput(output.content, output.is_error, outcome)


def _tail(text: str) -> str:
    """The last lines of what a check says, with how it ended."""
    lines = text.rstrip("\n").split("\n")
    kept = "\n".join(lines[-_TAIL_LINES:])
    if len(kept) > _TAIL_CHARS:
        kept = kept[-_TAIL_CHARS:].partition("\n")[2] or kept[-_TAIL_CHARS:]
    return kept if len(kept) == len(text.rstrip("\n")) else f"[…]\n{kept}"
