"""One prompt from beginning to end, whatever ends it.

The rule kept here: when `run_prompt` returns, the end of the run is recorded and durable and its
calls are settled, unless nothing can be recorded any more, which the result then says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from rewake.agent.loop import Reason, RunResult
from rewake.cli.expanding import as_typed
from rewake.cli.opening import Agent
from rewake.cli.signals import Stopper
from rewake.errors import ExitCode, RewakeError, StorageError
from rewake.model.content import ContentBlock, Usage
from rewake.state.view import ViewMessage, view

_GO_ON: Final = "Go on."
Content = str | Sequence[ContentBlock]
_EXIT_CODES: Final[Mapping[Reason, ExitCode]] = {
    "done": ExitCode.DONE,
    "max_steps": ExitCode.LIMIT,
    "max_cost": ExitCode.LIMIT,
    "unfinished": ExitCode.UNFINISHED,
    "model_error": ExitCode.MODEL,
    "storage_error": ExitCode.STORAGE,
    "interrupted": ExitCode.INTERRUPTED,
    "terminated": ExitCode.TERMINATED,
    "hangup": ExitCode.HANGUP,
    "error": ExitCode.FAILED,
}


class StoppedError(RewakeError):
    """A signal came while the user was being asked; the call that waited was not executed."""


async def run_prompt(agent: Agent, prompt: Content | None, stopper: Stopper) -> RunResult:
    """Answer `prompt` (None: go on with what is there) and record how it ended."""
    try:
        return await _run_and_record(agent, prompt, stopper)
    except StorageError as error:
        return RunResult("storage_error", "", Usage(), agent.loop.steps, error)


async def _run_and_record(agent: Agent, prompt: Content | None, stopper: Stopper) -> RunResult:
    before = agent.session.state.world.usage
    try:
        result = await stopper.run(lambda: _answered(agent, prompt))
    except StorageError:
        raise
    except RewakeError as error:
        agent.loop.executor.settle_open()
        return agent.loop.result("error", before, error)
    if result is not None:
        return result
    return agent.loop.result(stopper.reason or "interrupted", before)


async def _answered(agent: Agent, prompt: Content | None) -> RunResult | None:
    # A look only: calls that sub-agents go on with must not be answered for them.
    if prompt is None and _ends_with_answer(view(agent.session.state.conversation)):
        # A request must not end with the model's own words: most providers refuse it.
        agent.session.user(_GO_ON, source="rewake")
    try:
        async with as_typed(agent, prompt) as (asked, typed):
            return await agent.loop.run(asked, typed=typed)
    except StoppedError:
        agent.loop.executor.settle_open()
        return None


def _ends_with_answer(messages: tuple[ViewMessage, ...]) -> bool:
    return not messages or messages[-1].role == "assistant"


def exit_code(result: RunResult) -> ExitCode:
    """What the process ends with after this run."""
    if result.error is not None:
        return result.error.exit_code
    return exit_code_of(result.reason)


def exit_code_of(reason: Reason) -> ExitCode:
    """The exit status that stands for the end of a run."""
    return _EXIT_CODES[reason]


def status(result: RunResult) -> str:
    """The end of a run in one word, as JSON output has it."""
    code = exit_code(result)
    if code is ExitCode.DONE:
        return "done"
    if code is ExitCode.LIMIT:
        return "limit"
    if code is ExitCode.UNFINISHED:
        return "unfinished"
    if result.reason in {"interrupted", "terminated", "hangup"}:
        return "interrupted"
    return "error"
