"""Requests as a provider gets them over the wire, across kills: accepted, and only ever growing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rewake.script import Turn, parse_turns
from rewake.testing import crash_plan
from rewake.testing.crash_check import check
from rewake.testing.crash_report import Report
from rewake.testing.crash_world import World
from rewake.testing.provider_server import Failure, ProviderRequest, provider_server

# The second one is the first request after the compaction.
KILLED_AT_REQUESTS = (9, 22)
SUMMARY = "The conversation is about to be shortened."


class Provider:
    """Gives the plan's turns in order and kills its client at some requests instead of answering."""

    def __init__(self, turns: tuple[Turn, ...]) -> None:
        self.turns = list(turns)
        self.client: subprocess.Popen[bytes] | None = None
        self.killed = 0
        self.count = 0

    def __call__(self, request: ProviderRequest) -> Turn | Failure:
        self.count += 1
        if self.count in KILLED_AT_REQUESTS and self.client is not None:
            self.killed += 1
            os.kill(self.client.pid, signal.SIGKILL)
            return Failure(kind="drop")
        if is_summary(request):
            return Turn(text="A summary.")
        return self.turns.pop(0) if self.turns else Turn(text="done")


def is_summary(request: ProviderRequest) -> bool:
    return SUMMARY in json.dumps(request.body["messages"][-1])


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_a_provider_accepts_every_request_and_each_begins_with_the_one_before(
    tmp_path: Path, protocol: str
) -> None:
    plan = crash_plan.forty_steps()
    provider = Provider(parse_turns(crash_plan.script(plan).encode(), "plan"))
    with provider_server(provider) as server:
        world = World(tmp_path, plan, model=f"{protocol}:scripted")
        world.variables = {
            "OPENAI_BASE_URL": server.openai_url,
            "OPENAI_API_KEY": "key",
            "ANTHROPIC_BASE_URL": server.anthropic_url,
            "ANTHROPIC_API_KEY": "key",
        }
        provider.client = world.start(world.first())
        code = provider.client.wait()
        while code == -signal.SIGKILL:
            resumed = world.command(crash_plan.GO_ON, "", resume=True, output="stream-json")
            provider.client = world.start(resumed)
            code = provider.client.wait()
        requests = server.requests
    assert code == 0, world.stderr()
    assert provider.killed == len(KILLED_AT_REQUESTS)
    assert [request.violations for request in requests if request.violations] == []
    assert_growing(requests)
    report = Report()
    check(world, report, wrapper_killed=False)
    assert report.problems == []
    assert report.requests >= len(plan.turns)


def assert_growing(requests: list[ProviderRequest]) -> None:
    before: list[Any] = []
    compactions = 0
    for request in requests:
        messages = request.body["messages"]
        if is_summary(request):
            compactions += 1
            continue
        assert without_marks(messages[: len(before)]) == before or is_fresh(messages)
        before = without_marks(messages)
    assert compactions > 0


def is_fresh(messages: list[Any]) -> bool:
    """The first request after a compaction begins with the summary."""
    return "Summary of the conversation" in json.dumps(messages[:2])


def without_marks(messages: list[Any]) -> list[Any]:
    """Without the marks of what to cache, which move to the newest message."""
    text = json.dumps(messages).replace(', "cache_control": {"type": "ephemeral"}', "")
    bare: list[Any] = json.loads(text)
    return bare
