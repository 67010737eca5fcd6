"""Killed while a note is kept: the note is there or it isn't, and the next resume knows which."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.agent.doubles import text
from tests.memory.conftest import Workshop, call

import rewake
from rewake.compose.memory import memory_directories
from rewake.compose.place import Place

ROOT = Path(__file__).parents[2]
CHILD = """
import os, signal, sys
from pathlib import Path
from tests.agent.doubles import text
from tests.memory.conftest import Workshop, call
from rewake.agent.tools.memory import MemoryTool
from rewake.log.disk import set_crash_hook

home, project, point, count, action = sys.argv[1:]
left = [int(count)]

def crash(name):
    left[0] -= name == point
    if name == point and left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)

run = MemoryTool.run

async def killed(self, prepared, context):
    set_crash_hook(crash)
    return await run(self, prepared, context)

MemoryTool.run = killed
given = dict(scope="project", name="tabs", reason="Said so.")
answers = [call("Memory", action="write", description="Indentation", content="Tabs.", **given)]
if action == "update":
    answers = [
        call("MemoryRead", name="tabs"),
        call("Memory", action="update", content="Spaces.", **given),
    ]
elif action == "forget":
    answers = [call("MemoryRead", name="tabs"), call("Memory", action="forget", **given)]
Workshop(Path(home), Path(project)).worker(*answers, text("Done.")).run("Remember")
"""


def killed(home: Path, project: Path, point: str, count: int, action: str) -> None:
    """The agent keeps a note and is killed at this point of it."""
    ended = subprocess.run(
        [sys.executable, "-c", CHILD, str(home), str(project), point, str(count), action],
        cwd=ROOT,
        check=False,
        timeout=120,
    )
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("point", "count", "is_there"),
    [
        ("before_rename", 1, False),  # of the note
        ("after_rename", 1, True),
        ("before_rename", 2, True),  # of the index
        ("after_rename", 2, True),
    ],
)
def test_a_new_note_is_there_or_not_and_the_resume_knows(
    workshop: Workshop,
    at: Place,
    home: Path,
    project: Path,
    *,
    point: str,
    count: int,
    is_there: bool,
) -> None:
    killed(home, project, point, count, "write")
    directory = memory_directories(at)["project"]
    assert (directory.find("tabs") is not None) == is_there
    worker = workshop.worker(
        call(
            "Memory",
            action="write",
            scope="project",
            name="other",
            description="Another",
            content="x",
            reason="y",
        ),
        text("Done."),
        resume=rewake.NEWEST,
    )
    assert worker.session.resumed is not None
    (verdict,) = worker.session.resumed.uncertain
    assert verdict.resolution.verdict == ("applied" if is_there else "not_applied")
    worker.run("Go on")
    # The next change brings the index up to date and tidies up.
    assert ("(tabs.md)" in directory.index()) == is_there
    names = sorted(entry.name for entry in directory.path.iterdir())
    assert names == ["MEMORY.md", "other.md", *(["tabs.md"] if is_there else [])]


@pytest.mark.parametrize(
    ("point", "body"), [("before_rename", "Tabs."), ("after_rename", "Spaces.")]
)
def test_a_changed_note_is_the_old_one_or_the_new_one(
    workshop: Workshop, at: Place, home: Path, project: Path, *, point: str, body: str
) -> None:
    first = call(
        "Memory",
        action="write",
        scope="project",
        name="tabs",
        description="Indentation",
        content="Tabs.",
        reason="Said so.",
    )
    before = workshop.worker(first, text("Done."))
    before.run("Remember")
    before.session.close()
    killed(home, project, point, 1, "update")
    directory = memory_directories(at)["project"]
    assert directory.read("tabs").note.body.strip() == body
    after = workshop.worker(resume=rewake.NEWEST)
    assert after.session.resumed is not None
    (verdict,) = after.session.resumed.uncertain
    assert verdict.resolution.verdict == ("applied" if body == "Spaces." else "not_applied")
