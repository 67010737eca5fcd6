"""Forty steps of the real agent over the real client libraries, killed at random and resumed.

The strict double refuses what providers refuse; it never may. Between two compactions each request
begins with the one before, byte for byte, whoever was killed in between.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from tests.agent.lives import COMPACT_AT_TOKENS, SESSION_ID, Life

import rewake
from rewake.agent.compaction import INSTRUCTION
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk
from rewake.log.scan import Transcript
from rewake.model import jsontext
from rewake.model.content import Usage
from rewake.resume.load import load, load_from_root
from rewake.script import ScriptedCall, Turn
from rewake.testing.provider_server import (
    Failure,
    ProviderRequest,
    ProviderServer,
    provider_server,
)

Protocol = Literal["anthropic", "openai"]
STEPS = 40
ONLY_READ = {1, 3}  # of five steps; nothing of them had to be durable before they ran
KILLS = 9
FULL_AT = {11, 26}  # after these steps the context is said to be full
SUMMARY = json.dumps(INSTRUCTION).encode()


def step(number: int) -> Turn:
    """What the double wants done: reads side by side, edits, commands, a todo list."""
    name = f"file{number - number % 5}.txt"
    wanted = {
        0: [ScriptedCall("Write", {"file_path": name, "content": f"one {number}\n" * 20})],
        1: [ScriptedCall("Read", {"file_path": name})] * 2
        + [ScriptedCall("Glob", {"pattern": "*"})],
        2: [
            ScriptedCall(
                "Edit",
                {
                    "file_path": name,
                    "edits": [{"old_string": "one", "new_string": "two", "replace_all": True}],
                },
            )
        ],
        3: [ScriptedCall("Grep", {"pattern": "two"})],
        4: [
            ScriptedCall("Bash", {"command": f"echo {number} >> log; tail -1 log"}, id="../x"),
            ScriptedCall("TodoWrite", {"todos": [{"content": name, "status": "completed"}]}),
        ],
    }
    tokens = COMPACT_AT_TOKENS + 1 if number in FULL_AT else 1000
    return Turn(f"Step {number}. 😀", tuple(wanted[number % 5]), usage=Usage(tokens, 10))


class Killer:
    """Answers for the double, and kills who asks after as many requests as chance says."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311  # repeatable, not secret
        self.steps = 0
        self.summaries = 0
        self.kills_left = KILLS
        self.lived = threading.Event()
        self.pid = 0
        self.countdown = 0
        self.at_request = False

    def born(self, pid: int) -> None:
        self.pid = pid
        self.countdown = self.random.randint(1, 6)
        self.at_request = self.random.random() < 0.4
        self.lived.set()

    def __call__(self, request: ProviderRequest) -> Turn | Failure:
        assert self.lived.wait(20)
        self.countdown -= 1
        if not self.kills_left or self.countdown > 0:
            return self.answer(request)
        if not self.at_request:
            self.kills_left -= 1
            self.lived.clear()
            delay_s = self.random.uniform(0, 0.04)  # in the answer, in a tool, or in the next step
            threading.Timer(delay_s, os.kill, (self.pid, signal.SIGKILL)).start()
        elif (self.steps - 1) % 5 in ONLY_READ:
            self.kills_left -= 1
            self.lived.clear()
            os.kill(self.pid, signal.SIGKILL)
            return Failure("drop")
        return self.answer(request)

    def answer(self, request: ProviderRequest) -> Turn:
        if SUMMARY in elements_of(request)[-1]:
            self.summaries += 1
            return Turn(f"Summary number {self.summaries}.", usage=Usage(1000, 10))
        if self.steps == STEPS:
            return Turn("All done.", usage=Usage(1000, 10))
        self.steps += 1
        return step(self.steps - 1)


def elements_of(request: ProviderRequest) -> list[bytes]:
    """The messages after the system prompt, each as the bytes that were sent."""
    messages = jsontext.elements(jsontext.members(request.raw)["messages"])
    return messages[1:] if request.protocol == "openai" else messages


Starter = subprocess.Popen[str]


