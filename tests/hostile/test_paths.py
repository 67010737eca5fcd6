"""Names and paths in a hostile file lead nowhere; special files make nobody wait."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest
from tests.hostile.conftest import Plant

import rewake
from rewake.errors import DamagedError
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk
from rewake.log.lock import boot_id
from rewake.log.scan import Transcript
from rewake.resume.running import OnRunning

pytestmark = pytest.mark.timeout(60)  # what waits for a pipe waits for ever

HOSTILE_NAMES = [
    "..",
    ".",
    "../../x",
    "/etc/passwd",
    "a/b",
    "a\0b",
    "",
    "-rf",
    ".hidden",
    "a\nb",
    "é",
    "x" * 300,
]
IDS = [f"f1945a62-9e0{number}-7000-8000-abc0ffee0000" for number in range(9)]


def line(number: int, event_type: str, payload: object) -> bytes:
    found = {
        "event_id": IDS[number],
        "parent_id": None,
        "seq": 9 + number,
        "timestamp": "2026-01-01T00:00:00.000000Z",
        "session_id": "s",
        "event_type": event_type,
        "payload": payload,
    }
    return json.dumps(found).encode() + b"\n"


def started(number: int, name: str, call_id: str, intent: object) -> bytes:
    phase = {"tool_name": name, "status": "started", "call_id": call_id, "intent": intent}
    return line(number, "tool_lifecycle", phase)


def everything(root: Path) -> dict[str, tuple[int, bytes]]:
    """All files below `root` with their modes and contents."""
    return {
        str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in sorted(root.rglob("*"))
    }


@pytest.mark.parametrize("name", [name for name in HOSTILE_NAMES if name])
def test_a_hostile_session_id_is_refused_and_makes_nothing(
    name: str, home: Path, project: Path
) -> None:
    with pytest.raises(rewake.RewakeError):
        rewake.open_session(project, home=home, session_id=name)
    with pytest.raises(rewake.RewakeError):
        rewake.open_session(project, home=home, resume=name)
    with pytest.raises(rewake.RewakeError):
        rewake.resume(name, project=project, home=home)
    assert not list(home.rglob("transcript.jsonl"))


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_hostile_blob_name_opens_no_file(name: str, tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs", Disk(), durable=False)
    with pytest.raises(rewake.RewakeError):
        blobs.get(name)
    with pytest.raises(rewake.RewakeError):
        blobs.has(name)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_spilled_payload_with_a_hostile_blob_name_is_damage(
    name: str, home: Path, project: Path, directory: Path
) -> None:
    spilled = {"blob": {"sha256": name, "size": 9}, "preview": {"role": "user", "content": []}}
    with (directory / "transcript.jsonl").open("ab") as file:
        file.write(line(0, "message", spilled))
    state = rewake.resume("s", project=project, home=home)
    assert [item.kind for item in state.damage if item.kind != "missing_parent"] == ["missing_blob"]


@pytest.mark.parametrize("call_id", HOSTILE_NAMES)
def test_hostile_call_ids_and_output_directories_touch_nothing_outside_the_session(
    call_id: str, home: Path, project: Path, directory: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("unread")
    shell = {"kind": "shell", "command": "true", "cwd": "/"}
    with (directory / "transcript.jsonl").open("ab") as file:
        for number, output in enumerate(
            ["../../..", str(outside), f"outputs/{call_id}", "", "outputs/../../../../../outside"]
        ):
            file.write(
                started(number, "Bash", f"{call_id}{number}", {**shell, "output_directory": output})
            )
    before = everything(outside)
    beside = everything(project)
    session = rewake.open_session(project, home=home, resume="s", trace=False)
    with session:
        told = str(session.view())
        assert session.resumed is not None
        assert len(session.resumed.uncertain) == 5
    assert "unread" not in told
    assert everything(outside) == before
    assert everything(project) == beside
    assert {path.name for path in tmp_path.iterdir()} == {"home", "outside", "project"}


def test_recorded_paths_of_files_are_looked_at_but_never_changed(
    home: Path, project: Path, directory: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = outside / "secret"
    secret.write_text("unread")
    fifo = outside / "fifo"
    os.mkfifo(fifo)
    link = outside / "link"
    link.symlink_to(secret)
    after = {"kind": "file", "sha256": "0" * 64, "size": 3}
    with (directory / "transcript.jsonl").open("ab") as file:
        for number, path in enumerate(
            [
                str(secret),
                str(fifo),
                str(link),
                "/dev/zero",
                str(outside / ".." / "outside"),
                "",
                "x",
            ]
        ):
            change = {"path": path, "before": {}, "after": after}
            intent = {"kind": "file_change", "changes": [change]}
            file.write(started(number, "Edit", IDS[number], intent))
    before = everything(outside)
    with rewake.open_session(project, home=home, resume="s", trace=False) as session:
        assert session.resumed is not None
        verdicts = [item.resolution.verdict for item in session.resumed.uncertain]
        told = str(session.view())
    assert "applied" not in verdicts
    assert "unread" not in told
    assert everything(outside) == before


def test_a_fifo_in_the_place_of_the_transcript_makes_nobody_wait(
    home: Path, project: Path, directory: Path
) -> None:
    transcript = directory / "transcript.jsonl"
    transcript.unlink()
    os.mkfifo(transcript)
    refused(project, home)
    with pytest.raises(DamagedError, match="a pipe"):
        Transcript(transcript)


def test_a_directory_in_the_place_of_the_transcript_is_refused(
    home: Path, project: Path, directory: Path
) -> None:
    transcript = directory / "transcript.jsonl"
    transcript.unlink()
    transcript.mkdir()
    refused(project, home)


def refused(project: Path, home: Path) -> None:
    with pytest.raises(rewake.RewakeError) as opening:
        rewake.open_session(project, home=home, resume="s")
    with pytest.raises(rewake.RewakeError) as looking:
        rewake.resume("s", project=project, home=home)
    assert opening.value.remedy
    assert looking.value.remedy
    rewake.sessions(project, home=home)


def test_a_fifo_in_the_place_of_a_blob_makes_nobody_wait(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs", Disk(), durable=False)
    path = blobs.path("ab" * 32)
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    with pytest.raises(rewake.StorageError):
        blobs.get("ab" * 32)


def test_a_link_in_the_place_of_a_blob_shows_nothing_of_its_target(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs", Disk(), durable=False)
    sha256 = blobs.put(b"content")
    secret = tmp_path / "secret"
    secret.write_text("unread")
    blobs.path(sha256).unlink()
    blobs.path(sha256).symlink_to(secret)
    with pytest.raises(rewake.StorageError) as found:
        blobs.get(sha256)
    assert "unread" not in str(found.value)


def test_a_session_behind_a_link_is_opened_where_it_is(
    home: Path, project: Path, directory: Path, tmp_path: Path
) -> None:
    """A home that was moved to another disk: links in it are the user's own."""
    elsewhere = tmp_path / "elsewhere"
    directory.rename(elsewhere)
    directory.symlink_to(elsewhere)
    with rewake.open_session(project, home=home, resume="s", trace=False) as session:
        session.user("again")
    assert len(rewake.resume("s", project=project, home=home).messages) == 2
    assert directory.is_symlink()


