"""Killed at any point with two agents at work, one of them with an agent of its own, and a command in
the background: everything is done in the end, nothing twice, and every request is valid.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from tests.agents import lives
from tests.agents.crew import Crew
from tests.agents.lives import Life

from rewake.doctor.check import check
from rewake.doctor.subject import Subject
from rewake.log.disk import Disk
from rewake.model.events import Terminal
from rewake.resume import shell
from rewake.state.world import World
from rewake.testing.crash_agents import COUNTED
from rewake.testing.crash_plan import counted

KILLS = 14
DOUBLE_KILLS = 5
KILLED = -9


@dataclass
class Lives:
    """The process that forks lives."""

    process: subprocess.Popen[str]
    errors: Path

    def live(self, life: Life) -> tuple[int, int]:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(msgspec.json.encode(life).decode() + "\n")
        stdin.flush()
        status, points = stdout.readline().split()
        return int(status), int(points)


@pytest.fixture(scope="module")
def forker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    errors = tmp_path_factory.mktemp("lives") / "errors"
    with errors.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.agents.lives"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=out,
            text=True,
            cwd=Path(lives.__file__).parents[2],
        )
        yield Lives(process, errors)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(scope="module")
def points(forker: Lives, tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many crash points a whole life has."""
    directory = tmp_path_factory.mktemp("whole")
    status, count = forker.live(Life(str(directory / "home"), str(directory / "project")))
    assert (status, forker.errors.read_text()) == (0, "")
    assert count > 100
    return count


@pytest.mark.parametrize("part", range(KILLS))
def test_killed_once(forker: Lives, points: int, part: int, crew: Crew) -> None:
    place = random.Random(part).randrange(points * part // KILLS, points * (part + 1) // KILLS)  # noqa: S311  # repeatable
    forker.live(Life(str(crew.home), str(crew.project), place + 1))
    _goes_on_to_the_end(forker, crew)


@pytest.mark.parametrize("part", range(DOUBLE_KILLS))
def test_killed_again_while_it_wakes_up(forker: Lives, points: int, part: int, crew: Crew) -> None:
    draw = random.Random(100 + part)  # noqa: S311  # repeatable
    forker.live(Life(str(crew.home), str(crew.project), draw.randrange(points // 3, points)))
    for _ in range(2):
        if crew.home.joinpath("projects").exists():
            place = draw.randrange(1, 60)
            forker.live(Life(str(crew.home), str(crew.project), place, prompt=None))
    _goes_on_to_the_end(forker, crew)


def _goes_on_to_the_end(forker: Lives, crew: Crew) -> None:
    status, _ = forker.live(Life(str(crew.home), str(crew.project), prompt="Go on."))
    assert status == 0, forker.errors.read_text()[-3000:]
    _wait_for_commands(crew)
    assert sorted(counted(crew.project)) == COUNTED
    assert (crew.project / "worker.txt").read_text() == "first\n"
    world = World()
    for event in crew.events():
        world.apply(event)
    assert world.open_agents == {}
    assert [call for call in world.calls.values() if call.tool_name == "Task"] == []
    for agent_id in crew.agent_ids():
        ends = [e.payload for e in crew.events(agent_id) if isinstance(e.payload, Terminal)]
        assert ends, agent_id
    report = check(Subject.of(crew.paths, Disk()), Disk(), deep=True)
    assert [finding for finding in report.findings if finding.severity == "error"] == []


def _wait_for_commands(crew: Crew) -> None:
    """Commands outlive their agent; those still at work are waited for."""
    for directory in crew.paths.outputs.iterdir():
        until = time.monotonic() + 60
        while shell.inspect(directory).state == "running" and time.monotonic() < until:
            shell.wait(directory)