@pytest.fixture(scope="module")
def starter() -> Iterator[Starter]:
    """The process that starts every life."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.agent.lives"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


@dataclass
class Place:
    """Whose session it is, and where its model is."""

    starter: Starter
    server: ProviderServer
    protocol: Protocol
    home: Path
    project: Path

    def live(self, killer: Killer, prompt: str | None) -> int:
        """One life; its exit status."""
        urls = {
            "ANTHROPIC_BASE_URL": self.server.anthropic_url,
            "OPENAI_BASE_URL": self.server.openai_url,
        }
        keys = {"ANTHROPIC_API_KEY": "key", "OPENAI_API_KEY": "key"}
        life = Life(self.protocol, str(self.home), str(self.project), prompt, {**urls, **keys})
        assert self.starter.stdin is not None
        assert self.starter.stdout is not None
        self.starter.stdin.write(msgspec.json.encode(life).decode() + "\n")
        self.starter.stdin.flush()
        killer.born(int(self.starter.stdout.readline().split()[1]))
        return int(self.starter.stdout.readline().split()[1])


def segments(requests: list[ProviderRequest]) -> list[list[list[bytes]]]:
    """The requests between two compactions: those with the same first message."""
    asked = [elements_of(request) for request in requests]
    asked = [messages for messages in asked if SUMMARY not in messages[-1]]
    return [list(group) for _, group in itertools.groupby(asked, key=lambda messages: messages[0])]


@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
def test_forty_steps_with_kills_are_one_growing_conversation(
    starter: Starter, protocol: Protocol, home: Path, project: Path
) -> None:
    killer = Killer(seed=7)
    prompts = ["The first prompt."]
    with provider_server(killer) as server:
        place = Place(starter, server, protocol, home, project)
        status = place.live(killer, prompts[0])
        while status == -signal.SIGKILL:
            again = f"Prompt number {len(prompts)}." if killer.random.random() < 0.5 else None
            prompts += [again] if again else []
            status = place.live(killer, again)
        requests = list(server.requests)
    assert status == 0
    assert killer.kills_left == 0
    assert [request.violations for request in requests if request.violations] == []
    assert len(requests) >= STEPS

    parts = segments(requests)
    assert len({part[0][0] for part in parts}) == len(parts)  # no way back over a compaction
    assert 2 <= len(parts) <= killer.summaries + 1
    for part in parts:
        for earlier, later in itertools.pairwise(part):
            assert later[: len(earlier)] == earlier

    newest = max(
        number for number, prompt in enumerate(prompts) if prompt.encode() in requests[-1].raw
    )
    assert newest == len(prompts) - 1
    check_record(home, project)


def check_record(home: Path, project: Path) -> None:
    """What is on disk is whole, and folds to the same state whichever way it is read."""
    (transcript,) = home.rglob("transcript.jsonl")
    blobs = BlobStore(transcript.parents[2] / "blobs", Disk(), durable=False)
    with Transcript(transcript) as reader:
        found = load(reader, blobs)
        root = load_from_root(reader, blobs)
    assert (found.damage, root.damage) == ([], [])
    states = [loaded.state.as_json() for loaded in (found, root)]
    assert states[0]["snapshot"] == states[1]["snapshot"]
    assert states[0]["world"] == states[1]["world"]
    # Only a command that was killed with its agent can be left for a person to judge.
    assert {call.tool_name for call in found.state.world.calls.values()} <= {"Bash"}
    (row,) = rewake.sessions(project, home=home)
    assert (row.session_id, row.state) == (SESSION_ID, "done")


@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
def test_the_newest_prompt_is_in_every_request_of_its_run(
    starter: Starter, protocol: Protocol, home: Path, project: Path
) -> None:
    killer = Killer(seed=1)
    killer.kills_left = 0
    killer.steps = STEPS - 3
    with provider_server(killer) as server:
        place = Place(starter, server, protocol, home, project)
        server.inject(Failure(status=401))
        assert place.live(killer, "Refused by mistake.") == 1
        server.inject(Failure("context_length"))
        assert place.live(killer, "Is this the newest?") == 0
        requests = list(server.requests)
    assert [request.violations for request in requests if request.violations] == []
    assert all(b"Is this the newest?" in request.raw for request in requests[1:])