def test_a_transcript_that_is_a_link_stays_one(
    home: Path, project: Path, directory: Path, plant: Plant, tmp_path: Path
) -> None:
    transcript = directory / "transcript.jsonl"
    real = tmp_path / "real.jsonl"
    transcript.rename(real)
    transcript.symlink_to(real)
    with rewake.open_session(project, home=home, resume="s", trace=False) as session:
        session.user("again")
    assert transcript.is_symlink()
    assert real.read_bytes().count(b"\n") > 3


def test_a_renamed_session_directory_goes_on_as_the_session_that_it_holds(
    home: Path, project: Path, directory: Path
) -> None:
    directory.rename(directory.with_name("copy"))
    for text in ("again", "and again"):
        with rewake.open_session(project, home=home, resume="copy", trace=False) as session:
            session.user(text)
    state = rewake.resume("copy", project=project, home=home)
    assert [str(entry.message.content[0]) for entry in state.messages][1:] == [
        str(rewake.Text("again")),
        str(rewake.Text("and again")),
    ]
    assert state.damage == ()


@pytest.mark.parametrize("on_running", ["wait", "stop"])
def test_a_command_whose_recorded_directory_is_not_the_sessions_is_neither_awaited_nor_stopped(
    on_running: OnRunning, home: Path, project: Path, directory: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "start").write_text(json.dumps({"pid": os.getpid(), "boot_id": boot_id()}))
    alive = os.open(outside / "alive", os.O_CREAT | os.O_RDWR)
    fcntl.flock(alive, fcntl.LOCK_EX)  # to wait for it would be to wait for ever
    intent = {"kind": "shell", "command": "x", "cwd": "/", "output_directory": str(outside)}
    with (directory / "transcript.jsonl").open("ab") as file:
        file.write(started(0, "Bash", IDS[0], intent))
    with rewake.open_session(
        project, home=home, resume="s", trace=False, on_running=on_running
    ) as session:
        assert session.resumed is not None
        (found,) = session.resumed.uncertain
    os.close(alive)
    assert found.resolution.verdict == "unknown"
