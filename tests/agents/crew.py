"""The real agent over a real session, with a model that knows what each type of agent says.

What a model answers depends on its transcript alone (how many answers it has given there), as with any
real model that is asked again after a crash.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import msgspec
from tests.agent.doubles import Watch, refused, text_of

import rewake
from rewake.agent.loop import Loop, RunResult
from rewake.agent.permissions import Answer, Question
from rewake.agent.ports import ModelRequest, Reply
from rewake.agent.workers import AgentProgress
from rewake.compose.agents import AgentOptions, build_agent
from rewake.compose.extensions import load_extensions
from rewake.log.layout import SessionPaths
from rewake.log.scan import Transcript
from rewake.model.content import ToolCall, plain_text
from rewake.model.events import AgentEvent, Event
from rewake.resume.load import inflate
from rewake.resume.sidechains import agent_files
from rewake.settings.schema import Agents, Settings

Says = Reply | BaseException | Callable[[ModelRequest], Awaitable[Reply]]
SESSION = "s"


def task(
    description: str, agent: str = "worker", prompt: str = "Do it.", **more: object
) -> ToolCall:
    arguments = {"description": description, "prompt": prompt, "agent": agent, **more}
    return ToolCall("call_1", "Task", arguments)


def bash(command: str, **more: object) -> ToolCall:
    return ToolCall("call_1", "Bash", {"command": command, **more})


def write(path: str, content: str) -> ToolCall:
    return ToolCall("call_1", "Write", {"file_path": path, "content": content})


def calls(*asked: ToolCall, cost: float | None = None) -> Reply:
    return Reply(tuple(asked), "tool_use", usage(cost))


def says(text: str, cost: float | None = None) -> Reply:
    return Reply((rewake.Text(text),), "end", usage(cost))


def usage(cost: float | None) -> rewake.Usage | None:
    return None if cost is None else rewake.Usage(input_tokens=10, output_tokens=1, cost_usd=cost)


class TypedModel:
    """Answers by type of agent (the main one is "") and by the number of answers given before."""

    name = "double"
    context_tokens: int | None = None

    def __init__(self, **answers: Sequence[Says]) -> None:
        self._answers = {("" if key == "main" else key): list(one) for key, one in answers.items()}
        self.requests: list[ModelRequest] = []

    async def request(self, request: ModelRequest, on_text: Callable[[str], None]) -> Reply:
        self.requests.append(request)
        assert refused(request) == []
        answers = self._answers.get(request.agent, [])
        answer: Says = answers[request.turn] if request.turn < len(answers) else says("done")
        if isinstance(answer, BaseException):
            raise answer
        reply = answer if isinstance(answer, Reply) else await answer(request)
        on_text(plain_text(reply.content))
        return reply

    async def close(self) -> None:
        """Nothing is open."""

    def heard(self, agent: str = "", number: int = -1) -> str:
        """All texts of one request of an agent of this type."""
        asked = [request for request in self.requests if request.agent == agent]
        return "\n".join(text_of(message) for message in asked[number].messages)

    def asked(self, agent: str = "") -> int:
        """How often agents of this type have asked."""
        return sum(request.agent == agent for request in self.requests)


@dataclass
class Crew:
    """One session that may be opened again and again."""

    home: Path
    project: Path
    ask: Callable[[Question], Answer] | None = None
    mode: Any = "bypass"
    agents: Agents = field(default_factory=Agents)
    max_cost_usd: float | None = None
    waits: bool = True
    durability: Any = "process"
    watch: Watch = field(default_factory=Watch)
    progress: list[AgentProgress] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.project.mkdir(exist_ok=True)

    @property
    def paths(self) -> SessionPaths:
        (directory,) = (self.home / "projects").glob("*/sessions/" + SESSION)
        return SessionPaths(directory.parents[1], SESSION)

    def open(self, *, resumes_agents: bool = True, **more: Any) -> rewake.Session:
        is_new = not list((self.home / "projects").glob(f"*/sessions/{SESSION}/transcript.jsonl"))
        return rewake.open_session(
            self.project,
            home=self.home,
            durability=self.durability,
            resume_agents=resumes_agents,
            trace=False,
            session_id=SESSION if is_new else None,
            resume=None if is_new else SESSION,
            **more,
        )

    def loop(self, session: rewake.Session, model: TypedModel) -> Loop:
        return build_agent(
            session,
            model,
            self.watch,
            Settings(agents=self.agents, max_cost_usd=self.max_cost_usd),
            AgentOptions(
                permission_mode=self.mode,
                ask=self.ask,
                waits_for_agents=self.waits,
            ),
            cwd=self.project,
            extensions=load_extensions(self.home, self.project, Settings()),
            on_agent=self.progress.append,
        )

    def run(self, model: TypedModel, prompt: str | None = "Go.", **more: Any) -> RunResult:
        """One run in a process's life: open, answer, close."""

        async def guarded() -> RunResult:
            with self.open(**more) as session, anyio.fail_after(60):
                return await self.loop(session, model).run(prompt)

        return anyio.run(guarded)

    # --- what is on record -------------------------------------------------------------------

    def events(self, agent_id: str | None = None) -> list[Event]:
        paths = self.paths
        path = paths.transcript if agent_id is None else paths.agent_transcript(agent_id)
        blobs = rewake_blobs(paths)
        with Transcript(path) as reader:
            return [inflate(item, blobs)[0] for item in reader.forward() if isinstance(item, Event)]

    def agent_ids(self) -> list[str]:
        return [path.stem for path in agent_files(self.paths.directory)]

    def ends(self, agent_id: str | None = None) -> list[tuple[str, str]]:
        """The agent lines of a transcript: status and task."""
        found = [event.payload for event in self.events(agent_id)]
        return [(one.status, one.task) for one in found if isinstance(one, AgentEvent)]

    def counted(self) -> list[str]:
        """The lines that commands have appended to the counter."""
        path = self.project / "counter"
        return path.read_text().split() if path.exists() else []


def rewake_blobs(paths: SessionPaths) -> Any:
    from rewake.log.blobs import BlobStore
    from rewake.log.disk import Disk

    return BlobStore(paths.blobs, Disk(), durable=False)


def said_of(session: rewake.Session) -> str:
    """Everything in the conversation as JSON text."""
    return msgspec.json.encode(
        [entry.message for entry in session.messages], enc_hook=repr
    ).decode()
