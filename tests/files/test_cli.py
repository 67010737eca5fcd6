"""`rewake rewind`, `rewake diff` and `--rewind-files`, as a user types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.files.conftest import picture

from rewake import sessions

Rewake = Callable[..., str]


@pytest.fixture
def rewake(project: Path, home: Path) -> Rewake:
    def run(*arguments: str, status: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "rewake", *arguments],
            cwd=project,
            env=os.environ | {"REWAKE_HOME": str(home), "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    return run


def test_a_run_of_the_agent_is_looked_at_taken_back_and_brought_again(
    project: Path, home: Path, tmp_path: Path, rewake: Rewake
) -> None:
    (project / "a.txt").write_bytes(b"one\ntwo\n")
    (project / "b.txt").write_bytes(b"b\n")
    before = picture(project)
    command = "printf 'one\\n2\\n' > a.txt; mkdir d; printf n > d/n"
    write = {"file_path": "q/r.txt", "content": "new\n"}
    turns = [
        {"tool_calls": [{"name": "Bash", "arguments": {"command": command}}]},
        {"tool_calls": [{"name": "Write", "arguments": write}]},
        {"text": "done"},
    ]
    script = tmp_path / "script.jsonl"
    script.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    rewake("-p", "go", "-m", f"script:{script}", "--permission-mode", "bypass")
    after = picture(project)
    (info,) = sessions(project, home=home)
    transcript = Path(info.path).read_bytes().splitlines()
    asked = next(json.loads(line)["event_id"] for line in transcript if b'"role":"user"' in line)

    assert " a.txt | 2 +- (changed)" in rewake("diff", info.session_id, "--stat")
    assert "-two\n+2\n" in rewake("diff", info.session_id)

    back = ("rewind", info.session_id, "--to", asked)
    assert "-2\n+two\n" in rewake(*back, "--files", "--dry-run")
    assert picture(project) == after

    told = rewake(*back, "--both")
    assert "restore  a.txt (+1 -1)" in told
    assert "The conversation went back as well." in told
    assert picture(project) == before
    assert "create   q/r.txt" in rewake("rewind", info.session_id, "--undo", "--dry-run")
    assert picture(project) == before
    rewake("rewind", info.session_id, "--undo")
    assert picture(project) == after
    assert sessions(project, home=home)[0].state == info.state == "done"

    (project / "a.txt").write_bytes(b"mine\n")
    done = json.loads(rewake("--resume", info.session_id, "--rewind-files", asked, "--json"))
    assert [one["why"] for one in done["conflicts"]] == ["changed"]
    assert (project / "a.txt").read_bytes() == b"mine\n"
    rewake(*back, "--files", "--only", "a.txt", "b.txt", "--force")
    assert picture(project) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("--to", "x", "--files", "--both"),
        ("--to", "x", "--dry-run"),
        ("--undo", "--files"),
        ("--to", "x", "--undo"),
        (),
    ],
)
def test_what_is_not_clear_is_not_done(rewake: Rewake, arguments: tuple[str, ...]) -> None:
    rewake("rewind", "newest", *arguments, status=2)
