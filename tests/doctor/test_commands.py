"""`rewake check` and `rewake repair`, as a user types them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from tests.doctor.sessions import story

import rewake
from rewake.cli.main import main
from rewake.doctor.findings import Kind


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("REWAKE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def new_session(home: Path) -> Path:
    with rewake.open_session(home=home) as session:
        session.user("hello")
        session.user("again")
        assert session.transcript is not None
        return session.transcript


def damage(transcript: Path) -> bytes:
    """Two records on one line, then garbage; returns what a repair must give back."""
    whole = transcript.read_bytes()
    first, second, rest = whole.split(b"\n", 2)
    transcript.write_bytes(first + second + b"\n" + rest + b"garbage\n")
    return whole


def run(*arguments: str) -> int:
    return main(list(arguments))


def test_a_session_as_rewake_writes_it_is_healthy(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transcript = new_session(home)
    assert run("check", transcript.parent.name, "--deep") == 0
    assert "healthy" in capsys.readouterr().out


def test_check_names_each_damage_with_its_place_and_a_remedy(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(new_session(home))
    assert run("check") == 6
    shown = capsys.readouterr().out
    assert "2 errors" in shown
    assert "glued records in line 1 at byte 0: 2 events on one line" in shown
    assert "corrupt line in line 4 at byte" in shown
    assert "Run `rewake repair` on it" in shown


def test_check_prints_one_object_in_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    transcript = new_session(home)
    damage(transcript)
    assert run("check", str(transcript), "--json") == 6
    report = json.loads(capsys.readouterr().out)
    assert report["session_id"] == transcript.parent.name
    assert report["path"] == str(transcript)
    assert (report["ok"], report["events"]) == (False, 4)
    assert report["bytes"] == transcript.stat().st_size
    assert [finding["kind"] for finding in report["findings"]] == ["glued_records", "corrupt_line"]
    assert {
        "kind", "severity", "path", "offset", "line_number", "detail", "consequence", "remedy"
    } == set(report["findings"][0])  # fmt: skip


def test_check_all_looks_at_every_session(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new_session(home)
    damage(new_session(home))
    assert run("check", "--all", "--json") == 6
    found = json.loads(capsys.readouterr().out)
    assert [report["ok"] for report in found["sessions"]] == [True, False]
    assert run("check", "--all") == 6
    assert "2 sessions checked, 1 damaged." in capsys.readouterr().out


def test_repair_tells_what_it_kept_and_where_the_original_is(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transcript = new_session(home)
    whole = damage(transcript)
    assert run("repair", transcript.parent.name) == 0
    shown = capsys.readouterr().out
    assert "4 events kept byte for byte" in shown
    assert "line 1 at byte 0: 2 events taken apart" in shown
    assert "left out (7 bytes): nothing in it can be read" in shown
    assert "transcript.damaged-" in shown
    assert transcript.read_bytes() == whole
    assert run("check", "--deep") == 0


def test_a_second_repair_says_that_there_is_nothing_to_do(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(new_session(home))
    run("repair")
    capsys.readouterr()
    assert run("repair") == 0
    assert "nothing to repair" in capsys.readouterr().out


def test_a_repaired_session_is_resumed_as_it_was(home: Path) -> None:
    transcript = new_session(home)
    damage(transcript)
    run("repair")
    state = rewake.resume(transcript.parent.name, home=home)
    assert [len(state.messages), state.damage] == [2, ()]
    with rewake.open_session(home=home, resume=transcript.parent.name) as session:
        session.user("and on")
    assert run("check", "--deep") == 0


def test_a_dry_run_changes_nothing_and_ends_like_check(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transcript = new_session(home)
    damage(transcript)
    before = transcript.read_bytes()
    assert run("repair", "--dry-run", "--json") == 6
    report = json.loads(capsys.readouterr().out)
    assert report["dry_run"]
    assert not report["changed"]
    assert transcript.read_bytes() == before


def test_a_bare_transcript_is_checked_and_repaired_by_its_path(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "saved.jsonl"
    path.write_bytes(b"".join(story()) + b"garbage\n")
    assert run("check", str(path)) == 6
    assert run("repair", str(path)) == 0
    assert run("check", str(path)) == 0
    assert path.read_bytes() == b"".join(story())


@pytest.mark.parametrize("command", ["check", "repair"])
@pytest.mark.parametrize("wanted", ["0000", "./nothing.jsonl"])
def test_what_is_not_there_is_not_found(home: Path, command: str, wanted: str) -> None:
    assert run(command, wanted) == 4


def test_a_session_that_is_open_is_not_repaired(home: Path) -> None:
    with rewake.open_session(home=home) as session:
        session.user("hello")
        assert run("repair", session.session_id) == 3
        assert run("check", session.session_id) == 0


def test_the_guide_names_every_kind() -> None:
    guide = Path(__file__).parents[2] / "docs" / "guide" / "doctor.md"
    named = set(re.findall(r"`([a-z_]+)`", guide.read_text("utf-8")))
    assert set(get_args(Kind)) <= named


def test_repair_leaves_a_file_alone_that_is_no_transcript(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Path("notes.jsonl")
    other.write_bytes(b'{"text": "mine"}\n')
    assert run("repair", str(other)) == run("repair", str(other), "--dry-run") == 6
    assert other.read_bytes() == b'{"text": "mine"}\n'
    assert sorted(path.name for path in Path().iterdir()) == ["notes.jsonl"]
    assert "was not touched" in capsys.readouterr().err
