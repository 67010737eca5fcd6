"""A model whose requests and answers are told to the trace, as they were sent and came.

The rule kept here: nothing changes for who asks. What a request repeats of the one before is told by
its count, so that a trace grows like the conversation and not like its square.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rewake.agent.ports import Model, ModelRequest, Reply, ToolSpec
from rewake.errors import ModelError
from rewake.model.content import JsonObject
from rewake.record.trace import Notes
from rewake.state.view import ViewMessage

_NS_PER_MS = 1e6


@dataclass(slots=True)
class TracedModel:
    """`model`, traced. `content` lets what was said in, not only how much and how fast."""

    model: Model
    notes: Notes
    content: bool = True
    agent_id: str | None = None
    monotonic_ns: Callable[[], int] = time.monotonic_ns
    _system: str | None = None
    _tools: tuple[ToolSpec, ...] | None = None
    _messages: tuple[ViewMessage, ...] = field(default=())

    @property
    def name(self) -> str:
        """The model's own."""
        return self.model.name

    @property
    def context_tokens(self) -> int | None:
        """The model's own."""
        return self.model.context_tokens

    async def request(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        self._note("request", self._request(request))
        began_ns = self.monotonic_ns()
        first_ns: list[int] = []

        def heard(text: str) -> None:
            if not first_ns:
                first_ns.append(self.monotonic_ns())
            on_text(text)

        def since(ended_ns: int) -> float:
            return (ended_ns - began_ns) / _NS_PER_MS

        try:
            reply = await self.model.request(request, heard)
        except ModelError as error:
            told: JsonObject = {
                "error": str(error),
                "status": error.status,
                "retryable": error.retryable,
            }
            self._note("response", {"duration_ms": since(self.monotonic_ns()), **told})
            raise
        except BaseException as error:  # an interruption too took its time, and is raised again
            told = {"error": type(error).__name__}
            self._note("response", {"duration_ms": since(self.monotonic_ns()), **told})
            raise
        timing: JsonObject = {"duration_ms": since(self.monotonic_ns())}
        if first_ns:
            timing["first_text_ms"] = since(first_ns[0])
        self._note("response", {**timing, **self._reply(reply)})
        return reply

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()

    def of_agent(self, agent_id: str, model: Model | None = None) -> TracedModel:
        """The same for a sub-agent, which may have a model of its own."""
        return TracedModel(model or self.model, self.notes, self.content, agent_id)

    def _note(self, kind: str, data: JsonObject) -> None:
        whose = {} if self.agent_id is None else {"agent_id": self.agent_id}
        self.notes.note(kind, {**whose, **data})

    def _request(self, request: ModelRequest) -> JsonObject:
        messages, before = request.messages, self._messages
        # Requests only grow between two compactions, so the last one tells whether this one goes on.
        goes_on = bool(before) and messages[len(before) - 1 : len(before)] == before[-1:]
        repeated = len(before) if goes_on else 0
        self._messages = messages
        told: JsonObject = {
            "model": self.name,
            "turn": request.turn,
            "messages": len(messages),
            "messages_repeated": repeated,
        }
        if request.max_output_tokens is not None:
            told["max_output_tokens"] = request.max_output_tokens
        if not self.content:
            return told
        told["new_messages"] = messages[repeated:]
        if request.system != self._system:
            told["system"] = self._system = request.system
        if request.tools != self._tools:
            self._tools = request.tools
            told["tools"] = request.tools
        return told

    def _reply(self, reply: Reply) -> JsonObject:
        told: JsonObject = {
            "model": reply.model,
            "stop_reason": reply.stop_reason,
            "usage": reply.usage,
        }
        if self.content:
            told["content"] = reply.content
            told["provider"] = reply.provider
        return told
