"""A home, a project and the real agent over a scripted model, with memory and instructions on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest
from tests.agent.doubles import ScriptedModel, Watch, text

import rewake
from rewake.agent.loop import Loop, RunResult
from rewake.agent.ports import Reply
from rewake.compose.agents import AgentOptions, build_agent
from rewake.compose.memory import memory_directories
from rewake.compose.place import Place, place
from rewake.log.disk import Disk
from rewake.memory.directory import MemoryDirectory
from rewake.memory.note import Note
from rewake.model.content import JsonObject, ToolCall, plain_text
from rewake.settings.schema import Settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    directory = tmp_path / "home"
    directory.mkdir()
    return directory


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    (directory / ".git").mkdir(parents=True)
    return directory


@pytest.fixture
def at(project: Path, home: Path) -> Place:
    return place(project, home)


@pytest.fixture
def memory(tmp_path: Path) -> MemoryDirectory:
    return MemoryDirectory(tmp_path / "memory", "project", Disk())


@dataclass
class Worker:
    """The real agent on one session; `said` are the texts of each request's messages."""

    session: rewake.Session
    model: ScriptedModel
    watch: Watch
    loop: Loop

    def run(self, prompt: str | None = "go") -> RunResult:
        async def guarded() -> RunResult:
            with anyio.fail_after(60):
                return await self.loop.run(prompt)

        return anyio.run(guarded)

    def said(self, number: int = -1) -> list[str]:
        return self.model.heard(number)

    def results(self) -> list[tuple[str, str, bool]]:
        return self.watch.results

    def from_source(self, source: str) -> list[str]:
        return [
            plain_text(entry.message.content)
            for entry in self.session.messages
            if entry.message.source == source
        ]

    def recalled(self) -> list[str]:
        return [
            note["name"]
            for entry in self.session.messages
            if entry.message.source == "memory" and entry.message.details is not None
            for note in entry.message.details["notes"]
        ]


@dataclass
class Workshop:
    """Makes workers; closes their sessions at the end of the test."""

    home: Path
    project: Path
    opened: list[rewake.Session] = field(default_factory=list)

    def worker(
        self,
        *answers: Reply,
        resume: str | None = None,
        settings: Settings | None = None,
        cwd: Path | None = None,
        fork: bool = False,
        context_tokens: int | None = None,
        mode: str = "bypass",
    ) -> Worker:
        session = rewake.open_session(
            self.project, home=self.home, resume=resume, fork=fork, durability="process"
        )
        self.opened.append(session)
        model = ScriptedModel(*answers, context_tokens=context_tokens)
        watch = Watch()
        loop = build_agent(
            session,
            model,
            watch,
            settings or Settings(),
            AgentOptions(permission_mode=mode),  # type: ignore[arg-type]  # tests name modes as texts
            cwd=cwd or self.project,
        )
        return Worker(session, model, watch, loop)


@pytest.fixture
def workshop(home: Path, project: Path) -> object:
    made = Workshop(home, project)
    yield made
    for session in made.opened:
        session.close()


def call(tool_name: str, /, **arguments: object) -> Reply:
    """An answer that asks for one tool."""
    given: JsonObject = dict(arguments)
    return Reply((ToolCall("call_1", tool_name, given),), "tool_use")


def keep(at: Place, name: str, description: str, body: str, **fields: str) -> None:
    """Write a note of the project's memory."""
    at.layout.create_project(at.root, at.disk, sync=False)
    memory_directories(at)["project"].write(
        Note(name, description, body, **fields),  # type: ignore[arg-type]  # texts only
        None,
    )


__all__ = ["Callable", "Worker", "Workshop", "call", "keep", "text"]
