"""After a kill: resume the session as a user would, and compare what is claimed with what is there.

The rule kept here: what really happened is read from the project's files and the counter alone;
what is claimed is read from the transcript alone; the two are then compared, call by call.

`after_kill` looks first (one short resumed run, in which the model only says a word), compares,
then goes on to the end of the plan as a model would that believes the verdicts: it repeats what was
not applied and nothing else. A wrong verdict so shows twice, in itself and in the final files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from rewake.errors import RewakeError
from rewake.log.scan import Transcript
from rewake.model.content import JsonObject
from rewake.model.events import Checkpoint, Event, Message, StateTransition
from rewake.resume.load import load
from rewake.session.wire import anthropic_messages, openai_messages
from rewake.state.conversation import REQUESTING
from rewake.state.fold import SessionState
from rewake.state.view import ViewMessage, view
from rewake.testing import crash_plan as plans
from rewake.testing.crash_claims import (
    Claim,
    asked,
    check_claims,
    check_intents,
    claims_of,
    events_of,
)
from rewake.testing.crash_plan import CommandStep, FileStep, Step, Turn
from rewake.testing.crash_report import Report
from rewake.testing.crash_world import World
from rewake.testing.provider_rules import violations_anthropic, violations_openai

_NOT_FOUND: Final = 4
_ENDS: Final = frozenset({"completed", "failed", "resolved"})


def after_kill(world: World, *, wrapper_killed: bool = False) -> Report:
    """Resume, compare, finish; everything that isn't as promised is in the report."""
    report = Report()
    if not _look(world, report):
        return report
    check(world, report, wrapper_killed=wrapper_killed)
    if not any(problem.kind == "unloadable" for problem in report.problems):
        finish(world, report)
    return report


def _look(world: World, report: Report) -> bool:
    """One resumed run that only says a word. A session that never began is begun now."""
    report.acknowledged = len(world.acks())
    answered = _answered(world, report)
    if answered is None:
        return False
    looked = world.run(
        world.command(plans.LOOK, plans.script_to_look(answered), resume=True, output="json")
    )
    if looked.code == _NOT_FOUND and world.paths() is None:
        return _begin_again(world, report)
    result = looked.result()
    if looked.code != 0 or result.get("status") != "done":
        report.add(
            "unloadable", f"exit {looked.code}: {looked.stdout[-300:]}{looked.stderr[-500:]}"
        )
        return False
    for item in result.get("uncertain_actions", ()):
        verdict = str(item["verdict"])
        report.verdicts[verdict] = report.verdicts.get(verdict, 0) + 1
    return True


def _begin_again(world: World, report: Report) -> bool:
    if world.acks():
        report.add("lost", "events were acknowledged, but there is no transcript")
    begun = world.run(world.first())
    if begun.code != 0:
        report.add("unloadable", f"the same id can't be begun again: {begun.stderr[-500:]}")
    return begun.code == 0


def _answered(world: World, report: Report) -> int | None:
    """How many assistant messages there are: which turn a scripted model is at."""
    paths = world.paths()
    if paths is None:
        return 0
    try:
        with Transcript(paths.transcript) as reader:
            return load(reader, world.blobs(paths)).state.conversation.assistant_messages
    except (RewakeError, OSError) as error:
        report.add("unloadable", f"the transcript can't be loaded: {error}")
        return None


def finish(world: World, report: Report) -> None:
    """Go on to the end of the plan, believing the verdicts, and look at the final files."""
    paths = world.paths()
    answered = _answered(world, report)
    if paths is None or answered is None:
        return
    reached, again = _what_is_left(world, events_of(world, paths))
    if reached == 0 and again is None and answered == 0:
        prompt = plans.PROMPT
    else:
        prompt = plans.GO_ON
    script = plans.script_to_go_on(world.plan, answered, reached, again)
    ended = world.run(world.command(prompt, script, resume=True, output="json"))
    if ended.code != 0:
        report.add("unloadable", f"going on ended with {ended.code}: {ended.stderr[-500:]}")
    world.wait_for_commands()
    check(world, report, wrapper_killed=True)
    _check_files(world, report)


def _what_is_left(world: World, events: list[Event]) -> tuple[int, plans.Again | None]:
    """The turns of the plan that were asked for, and what of them is to be repeated.

    Changes of files are repeated only from the last turn: a chain can't be mended in its middle.
    """
    reached = attempts = 0
    for event in events:
        at = asked(event)
        if at is not None:
            reached, attempts = max(reached, at[0]), max(attempts, at[1])
    if reached == 0:
        return 0, None
    claims = list(claims_of(world, events))
    earlier = [step for turn in world.plan.turns[: reached - 1] for step in turn.steps]
    wanted: list[Step] = [step for step in earlier if isinstance(step, CommandStep)]
    wanted += world.plan.turns[reached - 1].steps
    missing = tuple(step for step in wanted if not _believed(world, step, claims))
    return reached, plans.Again(Turn(reached, missing), attempts + 1)


