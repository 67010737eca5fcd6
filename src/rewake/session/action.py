"""One tool call from request to outcome, so that a crash at any point leaves evidence.

The rule kept here: `started` with its intent is durable before the body runs, and the outcome is
durable when `complete` or `fail` returns. An exception inside the body is settled at once by the
evidence that a resume would use; KeyboardInterrupt, CancelledError, SystemExit and a dead process
leave the call started, for the next resume to settle. What one thread does to an action, another one
waits for: a program that is cancelled while a worker thread records can still settle the call.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

import msgspec

from rewake.errors import UsageError
from rewake.model.content import JsonObject, ResultBlock, Text
from rewake.model.events import (
    Change,
    FileChangeIntent,
    FileState,
    Intent,
    OtherIntent,
    Outcome,
    ReadOnlyIntent,
    Result,
    ShellIntent,
    ToolLifecycle,
)
from rewake.resume.evidence import Settlement

if TYPE_CHECKING:
    from rewake.session.core import Session

ResultLike = str | Result | Sequence[ResultBlock] | None


@dataclass(frozen=True, slots=True)
class FileChange:
    """The intent to take a file from `before` to `after`; None means that it is not there.

    Text is UTF-8. `mode` is the permission bits of a file that is created.
    """

    path: str | Path
    before: bytes | str | None
    after: bytes | str | None
    mode: int | None = None


IntentLike = Intent | FileChange | Sequence[FileChange] | None


@dataclass(slots=True)
class Action:
    """A call that hasn't ended. Made by `Session.action`; use it with `with` or `async with`.

    `call_id` is unique and safe as a file name; it is set from `request` on, and so are
    `message_id` and `index` where they were not given: the call of a message that this is.
    """

    session: Session
    tool_name: str
    provider_call_id: str = ""
    message_id: str | None = None
    index: int = 0
    arguments: JsonObject | None = None
    intent: IntentLike = None
    call_id: str = ""
    state: Literal["new", "requested", "started", "ended"] = "new"
    settlement: Settlement | None = None
    _intent: Intent | None = field(default=None, repr=False)
    _mutex: threading.RLock = field(default_factory=threading.RLock, repr=False, compare=False)

    def request(self) -> str:
        """Record that the call was asked for; returns `call_id`. Durable with the next barrier."""
        with self._mutex:
            if self.state == "new":
                # Two actions with one provider id must not take the same place, from any thread.
                with self.session.recorder.held():
                    if self.message_id is None:
                        self.message_id, self.index = self.session.place_of(self)
                    arguments = self.arguments if self.message_id is None else None
                    event = self.session.record(self._phase("requested", arguments=arguments))
                self.call_id = event.event_id
                self.state = "requested"
            return self.call_id

    def start(self) -> None:
        """Record the intent. It is durable on return, unless the call only reads.

        May wait for two scans of the project and for the disk: call it from a worker thread where
        there is an event loop.
        """
        with self._mutex:
            self.request()
            if self.state != "requested":
                raise UsageError(
                    f"The call {self.call_id} was started before.",
                    remedy="Make a new action for each call.",
                )
            intent = self.session.frozen_intent(self.intent)
            self._intent = intent
            self._prepare_tracking(intent)
            # A call that only reads can be repeated at will, so its intent needs no own sync.
            self.session.record(
                self._phase("started", intent=intent),
                barrier=not isinstance(intent, ReadOnlyIntent),
            )
            self.state = "started"

    def complete(self, result: ResultLike = None, *, outcome: Outcome | None = None) -> None:
        """Record that the call did what it should. Durable on return, unless it only read.

        Without `outcome`, the changes of a file intent count as made.
        """
        self._end("completed", as_result(result), outcome or self._intended_outcome())

    def fail(self, result: ResultLike = None, *, outcome: Outcome | None = None) -> None:
        """Record that the call failed; `outcome` says what it changed all the same."""
        failed = as_result(result)
        self._end("failed", Result(failed.content, is_error=True), outcome)

    def settle(self, error: BaseException) -> Settlement:
        """Settle the call by evidence after `error` inside it; the verdict is durable on return."""
        with self._mutex:
            settlement = self.session.settle_action(self, self._intent, error)
            self.session.record(
                self._phase(
                    "resolved",
                    outcome=settlement.outcome,
                    result=settlement.result,
                    resolution=settlement.resolution,
                ),
                barrier=True,
            )
            self.settlement = settlement
            self._has_ended()
            return settlement

    def cut_short(self, error: BaseException, told: str) -> Settlement | None:
        """End whatever of the call is still open; nothing of it may still be running.

        A call that had started is settled after `error`; one that hadn't is recorded as failed with
        `told`. Durable on return. None where no settlement was needed.
        """
        with self._mutex:
            if self.state == "started":
                return self.settle(error)
            if self.state == "requested":
                self.fail(told)
            return None

    def _end(
        self, status: Literal["completed", "failed"], result: Result, outcome: Outcome | None
    ) -> None:
        with self._mutex:
            self.request()
            if self.state == "ended":
                raise UsageError(
                    f"The call {self.call_id} has ended already.",
                    remedy="Call complete or fail once.",
                )
            only_reads = self._intent is None or isinstance(self._intent, ReadOnlyIntent)
            if not self._goes_on(status):
                outcome = self._with_changes(outcome)
            elif self.session.tracker is not None:
                self.session.tracker.goes_on(self.call_id)
            phase = self._phase(status, outcome=outcome, result=result)
            self.session.record(phase, barrier=not only_reads)
            self._has_ended()

    def _has_ended(self) -> None:
        tracker, was = self.session.tracker, self.state
        self.state = "ended"
        if tracker is not None and was == "started":
            tracker.recorded(self.call_id)

    @property
    def is_tracked(self) -> bool:
        """Whether the call may change files that its intent doesn't name.

        A sub-agent's own calls are tracked, so that the call which began it needn't be.
        """
        return isinstance(self._intent, ShellIntent | OtherIntent)

    def _goes_on(self, status: str) -> bool:
        """Whether the end of the call is not the end of what it does: what changes is found later."""
        intent = self._intent
        return status == "completed" and isinstance(intent, ShellIntent) and intent.background

    def _prepare_tracking(self, intent: Intent) -> None:
        tracker = self.session.tracker
        if tracker is None:
            return
        if self.is_tracked:
            tracker.before(self.call_id)
        elif isinstance(intent, FileChangeIntent):
            tracker.expect(self.call_id, intent.changes)

    def _with_changes(self, outcome: Outcome | None) -> Outcome | None:
        tracker = self.session.tracker
        if tracker is None or self.state != "started":
            return outcome
        if self.is_tracked:
            return tracker.after(self.call_id, outcome or Outcome())
        return tracker.made(self.call_id, outcome) if outcome is not None else None

    def _intended_outcome(self) -> Outcome | None:
        if isinstance(self._intent, FileChangeIntent):
            return Outcome(changes=self._intent.changes)
        return None

    def _phase(
        self,
        status: Literal["requested", "started", "completed", "failed", "resolved"],
        **fields: object,
    ) -> ToolLifecycle:
        phase = ToolLifecycle(
            tool_name=self.tool_name,
            status=status,
            call_id=self.call_id,
            message_id=self.message_id,
            index=self.index,
            provider_call_id=self.provider_call_id,
        )
        return msgspec.structs.replace(phase, **fields)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.state == "ended":
            return
        if error is None:
            self.complete()
        elif isinstance(error, Exception):
            self.settle(error)

    async def __aenter__(self) -> Self:
        import anyio.to_thread  # most sessions are not async

        await anyio.to_thread.run_sync(self.start)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await exit_in_thread(self, error)


async def exit_in_thread(action: Action, error: BaseException | None) -> None:
    """Leave `async with`: what is still to be recorded is, without holding up the event loop.

    A call that is cancelled stays started, and nothing is waited for.
    """
    import anyio.to_thread  # most sessions are not async

    if action.state == "ended" or not (error is None or isinstance(error, Exception)):
        return
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(lambda: action.__exit__(None, error, None))


def as_result(value: ResultLike) -> Result:
    """A string, blocks or nothing as a result."""
    if value is None:
        return Result()
    if isinstance(value, Result):
        return value
    if isinstance(value, str):
        return Result((Text(value),))
    return Result(tuple(value))


def file_changes(changes: Sequence[FileChange], root: Path, put_all: PutAll) -> tuple[Change, ...]:
    """The recorded form of changes; their contents are kept as blobs."""
    states = [(change.mode, side) for change in changes for side in (change.before, change.after)]
    contents = [side.encode() if isinstance(side, str) else side for _, side in states]
    names = iter(put_all([data for data in contents if data is not None]))
    recorded = [
        FileState() if data is None else FileState("file", next(names), len(data), mode)
        for (mode, _), data in zip(states, contents, strict=True)
    ]
    paths = [os.path.realpath(os.path.join(root, change.path)) for change in changes]  # noqa: PTH118  # a third of pathlib's time
    return tuple(map(Change, paths, recorded[::2], recorded[1::2]))


if TYPE_CHECKING:
    from collections.abc import Callable

    PutAll = Callable[[list[bytes]], list[str]]
