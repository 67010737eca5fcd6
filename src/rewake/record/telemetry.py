"""Events as OpenTelemetry spans and metrics, by the semantic conventions for generative AI.

The rules kept here:

- What is told is what the transcript says, with its times, so that a recorded session gives the same
  spans as a live one.
- Each prompt is one `invoke_agent` span; the model's `chat` spans and the `execute_tool` spans are its
  children, and a sub-agent's `invoke_agent` is a child of the call that it answers.
- Words and arguments are left out unless asked for, and are redacted then.

Conventions: opentelemetry.io/docs/specs/semconv/gen-ai. They are in development there, so names may
change; those used here are `_KEYS`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from rewake.model.content import Usage
from rewake.model.events import (
    AgentEvent,
    AgentIntent,
    Checkpoint,
    Event,
    Message,
    MessageAmendment,
    RunStart,
    StateTransition,
    Terminal,
    ToolLifecycle,
)

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Span, Tracer

AGENT_NAME: Final = "rewake"
_KEYS: Final = {
    "operation": "gen_ai.operation.name",
    "provider": "gen_ai.provider.name",
    "conversation": "gen_ai.conversation.id",
    "agent_id": "gen_ai.agent.id",
    "agent_name": "gen_ai.agent.name",
    "model": "gen_ai.request.model",
    "answered_by": "gen_ai.response.model",
    "finish": "gen_ai.response.finish_reasons",
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cache_read": "gen_ai.usage.cache_read.input_tokens",
    "cache_write": "gen_ai.usage.cache_creation.input_tokens",
    "token_type": "gen_ai.token.type",
    "tool": "gen_ai.tool.name",
    "tool_type": "gen_ai.tool.type",
    "call_id": "gen_ai.tool.call.id",
    "arguments": "gen_ai.tool.call.arguments",
    "result": "gen_ai.tool.call.result",
    "input_messages": "gen_ai.input.messages",
    "output_messages": "gen_ai.output.messages",
    "error": "error.type",
}
# The bucket bounds that the conventions advise.
_TOKENS: Final = [4**power for power in range(14)]
_SECONDS: Final = [0.01 * 2**power for power in range(14)]
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_REQUESTING: Final = "requesting"
_ORDINARY: Final = frozenset({"done", "interrupted"})
_TEXT_CHARS_MAX: Final = 1 << 14

Attributes = dict[str, "str | int | float | list[str]"]


@dataclass(slots=True)
class _Agent:
    """One agent at work: its open spans, and what it used since its prompt."""

    run: Span | None = None
    chat: Span | None = None
    chat_began_ns: int = 0
    calls: dict[str, tuple[Span, int]] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    name: str = AGENT_NAME
    parent: Span | None = None
    model: str = ""


class TelemetrySink:
    """Makes spans and metrics of events. Safe for threads and for the recorders of sub-agents.

    `tracer` and `meter` are OpenTelemetry's, of whatever provider the program uses. With `content`,
    words and arguments become attributes, after `redact` took the secrets out.
    """

    def __init__(
        self,
        tracer: Tracer,
        meter: Meter,
        *,
        content: bool = False,
        redact: Callable[[object], object] = lambda value: value,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._tracer = tracer
        self._content = content
        self._redact = redact
        self._on_close = on_close
        self._mutex = threading.Lock()
        self._agents: dict[str | None, _Agent] = {None: _Agent()}
        self._newest_ns = 0
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Tokens of one model call.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="Time of one model call or one tool call.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )

    def record(self, event: Event, line: bytes) -> None:  # noqa: ARG002  # the port's signature
        with self._mutex:
            self._newest_ns = at_ns = _nanoseconds(event.timestamp)
            agent = self._agents.setdefault(event.agent_id, _Agent())
            payload = event.payload
            if isinstance(payload, RunStart):
                agent.model = payload.model or agent.model
            elif isinstance(payload, Message):
                self._message(event, agent, payload, at_ns)
            elif isinstance(payload, MessageAmendment):
                self._use(agent, payload.usage, payload.model or "")
            elif isinstance(payload, StateTransition):
                self._transition(event, agent, payload, at_ns)
            elif isinstance(payload, ToolLifecycle):
                self._tool(event, agent, payload, at_ns)
            elif isinstance(payload, AgentEvent):
                self._named(payload)
            elif isinstance(payload, Checkpoint):
                self._checkpoint(agent, payload, at_ns)
            elif isinstance(payload, Terminal):
                self._end_run(agent, at_ns, payload.reason)

    def flush(self) -> None:
        """Spans are handed on when they end."""

    def close(self) -> None:
        """End what is open, as interrupted, at the time of the newest event."""
        with self._mutex:
            for agent in reversed(self._agents.values()):
                self._end_run(agent, self._newest_ns, "interrupted")
            self._agents = {None: _Agent()}
        self._on_close()

    # --- runs ----------------------------------------------------------------------------

    def _message(self, event: Event, agent: _Agent, message: Message, at_ns: int) -> None:
        if message.role == "user":
            run = self._run(event, agent, at_ns)
            if not message.source:
                self._tell(run, "input_messages", message.content)
        elif message.role == "assistant":
            self._answered(event, agent, message, at_ns)

    def _run(self, event: Event, agent: _Agent, at_ns: int) -> Span:
        if agent.run is None:
            attributes = self._common("invoke_agent", agent) | {
                _KEYS["agent_name"]: agent.name,
                _KEYS["conversation"]: event.session_id,
            }
            if event.agent_id is not None:
                attributes[_KEYS["agent_id"]] = event.agent_id
            name = f"invoke_agent {agent.name}"
            agent.run = self._start(name, attributes, at_ns, agent.parent)
            agent.usage = Usage()
        return agent.run

    def _end_run(self, agent: _Agent, at_ns: int, reason: str) -> None:
        if agent.chat is not None:
            self._end(agent.chat, at_ns, error=reason)
            agent.chat = None
        for span, _ in agent.calls.values():
            self._end(span, at_ns, error=reason)
        agent.calls.clear()
        if agent.run is not None:
            agent.run.set_attributes(_usage(agent.usage))
            agent.run.set_attribute("rewake.terminal.reason", reason)
            self._end(agent.run, at_ns, error="" if reason in _ORDINARY else reason)
            agent.run = None

    def _named(self, payload: AgentEvent) -> None:
        if payload.agent_type:
            self._agents.setdefault(payload.agent_id, _Agent()).name = payload.agent_type

    def _checkpoint(self, agent: _Agent, payload: Checkpoint, at_ns: int) -> None:
        self._use(agent, payload.usage, "")
        if payload.kind == "compaction" and agent.run is not None:
            sizes = {"before": payload.tokens_before, "after": payload.tokens_after}
            agent.run.add_event(
                "rewake.compaction",
                {f"rewake.tokens.{name}": size for name, size in sizes.items()},
                at_ns,
            )

    # --- model calls ---------------------------------------------------------------------

    def _transition(
        self, event: Event, agent: _Agent, payload: StateTransition, at_ns: int
    ) -> None:
        if payload.from_state == _REQUESTING and agent.chat is not None:
            # Another state without an answer: the request failed.
            self._end(agent.chat, at_ns, error=payload.reason or payload.to_state)
            agent.chat = None
        if payload.to_state == _REQUESTING and agent.chat is None:
            run = self._run(event, agent, at_ns)
            attributes = self._common("chat", agent) | {_KEYS["conversation"]: event.session_id}
            agent.chat = self._start("chat", attributes, at_ns, run, "client")
            agent.chat_began_ns = at_ns

    def _answered(self, event: Event, agent: _Agent, message: Message, at_ns: int) -> None:
        run = self._run(event, agent, at_ns)
        if agent.chat is None:  # of a loop that records no requests
            agent.chat_began_ns = at_ns
            attributes = self._common("chat", agent) | {_KEYS["conversation"]: event.session_id}
            agent.chat = self._start("chat", attributes, at_ns, run, "client")
        span, agent.chat = agent.chat, None
        if message.model:
            span.set_attribute(_KEYS["answered_by"], message.model)
        if message.stop_reason:
            span.set_attribute(_KEYS["finish"], [message.stop_reason])
        if message.usage is not None:
            span.set_attributes(_usage(message.usage))
        self._tell(span, "output_messages", message.content)
        self._end(span, at_ns)
        self._measure("chat", agent, at_ns - agent.chat_began_ns, message.model)
        self._use(agent, message.usage, message.model)

    def _use(self, agent: _Agent, usage: Usage | None, answered_by: str) -> None:
        if usage is None:
            return
        agent.usage = agent.usage + usage
        attributes = self._common("chat", agent)
        if answered_by:
            attributes[_KEYS["answered_by"]] = answered_by
        for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            self._tokens.record(count, attributes | {_KEYS["token_type"]: kind})

    # --- tools ---------------------------------------------------------------------------

    def _tool(self, event: Event, agent: _Agent, payload: ToolLifecycle, at_ns: int) -> None:
        call_id = payload.call_id
        if payload.status == "requested":
            return
        if payload.status == "started":
            attributes = self._common("execute_tool", agent) | {
                _KEYS["tool"]: payload.tool_name,
                _KEYS["tool_type"]: "function",
                _KEYS["call_id"]: payload.provider_call_id or call_id,
                "rewake.call_id": call_id,
            }
            run = self._run(event, agent, at_ns)
            span = self._start(f"execute_tool {payload.tool_name}", attributes, at_ns, run)
            agent.calls[call_id] = span, at_ns
            self._tell(span, "arguments", payload.arguments)
            if isinstance(payload.intent, AgentIntent):
                child = self._agents.setdefault(payload.intent.agent_id, _Agent())
                child.parent = span
            return
        self._tool_ended(agent, payload, at_ns)

    def _tool_ended(self, agent: _Agent, payload: ToolLifecycle, at_ns: int) -> None:
        found = agent.calls.pop(payload.call_id, None)
        if found is None:
            return  # never begun, or begun in a run before
        span, began_ns = found
        error = "tool_error" if payload.status == "failed" else ""
        if payload.resolution is not None:
            span.set_attribute("rewake.verdict", payload.resolution.verdict)
            error = "interrupted"
        if payload.result is not None:
            self._tell(span, "result", payload.result.content)
        self._end(span, at_ns, error=error)
        self._measure("execute_tool", agent, at_ns - began_ns, "", payload.tool_name)

    # --- small things --------------------------------------------------------------------

    def _common(self, operation: str, agent: _Agent) -> Attributes:
        attributes: Attributes = {_KEYS["operation"]: operation}
        model = agent.model or self._agents[None].model  # an agent without one has the session's
        if model:
            provider, colon, name = model.partition(":")
            attributes[_KEYS["provider"]] = provider if colon else AGENT_NAME
            attributes[_KEYS["model"]] = name or model
        return attributes

    def _start(
        self, name: str, attributes: Attributes, at_ns: int, parent: Span | None, kind: str = ""
    ) -> Span:
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind, set_span_in_context

        if kind == "client" and _KEYS["model"] in attributes:
            name = f"{name} {attributes[_KEYS['model']]}"
        return self._tracer.start_span(
            name,
            # Without a parent of ours it is a root, whatever the program around is doing.
            set_span_in_context(parent) if parent is not None else Context(),
            SpanKind.CLIENT if kind == "client" else SpanKind.INTERNAL,
            attributes,
            start_time=at_ns,
        )

    def _end(self, span: Span, at_ns: int, *, error: str = "") -> None:
        if error:
            from opentelemetry.trace import StatusCode

            span.set_attribute(_KEYS["error"], error.partition(" ")[0].rstrip(".:") or "error")
            span.set_status(StatusCode.ERROR, error[:200] if self._content else None)
        span.end(at_ns)

    def _measure(
        self, operation: str, agent: _Agent, took_ns: int, answered_by: str, tool: str = ""
    ) -> None:
        attributes = self._common(operation, agent)
        if answered_by:
            attributes[_KEYS["answered_by"]] = answered_by
        if tool:
            attributes[_KEYS["tool"]] = tool
        self._duration.record(max(took_ns, 0) / 1e9, attributes)

    def _tell(self, span: Span, what: str, value: object) -> None:
        if self._content and value is not None:
            told = self._redact(msgspec.to_builtins(value, enc_hook=repr))
            text = json.dumps(told, ensure_ascii=False, default=repr)[:_TEXT_CHARS_MAX]
            span.set_attribute(_KEYS[what], text.encode("utf-8", "replace").decode())


def _usage(usage: Usage) -> Attributes:
    counts = {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cache_read": usage.cache_read_tokens,
        "cache_write": usage.cache_write_tokens,
    }
    return {_KEYS[name]: count for name, count in counts.items() if count}


def _nanoseconds(timestamp: str) -> int:
    """Since the epoch, exactly; the time of a damaged line is the epoch."""
    try:
        since = datetime.fromisoformat(timestamp) - _EPOCH
    except (ValueError, TypeError, OverflowError):
        return 0
    return since // timedelta(microseconds=1) * 1_000
