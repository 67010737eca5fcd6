"""`script:FILE`: a deterministic model that ships in the package, for tests, demos and bug reports.

The rule kept here: the answer depends only on `request.turn` and `request.agent`, so a resumed session goes on where it
was. The format of the file is described in `rewake.script`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

from rewake.agent.ports import ModelRequest, Reply
from rewake.errors import ModelError, PromptTooLongError
from rewake.model.content import Text, Thinking, ToolCall
from rewake.script import Script, ScriptedError, Turn, read_turns

# Characters a piece of streamed text has: small enough that a short answer comes in a few pieces.
_PIECE_CHARS = 16
_TOO_LONG_STATUSES = frozenset({400, 413})
_TOO_LONG_WORDS = ("context", "too long", "too large")
_RETRYABLE_STATUSES = frozenset({408, 409, 429})
_SERVER_ERRORS = 500


class ScriptModel:
    """The model of one script. Errors in it are counted per instance."""

    context_tokens: int | None = None

    def __init__(self, path: Path) -> None:
        self.name = f"script:{path}"
        self._turns = read_turns(path)
        self._scripts: dict[str, Script] = {}

    async def request(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        taken = self._script(request.agent).take(request.turn)
        if isinstance(taken, ScriptedError):
            raise _model_error(taken)
        if taken.delay_ms:
            await asyncio.sleep(taken.delay_ms / 1000)
        for start in range(0, len(taken.text), _PIECE_CHARS):
            if start and taken.piece_delay_ms:
                await asyncio.sleep(taken.piece_delay_ms / 1000)
            on_text(taken.text[start : start + _PIECE_CHARS])
        return Reply(tuple(_blocks(taken)), taken.stop(), taken.usage, self.name)

    def _script(self, agent: str) -> Script:
        if agent not in self._scripts:
            self._scripts[agent] = Script(self._turns, agent)
        return self._scripts[agent]

    async def close(self) -> None:
        """Nothing is held open."""


def _blocks(turn: Turn) -> Iterator[Text | Thinking | ToolCall]:
    if turn.thinking is not None:
        yield Thinking(turn.thinking.text, turn.thinking.signature)
    if turn.text:
        yield Text(turn.text)
    for call_id, call in zip(turn.call_ids(), turn.tool_calls, strict=True):
        yield ToolCall(call_id, call.name, call.arguments, call.arguments_text)


def _model_error(error: ScriptedError) -> ModelError:
    message = f"The scripted model failed with status {error.status}: {error.message}"
    lowered = error.message.lower()
    if error.status in _TOO_LONG_STATUSES and any(word in lowered for word in _TOO_LONG_WORDS):
        return PromptTooLongError(message, status=error.status)
    retryable = error.status in _RETRYABLE_STATUSES or error.status >= _SERVER_ERRORS
    return ModelError(message, status=error.status, retryable=retryable)
