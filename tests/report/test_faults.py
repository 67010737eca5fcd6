"""Damaged files, full disks, any bytes at all: a report is made, or one error is told."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.report.seed import ReportSeed

import rewake
from rewake.compose.reports import telling_of
from rewake.errors import RewakeError
from rewake.log.layout import SessionPaths
from rewake.report.clean import Cleaner
from rewake.report.page import page

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("v*.jsonl"))
WRITE = """
import resource, signal, sys
from rewake.cli.main import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
sys.exit(main(sys.argv[1:]))
"""


def told(seed: ReportSeed, paths: SessionPaths) -> bytes:
    telling = telling_of(seed.at, paths, Cleaner({}))
    telling.main.catch_up()
    return b"".join(page(telling, seed.at.disk, "2026-01-01T00:00:00Z"))


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_every_golden_file_becomes_a_page(seed: ReportSeed, golden: Path) -> None:
    paths = seed.paths(seed.say("Hello"))
    shutil.copyfile(golden, paths.transcript)
    assert told(seed, paths).endswith(b"</html>\n")


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> tuple[ReportSeed, SessionPaths, bytes]:
    seed = ReportSeed(tmp_path_factory.mktemp("rich"))
    paths = seed.paths(seed.everything())
    return seed, paths, paths.transcript.read_bytes()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 2**32))
def test_whatever_is_wrong_with_the_bytes_a_page_is_made_of_the_rest(
    rich: tuple[ReportSeed, SessionPaths, bytes], number: int
) -> None:
    seed, paths, whole = rich
    paths.transcript.write_bytes(damaged(whole, random.Random(number)))  # noqa: S311  # no secret
    assert told(seed, paths).endswith(b"</html>\n")


def damaged(whole: bytes, chance: random.Random) -> bytes:
    """Lines lost, moved, cut, glued, without checksums, with other values than their types allow."""
    lines = whole.split(b"\n")
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(lines))
        line = lines[at]
        what = chance.randrange(7)
        if what == 0:
            del lines[at]
            lines = lines or [b""]
        elif what == 1:
            other = chance.randrange(len(lines))
            lines[at], lines[other] = lines[other], line
        elif what == 2:  # one of the kinds
            lines[at] = line[: chance.randrange(len(line) + 1)]
        elif what == 3:
            lines.insert(at, line)
        elif what == 4:
            lines[at] = chance.randbytes(50)
        else:
            lines[at] = odd(line.rpartition(b',"crc32"')[0] + b"}", chance)
    return b"\n".join(lines)


def odd(line: bytes, chance: random.Random) -> bytes:
    """The line with another value in the place of one of its strings or numbers."""
    values = (b"null", b"-1", b"1e300", b'""', b'"\\ud800"', b"[]", b"{}", b"true", b'"x"')
    starts = [at for at in range(len(line)) if line[at : at + 2] in {b':"', b":1", b":{", b":["}]
    if not starts:
        return line
    start = chance.choice(starts) + 1
    end = min((at for at in (line.find(b',"', start), line.find(b"}", start)) if at > 0), default=0)
    return line[:start] + chance.choice(values) + line[end:] if end else line


def test_a_full_disk_is_told_and_leaves_the_report_that_was_there(seed: ReportSeed) -> None:
    session_id = seed.say("Hello")
    target = Path(seed.report(session_id).path)
    before = target.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", WRITE, "report", session_id, "-o", str(target)],
        cwd=seed.project,
        env={**os.environ, "REWAKE_HOME": str(seed.home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == rewake.ExitCode.STORAGE
    assert "bytes were taken" in done.stderr
    assert target.read_bytes() == before
    assert [path.name for path in target.parent.glob(".*")] == []


def test_one_broken_sub_agent_costs_only_itself(seed: ReportSeed) -> None:
    session_id = seed.everything()
    agents = sorted(seed.paths(session_id).agents.glob("*.jsonl"))
    agents[0].unlink()
    agents[0].mkdir()
    (agents[0].parent / "caf\udce9.jsonl").write_bytes(b"{}\n")
    text = Path(seed.report(session_id).path).read_text()
    assert f"story-a-{agents[1].stem}" in text
    assert f"story-a-{agents[0].stem}" not in text


def test_a_transcript_of_a_newer_version_is_refused(seed: ReportSeed) -> None:
    paths = seed.paths(seed.say("Hello"))
    text = paths.transcript.read_text()
    paths.transcript.write_text(
        text.replace('"min_reader_version":1', '"min_reader_version":99').replace(
            ',"crc32":"', ',"was":"'
        )
    )
    with pytest.raises(RewakeError, match="needs a reader of version 99"):
        seed.report(paths.session_id)
