"""The real program with sub-agents, killed in every way: everything is done in the end, nothing twice.

A sample; `python -m rewake.testing.crash --complete` tries every system call.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rewake.testing import crash_agents, crash_kill
from rewake.testing.crash import Suite
from rewake.testing.crash_kill import Kill, Way
from rewake.testing.crash_world import World

SAMPLE: dict[Way, int] = {"random": 4, "main": 3, "point": 3}
ANEW = """
from dataclasses import replace
from rewake.agent.subagents import Subagents
begin = Subagents._begin
def anew(self, worker):
    what = worker.assignment
    if what.resumes:
        worker.assignment = replace(
            what, resumes=False, agent_id=self.new_id(), prompt="Do it."
        )
    return begin(self, worker)
Subagents._begin = anew
"""
GIVEN_UP = """
from rewake.compose.waking import Waking
Waking.without_agents = lambda self, conversation: self
"""


def test_a_killed_session_and_its_agents_do_everything_once(tmp_path: Path) -> None:
    sampled = SAMPLE if not crash_kill.why_no_strace() else {**SAMPLE, "main": 0}
    row = Suite(tmp_path, sampled=sampled, seed=7).agents()
    assert row.problems == []
    assert row.tried > 0
    assert row.requests > 0


@pytest.mark.parametrize(
    ("broken", "seen_as"), [(ANEW, "files"), (GIVEN_UP, "unloadable")], ids=["anew", "given up"]
)
def test_the_suite_sees_agents_that_do_not_go_on(tmp_path: Path, broken: str, seen_as: str) -> None:
    world = crash_agents.new_world(lambda plan: World(tmp_path, plan))
    world.prelude += broken
    # Late enough that an agent has done something, early enough that it has not ended.
    outcome = crash_agents.try_kill(world, Kill("point", "before_replace_target", 1))
    assert outcome.hit
    assert seen_as in {problem.kind for problem in outcome.report.problems}
