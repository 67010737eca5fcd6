"""Sub-agents at work: started, watched, waited for, stopped, and taken up again after a crash.

The rules kept here:

- An agent is a loop over a session of its own. What it does is recorded there; here is only that it
  began and what came of it, and both are on record before anybody is told.
- Whatever ends the run ends its agents: what they were doing is settled, their transcripts are valid,
  and each can go on later from where it stopped.
- What an earlier run left at work goes on before the first request, in the same transcripts; what was
  done is not done again.
- The end of an agent in the background is told to the model once, in a message.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from rewake.agent.agent_types import DEFAULT_TYPE, TASK_TOOLS, AgentType, system_prompt
from rewake.agent.execute import Executor
from rewake.agent.loop import Limits, Loop, Reason, RunResult
from rewake.agent.ports import Model, News, Tool, ToolContext, ToolOutput
from rewake.agent.providers.choose import may_come_with_a_project
from rewake.agent.tracing import TracedModel
from rewake.agent.turns import Place
from rewake.agent.verdict import VerdictGate, verdict_in
from rewake.agent.workers import AgentProgress, Assignment, Worker, came_of
from rewake.errors import RewakeError, StorageError
from rewake.model.content import JsonObject, Text, Usage
from rewake.model.events import AgentIntent, Outcome
from rewake.session.core import Session
from rewake.session.ports import AgentEnd, Agents
from rewake.state.world import AGENT_INTERRUPTED, AGENT_SOURCE, OpenAgent, OpenCall

DEPTH_MAX: Final = 2
PARALLEL_MAX: Final = 4
MAX_STEPS: Final = 50
_ENDS: Final[Mapping[Reason, AgentEnd]] = {"done": "completed", "interrupted": "interrupted"}


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for all agents of a run. `task_tools` makes the tools by which a loop has agents,
    `accompany` gives an agent's loop what works beside it, `open_model` opens the model that a type
    names.

    Without `waits` a run ends although agents in the background are at work; they are interrupted.
    """

    types: Mapping[str, AgentType]
    places: anyio.Semaphore
    depth_max: int = DEPTH_MAX
    max_steps: int = MAX_STEPS
    waits: bool = True
    task_tools: Callable[[Subagents], Sequence[Tool]] = lambda _agents: ()
    accompany: Callable[[Loop], None] = lambda _loop: None
    open_model: Callable[[str], Model] | None = None
    on_progress: Callable[[AgentProgress], None] = lambda _progress: None


class NotBegunError(Exception):
    """An agent that can't be given its task; the text tells the model why."""


