"""The kill run with sub-agents: two side by side, one of them with an agent of its own, and a command in
the background.

The rule kept here: every command appends its own line to a counter that no tool touches, so what was
done, and how often, is read from the world alone. The model is a plan and no list of turns: asked with
a conversation, it wants the first step that the results don't say is done. So it repeats what a verdict
says was not applied, as a model would do that believes it, and nothing else.

In the end everything was done once, whoever was killed when, and every request of every agent is one
that strict providers accept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from rewake.agent.ports import ModelRequest, Reply
from rewake.doctor.check import check as examine
from rewake.doctor.subject import Subject
from rewake.log.disk import Disk
from rewake.log.layout import AgentPaths, SessionPaths
from rewake.model.content import Text, ToolCall, ToolResult, plain_text
from rewake.model.events import Event
from rewake.resume.sidechains import agent_files
from rewake.state.view import ViewMessage
from rewake.state.world import World as Fold
from rewake.testing import crash_plan as plans
from rewake.testing.crash_check import check_acknowledged, check_requests, refusals
from rewake.testing.crash_claims import events_of
from rewake.testing.crash_kill import Kill, Outcome, die
from rewake.testing.crash_plan import COUNTER, Plan
from rewake.testing.crash_report import Report
from rewake.testing.crash_world import World

PRELUDE: Final = "import rewake.testing.crash_agents as crash_agents\ncrash_agents.install()"
_BACKGROUND: Final = "sleep 0.05; "
_NOT_DONE: Final = ("NOT", "could not be prepared", "was not executed")
_GIVEN_UP: Final = "was interrupted after"


def _command(tag: str, prefix: str = "", **more: object) -> ToolCall:
    return ToolCall("call_1", "Bash", {"command": f"{prefix}echo {tag} >> {COUNTER}", **more})


def _task(name: str, agent: str) -> ToolCall:
    return ToolCall("call_1", "Task", {"description": name, "prompt": "Do it.", "agent": agent})


# By type of agent, the main one first: steps, each a list of calls that are asked for together.
STEPS: Final[dict[str, list[list[ToolCall]]]] = {
    "": [
        [_command("beside", _BACKGROUND, run_in_background=True)],
        [_task("one", "worker"), _task("two", "verifier")],
        [_command("main")],
    ],
    "worker": [
        [_command("worker-1")],
        [
            ToolCall("call_1", "Write", {"file_path": "worker.txt", "content": "first\n"}),
            _command("worker-2"),
        ],
        [_task("below", "explorer")],
        [_command("worker-3")],
    ],
    "verifier": [[_command("verifier-1")], [_command("verifier-2")]],
    "explorer": [[ToolCall("call_1", "Glob", {"pattern": "*.txt"})]],
}
COUNTED: Final = ["beside", "main", "verifier-1", "verifier-2", "worker-1", "worker-2", "worker-3"]
_LAST_WORDS: Final = {"verifier": "It holds.\n\nVerdict: passed"}
_EVENTS: Final = 110
"""About what a whole run acknowledges: where a kill at a random moment may come."""


class PlannedModel:
    """The model of `STEPS`. A request that a strict provider refuses ends the program."""

    context_tokens: int | None = None

    def __init__(self, name: str = "planned") -> None:
        self.name = name

    async def request(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        """The first step that isn't done."""
        refused = list(refusals(request.messages))
        if refused:
            raise AssertionError(f"a provider would refuse this request: {refused}")
        for step in STEPS[request.agent]:
            left = [call for call in step if not is_done(request.messages, call)]
            if left:
                return Reply(tuple(left), "tool_use", model=self.name)
        said = _LAST_WORDS.get(request.agent, "Done.")
        on_text(said)
        return Reply((Text(said),), "end", model=self.name)

    async def close(self) -> None:
        """Nothing is held open."""


def is_done(messages: tuple[ViewMessage, ...], wanted: ToolCall) -> bool:
    """Whether some answer says that a call has happened."""
    blocks = [block for message in messages for block in message.content]
    asked = {
        block.provider_call_id
        for block in blocks
        if isinstance(block, ToolCall) and block.arguments == wanted.arguments
    }
    results = [
        plain_text(block.content)
        for block in blocks
        if isinstance(block, ToolResult) and block.provider_call_id in asked
    ]
    if any(_GIVEN_UP in result for result in results):
        raise AssertionError(f"a sub-agent was given up although it could go on: {results}")
    return any(not any(word in result for word in _NOT_DONE) for result in results)


