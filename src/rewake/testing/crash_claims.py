"""What a transcript says of each call of the plan, against what the files and the counter say.

The rule kept here: a call's truth is read from the world alone. A file at position 7 of its chain
has had changes 1 to 7 and no other; a line in the counter is one run of one attempt of a command.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rewake.log.layout import SessionPaths
from rewake.log.scan import Transcript
from rewake.model.content import ToolCall, plain_text
from rewake.model.events import Event, Message, ToolLifecycle
from rewake.resume.load import inflate
from rewake.testing import crash_plan as plans
from rewake.testing.crash_plan import CommandStep, FileStep, Step
from rewake.testing.crash_report import Report
from rewake.testing.crash_world import World

_ENDS: Final = frozenset({"completed", "failed", "resolved"})


@dataclass(frozen=True, slots=True)
class Claim:
    """What the transcript says of one call: how it ended, or that it hasn't."""

    call_id: str
    turn: int
    attempt: int
    step: Step
    started: bool
    status: str
    verdict: str
    is_error: bool

    def happened(self) -> bool | None:
        """Whether it is said to have taken effect; None where nothing is claimed."""
        if self.status == "resolved":
            return {"applied": True, "not_applied": False}.get(self.verdict)
        if self.status in {"completed", "failed"}:
            return not self.is_error
        return None


def events_of(world: World, paths: SessionPaths) -> list[Event]:
    """Every readable event of the transcript, whole."""
    blobs = world.blobs(paths)
    with Transcript(paths.transcript) as reader:
        return [inflate(item, blobs)[0] for item in reader.forward() if isinstance(item, Event)]


def asked(event: Event) -> tuple[int, int] | None:
    """Which turn of the plan an assistant message is, at which attempt; None for other events."""
    payload = event.payload
    if not isinstance(payload, Message) or payload.role != "assistant":
        return None
    return plans.turn_and_attempt(plain_text(payload.content))


def claims_of(world: World, events: list[Event]) -> Iterator[Claim]:
    """What the transcript says of each call of the plan: its newest word."""
    steps: dict[tuple[str, int], tuple[int, int, Step]] = {}
    words: dict[tuple[str, int], list[ToolLifecycle]] = {}
    ids: dict[tuple[str, int], str] = {}
    for event in events:
        at = asked(event)
        if at is not None and isinstance(event.payload, Message):
            for index, step in enumerate(_steps_of(world, event.payload, at[1])):
                steps[event.event_id, index] = (*at, step)
                words[event.event_id, index] = []
        if isinstance(event.payload, ToolLifecycle) and event.payload.message_id is not None:
            key = (event.payload.message_id, event.payload.index)
            words.setdefault(key, []).append(event.payload)
            if event.payload.status == "requested":
                ids[key] = event.event_id
    for key, (turn, attempt, step) in steps.items():
        said = words[key]
        last = said[-1] if said else None
        yield Claim(
            call_id=ids.get(key, ""),
            turn=turn,
            attempt=attempt,
            step=step,
            started=any(word.status == "started" for word in said),
            status=last.status if last is not None else "",
            verdict=last.resolution.verdict if last is not None and last.resolution else "",
            is_error=bool(last is not None and last.result is not None and last.result.is_error),
        )


def _steps_of(world: World, message: Message, attempt: int) -> list[Step]:
    """The plan's steps behind the calls of one message, found by what the calls say."""
    calls = [block for block in message.content if isinstance(block, ToolCall)]
    scripted = {
        json.dumps(plans.call_of(step, attempt)["arguments"], sort_keys=True): step
        for step in world.plan.steps()
    }
    return [scripted[json.dumps(call.arguments, sort_keys=True)] for call in calls]


def check_claims(
    world: World, claims: list[Claim], report: Report, *, wrapper_killed: bool
) -> None:
    """Note every call without an end, and every end that isn't what the world says.

    A kill of the agent alone never leaves a command unknown; `wrapper_killed` allows it.
    """
    ran = plans.counted(world.project)
    for claim in claims:
        if claim.status not in _ENDS:
            report.add("unsettled", f"{_name(claim)} has no end and no verdict")
            continue
        if isinstance(claim.step, FileStep):
            _check_change(world, claim, claim.step, report)
        elif isinstance(claim.step, CommandStep):
            times = ran.count(plans.line_of(claim.step, claim.attempt))
            _check_command(claim, times, report, wrapper_killed=wrapper_killed)


def _check_change(world: World, claim: Claim, step: FileStep, report: Report) -> None:
    position = plans.position_of(world.project / step.path)
    happened = claim.happened()
    if position is None:
        report.add("files", f"{step.path} is at no position of its chain")
    elif happened is None:
        report.add("unsettled", f"{_name(claim)}: {claim.verdict}, although the file tells")
    elif happened and position < step.position:
        report.add("verdict", f"{_name(claim)}: said to be applied, the file is at {position}")
    elif not happened and position >= step.position and not _repeated(world, claim):
        report.add("verdict", f"{_name(claim)}: said not to be applied, the file is at {position}")


def _repeated(world: World, claim: Claim) -> bool:
    """Whether a later attempt made the change, so that the file says nothing of this one."""
    paths = world.paths()
    if paths is None:
        return False
    return any(
        other.step == claim.step and other.attempt > claim.attempt and other.happened()
        for other in claims_of(world, events_of(world, paths))
    )


def _check_command(claim: Claim, times: int, report: Report, *, wrapper_killed: bool) -> None:
    happened = claim.happened()
    if times > 1:
        report.add("files", f"{_name(claim)} ran {times} times")
    if happened is None:
        if claim.verdict == "unknown" and not wrapper_killed:
            report.add("unsettled", f"{_name(claim)}: unknown, although its wrapper lived")
    elif happened != bool(times):
        said = "applied" if happened else "not applied"
        report.add("verdict", f"{_name(claim)}: said to be {said}, it ran {times} times")


def check_intents(world: World, claims: list[Claim], report: Report) -> None:
    """Every effect that is there was announced."""
    announced = {(claim.step, claim.attempt) for claim in claims if claim.started}
    for line in plans.counted(world.project):
        tag, _, attempt = line.partition(".")
        if not any(
            isinstance(step, CommandStep) and step.tag == tag and number == int(attempt)
            for step, number in announced
        ):
            report.add("intent", f"command {line} ran without a recorded intent")
    started = {step for step, _ in announced}
    for step in world.plan.steps():
        if not isinstance(step, FileStep) or step in started:
            continue
        position = plans.position_of(world.project / step.path)
        if position is not None and position >= step.position:
            report.add("intent", f"{step.path} {step.position} was written without an intent")


def _name(claim: Claim) -> str:
    step = claim.step
    what = step.path if isinstance(step, FileStep) else getattr(step, "tag", "")
    return f"turn {claim.turn} attempt {claim.attempt} {what}".rstrip()