class Subagents:
    """The sub-agents of one loop. An `Attendant` and a `Gate` of it, and what its Task tools use.

    `main` is the loop of the session itself. `place` is this loop's own place at work; None for the
    main one, which takes none.
    """

    def __init__(
        self,
        loop: Loop,
        sidechains: Agents,
        rules: Rules,
        *,
        depth: int = 0,
        main: Loop | None = None,
        place: Place | None = None,
    ) -> None:
        self.loop = loop
        self.rules = rules
        self.depth = depth
        self.workers: dict[str, Worker] = {}
        self._sidechains = sidechains
        self._main = main or loop
        self._place = place
        self._background: TaskGroup | None = None
        self._trouble: StorageError | None = None
        loop.company = self._company
        loop.cost_beside = self._cost
        loop.attendants = (*loop.attendants, self)
        loop.gates = (self, *loop.gates)

    @property
    def session(self) -> Session:
        """The session whose agents these are."""
        return self.loop.session

    # --- what the Task tools ask for -----------------------------------------------------

    def new_id(self) -> str:
        """An id that no agent has yet."""
        return self._sidechains.new_id()

    def origin(self, agent_id: str) -> tuple[AgentType | None, str]:
        """The type and the task of an agent that can go on. Raises NotBegunError."""
        if agent_id in self.workers:
            raise NotBegunError(f"The agent {agent_id} is at work already: see TaskOutput.")
        found = self._sidechains.origin(self.session, agent_id)
        if found is None:
            raise NotBegunError(f"There is no agent {agent_id!r} in this session.")
        return self.rules.types.get(found[0] or DEFAULT_TYPE), found[1]

    async def assign(self, assignment: Assignment) -> ToolOutput:
        """Give an agent its task; in the foreground also wait for what comes of it."""
        try:
            worker, model = self._hired(assignment)
            if not assignment.background:
                async with self._lent():
                    return await self._work(worker, model)
            await self._start_beside(worker, model)
        except NotBegunError as error:
            return _failure(str(error))
        said = (
            f"The agent {assignment.agent_id} works in the background. You will be told when it "
            "ends. TaskOutput says how far it is, TaskStop ends it."
        )
        return ToolOutput((Text(said),), outcome=Outcome(details={"agent_id": assignment.agent_id}))

    async def output(self, agent_id: str, *, wait: bool) -> ToolOutput:
        """How far an agent is, or what came of it; with `wait` when it has ended."""
        worker = self.workers.get(agent_id)
        if worker is not None and wait:
            async with self._lent():
                await worker.ended.wait()
            self._raise_trouble()
            worker = None
        if worker is not None:
            seen = worker.progress()
            doing = f", newest call: {seen.doing}" if seen.doing else ""
            said = (
                f"The agent {agent_id} is at work: {seen.steps} steps, {seen.calls} calls{doing}."
            )
            return ToolOutput((Text(said),))
        if self._sidechains.origin(self.session, agent_id) is None:
            return _failure(f"There is no agent {agent_id!r} in this session.")
        self._reported(agent_id)
        found = self._sidechains.look(agent_id)
        return ToolOutput((Text(came_of(found)),), is_error=found.state != "done")

    async def stop(self, agent_id: str) -> ToolOutput:
        """End an agent that is at work, and wait until it has ended."""
        worker = self.workers.get(agent_id)
        if worker is None:
            return _failure(f"No agent {agent_id!r} is at work.")
        worker.is_stopped = True
        worker.scope.cancel()
        await worker.ended.wait()
        self._raise_trouble()
        self._reported(agent_id)
        steps = f"{worker.steps} step{'s' * (worker.steps != 1)}"
        return ToolOutput((Text(f"The agent {agent_id} was stopped after {steps}."),))

    def _reported(self, agent_id: str) -> None:
        agent = self.session.state.world.open_agents.get(agent_id)
        if agent is not None and agent.background:
            self._sidechains.report(self.session, agent_id)

    # --- one agent at work ---------------------------------------------------------------

    def _hired(self, assignment: Assignment) -> tuple[Worker, Model | None]:
        """Who does it, and the model where the type names one."""
        if assignment.agent_id in self.workers:
            raise NotBegunError(f"The agent {assignment.agent_id} is at work already.")
        assignment = replace(assignment, kind=self._with_a_model_of_the_users(assignment.kind))
        model: Model | None = None
        if assignment.kind.model is not None and self.rules.open_model is not None:
            try:
                model = self.rules.open_model(assignment.kind.model)
            except RewakeError as error:
                raise NotBegunError(f"The agent's model can't be used: {error}") from error
        worker = Worker(
            assignment, self.depth + 1, self.rules.on_progress, self.loop.observer.on_notice
        )
        self.workers[assignment.agent_id] = worker
        return worker, model

    def _with_a_model_of_the_users(self, kind: AgentType) -> AgentType:
        """The type, without a model that a file of the project may not choose."""
        usual = self.loop.model.name
        if kind.model is None or not kind.is_foreign or may_come_with_a_project(kind.model, usual):
            return kind
        self.loop.observer.on_notice(
            f"The type of agents {kind.name} comes with the project, so its model {kind.model} doesn't"
            f" count; it has {usual}."
        )
        return replace(kind, model=None)

    def _begin(self, worker: Worker) -> Session:
        """The agent's session, with its prompt in it. Durable on return."""
        what = worker.assignment
        try:
            if what.resumes:
                child = self._sidechains.reopen(
                    self.session, what.agent_id, call_id=what.call_id, background=what.background
                )
            else:
                child = self._sidechains.spawn(
                    self.session,
                    task=what.task,
                    agent_type=what.kind.name,
                    agent_id=what.agent_id,
                    call_id=what.call_id,
                    model=what.kind.model or "",
                    background=what.background,
                )
        except StorageError:
            raise
        except RewakeError as error:
            raise NotBegunError(f"The agent can't be started: {error}") from error
        try:
            if what.prompt:
                child.user(what.prompt)
        except BaseException:
            child.close()
            raise
        return child

    async def _work(
        self, worker: Worker, model: Model | None, begun: Session | None = None
    ) -> ToolOutput:
        """Let an agent work to its end, in a place of its own; what the model is told of it."""
        place = Place(self.rules.places)
        worker.tell("waiting")
        try:
            with worker.scope:
                try:
                    await place.take()
                except anyio.get_cancelled_exc_class():
                    if begun is not None:
                        await self._ended(worker, begun, _never_ran(begun))
                    raise
                child = (
                    begun if begun is not None else await to_thread.run_sync(self._begin, worker)
                )
                return await self._worked(worker, child, model, place)
            return _failure("The agent was stopped.")
        finally:
            place.leave()
            self.workers.pop(worker.assignment.agent_id, None)
            worker.ended.set()
            if model is not None:
                with anyio.CancelScope(shield=True):
                    await model.close()

    async def _worked(
        self, worker: Worker, child: Session, model: Model | None, place: Place
    ) -> ToolOutput:
        loop = self._loop(worker, child, model, place)
        worker.loop = loop
        worker.tell("running")
        before = child.state.world.usage
        try:
            result = await loop.run(None)
        except StorageError:
            child.close()
            raise
        except anyio.get_cancelled_exc_class():
            await self._ended(worker, child, loop.result("interrupted", before))
            raise
        except RewakeError:  # a question that nobody answered: the run is being ended
            await self._ended(worker, child, loop.result("interrupted", before))
            raise
        except Exception as error:
            told_as = RewakeError(f"{type(error).__name__}: {error}")
            await self._ended(worker, child, loop.result("error", before, told_as))
            raise
        if isinstance(result.error, StorageError):
            child.close()
            raise result.error
        await self._ended(worker, child, result)
        return await to_thread.run_sync(self._output, worker, result)

    async def _ended(self, worker: Worker, child: Session, result: RunResult) -> None:
        """Account for what it did, whatever else is being cancelled."""
        status: AgentEnd = _ENDS.get(result.reason, "failed")
        if worker.is_stopped and status == "interrupted":
            status = "cancelled"
        why = "" if status == "completed" else str(result.error or result.reason)
        worker.loop = None  # from here on its cost is in the session's usage

        def account() -> None:
            self._sidechains.end(self.session, child, status, why)
            if worker.assignment.background:
                self.session.commit()

        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(account)
        worker.tell(status)

    def _output(self, worker: Worker, result: RunResult) -> ToolOutput:
        what = worker.assignment
        found = self._sidechains.look(what.agent_id, since=what.call_id)
        details: JsonObject = {"agent_id": what.agent_id, "steps": result.steps}
        if what.kind.gives_verdict:
            details["verdict"] = verdict_in(result.response)
        return ToolOutput(
            (Text(came_of(found)),),
            is_error=found.state != "done",
            outcome=Outcome(details=details),
        )

    def _loop(self, worker: Worker, child: Session, own: Model | None, place: Place) -> Loop:
        above, kind = self.loop, worker.assignment.kind
        executor = Executor(
            session=child,
            tools={},
            context=_context(above.executor.context, child),
            permissions=above.executor.permissions,
            observer=worker,
            guards=above.executor.guards,
            agent=f"{kind.name}: {worker.assignment.task}",
            turns=above.executor.turns,
        )
        model = own or above.model
        if isinstance(above.model, TracedModel):
            model = above.model.of_agent(worker.assignment.agent_id, own)
        loop = Loop(
            session=child,
            model=model,
            executor=executor,
            system=system_prompt(self._main.system, kind),
            observer=worker,
            limits=Limits(kind.max_steps or self.rules.max_steps),
            compact_at_tokens=above.compact_at_tokens,
            agent=kind.name,
            is_over_above=above.is_over,
            sleep=above.sleep,
        )
        self.rules.accompany(loop)
        if kind.gives_verdict:
            loop.gates = (*loop.gates, VerdictGate(loop))
        below = Subagents(
            *(loop, self._sidechains, self.rules), depth=worker.depth, main=self._main, place=place
        )
        tools = [
            tool for tool in self._main.executor.tools.values() if tool.spec.name not in TASK_TOOLS
        ]
        if below.depth < self.rules.depth_max:
            tools += self.rules.task_tools(below)
        executor.tools = {tool.spec.name: tool for tool in kind.among(tools)}
        return loop

    # --- in the background ---------------------------------------------------------------

    @asynccontextmanager
    async def _company(self) -> AsyncIterator[None]:
        """Around a run: agents in the background end with it, at the latest."""
        error: Exception | None = None
        async with anyio.create_task_group() as tasks:
            self._background = tasks
            try:
                yield
            except Exception as raised:  # noqa: BLE001  # raised below, as itself and not as a group
                error = raised
            finally:
                self._background = None
                tasks.cancel_scope.cancel()
        if error is not None:
            raise error
        self._raise_trouble()

    async def _start_beside(self, worker: Worker, model: Model | None) -> None:
        try:
            tasks = self._tasks()
            child = await to_thread.run_sync(self._begin, worker)
        except BaseException:
            del self.workers[worker.assignment.agent_id]
            raise
        tasks.start_soon(self._work_beside, worker, model, child)

    def _tasks(self) -> TaskGroup:
        if self._background is None:
            raise NotBegunError("No run is going on that an agent could work beside.")
        return self._background

    async def _work_beside(self, worker: Worker, model: Model | None, child: Session) -> None:
        try:
            await self._work(worker, model, child)
        except StorageError as error:
            self._trouble = error
        except Exception:  # noqa: BLE001  # it is in the agent's record, and the model is told
            return

    def _raise_trouble(self) -> None:
        """Stop the run where a fact of an agent beside it could not be kept; said once."""
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble

    @asynccontextmanager
    async def _lent(self) -> AsyncIterator[None]:
        if self._place is None:
            yield
        else:
            async with self._place.lent():
                yield

    def _cost(self) -> float:
        loops = [worker.loop for worker in self.workers.values()]
        return sum(loop.cost_usd() for loop in loops if loop is not None)

    # --- beside the loop -----------------------------------------------------------------

    async def on_prompt(self, prompt: str | None) -> None:  # noqa: ARG002  # the port's
        """Take up what an earlier run left at work: those in the background, then the others."""
        world = self.session.state.world
        calls = [call for call in world.calls.values() if self._is_ours(call)]
        beside = [
            agent
            for agent in world.open_agents.values()
            if agent.background and agent.recovered and agent.status == AGENT_INTERRUPTED
            if not agent.left_by
        ]
        if count := len(calls) + len(beside):
            agents = f"{count} sub-agent{'s' * (count != 1)}"
            self.loop.observer.on_notice(f"Going on with {agents} where the session was cut off.")
        for agent in beside:
            await self._go_on(agent.agent_id, agent.call_id, background=True)
        if calls:
            await self.loop.executor.take_up([(call, self._work_for(call)) for call in calls])

    def _is_ours(self, call: OpenCall) -> bool:
        """Whether it is a call of the conversation at hand that an agent was at work for."""
        entry = self.session.state.conversation.entry(call.message_id or "")
        is_open = entry is not None and entry.is_open()
        return is_open and call.status == "started" and isinstance(call.intent, AgentIntent)

    def _work_for(self, call: OpenCall) -> Callable[[], Awaitable[ToolOutput]]:
        agent_id = call.intent.agent_id if isinstance(call.intent, AgentIntent) else ""
        return partial(self._go_on, agent_id, call.call_id, background=False)

    async def _go_on(self, agent_id: str, call_id: str, *, background: bool) -> ToolOutput:
        try:
            kind, task = self.origin(agent_id)
        except NotBegunError as error:
            return _failure(str(error))
        if kind is None:
            return _failure(f"The agent {agent_id} can't go on: its type is not defined any more.")
        return await self.assign(
            Assignment(agent_id, call_id, task, "", kind, background=background, resumes=True)
        )

    async def before_request(self) -> None:
        """Tell the model which agents in the background have ended."""
        self._raise_trouble()
        for agent in self._untold():
            found = self._sidechains.look(agent.agent_id)
            task = f" ({agent.task})" if agent.task else ""
            words = f"[rewake] The background agent {agent.agent_id}{task}: {agent.status}."
            self.session.user(
                f"{words}\n\n{came_of(found)}",
                source=AGENT_SOURCE,
                # On the same line, so that none is told of twice.
                details={"agent_id": agent.agent_id},
            )

    def _untold(self) -> list[OpenAgent]:
        """Those that the conversation at hand knows of, and that are not at work any more."""
        return [
            agent
            # At once: an agent that ends is recorded in a thread of its own.
            for agent in list(self.session.state.world.open_agents.values())
            if agent.background
            and not (agent.is_at_work or agent.left_by or agent.agent_id in self.workers)
        ]

    async def holds_back(self) -> News | None:
        """Wait for the agents in the background; what they found is told with the next request."""
        if not self.rules.waits:
            return None
        beside = list(self.workers.values())
        if beside:
            async with self._lent():
                for worker in beside:
                    await worker.ended.wait()
        self._raise_trouble()
        if self._untold():
            return News(
                "[rewake] Agents that worked in the background have ended; what they say follows."
            )
        return None


def _never_ran(child: Session) -> RunResult:
    child.terminal("interrupted")
    return RunResult("interrupted", "", Usage(), 0)


def _context(above: ToolContext, child: Session) -> ToolContext:
    return replace(
        above,
        files=child,
        todos=lambda: child.state.conversation.todos,
        commands=lambda: child.state.world.commands,
        # Not the bound method: a compaction puts another conversation in its place.
        output_read=lambda command: child.state.conversation.output_read.get(command),  # noqa: PLW0108
    )


def _failure(text: str) -> ToolOutput:
    return ToolOutput((Text(text),), is_error=True)
