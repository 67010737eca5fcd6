"""`rewake report` and `rewake.report`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.report.seed import ReportSeed

import rewake


def run(seed: ReportSeed, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rewake", *arguments],
        cwd=seed.project,
        env={**os.environ, "REWAKE_HOME": str(seed.home), "BROWSER": "true"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_says_where_the_file_is_and_only_its_owner_can_read_it(seed: ReportSeed) -> None:
    session_id = seed.say("Hello")
    done = run(seed, "report", "newest")
    path = seed.project / f"rewake-{session_id}.html"
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(path.resolve()))
    assert "No detector finds all" in done.stderr
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(seed.project.iterdir()) == [path]


def test_json_has_where_how_large_and_what_was_redacted(seed: ReportSeed) -> None:
    session_id = seed.say("Hello")
    done = run(seed, "report", session_id, "-o", "it.html", "--json")
    told = json.loads(done.stdout)
    assert told["session_id"] == session_id
    assert told["size"] == Path(told["path"]).stat().st_size
    assert (told["redacted"], told["left_out"]) == ({}, 0)


def test_a_report_is_replaced_and_any_other_file_only_by_force(seed: ReportSeed) -> None:
    session_id = seed.say("Hello")
    seed.report(session_id, "it.html")
    seed.report(session_id, "it.html")
    mine = seed.root / "mine.html"
    mine.write_text("<!doctype html>\n<title>Mine</title>")
    with pytest.raises(rewake.UsageError, match="no report"):
        seed.report(session_id, "mine.html")
    assert "Mine" in mine.read_text()
    seed.report(session_id, "mine.html", force=True)
    assert "Hello" in mine.read_text()


@pytest.mark.parametrize("name", [".", "missing/it.html"])
def test_a_place_that_can_hold_no_file_is_refused(seed: ReportSeed, name: str) -> None:
    session_id = seed.say("Hello")
    with pytest.raises(rewake.UsageError):
        seed.report(session_id, name)


def test_a_session_that_is_not_there_is_told_and_nothing_is_written(seed: ReportSeed) -> None:
    seed.say("Hello")
    done = run(seed, "report", "nothing-like-it", "-o", "it.html")
    assert done.returncode == rewake.ExitCode.NOT_FOUND
    assert not list(seed.project.iterdir())


def test_a_session_at_work_is_told_as_far_as_it_is_written(seed: ReportSeed) -> None:
    with seed.open() as session:
        session.user("Still at work")
        assert "Still at work" in Path(seed.report(session.session_id).path).read_text()


def test_the_function_is_there_also_when_the_package_of_its_name_is_loaded() -> None:
    code = (
        "import rewake, rewake.report.story, rewake.resume.load;"
        "assert rewake.report.__module__ == 'rewake.compose.reports';"
        "assert rewake.resume.__module__ == 'rewake.compose.sessions'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