def install() -> None:
    """Have this process take the plan for every scripted model."""
    from rewake.agent.providers import script

    def planned(path: object) -> PlannedModel:
        return PlannedModel(f"script:{path}")

    script.ScriptModel = planned  # type: ignore[assignment,misc]  # only in the program that is to be killed


# --- killing it ------------------------------------------------------------------------------


def new_world(world_at: Callable[[Plan], World]) -> World:
    """The surroundings of one kill."""
    world = world_at(Plan(()))
    world.prelude = PRELUDE
    return world


def random_places(count: int, draw: Callable[[int], int]) -> Iterator[Kill]:
    """Kills at moments all over a run."""
    for number in range(count):
        first, last = _EVENTS * number // count, _EVENTS * (number + 1) // count
        yield Kill("random", number=first + draw(max(last - first, 1)), after_seconds=0.0)


def try_kill(world: World, kill: Kill, again: Kill | None = None) -> Outcome:
    """Kill a run this way (and the resume after it in the way `again`), then let it go on to the end."""
    hit = die(world, kill)
    report = Report()
    if again is not None and world.paths() is not None:
        _die_again(world, again)
    if _go_on(world, report):
        _check(world, report)
    return Outcome(kill, hit, report)


def _die_again(world: World, kill: Kill) -> None:
    world.crash_point = f"{kill.call}:{kill.number}"
    try:
        world.run(_resume(world))
    finally:
        world.crash_point = ""


def _resume(world: World) -> list[str]:
    return world.command(plans.GO_ON, "", resume=True, output="json")


def _go_on(world: World, report: Report) -> bool:
    """One run that ends by itself, resumed or (if nothing had begun) begun anew."""
    command = world.first() if world.paths() is None else _resume(world)
    if world.paths() is None and world.acks():
        report.add("lost", "events were acknowledged, but there is no transcript")
    ended = world.run(command)
    if ended.code != 0:
        report.add("unloadable", f"exit {ended.code}: {ended.stdout[-300:]}{ended.stderr[-700:]}")
    for item in ended.result().get("uncertain_actions", ()):
        verdict = str(item["verdict"])
        report.verdicts[verdict] = report.verdicts.get(verdict, 0) + 1
    return ended.code == 0


# --- what must be so in the end --------------------------------------------------------------


def _check(world: World, report: Report) -> None:
    paths = world.paths()
    if paths is None:
        report.add("unloadable", "there is no transcript after a run that ended by itself")
        return
    world.wait_for_commands()
    report.acknowledged = len(world.acks())
    _check_world(world, report)
    transcripts = [events_of(world, paths), *_of_agents(world, paths)]
    check_acknowledged(world, [event for events in transcripts for event in events], report)
    for events in transcripts:
        check_requests(events, report)
        _check_ids(events, report)
    _check_fold(transcripts[0], report)
    found = examine(Subject.of(paths, Disk()), Disk(), deep=True)
    for one in (found, *found.agents):
        for finding in one.findings:
            if finding.severity == "error":
                report.add("unloadable", f"{finding.path}: {finding.kind}: {finding.detail}")


def _of_agents(world: World, paths: SessionPaths) -> Iterator[list[Event]]:
    for path in agent_files(paths.directory):
        yield events_of(world, AgentPaths.of(paths, path.stem))


def _check_world(world: World, report: Report) -> None:
    counted = sorted(plans.counted(world.project))
    if counted != COUNTED:
        report.add("files", f"the counter has {counted}, the plan {COUNTED}")
    written = world.project / "worker.txt"
    if not written.exists() or written.read_text() != "first\n":
        report.add("files", "worker.txt is not what the plan leaves")


def _check_ids(events: list[Event], report: Report) -> None:
    ids = [event.event_id for event in events]
    if ids != sorted(set(ids)):
        report.add("lost", "ids do not rise in a transcript")


def _check_fold(events: list[Event], report: Report) -> None:
    fold = Fold()
    for event in events:
        fold.apply(event)
    if fold.open_agents:
        report.add("unsettled", f"agents without an end: {sorted(fold.open_agents)}")
    open_tasks = [call for call in fold.calls.values() if call.tool_name == "Task"]
    if open_tasks:
        report.add("unsettled", f"calls of agents without an end: {len(open_tasks)}")
