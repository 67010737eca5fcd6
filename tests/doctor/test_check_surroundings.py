"""What lies around a transcript: who may read it, what was left over, who writes it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.doctor.sessions import Patient, story

from rewake.doctor.check import check
from rewake.doctor.subject import Subject
from rewake.log.disk import Disk
from rewake.log.lock import SessionLock, this_process

WHOLE = b"".join(story())


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o400])
def test_a_transcript_that_others_may_read_or_its_owner_may_not_write_is_a_warning(
    patient: Patient, mode: int
) -> None:
    patient.write(WHOLE)
    patient.paths.transcript.chmod(mode)
    assert patient.found() == ["bad_permissions"]
    assert patient.the("bad_permissions").remedy == f"chmod 600 '{patient.paths.transcript}'"


def test_an_open_directory_is_a_warning(patient: Patient) -> None:
    patient.write(WHOLE)
    patient.paths.directory.chmod(0o755)
    assert patient.found() == ["bad_permissions"]


def test_files_of_commands_count_as_well(patient: Patient) -> None:
    patient.write(WHOLE)
    output = patient.paths.outputs / "call" / "stdout"
    patient.disk.make_directory(output.parent, sync=False)
    output.write_bytes(b"secret")
    output.chmod(0o644)
    assert patient.the("bad_permissions").path == str(output)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_a_warning(patient: Patient) -> None:
    patient.write(WHOLE)
    os.chown(patient.paths.transcript, 12345, -1)
    assert patient.found() == ["foreign_owner"]


def test_a_temporary_file_is_only_noted(patient: Patient) -> None:
    patient.write(WHOLE)
    patient.disk.write_atomic(patient.paths.directory / ".transcript.jsonl.0a1b.tmp", b"")
    assert patient.found() == ["leftover_file"]
    assert patient.check().ok


@pytest.mark.parametrize(
    "name",
    [
        "transcript (1).jsonl",
        "transcript 2.jsonl",
        "transcript (Ada's conflicted copy 2026-01-02).jsonl",
        "transcript.sync-conflict-20260102-030405-ABCDEFG.jsonl",
        "transcript-LAPTOP.jsonl",
    ],
)
def test_a_copy_that_a_cloud_sync_made_is_a_warning(patient: Patient, name: str) -> None:
    patient.write(WHOLE)
    patient.disk.write_atomic(patient.paths.directory / name, b"")
    assert patient.found() == ["conflict_copy"]


def test_who_writes_the_session_is_noted(patient: Patient) -> None:
    patient.write(WHOLE)
    with SessionLock(patient.paths.lock, patient.disk, this_process("now", "rewake")):
        assert patient.found() == ["being_written"]
        assert str(os.getpid()) in patient.the("being_written").detail


def test_a_file_system_without_locks_is_an_error(patient: Patient) -> None:
    class Lockless(Disk):
        def lock(self, descriptor: int, operation: int) -> None:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    patient.write(WHOLE)
    patient.disk.write_atomic(patient.paths.lock, b"")
    report = check(patient.subject, Lockless())
    assert [finding.kind for finding in report.findings] == ["lock_problem"]
    assert "REWAKE_HOME" in report.findings[0].remedy


def test_a_directory_in_the_place_of_the_lock_is_an_error(patient: Patient) -> None:
    patient.write(WHOLE)
    patient.disk.make_directory(patient.paths.lock)
    assert patient.found() == ["lock_problem"]


def test_a_transcript_that_is_not_there_is_an_error(patient: Patient) -> None:
    patient.write(WHOLE)
    patient.paths.transcript.unlink()
    assert patient.found() == ["missing_transcript"]


def test_a_directory_in_the_place_of_the_transcript_is_an_error(patient: Patient) -> None:
    patient.disk.make_directory(patient.paths.transcript)
    patient.disk.make_directory(patient.paths.blobs)
    assert patient.found() == ["unreadable_file"]


def test_a_pipe_in_the_place_of_the_transcript_is_an_error_and_holds_nobody_up(
    patient: Patient,
) -> None:
    patient.write(WHOLE)
    patient.paths.transcript.unlink()
    os.mkfifo(patient.paths.transcript, 0o600)
    assert patient.found() == ["unreadable_file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_can_t_be_entered_is_an_error(patient: Patient) -> None:
    patient.write(WHOLE)
    patient.paths.directory.chmod(0)
    try:
        assert "unreadable_file" in patient.found()
    finally:
        patient.paths.directory.chmod(0o700)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_transcript_that_can_t_be_read_is_an_error(patient: Patient) -> None:
    patient.write(WHOLE)
    patient.paths.transcript.chmod(0)
    assert "unreadable_file" in patient.found()


def test_checking_changes_nothing(patient: Patient) -> None:
    def everything() -> dict[str, tuple[int, int]]:
        found = patient.paths.project.rglob("*")
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_ctime_ns) for path in found}

    patient.write(WHOLE + b"torn")
    before = everything()
    patient.check(deep=True)
    assert everything() == before


def test_a_bare_file_is_checked_without_its_surroundings(tmp_path: Path) -> None:
    path = tmp_path / "backup.jsonl"
    path.write_bytes(WHOLE)
    path.chmod(0o644)
    report = check(Subject.at(path, Disk()), Disk(), deep=True)
    assert report.findings == ()
    assert report.session_id == "00000000-0000-7000-8000-000000000000"


def test_a_path_inside_a_home_is_the_session_that_it_belongs_to(patient: Patient) -> None:
    patient.write(WHOLE)
    by_file = Subject.at(patient.paths.transcript, patient.disk)
    by_directory = Subject.at(patient.paths.directory, patient.disk)
    assert by_file.session == by_directory.session == patient.paths