def _believed(world: World, step: Step, claims: list[Claim]) -> bool:
    """Whether a model need not repeat it: what the verdicts say, and where they don't, a look."""
    if not isinstance(step, FileStep | CommandStep):
        return True
    said = [claim.happened() for claim in claims if claim.step == step]
    if True in said or None not in said:
        return True in said
    if isinstance(step, CommandStep):
        return step.tag in {line.partition(".")[0] for line in plans.counted(world.project)}
    position = plans.position_of(world.project / step.path)
    return position is not None and position >= step.position


# --- comparing -------------------------------------------------------------------------------


def check(world: World, report: Report, *, wrapper_killed: bool) -> None:
    """Compare everything claimed so far with the world as it is now."""
    paths = world.paths()
    if paths is None:
        return
    world.wait_for_commands()
    events = events_of(world, paths)
    report.acknowledged = len(world.acks())
    check_acknowledged(world, events, report)
    check_requests(events, report)
    claims = list(claims_of(world, events))
    check_claims(world, claims, report, wrapper_killed=wrapper_killed)
    check_intents(world, claims, report)


def check_acknowledged(world: World, events: list[Event], report: Report) -> None:
    """Note every event that was acknowledged and isn't among these, as it was."""
    there = {event.event_id: event for event in events}
    for ack in world.acks():
        event = there.get(str(ack["event_id"]))
        if event is None:
            report.add("lost", f"{ack['event_type']} {ack['seq']} was acknowledged and is gone")
        elif not _is_same(ack, event):
            report.add("lost", f"{ack['event_type']} {ack['seq']} is not what was acknowledged")


def _is_same(ack: JsonObject, event: Event) -> bool:
    if (ack["parent_id"], ack["seq"]) != (event.parent_id, event.seq):
        return False
    payload = json.loads(json.dumps(msgspec.to_builtins(event.payload, enc_hook=repr)))
    return not ack["payload"] or bool(ack["payload"] == payload)


def requests_of(events: list[Event]) -> Iterator[tuple[ViewMessage, ...] | None]:
    """The requests as the fold makes them from the transcript, in order; None at a compaction."""
    state = SessionState()
    for event in events:
        state.apply(event)
        payload = event.payload
        if isinstance(payload, Checkpoint) and payload.kind == "compaction":
            yield None
        elif isinstance(payload, StateTransition) and payload.to_state == REQUESTING:
            yield view(state.conversation)


def check_requests(events: list[Event], report: Report) -> None:
    """Note every request of one transcript that a provider refuses or that rewrites the one before."""
    before: list[bytes] = []
    messages: tuple[ViewMessage, ...] = ()
    count = 0
    for request in requests_of(events):
        if request is None:
            before = []
            continue
        count += 1
        messages = request
        encoded = [msgspec.json.encode(message) for message in request]
        if encoded[: len(before)] != before:
            report.add("rewritten", f"request {count} doesn't begin with the one before it")
        before = encoded
        for sentence in refusals(request):
            report.add("refused", f"request {count}: {sentence}")
    report.requests = max(report.requests, count)
    prompt = _newest_prompt(events)
    if count and prompt not in (message.message_id for message in messages):
        report.add("refused", "the newest prompt is not in the newest request")


def _newest_prompt(events: list[Event]) -> str:
    prompts = [
        event.event_id
        for event in events
        if isinstance(event.payload, Message)
        and event.payload.role == "user"
        and not event.payload.source
    ]
    return prompts[-1] if prompts else ""


def refusals(request: tuple[ViewMessage, ...]) -> Iterator[str]:
    """What a strict provider of either protocol would say against it."""
    openai = {"model": "m", "messages": openai_messages(request), "tools": _tools("openai")}
    yield from violations_openai(openai)
    anthropic = {
        "model": "m",
        "max_tokens": 1000,
        "messages": anthropic_messages(request),
        "tools": _tools("anthropic"),
    }
    yield from violations_anthropic(anthropic)


def _tools(protocol: Literal["openai", "anthropic"]) -> list[JsonObject]:
    schema: JsonObject = {"type": "object", "properties": {}}
    names = ("Read", "Write", "Edit", "Bash", "Glob", "Grep", "TodoWrite", "Task")
    if protocol == "anthropic":
        return [{"name": name, "description": name, "input_schema": schema} for name in names]
    return [
        {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}
        for name in names
    ]


def _check_files(world: World, report: Report) -> None:
    for path, position in world.plan.chains().items():
        actual = plans.position_of(world.project / path)
        if actual != position:
            report.add("files", f"{path} is at {actual}, the plan ends at {position}")
    tags = sorted(line.partition(".")[0] for line in plans.counted(world.project))
    if tags != sorted(world.plan.tags()):
        report.add("files", f"the counter has {tags}, the plan has {sorted(world.plan.tags())}")
    leftover = [path.name for path in world.project.rglob("*") if "rewake" in path.name]
    if [name for name in leftover if name != ".rewake"]:
        report.add("files", f"temporary files were left: {leftover}")
