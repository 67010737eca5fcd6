"""The loop: `run` repeats `step`; a step is one model call and the tool calls that it asks for.

The rules kept here:

- Every fact is recorded before the loop acts on it; a fact that can't be recorded ends the run
  (StorageError) before the next side effect.
- The next request is made from the session's view and from nothing else.
- Whatever ends a run, its history is valid: calls that were cut short are settled at once.
- The loop is a machine of few states; `TRANSITIONS` is all of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol

import anyio
import anyio.to_thread

from rewake.agent.compaction import (
    INSTRUCTION,
    LEAVING,
    Budget,
    context_tokens,
    entry_tokens,
    is_worth_it,
    leaves_out,
    shortened,
    summary_request,
    to_keep,
    view_tokens,
)
from rewake.agent.execute import Executor
from rewake.agent.ports import (
    Attendant,
    Ending,
    Gate,
    Model,
    ModelRequest,
    News,
    Reply,
    ToolSpec,
    Unfinished,
)
from rewake.agent.titling import INSTRUCTION as TITLING
from rewake.agent.titling import title_in
from rewake.errors import ModelError, PromptTooLongError, RewakeError, StorageError
from rewake.model.content import (
    ContentBlock,
    JsonObject,
    Text,
    ToolCall,
    Usage,
    plain_text,
)
from rewake.session.core import Session
from rewake.state.text import estimate_tokens
from rewake.state.view import ViewMessage, view

State = Literal["idle", "requesting", "waiting", "compacting", "running_tools", "stopped"]
TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    "idle": frozenset({"requesting", "compacting", "stopped"}),
    "requesting": frozenset({"running_tools", "waiting", "compacting", "requesting", "stopped"}),
    "waiting": frozenset({"requesting", "stopped"}),
    # Again from itself: the one before may have been cancelled.
    "compacting": frozenset({"requesting", "waiting", "compacting", "idle", "stopped"}),
    "running_tools": frozenset({"requesting", "compacting", "stopped"}),
    "stopped": frozenset({"idle"}),
}
Reason = Literal[
    "done",
    "max_steps",
    "max_cost",
    "unfinished",
    "model_error",
    "storage_error",
    "interrupted",
    "terminated",
    "hangup",
    "error",
]

# 1, 2, 4, 8, 16 s: about half a minute in all, what providers ask for when they are overloaded.
_WAIT_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
# A provider that asks for more than this is better left to the user's own patience.
_ASKED_WAIT_S_MAX: Final = 60.0
_EMPTY_MAX: Final = 2
_CONTINUED_MAX: Final = 3
_COMPACTIONS_PER_STEP_MAX: Final = 2
# Whoever can't do what a gate asks for in three attempts won't in a fourth, which the user pays.
HELD_BACK_MAX: Final = 3
_GO_ON: Final = "[rewake] Your answer was cut off at its token limit. Go on where it stopped."


class Observer(Protocol):
    """Who watches a run: a terminal, a test. Must not raise."""

    def on_request(self) -> None:
        """The model is being asked, and nothing has come from it yet."""

    def on_text(self, text: str) -> None:
        """A piece of the answer that is being given."""

    def on_answer(self, reply: Reply) -> None:
        """The whole answer; it has been recorded."""

    def on_notice(self, text: str) -> None:
        """A sentence for the user: a retry, a compaction."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop by itself; None never does. `max_cost_usd` is for this run."""

    max_steps: int | None = None
    max_cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended. `response` is the text of its last answer; `usage` what this run used.

    `unfinished` is what gates still found missing when the model ended for the last time.
    """

    reason: Reason
    response: str
    usage: Usage
    steps: int
    error: RewakeError | None = None
    unfinished: tuple[str, ...] = ()


@dataclass(slots=True)
class Loop:
    """One agent at work on one session. Everything it needs is handed in.

    A sub-agent has its type as `agent`. `company` is around a run: what works beside it ends with it.
    `cost_beside` is what sub-agents have cost that isn't in the session's usage yet (US dollars), and
    `is_over_above` whether the run that this one belongs to has reached its limit.
    """

    session: Session
    model: Model
    executor: Executor
    system: str
    observer: Observer
    limits: Limits = field(default_factory=Limits)
    compact_at_tokens: int | None = None
    attendants: tuple[Attendant, ...] = ()
    gates: tuple[Gate, ...] = ()
    endings: tuple[Ending, ...] = ()
    # Records what must stand before a prompt (the instructions that apply).
    briefing: Callable[[], None] | None = None
    held_back_max: int = HELD_BACK_MAX
    agent: str = ""
    company: Callable[[], AbstractAsyncContextManager[object]] = nullcontext
    cost_beside: Callable[[], float] = lambda: 0.0
    is_over_above: Callable[[], bool] = lambda: False
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    state: State = "idle"
    steps: int = 0
    _continued: int = 0
    _held_back: list[int] = field(default_factory=list)
    _unfinished: list[str] = field(default_factory=list)
    _response: str = ""
    _before: Usage = field(default_factory=Usage)

    @property
    def response(self) -> str:
        """The text of the newest answer of this run."""
        return self._response

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told of the tools."""
        return tuple(tool.spec for tool in self.executor.tools.values())

    async def run(
        self, prompt: str | Sequence[ContentBlock] | None, *, typed: str = ""
    ) -> RunResult:
        """Answer one prompt (None: go on with what is there), with as many steps as it takes.

        What a person typed is the first block of a prompt; files and images may follow it.

        The prompt is durable before anything happens but what `briefing` records. Cancelled, or ended
        by an error that is none of its reasons, it settles what was cut short and leaves a valid
        history; the caller then records why with `result`. `typed` is what the user typed for the
        prompt, if that differs.
        """
        self._before = before = self.session.state.world.usage
        self.steps = 0
        self._continued = 0
        self._held_back = [0] * len(self.gates)
        self._unfinished = []
        self._response = ""
        if prompt is not None:
            if self.briefing is not None:
                self.briefing()
            self.session.user(prompt, typed=typed)
        try:
            if prompt is None or isinstance(prompt, str):
                text = prompt
            else:
                text = plain_text(tuple(prompt[:1]))
            async with self.company():
                reason, error = await self._repeat(text)
        except (anyio.get_cancelled_exc_class(), Exception):
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.executor.settle_open)
            raise
        return self.result(reason, before, error)

    async def end(self, reason: str) -> None:
        """Let what works beside the loop come to its end. Call it before the session is closed."""
        endings, self.endings = self.endings, ()
        for ending in endings:
            await ending(reason)

    def result(self, reason: Reason, before: Usage, error: RewakeError | None = None) -> RunResult:
        """Record the end of the run and tell how it went."""
        if not isinstance(error, StorageError):
            self._enter("stopped", reason)
            details: JsonObject = {"error": str(error)} if error is not None else {}
            if self._unfinished:
                details["unfinished"] = self._unfinished
            self.session.terminal(reason, details)
        unfinished = tuple(self._unfinished)
        return RunResult(reason, self._response, self._used(before), self.steps, error, unfinished)

    async def _repeat(self, prompt: str | None) -> tuple[Reason, RewakeError | None]:
        try:
            for attendant in self.attendants:
                await attendant.on_prompt(prompt)
            while True:
                if self.limits.max_steps is not None and self.steps >= self.limits.max_steps:
                    return "max_steps", None
                if self.is_over():
                    return "max_cost", None
                if await self.step() and not await self._is_held_back():
                    return ("unfinished" if self._unfinished else "done"), None
        except StorageError as error:
            return "storage_error", error
        except ModelError as error:
            return "model_error", error

    async def step(self) -> bool:
        """One model call and its tool calls; True when the model has nothing more to do.

        Raises ModelError when the model can't answer, StorageError when a fact can't be kept.
        """
        self.steps += 1
        await self._attend()
        budget = self._budget("budget")
        conversation = self.session.state.conversation
        if self.tokens() >= budget.compact_at and is_worth_it(conversation, budget):
            await self.compact("budget")
            await self._attend()  # what a compaction left out may be needed still
        reply = await self._answered()
        message_id = self._record(reply)
        self._response = plain_text(reply.content)
        self.observer.on_answer(reply)
        calls = [block for block in reply.content if isinstance(block, ToolCall)]
        if calls:
            self._enter("running_tools")
            await self.executor.run(message_id, calls)
            return False
        if reply.stop_reason == "length" and self._continued < _CONTINUED_MAX:
            self._continued += 1
            self.session.user(_GO_ON, source="rewake")
            return False
        return True

    async def _attend(self) -> None:
        for attendant in self.attendants:
            await attendant.before_request()

    async def _is_held_back(self) -> bool:
        """Whether a gate sends the model back to work; the model is told why.

        Each gate does so at most `held_back_max` times in a run, news aside; what is then still
        missing is what the run ends with.
        """
        self._unfinished = []
        for index, gate in enumerate(self.gates):
            missing = await gate.holds_back()
            if missing is None:
                continue
            if isinstance(missing, Unfinished):
                self._unfinished.append(missing.reason)
            elif isinstance(missing, News):
                return self._sends_back(missing.text)
            elif self._held_back[index] >= self.held_back_max:
                self._unfinished.append(missing)
            else:
                self._held_back[index] += 1
                return self._sends_back(missing)
        return False

    def _sends_back(self, why: str) -> bool:
        self._unfinished = []
        self.session.user(why, source="rewake")
        self.observer.on_notice(why)
        return True

    # --- asking the model ----------------------------------------------------------------

    async def _answered(self) -> Reply:
        """The model's answer, through empty answers, transient errors and a prompt too long."""
        empty = waits = compactions = 0
        while True:
            self._enter("requesting")
            try:
                reply = await self._request(self.session.view())
            except PromptTooLongError:
                compactions += 1
                budget = self._budget("prompt_too_long")
                is_hopeless = not leaves_out(self.session.state.conversation, budget)
                if is_hopeless or compactions > _COMPACTIONS_PER_STEP_MAX:
                    raise
                await self.compact("prompt_too_long")
                await self._attend()
                continue
            except ModelError as error:
                if not error.retryable or waits >= len(_WAIT_S):
                    raise
                asked = min(error.retry_after_s or 0.0, _ASKED_WAIT_S_MAX)
                await self._wait(max(_WAIT_S[waits], asked), error.message)
                waits += 1
                continue
            if _says_something(reply):
                return reply
            self._record(reply)  # it says nothing to the next request, but it was paid for
            empty += 1
            if empty > _EMPTY_MAX:
                raise ModelError(
                    f"The model gave an empty answer {empty} times.",
                    remedy="Ask in other words or use another model.",
                )

    def _record(self, reply: Reply) -> str:
        return self.session.assistant(
            reply.content,
            usage=reply.usage,
            model=reply.model,
            stop_reason=reply.stop_reason,
            provider=reply.provider,
        )

    async def _request(
        self, messages: tuple[ViewMessage, ...], on_text: Callable[[str], None] | None = None
    ) -> Reply:
        request = ModelRequest(
            system=self.system,
            messages=messages,
            tools=self.specs,
            turn=self.session.state.conversation.assistant_messages,
            agent=self.agent,
        )
        self.observer.on_request()
        return await self.model.request(request, on_text or self.observer.on_text)

    async def _wait(self, seconds: float, why: str) -> None:
        self._enter("waiting", why)
        self.observer.on_notice(f"{why} Trying again in {seconds:g} s.")
        await self.sleep(seconds)

    # --- compaction ----------------------------------------------------------------------

    def _fixed_tokens(self) -> int:
        tools = sum(estimate_tokens(f"{spec.description}{spec.parameters}") for spec in self.specs)
        return estimate_tokens(self.system) + tools

    def tokens(self) -> int:
        """How large the next request would be now, in tokens: measured where known, else estimated."""
        return context_tokens(self.session.state.conversation, self._fixed_tokens())

    def _budget(self, trigger: str) -> Budget:
        messages = view_tokens(view(self.session.state.conversation))
        ratio = max(self.tokens() / (self._fixed_tokens() + messages), 1.0)
        budget = Budget.of(self.model.context_tokens, self.compact_at_tokens, ratio)
        if trigger == "prompt_too_long":
            # The provider takes less than was thought, so what it refused is the measure.
            return replace(budget, compact_at=min(budget.compact_at, int(messages * ratio)))
        return budget

    async def compact(self, trigger: str) -> None:
        """Replace older messages by the model's summary of them. Durable on return."""
        budget = self._budget(trigger)
        before = self.tokens()
        was_idle = self.state == "idle"
        self._enter("compacting", trigger)
        summary, usage = await self._summary(self.session.view(), INSTRUCTION)
        if not summary:
            summary = self.session.memory or "(nothing is known of the messages before this point)"
        conversation = self.session.state.conversation
        keep = to_keep(conversation, budget)
        kept = [entry for entry in conversation.entries if entry.message_id in keep]
        after = self._fixed_tokens() + estimate_tokens(summary + self.session.memory)
        self.session.checkpoint(
            summary,
            keep=keep,
            trigger=trigger,
            tokens_before=before,
            tokens_after=after + sum(entry_tokens(entry) for entry in kept),
            usage=usage,
        )
        if was_idle:
            self._enter("idle")
        self.observer.on_notice(f"The conversation was compacted ({trigger}, {before:,} tokens).")

    async def summary_of_what_is_left(self, beginning: str) -> tuple[str, Usage | None]:
        """What was done from the message that begins so on, for who goes back to before it.

        Empty where the model can't say. Nothing is recorded: the cost belongs to what follows.
        """
        messages = view(self.session.state.conversation)
        return await self._summary(messages, LEAVING.format(beginning=beginning))

    async def title(self) -> str:
        """What the model would call the conversation; empty where it can't say.

        Records what asking cost, durably; the title itself is the caller's to record.
        """
        messages = view(self.session.state.conversation)
        answer, usage = await self._summary(messages, TITLING, on_text=lambda _text: None)
        if usage is not None:
            self.session.spent(usage)
        return title_in(answer)

    async def _summary(
        self,
        messages: tuple[ViewMessage, ...],
        instruction: str,
        on_text: Callable[[str], None] | None = None,
    ) -> tuple[str, Usage | None]:
        """The model's own words on the messages and their cost; empty where it can't give any."""
        usage: Usage | None = None
        while messages:
            try:
                reply = await self._request(summary_request(messages, instruction), on_text)
            except PromptTooLongError:
                messages = shortened(messages)
                continue
            except ModelError as error:
                self.observer.on_notice(f"No answer from the model: {error.message}")
                break
            usage = reply.usage
            text = plain_text(tuple(reply.content))
            if text.strip():
                return text, usage
            break
        return "", usage

    # --- small things --------------------------------------------------------------------

    def _enter(self, state: State, reason: str = "") -> None:
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"the loop can't go from {self.state} to {state}")
        self.session.transition(self.state, state, reason)
        self.state = "idle" if state == "stopped" else state

    def _used(self, before: Usage) -> Usage:
        now = self.session.state.world.usage
        costs = (now.cost_usd, before.cost_usd or 0.0)
        return Usage(
            now.input_tokens - before.input_tokens,
            now.output_tokens - before.output_tokens,
            now.cache_read_tokens - before.cache_read_tokens,
            now.cache_write_tokens - before.cache_write_tokens,
            costs[0] - costs[1] if costs[0] is not None else None,
        )

    def is_over(self) -> bool:
        """Whether this run, with the sub-agents at work for it, has cost as much as it may."""
        limit = self.limits.max_cost_usd
        is_known = self._used(self._before).cost_usd is not None or self.cost_beside() > 0
        if limit is not None and is_known and self.cost_usd() >= limit:
            return True
        return self.is_over_above()

    def cost_usd(self) -> float:
        """What this run has cost so far, with the sub-agents at work for it; 0 without prices."""
        return (self._used(self._before).cost_usd or 0.0) + self.cost_beside()


def _says_something(reply: Reply) -> bool:
    return any(
        isinstance(block, ToolCall) or (isinstance(block, Text) and block.text.strip())
        for block in reply.content
    )
