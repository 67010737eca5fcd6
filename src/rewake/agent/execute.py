"""Runs the calls of one answer: prepare, permit, record the intent, do it, record the outcome.

The rules kept here: nothing is done before its intent is durable; every call ends with an outcome
or a verdict; calls that only read run side by side, all others one after the other in the order the
model asked for them, so what a call prepares for is what it finds.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Final, Protocol

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec

from rewake.agent.permissions import Denied, Permissions
from rewake.agent.ports import (
    Guard,
    Prepared,
    Ruling,
    Tool,
    ToolContext,
    ToolInputError,
    ToolOutput,
)
from rewake.agent.turns import Turns
from rewake.errors import StorageError
from rewake.model.content import JsonObject, Text, ToolCall, plain_text
from rewake.model.events import Outcome
from rewake.resume.evidence import Settlement
from rewake.session.action import Action
from rewake.session.core import Session
from rewake.state.world import OpenCall

Work = Callable[[], Awaitable[ToolOutput]]

_NS_PER_MS: Final = 1e6
_NOT_EXECUTED: Final = "This call was not executed: the run was interrupted before it."


class CallObserver(Protocol):
    """Who watches the calls. Must not raise."""

    def on_call(self, tool_name: str, prepared: Prepared) -> None:
        """A call that is about to run."""

    def on_result(
        self,
        tool_name: str,
        text: str,
        *,
        is_error: bool,
        prepared: Prepared | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        """What the model is told of a call; it has been recorded.

        `prepared` is the very object that `on_call` had, so calls that run side by side can be told
        apart; None for a call that could not be prepared. `outcome` is None unless the tool ended.
        """


class CallInterruptedError(Exception):
    """A call was cut short by the user or a signal; the verdict says what is known of it."""


@dataclass(slots=True)
class Executor:
    """The tools at hand, and the permission to use them.

    `agent` names the sub-agent whose calls these are; `turns` it shares with all others.
    """

    session: Session
    tools: Mapping[str, Tool]
    context: ToolContext
    permissions: Permissions
    observer: CallObserver
    guards: tuple[Guard, ...] = ()
    agent: str = ""
    turns: Turns = field(default_factory=Turns)
    monotonic_ns: Callable[[], int] = time.monotonic_ns
    _running: list[Action] = field(default_factory=list)

    async def run(self, message_id: str, calls: Sequence[ToolCall]) -> None:
        """Run all calls of one message. All are requested before the first one starts."""
        actions = [
            self.session.action(call, message_id=message_id, index=index)
            for index, call in enumerate(calls)
        ]
        for action in actions:
            action.request()
            self._running.append(action)
        pairs = list(zip(actions, calls, strict=True))
        for read_only, group in groupby(pairs, key=lambda pair: self._only_reads(pair[1])):
            if read_only:
                await _side_by_side([partial(self._run_one, *pair) for pair in group])
            else:
                for action, call in group:
                    await self._run_one(action, call)
        self._running.clear()

    async def take_up(self, calls: Sequence[tuple[OpenCall, Work]]) -> None:
        """Go on with calls that an earlier run had started, side by side, and record their ends."""
        pairs = [(self.session.reopened_action(call), work) for call, work in calls]
        self._running.extend(action for action, _ in pairs)
        await _side_by_side([partial(self._finish, action, work, None) for action, work in pairs])
        self._running.clear()

    async def run_unasked(self, tool: Tool, arguments: JsonObject, ruling: Ruling) -> ToolOutput:
        """Run a call that no message asked for; it ends like any other, whatever cuts it short.

        `ruling` is what a guard would say of it. A call that was refused is an error whose outcome
        has `denied` in its details. Raises StorageError.
        """
        action = self.session.action(tool.spec.name, arguments=arguments)
        action.request()
        self._running.append(action)
        try:
            prepared = await self._prepared(action, tool, arguments, ruling)
            if not isinstance(prepared, Prepared):
                return prepared
            return await self._perform(action, tool, prepared)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.settle_open)
            raise
        finally:
            if action in self._running:
                self._running.remove(action)

    def settle_open(self) -> list[Settlement]:
        """Settle by evidence every call that was cut short; none of them may still be running.

        Calls that had not started are recorded as not executed.
        """
        error = CallInterruptedError("the interruption of the run")
        cut = [action.cut_short(error, _NOT_EXECUTED) for action in self._running]
        self._running.clear()
        return [settlement for settlement in cut if settlement is not None]

    def _only_reads(self, call: ToolCall) -> bool:
        tool = self.tools.get(call.name)
        return tool is not None and tool.read_only

    async def _run_one(self, action: Action, call: ToolCall) -> None:
        tool = self.tools.get(call.name)
        if tool is None:
            self._refuse(action, f"There is no tool {call.name!r}. Tools: {', '.join(self.tools)}.")
            return
        if call.arguments_text is not None:
            self._refuse(action, "The arguments were no JSON object. Call the tool again with one.")
            return
        prepared = await self._prepared(action, tool, call.arguments)
        if isinstance(prepared, Prepared):
            await self._perform(action, tool, prepared)

    async def _prepared(
        self, action: Action, tool: Tool, arguments: JsonObject, ruling: Ruling | None = None
    ) -> Prepared | ToolOutput:
        """What may be done, or what was recorded of the call instead."""
        try:
            prepared = await anyio.to_thread.run_sync(
                tool.prepare, action.call_id, arguments, self.context
            )
        except ToolInputError as error:
            return self._refuse(action, str(error))
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001  # a tool is foreign code, and it has done nothing yet
            said = f"{type(error).__name__}: {error}"
            why = f"This call was not executed: it could not be prepared ({said})."
            return self._refuse(action, why)
        prepared = replace(prepared, call_id=action.call_id, arguments=arguments)
        for guard in self.guards:
            word = await guard.before(tool, prepared)
            if isinstance(word, str):
                return self._refuse(action, word, prepared)
            if word is not None and (ruling is None or word.decision == "ask"):
                ruling = word
        # Whoever cancels must not wait for an answer that the user may never give.
        began_ns = self.monotonic_ns()
        decision = await anyio.to_thread.run_sync(
            self.permissions.decide, tool, prepared, ruling, self.agent, abandon_on_cancel=True
        )
        self._note_time("permission", action, "waited_ms", began_ns)
        if isinstance(decision, Denied):
            return self._refuse(action, decision.reason, prepared)
        return prepared

    async def _perform(self, action: Action, tool: Tool, prepared: Prepared) -> ToolOutput:
        async with self.turns.held(prepared.serial_keys):
            action.intent = prepared.intent
            await self._start(action)
            self.observer.on_call(action.tool_name, prepared)
            return await self._finish(action, partial(self._used, action, tool, prepared), prepared)

    async def _start(self, action: Action) -> None:
        """Record that the call begins. Whoever cancels meanwhile knows that it did not."""
        try:
            await anyio.to_thread.run_sync(action.start)
            await anyio.lowlevel.checkpoint_if_cancelled()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(action.fail, _NOT_EXECUTED)
            raise

    async def _used(self, action: Action, tool: Tool, prepared: Prepared) -> ToolOutput:
        began_ns = self.monotonic_ns()
        output = await tool.run(prepared, self.context)
        self._note_time("tool", action, "duration_ms", began_ns)
        for guard in self.guards:
            output = await guard.after(tool, prepared, output)
        return output

    async def _finish(self, action: Action, work: Work, prepared: Prepared | None) -> ToolOutput:
        """Do the work of a call that has started, and record how it ended."""
        try:
            output = await work()
            with anyio.CancelScope(shield=True):  # it has been done, so it is recorded
                await anyio.to_thread.run_sync(self._record, action, prepared, output)
        except StorageError:
            # A fact could not be kept: stop here, and let the next resume settle the call.
            raise
        except Exception as error:  # noqa: BLE001  # whatever a tool raises, the evidence decides
            with anyio.CancelScope(shield=True):
                settlement = await anyio.to_thread.run_sync(action.settle, error)
            said = plain_text(settlement.result.content)
            self._tell(action, said, is_error=True, prepared=prepared)
            return ToolOutput(settlement.result.content, is_error=True, outcome=settlement.outcome)
        self._tell(
            action,
            plain_text(output.content),
            is_error=output.is_error,
            prepared=prepared,
            outcome=output.outcome,
        )
        return output

    def _record(self, action: Action, prepared: Prepared | None, output: ToolOutput) -> None:
        summary = {"summary": prepared.summary} if prepared is not None else {}
        details = {**summary, **output.outcome.details}
        outcome = msgspec.structs.replace(output.outcome, details=details)
        if output.is_error:
            action.fail(output.content, outcome=outcome)
        else:
            action.complete(output.content, outcome=outcome)

    def _note_time(self, kind: str, action: Action, what: str, began_ns: int) -> None:
        took_ms = (self.monotonic_ns() - began_ns) / _NS_PER_MS
        call: JsonObject = {"call_id": action.call_id, "tool": action.tool_name, what: took_ms}
        if self.session.agent_id is not None:
            call["agent_id"] = self.session.agent_id
        self.session.trace.note(kind, call)

    def _refuse(self, action: Action, text: str, denied: Prepared | None = None) -> ToolOutput:
        """Record that it was not executed; `denied` is what was prepared and not permitted."""
        details: JsonObject = {}
        if denied is not None:
            details = {"denied": True, "summary": denied.summary}
        action.fail(text, outcome=Outcome(details=details))
        self._tell(action, text, is_error=True, prepared=denied)
        return ToolOutput((Text(text),), is_error=True, outcome=Outcome(details=details))

    def _tell(
        self,
        action: Action,
        text: str,
        *,
        is_error: bool,
        prepared: Prepared | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        self.observer.on_result(
            action.tool_name, text, is_error=is_error, prepared=prepared, outcome=outcome
        )


async def _side_by_side(works: Sequence[Callable[[], Awaitable[object]]]) -> None:
    if len(works) == 1:
        await works[0]()
        return
    # An error of one call must come out as itself, not as a group.
    errors: list[Exception] = []

    async def guarded(work: Callable[[], Awaitable[object]]) -> None:
        try:
            await work()
        except StorageError as error:
            errors.insert(0, error)
            tasks.cancel_scope.cancel()  # nothing more is done where facts can't be kept
        except Exception as error:  # noqa: BLE001  # raised below, once the others have ended
            errors.append(error)

    async with anyio.create_task_group() as tasks:
        for work in works:
            tasks.start_soon(guarded, work)
    if errors:
        raise errors[0]
