from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / "benchmarks" / "run.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RUN), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    "name", ["append", "resume", "memory", "startup", "codec", "settings", "recall", "agents"]
)
def test_a_benchmark_runs_and_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.mkdir()
    report = tmp_path / "figures.json"
    done = run(name, "--tiny", "--directory", str(big), "--json", str(report))
    assert done.returncode == 0, done.stderr
    figures = json.loads(report.read_text("utf-8"))["figures"]
    assert list(figures) == [name]
    assert all(figure["name"] in done.stdout for figure in figures[name])
    assert {figure["verdict"] for figure in figures[name]} <= {"", "ok", "missed"}
    assert not list(big.iterdir())


def test_a_name_that_is_no_benchmark_is_refused_with_those_there_are() -> None:
    done = run("speed")
    assert done.returncode == 2
    assert "append" in done.stderr
