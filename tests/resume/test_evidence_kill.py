"""An agent killed with SIGKILL around the replacement of a file, settled by what is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from tests.tools.bench import Bench

from rewake.agent.tools.edit import EditTool
from rewake.agent.tools.read import ReadTool
from rewake.resume.evidence import settle
from rewake.state.world import OpenCall

AGENT = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.tools.bench import Bench
from rewake.agent.tools.edit import EditTool
from rewake.agent.tools.read import ReadTool
from rewake.log.disk import arm_crash_point
bench = Bench(Path(sys.argv[2]))
bench.call(ReadTool(), file_path="a.txt")
arm_crash_point(os.environ)
bench.call(EditTool(), file_path="a.txt", old_string="two", new_string="TWO")
"""


@pytest.mark.parametrize("names", [1, 2])
@pytest.mark.parametrize(
    ("point", "verdict", "content"),
    [
        ("before_replace_target", "not_applied", b"one two\n"),
        ("after_replace_target", "applied", b"one TWO\n"),
    ],
)
def test_an_edit_killed_around_its_replacement_is_settled_and_cleaned_up(
    tmp_path: Path,
    point: str,
    verdict: Literal["applied", "not_applied"],
    content: bytes,
    names: int,
) -> None:
    bench = Bench(tmp_path.resolve())
    path = bench.write("a.txt", "one two\n")
    if names == 2:
        os.link(path, tmp_path / "other name")
    bench.call(ReadTool(), file_path="a.txt")
    prepared = bench.prepare(EditTool(), file_path="a.txt", old_string="two", new_string="TWO")
    checkout = str(Path(__file__).parents[2])
    killed = subprocess.run(
        [sys.executable, "-c", AGENT, checkout, str(tmp_path)],
        env={**os.environ, "REWAKE_CRASH_POINT": f"{point}:1"},
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    call = OpenCall(call_id="call-2", tool_name="Edit", status="started", intent=prepared.intent)
    (settlement,) = settle([call], session_directory=bench.session, boot_id="")
    assert settlement.resolution.verdict == verdict
    assert path.read_bytes() == content
    assert [file.name for file in bench.project.iterdir()] == ["a.txt"]
