"""After a restart of the machine: a completed change whose file says otherwise is called lost."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import rewake
from rewake.log import lock
from rewake.model.events import Change, FileChangeIntent, FileState
from rewake.resume.lost import lost_changes
from rewake.state.world import OpenCall, Written

BEFORE, AFTER, LATER = "before\n", "after\n", "later\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "a.txt"
    path.parent.mkdir()
    path.write_text(BEFORE)
    return path


@pytest.fixture
def restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
    """A machine that can be restarted: the kernel's boot id is a file of the test."""
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("first\n")
    monkeypatch.setattr(lock, "_BOOT_ID_PATH", boot_id)
    return lambda: boot_id.write_text("second\n")


def change(session: rewake.Session, file: Path, before: str, after: str) -> rewake.Action:
    return session.action("Edit", intent=rewake.FileChange(file, before, after))


def complete_one(file: Path, home: Path) -> None:
    with (
        rewake.open_session(file.parent, home=home, session_id="s") as session,
        change(session, file, BEFORE, AFTER) as action,
    ):
        file.write_text(AFTER)
        action.complete("edited")


def verdicts(file: Path, home: Path) -> list[str]:
    state = rewake.resume("s", project=file.parent, home=home)
    return [item.resolution.verdict for item in state.uncertain]


def test_a_file_that_went_back_is_lost(
    file: Path, tmp_path: Path, restart: Callable[[], object]
) -> None:
    complete_one(file, tmp_path / "home")
    file.write_text(BEFORE)
    restart()
    assert verdicts(file, tmp_path / "home") == ["lost"]


def test_a_loss_is_told_once(file: Path, tmp_path: Path, restart: Callable[[], object]) -> None:
    home = tmp_path / "home"
    complete_one(file, home)
    file.write_text(BEFORE)
    restart()
    rewake.open_session(file.parent, home=home, resume="s").close()
    assert verdicts(file, home) == []
    with rewake.open_session(file.parent, home=home, resume="s") as session:
        assert session.state.as_json()["world"]["written"] == {}


def test_without_a_restart_nothing_is_looked_at(
    file: Path, tmp_path: Path, restart: Callable[[], object]
) -> None:
    complete_one(file, tmp_path / "home")
    file.write_text(BEFORE)
    assert verdicts(file, tmp_path / "home") == []


def test_a_file_that_is_as_it_was_left_is_not_lost(
    file: Path, tmp_path: Path, restart: Callable[[], object]
) -> None:
    complete_one(file, tmp_path / "home")
    restart()
    assert verdicts(file, tmp_path / "home") == []


def test_a_later_change_by_somebody_else_is_not_a_loss(
    file: Path, tmp_path: Path, restart: Callable[[], object]
) -> None:
    complete_one(file, tmp_path / "home")
    file.write_text("by hand\n")
    os.utime(file, (file.stat().st_mtime + 60,) * 2)
    restart()
    assert verdicts(file, tmp_path / "home") == []


def test_a_change_that_a_later_interrupted_call_replaced_is_not_lost(
    file: Path, tmp_path: Path, restart: Callable[[], object]
) -> None:
    complete_one(file, tmp_path / "home")
    with rewake.open_session(file.parent, home=tmp_path / "home", resume="s") as session:
        change(session, file, AFTER, LATER).start()
        file.write_text(LATER)
    restart()
    assert verdicts(file, tmp_path / "home") == ["applied"]


def test_a_path_that_the_log_holds_with_replacements_is_not_called_lost(
    file: Path, tmp_path: Path, restart: Callable[[], object]
) -> None:
    path = os.fsencode(file.parent) + b"/caf\xe9.txt"
    shown = path.decode("utf-8", "replace")
    after = FileState("file", "a" * 64, 1, 0o644)
    made = Change(shown, FileState(), after, base64.b64encode(path).decode())
    with (
        rewake.open_session(file.parent, home=tmp_path / "home", session_id="s") as session,
        session.action("Write", intent=FileChangeIntent((made,))) as action,
    ):
        action.complete("written")
    restart()
    assert verdicts(file, tmp_path / "home") == []


def test_a_time_that_is_none_makes_nothing_lost_that_may_have_been_changed_later(
    file: Path,
) -> None:
    call = OpenCall("c", "Write", "completed")
    after = FileState("file", "a" * 64, 1, 0o644)
    written = Written(call, FileState(), after, "first", "yesterday")
    assert lost_changes({str(file): written}, "second", ()) == []
