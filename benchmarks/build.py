"""Builds transcripts through the real session, as an agent's work would write them.

The rule kept here: lines, checkpoints and compactions come from `Session`, so what is measured on
such a file is what users have; only the contents are made up.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

from benchmarks.harness import BuiltTranscript

import rewake
from rewake.model.content import Text, ToolCall
from rewake.model.events import (
    Change,
    FileChangeIntent,
    FileState,
    Message,
    Outcome,
    Result,
    StateTransition,
    ToolLifecycle,
)
from rewake.session.core import CHECKPOINT_BYTES_MAX, CHECKPOINT_EVENTS_MAX, Session

# A window of 200,000 tokens holds about this many steps of the sizes below.
_STEPS_PER_COMPACTION: Final = 250
_KEPT_MESSAGES: Final = 20
_WORDS: Final = [
    "the",
    "build",
    "of",
    "module",
    "fails",
    "when",
    "parser",
    "sees",
    "an",
    "empty",
    "line",
    "so",
    "look",
    "at",
    "tests",
    "first",
]
_SPREAD_IDS_MAX: Final = 4_000
_FILES_OF_AN_AGENT: Final = 4
_AGENTS_PER_ANSWER: Final = 4


class _Writer:
    """One session being filled. `text` gives varied prose of a length, the same in every run."""

    def __init__(self, session: Session, files: int = 97) -> None:
        self.session = session
        self._files = files
        self._left: dict[str, FileState] = {}
        self._random = random.Random(1)
        self._prose = " ".join(self._random.choice(_WORDS) for _ in range(40_000))

    def text(self, chars: int) -> str:
        start = self._random.randrange(len(self._prose) - chars)
        return self._prose[start : start + chars]

    def step(self, number: int) -> str:
        """One model call and the edit that it asked for: five lines of 1 KB on average."""
        record = self.session.record
        record(StateTransition("executing", "requesting"))
        call = ToolCall(
            "call_1",
            "Edit",
            {"file_path": f"src/module_{number % self._files}.py", "edits": [self.text(500)]},
        )
        said = Message(
            "assistant", (Text(self.text(500)), call), "some-model", rewake.Usage(9_000, 300)
        )
        message_id = record(said).event_id
        call_id = record(ToolLifecycle("Edit", "requested", message_id=message_id)).event_id
        path, digest = (
            f"/project/src/module_{number % self._files}.py",
            f"{number + 1_000_000:064x}",
        )
        before = self._left.get(
            path, FileState("file", f"{number % self._files:064x}", 4_000, 0o644)
        )
        after = self._left[path] = FileState("file", digest, 4_050, 0o644)
        change = Change(path, before, after)
        intent = FileChangeIntent((change,))
        record(ToolLifecycle("Edit", "started", call_id, message_id, intent=intent))
        result = Result((Text(self.text(700)),))
        outcome = Outcome((change,), duration_ms=3)
        record(
            ToolLifecycle("Edit", "completed", call_id, message_id, outcome=outcome, result=result)
        )
        return message_id

    def compact(self) -> None:
        kept = [entry.message_id for entry in self.session.messages[-_KEPT_MESSAGES:]]
        self.session.checkpoint(self.text(4_000), keep=kept, trigger="tokens")


def build_working_session(home: Path, size: int) -> BuiltTranscript:
    """A session that was at work for `size` bytes and was then killed at the worst moment.

    The worst moment for a resume is when the next checkpoint is almost due.
    """
    project = _project(home)
    message_ids: list[str] = []
    events = [0]
    with _open(project, home, events) as session:
        writer = _Writer(session)
        number = 0
        while True:
            if number % _STEPS_PER_COMPACTION == 0:
                if number:
                    writer.compact()
                message_ids.append(session.user(writer.text(600)))
            message_ids.append(writer.step(number))
            number += 1
            if _size(session) >= size and _checkpoint_is_near(session):
                break
        distance = max(1, len(message_ids) // _SPREAD_IDS_MAX)
        return _built(session, home, events[0], tuple(message_ids[::distance]))


def build_side_records(home: Path, messages: int, side_records: int, size: int) -> BuiltTranscript:
    """`messages` messages without a compaction, `side_records` small records among them."""
    project = _project(home)
    events = [0]
    with _open(project, home, events) as session:
        writer = _Writer(session)
        padding = max(0, size // side_records - 450)  # a line's other bytes
        for number in range(messages):
            if number % 2 == 0:
                session.record(Message("user", (Text(writer.text(600)),)))
            else:
                session.record(Message("assistant", (Text(writer.text(600)),)))
            for _ in range(side_records // messages):
                details = {"progress": writer.text(padding)}
                session.record(StateTransition("executing", "executing", "progress", details))
        return _built(session, home, events[0], ())


def build_with_agents(home: Path, agents: int, size: int) -> BuiltTranscript:
    """A session that had `agents` sub-agents, four an answer, each with `size` bytes.

    Every other one changed files (four); the others only looked.
    """
    project = _project(home)
    events = [0]
    with _open(project, home, events) as session:
        writer = _Writer(session)
        for first in range(0, agents, _AGENTS_PER_ANSWER):
            session.user(writer.text(600))
            calls = [
                ToolCall(f"call_{one}", "Task", {"description": "work", "prompt": writer.text(500)})
                for one in range(min(_AGENTS_PER_ANSWER, agents - first))
            ]
            session.assistant((Text(writer.text(300)), *calls), usage=rewake.Usage(9_000, 300))
            for number, call in enumerate(calls, start=first):
                agent_id = rewake.new_agent_id(session)
                with session.action(call, intent=rewake.AgentIntent(agent_id)) as action:
                    agent = rewake.spawn_agent(
                        session, "work", agent_id=agent_id, call_id=action.call_id
                    )
                    _fill(agent, number, size, changes=number % 2 == 0)
                    rewake.end_agent(session, agent, "completed")
                    action.complete(writer.text(500))
        return _built(session, home, events[0], ())


def _fill(agent: Session, seed: int, size: int, *, changes: bool) -> None:
    writer = _Writer(agent, _FILES_OF_AN_AGENT)
    agent.user(writer.text(600))
    number = seed * 1_000
    while _size(agent) < size:
        if changes:
            writer.step(number)
        else:
            agent.record(Message("assistant", (Text(writer.text(4_000)),)))
        number += 1
    agent.terminal("done")


def _project(home: Path) -> Path:
    project = home.with_name(f"{home.name}-project")
    project.mkdir(parents=True, exist_ok=True)
    return project


def _open(project: Path, home: Path, events: list[int]) -> Session:
    def count(_event: object) -> None:
        events[0] += 1

    return rewake.open_session(
        project, home=home, durability="process", trace=False, on_recorded=count
    )


def _built(
    session: Session, home: Path, events: int, spread_ids: tuple[str, ...]
) -> BuiltTranscript:
    session.flush()
    path = session.transcript
    if path is None:
        raise TypeError("a built session has a transcript")
    return BuiltTranscript(home, session.root, session.session_id, path, events, spread_ids)


def _size(session: Session) -> int:
    path = session.transcript
    return path.stat().st_size if path is not None else 0


def _checkpoint_is_near(session: Session) -> bool:
    # How far the next checkpoint is away is nobody else's business, hence private.
    events = session._since_checkpoint  # noqa: SLF001
    size = _size(session) - session._checkpoint_size  # noqa: SLF001
    return events > 0.95 * CHECKPOINT_EVENTS_MAX or size > 0.95 * CHECKPOINT_BYTES_MAX
