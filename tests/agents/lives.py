"""Runs a session with sub-agents in processes that kill themselves at a chosen place.

It reads one JSON line per life from its input (see `Life`), forks a child that lives it (the imports
are paid once), waits for it and writes `STATUS POINTS`: how it ended (negative: the signal) and how many
crash points it came to.

The model is a plan and no list of turns: asked with a conversation, it wants the first step that the
results don't say is done. So it repeats what the verdicts say was not applied, as a real model would.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

import anyio
import msgspec
from tests.agent.doubles import refused, text_of
from tests.agents.crew import Crew, bash, calls, says, task, write

from rewake.agent.ports import ModelRequest, Reply
from rewake.log.disk import set_crash_hook
from rewake.model.content import ToolCall, ToolResult, plain_text

BACKGROUND: Final = "sleep 0.05; echo beside >> counter"
# By type of agent: steps, each a list of calls that are asked for together.
PLANS: Final[dict[str, list[list[ToolCall]]]] = {
    "": [
        [bash(BACKGROUND, run_in_background=True)],
        [task("one", "worker"), task("two", "verifier")],
        [bash("echo main >> counter")],
    ],
    "worker": [
        [bash("echo worker-1 >> counter")],
        [write("worker.txt", "first\n"), bash("echo worker-2 >> counter")],
        [task("below", "explorer")],
        [bash("echo worker-3 >> counter")],
    ],
    "verifier": [
        [bash("echo verifier-1 >> counter")],
        [bash("echo verifier-2 >> counter")],
    ],
    "explorer": [[ToolCall("call_1", "Glob", {"pattern": "*.txt"})]],
}
LAST_WORDS: Final = {"verifier": "It holds.\n\nVerdict: passed"}
COUNTED: Final = sorted(
    ["beside", "main", "worker-1", "worker-2", "worker-3", "verifier-1", "verifier-2"]
)
_NOT_DONE: Final = ("NOT", "could not be prepared", "was not executed")


class Life(msgspec.Struct):
    """`kill_at`: at which crash point to die; 0 for not at all."""

    home: str
    project: str
    kill_at: int = 0
    prompt: str | None = "Go."
    durability: str = "process"


class Planned:
    """The model of the plans; fails the life over a request that a provider would refuse."""

    name = "planned"
    context_tokens: int | None = None

    async def request(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        problems = refused(request)
        if problems:
            raise AssertionError(problems)
        for step in PLANS[request.agent]:
            left = [call for call in step if not _is_done(request, call)]
            if left:
                return calls(*left)
        return says(LAST_WORDS.get(request.agent, "Done."))

    async def close(self) -> None:
        """Nothing is open."""


def _is_done(request: ModelRequest, wanted: ToolCall) -> bool:
    """Whether some answer says that the call has happened."""
    asked = {
        block.provider_call_id
        for message in request.messages
        for block in message.content
        if isinstance(block, ToolCall) and block.arguments == wanted.arguments
    }
    results = [
        plain_text(block.content)
        for message in request.messages
        for block in message.content
        if isinstance(block, ToolResult) and block.provider_call_id in asked
    ]
    if any("interrupted after" in result for result in results):
        raise AssertionError(f"a sub-agent was given up: {results}")
    return any(not any(word in result for word in _NOT_DONE) for result in results)


def said(request: ModelRequest) -> str:
    return "\n".join(text_of(message) for message in request.messages)


class Hook:
    """Counts crash points, and dies at one."""

    def __init__(self, kill_at: int, report: int) -> None:
        self._mutex = threading.Lock()
        self._kill_at = kill_at
        self._report = report
        self.count = 0

    def __call__(self, name: str) -> None:
        with self._mutex:
            self.count += 1
            if self.count == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
                signal.pause()


def be_child(life: Life, write_end: int) -> NoReturn:
    """Live, and never return into the parent's loop."""
    status = 2
    hook = Hook(life.kill_at, write_end)
    set_crash_hook(hook)
    try:
        crew = Crew(Path(life.home), Path(life.project), durability=life.durability)
        model: Any = Planned()
        result = crew.run(model, life.prompt)
        if result.reason == "done":
            status = 0
        else:
            sys.stderr.write(f"{result}\n")
        os.write(write_end, str(hook.count).encode())
    except BaseException:  # noqa: BLE001  # a defect: shown, and the status says so
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Fork one child a line."""
    for line in sys.stdin:
        life = msgspec.json.decode(line, type=Life)
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            be_child(life, write_end)
        os.close(write_end)
        _, status = os.waitpid(pid, 0)
        points = os.read(read_end, 100).decode() or "0"
        os.close(read_end)
        print(f"{os.waitstatus_to_exitcode(status)} {points}", flush=True)  # noqa: T201  # the test reads it


if __name__ == "__main__":
    anyio.run(anyio.sleep, 0)  # what every life needs is loaded once
    main()
