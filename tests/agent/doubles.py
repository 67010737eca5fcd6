"""A model, tools and an observer for tests of the loop; the model refuses what providers refuse."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import anyio

import rewake
from rewake.agent.execute import Executor
from rewake.agent.loop import Limits, Loop, RunResult
from rewake.agent.permissions import Permissions
from rewake.agent.ports import (
    ModelRequest,
    Prepared,
    Reply,
    Tool,
    ToolContext,
    ToolInputError,
    ToolOutput,
    ToolSpec,
)
from rewake.model.content import JsonObject, ToolCall, plain_text
from rewake.model.events import Intent, OtherIntent, Outcome, ReadOnlyIntent, StopReason
from rewake.session.wire import anthropic_messages, openai_messages
from rewake.testing.provider_rules import violations_anthropic, violations_openai

REQUESTS_MAX = 100
"""A loop that asks more often than any test here wants has run away."""

Answer = Reply | BaseException | Callable[[ModelRequest], Awaitable[Reply]]


def text(said: str, stop: StopReason = "end", usage: rewake.Usage | None = None) -> Reply:
    return Reply((rewake.Text(said),) if said else (), stop, usage)


def calls(*names_or_calls: str | ToolCall, usage: rewake.Usage | None = None) -> Reply:
    """An answer that asks for these tools, every one of them as `call_1`."""
    blocks = [
        call if isinstance(call, ToolCall) else ToolCall("call_1", call) for call in names_or_calls
    ]
    return Reply(tuple(blocks), "tool_use", usage)


def refused(request: ModelRequest) -> list[str]:
    """What either protocol's provider would refuse in this request."""
    names = [spec.name for spec in request.tools]
    used = [
        block.name
        for message in request.messages
        for block in message.content
        if isinstance(block, ToolCall)
    ]
    parameters = {"type": "object"}
    openai = {
        "model": "m",
        "messages": openai_messages(request.messages),
        "tools": [
            {"type": "function", "function": {"name": name, "parameters": parameters}}
            for name in {*names, *used, "t"}
        ],
    }
    anthropic = {
        "model": "m",
        "max_tokens": 100,
        "messages": anthropic_messages(request.messages),
        "tools": [{"name": name, "input_schema": parameters} for name in {*names, *used, "t"}],
    }
    return violations_openai(openai) + violations_anthropic(anthropic)


class ScriptedModel:
    """Answers in order, then `done`; keeps each request and fails the test over a bad one."""

    name = "double"

    def __init__(self, *answers: Answer, context_tokens: int | None = None) -> None:
        self.context_tokens = context_tokens
        self.requests: list[ModelRequest] = []
        self._answers = list(answers)

    async def request(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        self.requests.append(request)
        assert refused(request) == []
        assert len(self.requests) <= REQUESTS_MAX
        answer = self._answers.pop(0) if self._answers else text("done")
        if isinstance(answer, BaseException):
            raise answer
        reply = answer if isinstance(answer, Reply) else await answer(request)
        on_text(plain_text(reply.content))
        return reply

    async def close(self) -> None:
        """Nothing is open."""

    def heard(self, number: int = -1) -> list[str]:
        """The texts of one request's messages."""
        return [text_of(message) for message in self.requests[number].messages]


def text_of(message: rewake.ViewMessage) -> str:
    results = [block for block in message.content if isinstance(block, rewake.ToolResult)]
    return "\n".join([plain_text(message.content), *(plain_text(r.content) for r in results)])


Body = Callable[[str], Awaitable[str | ToolOutput]]


async def say_ok(call_id: str) -> str:
    return "ok"


class DoubleTool:
    """A tool whose body is a function of its call id."""

    def __init__(
        self,
        name: str,
        body: Body = say_ok,
        *,
        read_only: bool = False,
        intent: Callable[[ToolContext], Intent] | None = None,
        prepare: Callable[[JsonObject], None] | None = None,
    ) -> None:
        self.spec = ToolSpec(name, f"The tool {name}.", {"type": "object"})
        self.read_only = read_only
        self.prepared: list[str] = []
        self.ran: list[str] = []
        self._body = body
        self._intent = intent
        self._prepare = prepare

    def prepare(self, call_id: str, arguments: JsonObject, context: ToolContext) -> Prepared:
        if "bad" in arguments:
            raise ToolInputError("bad is no argument of this tool.")
        if self._prepare is not None:
            self._prepare(arguments)
        self.prepared.append(call_id)
        intent: Intent = ReadOnlyIntent() if self.read_only else OtherIntent(self.spec.name)
        if self._intent is not None:
            intent = self._intent(context)
        return Prepared(intent, self.spec.name, f"Use {self.spec.name}", data=call_id)

    async def run(self, prepared: Prepared, context: ToolContext) -> ToolOutput:
        call_id = str(prepared.data)
        self.ran.append(call_id)
        said = await self._body(call_id)
        return said if isinstance(said, ToolOutput) else ToolOutput((rewake.Text(said),))


@dataclass
class Watch:
    """An observer that remembers."""

    streamed: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    results: list[tuple[str, str, bool]] = field(default_factory=list)

    def on_request(self) -> None:
        pass

    def on_text(self, text: str) -> None:
        self.streamed.append(text)

    def on_answer(self, reply: Reply) -> None:
        pass

    def on_notice(self, text: str) -> None:
        self.notices.append(text)

    def on_call(self, tool_name: str, prepared: Prepared) -> None:
        self.called.append(tool_name)

    def on_result(
        self,
        tool_name: str,
        text: str,
        *,
        is_error: bool,
        prepared: Prepared | None = None,
        outcome: Outcome | None = None,
    ) -> None:
        self.results.append((tool_name, text, is_error))


@dataclass
class Agent:
    """A loop over a session, with the doubles around it."""

    session: rewake.Session
    model: ScriptedModel
    watch: Watch
    loop: Loop
    slept: list[float]

    def run(self, prompt: str | None = "go") -> RunResult:
        """One run to its end; a test that hangs fails."""

        async def guarded() -> RunResult:
            with anyio.fail_after(20):
                return await self.loop.run(prompt)

        return anyio.run(guarded)


def agent(
    session: rewake.Session,
    model: ScriptedModel,
    tools: Iterable[Tool] = (),
    *,
    permissions: Permissions | None = None,
    limits: Limits | None = None,
    compact_at_tokens: int | None = None,
    system: str = "Be good.",
) -> Agent:
    watch = Watch()
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    root = Path(session.root)
    executor = Executor(
        session=session,
        tools={tool.spec.name: tool for tool in tools},
        context=ToolContext(root, root, session.directory, session.blobs, session),
        permissions=permissions or Permissions("bypass"),
        observer=watch,
    )
    loop = Loop(
        session=session,
        model=model,
        executor=executor,
        system=system,
        observer=watch,
        limits=limits or Limits(),
        compact_at_tokens=compact_at_tokens,
        sleep=sleep,
    )
    return Agent(session, model, watch, loop, slept)
