"""The real agent over the real client libraries: killed, its instructions and notes changed, resumed.

The strict double refuses what providers refuse; and what was sent stays the beginning of what is sent.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
from pathlib import Path

import pytest
from tests.agent.test_lives import Place, Protocol, Starter, elements_of
from tests.agent.test_lives import starter as starter  # noqa: PLC0414  # a fixture
from tests.memory.conftest import keep

import rewake
from rewake.compose.place import place
from rewake.script import ScriptedCall, Turn
from rewake.testing.provider_server import Failure, ProviderRequest, provider_server


class Provider:
    """Has a file read, kills who asks for the second time, and answers ever after."""

    def __init__(self) -> None:
        self.requests = 0
        self.pid = 0
        self.lived = threading.Event()

    def born(self, pid: int) -> None:
        self.pid = pid
        self.lived.set()

    def __call__(self, request: ProviderRequest) -> Turn | Failure:
        assert self.lived.wait(60)
        self.requests += 1
        if self.requests == 1:
            return Turn("I look.", (ScriptedCall("Read", {"file_path": "api/a.py"}),))
        if self.requests == 2:
            os.kill(self.pid, signal.SIGKILL)
            return Failure("drop")
        return Turn("Done.")


@pytest.mark.parametrize("protocol", ["anthropic", "openai"])
def test_news_comes_behind_what_was_sent_across_a_kill_and_a_resume(
    starter: Starter, protocol: Protocol, home: Path, project: Path
) -> None:
    (project / "AGENTS.md").write_text("Use tabs.")
    (project / "api").mkdir()
    (project / "api" / "AGENTS.md").write_text("Routes are plural.")
    (project / "api" / "a.py").write_text("x = 1\n")
    keep(place(project, home), "release", "How a release is made", "Tag it first.")
    provider = Provider()
    with provider_server(provider) as server:
        lives = Place(starter, server, protocol, home, project)
        assert lives.live(provider, "Make a release") == -signal.SIGKILL  # type: ignore[arg-type]  # is born as a killer is
        (project / "AGENTS.md").write_text("Use spaces.")
        (project / "CLAUDE.md").write_text("Be kind.")
        assert lives.live(provider, "Is the release out?") == 0  # type: ignore[arg-type]  # the same
        requests = list(server.requests)
    assert [request.violations for request in requests if request.violations] == []
    for earlier, later in itertools.pairwise(requests):
        before, after = elements_of(earlier), elements_of(later)
        assert after[: len(before)] == before
    first, second, last = requests
    assert b"Use tabs." in first.raw
    assert b"Routes are plural." not in first.raw
    assert b"Routes are plural." in second.raw
    assert last.raw.count(b"Use tabs.") == 1
    assert b"Use spaces." in last.raw
    assert b"Be kind." in last.raw
    assert last.raw.count(b"Tag it first.") == 1
    (row,) = rewake.sessions(project, home=home)
    assert row.state == "done"
