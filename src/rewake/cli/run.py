"""`rewake -p`: one prompt, one answer, one exit status.

The rule kept here: the session is committed and closed before the final output is printed, because
whoever reads that output may end this process right after it.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from typing import Final

from rewake.agent.loop import RunResult
from rewake.cli.asking import asker_for
from rewake.cli.commands import sentence_of_running
from rewake.cli.jsonout import event_object, print_json
from rewake.cli.opening import Agent, open_agent, taken_up, working_directory
from rewake.cli.options import AgentChoices, OutputFormat
from rewake.cli.prompt.blockwise import BlockReporter, answers_as_blocks
from rewake.cli.prompt.keeping import keeper_at
from rewake.cli.prompting import STDIN, full_prompt
from rewake.cli.reporting import JsonReporter, TextReporter
from rewake.cli.results import result_object
from rewake.cli.resumed import sentences
from rewake.cli.running import Content, exit_code, run_prompt
from rewake.cli.settled import ask_for_trust
from rewake.cli.signals import Stopper
from rewake.errors import ExitCode, RewakeError, UncertainError, UsageError
from rewake.model.events import Event, ToolLifecycle
from rewake.session.ports import ResumeState

_REASONS: Final = {
    "max_steps": "Stopped: the limit of steps is reached.",
    "max_cost": "Stopped: the limit of cost is reached.",
    "interrupted": "Interrupted.",
    "terminated": "Stopped by SIGTERM.",
    "hangup": "Stopped by SIGHUP.",
}


@dataclass(slots=True)
class _Watcher:
    """Hears of every event once it is written."""

    streams: bool
    cut_short: list[Event] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        if self.streams:
            print_json(event_object(event))
        payload = event.payload
        resolution = payload.resolution if isinstance(payload, ToolLifecycle) else None
        is_ours = event.agent_id is None  # what sub-agents were at is in their own transcripts
        if is_ours and resolution is not None and resolution.by == "action":
            self.cut_short.append(event)


def run_once(argument: str, choices: AgentChoices, output: OutputFormat) -> int:
    """Run one prompt; returns the exit status."""
    prompt = full_prompt(argument, may_be_empty=choices.resume is not None)
    choices, where = taken_up(choices)
    ask_for_trust(choices)
    typed = "" if argument == STDIN else argument
    return asyncio.run(_run(prompt, typed, choices, output, where))


async def _run(
    prompt: str | None, typed: str, choices: AgentChoices, output: OutputFormat, where: str
) -> int:
    stopper = Stopper()
    stopper.install()
    reporter = _reporter(output)
    watcher = _Watcher(output == "stream-json")
    if where:
        reporter.note(where)
    try:
        ask = asker_for(reporter, stopper, keeper_at(working_directory(choices)))
        agent = open_agent(choices, reporter, ask=ask, on_recorded=watcher)
    except UncertainError:
        _tell_uncertain(choices, reporter)
        raise
    for sentence in agent.warnings:
        reporter.warn(sentence)
    for sentence in agent.about:
        reporter.note(sentence)
    if agent.session.resumed is not None:
        tell_resumed(agent.session.resumed, reporter)
    elif choices.fork:
        reporter.note(f"Forked {choices.resume} into {agent.session.session_id}.")
    try:
        result = await _answered(agent, prompt, typed, stopper)
    finally:
        closing = await _closed(agent)
    if closing is not None and result.error is None:
        result = RunResult("storage_error", result.response, result.usage, result.steps, closing)
    return _finish(agent, result, watcher, reporter, output)


async def _answered(agent: Agent, prompt: str | None, typed: str, stopper: Stopper) -> RunResult:
    """Run the prompt, with the files that are named in what was typed of it."""
    content: Content | None = prompt
    if prompt is not None and "@" in typed:
        from rewake.cli.prompt.mentions import with_mentions

        try:
            content = await with_mentions(agent, prompt, typed)
        except UsageError as error:
            return agent.loop.result("error", agent.session.state.world.usage, error)
    return await run_prompt(agent, content, stopper)


async def _closed(agent: Agent) -> RewakeError | None:
    """Close; an error there is the run's, unless an earlier one has been told already."""
    try:
        await agent.close()
    except RewakeError as error:
        return error
    return None


def _reporter(output: OutputFormat) -> TextReporter:
    if output == "text" and answers_as_blocks():
        return BlockReporter(streams=True)
    if output == "text":
        return TextReporter(streams=sys.stdout.isatty())
    return JsonReporter()


def tell_resumed(state: ResumeState, reporter: TextReporter) -> None:
    """Say what a session was found in; what needs attention stands out."""
    first, *rest = sentences(state)
    reporter.note(first)
    for sentence in rest:
        reporter.warn(sentence)


def _tell_uncertain(choices: AgentChoices, reporter: TextReporter) -> None:
    from rewake.compose.sessions import resume

    if choices.resume is not None:
        tell_resumed(resume(choices.resume, project=working_directory(choices)), reporter)


def _finish(
    agent: Agent,
    result: RunResult,
    watcher: _Watcher,
    reporter: TextReporter,
    output: OutputFormat,
) -> int:
    code = exit_code(result)
    if result.response and code in {ExitCode.DONE, ExitCode.UNFINISHED}:
        reporter.answer(result.response)
    if output != "text":
        kind = {"type": "result"} if output == "stream-json" else {}
        print_json({**kind, **result_object(agent, result, watcher.cut_short)})
    _tell_end(agent, result, reporter)
    return int(code)


def _tell_end(agent: Agent, result: RunResult, reporter: TextReporter) -> None:
    if result.error is not None:
        reporter.warn(f"Error: {result.error}")
    elif result.reason in _REASONS:
        reporter.warn(_REASONS[result.reason])
    for missing in result.unfinished:
        reporter.warn(f"NOT finished: {missing}")
    running = sentence_of_running(agent.session)
    if running:
        reporter.warn(running)
    if agent.session.transcript is not None:
        reporter.note(f"Session {agent.session.session_id}")
