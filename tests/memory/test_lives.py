"""The real agent over the real client libraries: killed, its instructions and notes changed, resumed.

The strict double refuses what providers refuse; and what was sent stays the beginning of what is sent.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.agent.doubles import text
from tests.agent.test_lives import Place, Protocol, Starter, elements_of
from tests.agent.test_lives import starter as starter  # noqa: PLC0414  # a fixture
from tests.memory.conftest import Workshop, keep

import rewake
from rewake.compose.place import place
from rewake.script import ScriptedCall, Turn
from rewake.settings.schema import Memory, Settings
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


def test_a_judge_over_a_real_client_library_is_a_valid_request_and_its_failure_none_of_the_run(
    workshop: Workshop, home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(place(project, home), "release", "How a release is made", "Tag it first.")
    keep(place(project, home), "other", "What a release costs", "Nothing.")
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    # Importing the library may take seconds here, and the time is not what this is about.
    settings = Settings(small_model="openai:small", memory=Memory(recall_time_ms_max=60_000))
    with provider_server(lambda _request: Turn("[1]")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        worker = workshop.worker(text("Done."), text("Done."), settings=settings)
        worker.run("Make a release")
        server.inject(Failure(status=401))
        worker.run("What does a release cost?")
        requests = list(server.requests)
    assert [list(request.violations) for request in requests] == [[], []]
    assert len(worker.recalled()) == 2
    assert [entry.message.details["by"] for entry in recalls(worker.session)] == [
        "judge",
        "ranking",
    ]


def recalls(session: rewake.Session) -> list[Any]:
    """The messages that brought notes."""
    return [entry for entry in session.messages if entry.message.source == "memory"]
