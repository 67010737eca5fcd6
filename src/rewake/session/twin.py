"""The async twin: the same session for programs that run an event loop.

The rule kept here: nothing is decided twice. Each method hands the call to the session in a worker
thread, so that the event loop never waits for a disk; the recorder keeps the order of submission.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, TypeVar

import anyio
import anyio.to_thread

from rewake.model.content import ContentBlock, JsonObject, ToolCall, Usage
from rewake.model.events import Message, Outcome, StopReason
from rewake.session.action import Action, IntentLike, ResultLike, exit_in_thread
from rewake.session.core import Session
from rewake.state.view import ViewMessage

_T = TypeVar("_T")


class AsyncSession:
    """A `Session` whose methods are awaited; each makes the promise of its namesake there.

    Build it around an open session: `async with AsyncSession(rewake.open_session()) as session`.
    """

    def __init__(self, session: Session) -> None:
        self.sync = session

    async def user(
        self,
        content: str | Sequence[ContentBlock],
        *,
        source: str = "",
        typed: str = "",
        details: JsonObject | None = None,
    ) -> str:
        """See `Session.user`."""
        return await _in_thread(
            lambda: self.sync.user(content, source=source, typed=typed, details=details)
        )

    async def assistant(
        self,
        content: str | Sequence[ContentBlock],
        *,
        usage: Usage | None = None,
        model: str = "",
        stop_reason: StopReason | None = None,
        provider: JsonObject | None = None,
    ) -> str:
        """See `Session.assistant`."""
        return await _in_thread(
            lambda: self.sync.assistant(
                content, usage=usage, model=model, stop_reason=stop_reason, provider=provider
            )
        )

    async def append(self, message: Message) -> str:
        """See `Session.append`."""
        return await _in_thread(lambda: self.sync.append(message))

    async def amend(
        self, message_id: str, *, usage: Usage | None = None, stop_reason: StopReason | None = None
    ) -> None:
        """See `Session.amend`."""
        await _in_thread(lambda: self.sync.amend(message_id, usage=usage, stop_reason=stop_reason))

    async def transition(
        self, from_state: str, to_state: str, reason: str = "", details: JsonObject | None = None
    ) -> None:
        """See `Session.transition`."""
        await _in_thread(lambda: self.sync.transition(from_state, to_state, reason, details))

    async def metadata(self, **entries: object) -> None:
        """See `Session.metadata`."""
        await _in_thread(lambda: self.sync.metadata(**entries))

    async def view(self) -> tuple[ViewMessage, ...]:
        """See `Session.view`."""
        return await _in_thread(self.sync.view)

    async def checkpoint(
        self,
        summary: str,
        *,
        keep: Sequence[str] = (),
        trigger: str = "manual",
        tokens_before: int = 0,
        tokens_after: int = 0,
        usage: Usage | None = None,
    ) -> str:
        """See `Session.checkpoint`."""
        return await _in_thread(
            lambda: self.sync.checkpoint(
                summary,
                keep=keep,
                trigger=trigger,
                tokens_before=tokens_before,
                tokens_after=tokens_after,
                usage=usage,
            )
        )

    async def rewind(self, target_id: str, *, usage: Usage | None = None) -> str:
        """See `Session.rewind`."""
        return await _in_thread(lambda: self.sync.rewind(target_id, usage=usage))

    async def undo_rewind(self) -> str:
        """See `Session.undo_rewind`."""
        return await _in_thread(self.sync.undo_rewind)

    async def terminal(self, reason: str, details: JsonObject | None = None) -> None:
        """See `Session.terminal`."""
        await _in_thread(lambda: self.sync.terminal(reason, details))

    async def flush(self) -> None:
        """See `Session.flush`."""
        await _in_thread(self.sync.flush)

    async def commit(self) -> None:
        """See `Session.commit`."""
        await _in_thread(self.sync.commit)

    async def close(self) -> None:
        """See `Session.close`. Finishes even when the task is cancelled."""
        with anyio.CancelScope(shield=True):
            await _in_thread(self.sync.close)

    def action(
        self,
        call: ToolCall | str,
        call_id: str = "",
        intent: IntentLike = None,
        *,
        arguments: JsonObject | None = None,
        message_id: str | None = None,
        index: int | None = None,
    ) -> AsyncAction:
        """See `Session.action`; use it with `async with`."""
        return AsyncAction(
            self.sync.action(
                call, call_id, intent, arguments=arguments, message_id=message_id, index=index
            )
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class AsyncAction:
    """An `Action` whose outcome is awaited."""

    def __init__(self, action: Action) -> None:
        self.sync = action

    async def complete(self, result: ResultLike = None, *, outcome: Outcome | None = None) -> None:
        """See `Action.complete`."""
        await _in_thread(lambda: self.sync.complete(result, outcome=outcome))

    async def fail(self, result: ResultLike = None, *, outcome: Outcome | None = None) -> None:
        """See `Action.fail`."""
        await _in_thread(lambda: self.sync.fail(result, outcome=outcome))

    async def __aenter__(self) -> Self:
        await _in_thread(self.sync.start)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await exit_in_thread(self.sync, error)


async def _in_thread(call: Callable[[], _T]) -> _T:
    """Run a call that may wait for the disk. It is not abandoned when the task is cancelled."""
    return await anyio.to_thread.run_sync(call)
