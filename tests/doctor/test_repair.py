"""Repairing keeps what can be used byte for byte, keeps the original, and says what is lost."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.doctor.sessions import (
    MOMENT,
    Patient,
    of_another_session,
    rewritten,
    story,
    without_checksum,
)
from tests.log.conftest import FaultyDisk

from rewake.doctor import swap
from rewake.doctor.repair import repair
from rewake.doctor.subject import Subject
from rewake.errors import (
    SessionBusyError,
    SessionNotFoundError,
    StorageError,
    UnreadableVersionError,
)
from rewake.log.disk import Disk
from rewake.log.lock import Holder, SessionLock, this_process

LINES = story("one", "two", "three")
WHOLE = b"".join(LINES)
KEPT = f"transcript.damaged-{MOMENT}.jsonl"


def joined(*lines: bytes) -> bytes:
    return b"".join(lines)


def repaired(patient: Patient, data: bytes) -> bytes:
    patient.write(data)
    patient.repair()
    return patient.read()


# --- what becomes of lines -------------------------------------------------------------------


def test_a_healthy_file_is_not_touched(patient: Patient) -> None:
    patient.write(WHOLE)
    before = patient.paths.transcript.stat()
    report = patient.repair()
    assert not report.changed
    assert patient.paths.transcript.stat() == before


def test_a_corrupt_line_is_left_out(patient: Patient) -> None:
    assert repaired(patient, joined(*LINES[:2], b"garbage\n", *LINES[2:])) == WHOLE


def test_glued_records_get_a_line_each(patient: Patient) -> None:
    glued = joined(*(line[:-1] for line in LINES)) + b"\n"
    assert repaired(patient, glued) == WHOLE


def test_a_record_is_kept_without_the_one_that_was_cut_short_before_it(patient: Patient) -> None:
    damaged = joined(*LINES[:2], LINES[2][:70], *LINES[3:])
    assert repaired(patient, damaged) == joined(*LINES[:2], *LINES[3:])


def test_records_without_checksums_are_split_where_nothing_stands_between_them(
    patient: Patient,
) -> None:
    third, fourth = without_checksum(LINES[2]), without_checksum(LINES[3])
    damaged = joined(*LINES[:2], third[:-1], fourth, LINES[4])
    assert repaired(patient, damaged) == joined(*LINES[:2], third, fourth, LINES[4])


@pytest.mark.parametrize(("before", "after"), [(512, 0), (0, 512), (3, 4)])
def test_a_record_is_kept_without_the_nuls_around_it(
    patient: Patient, before: int, after: int
) -> None:
    padded = b"\0" * before + LINES[2][:-1] + b"\0" * after + b"\n"
    assert repaired(patient, joined(*LINES[:2], padded, *LINES[3:])) == WHOLE


def test_a_whole_event_without_its_newline_is_kept(patient: Patient) -> None:
    assert repaired(patient, WHOLE[:-1]) == WHOLE


def test_what_was_cut_short_at_the_end_is_left_out(patient: Patient) -> None:
    assert repaired(patient, WHOLE + b'{"event_id":"0') == WHOLE


def test_lines_of_another_session_and_repetitions_are_left_out(patient: Patient) -> None:
    damaged = joined(*LINES[:3], of_another_session(LINES[1]), LINES[2], *LINES[3:])
    assert repaired(patient, damaged) == WHOLE


def test_where_nobody_can_tell_which_lines_are_foreign_all_are_kept(tmp_path: Path) -> None:
    directory = tmp_path / "sessions" / "renamed"
    directory.mkdir(parents=True)
    path = directory / "transcript.jsonl"
    path.write_bytes(WHOLE + of_another_session(LINES[2]) + b"garbage\n")
    repair(Subject.at(path, Disk()), Disk(), Holder(), moment=MOMENT)
    assert path.read_bytes() == WHOLE + of_another_session(LINES[2])


def test_carriage_returns_and_lines_without_checksums_stay_as_they_are(patient: Patient) -> None:
    mixed = joined(*LINES[:2], without_checksum(LINES[2])).replace(b"\n", b"\r\n")
    assert repaired(patient, mixed + b"\n") == mixed


# --- what is said ----------------------------------------------------------------------------


def test_the_report_names_each_line_with_what_was_kept_and_left_out(patient: Patient) -> None:
    glued = LINES[3][:-1] + b"*" + LINES[4]
    patient.write(joined(*LINES[:2], b"x" * 9 + b"\n", glued, b"\0\0\n"))
    report = patient.repair()
    told = [
        (item.treatment, item.line_number, item.kept, item.dropped_bytes) for item in report.lines
    ]
    assert told == [("dropped", 3, 0, 9), ("split", 4, 2, 1), ("dropped", 5, 0, 2)]
    assert report.counts == {"dropped_unreadable": 1, "split": 1, "dropped_nul": 1}
    assert (report.events, report.events_missing) == (4, 1)
    assert report.bytes_after == len(patient.read())


def test_a_write_that_was_cut_short_is_no_lost_event(patient: Patient) -> None:
    cut = rewritten(LINES[4], seq=5)  # the line that was cut took a number
    patient.write(joined(*LINES[:4], b'{"event_id":"0\n', cut))
    assert patient.repair().events_missing == 0


def test_the_damaged_original_is_kept_with_all_its_bytes(patient: Patient) -> None:
    damaged = WHOLE + b"garbage\n"
    patient.write(damaged)
    report = patient.repair()
    assert report.kept_original == str(patient.paths.directory / KEPT)
    assert (patient.paths.directory / KEPT).read_bytes() == damaged


def test_an_original_kept_earlier_is_never_overwritten(patient: Patient) -> None:
    for text in (b"first\n", b"second\n"):
        patient.write(WHOLE + text)
        patient.repair()
    second = patient.paths.directory / f"transcript.damaged-{MOMENT}-2.jsonl"
    assert (patient.paths.directory / KEPT).read_bytes() == WHOLE + b"first\n"
    assert second.read_bytes() == WHOLE + b"second\n"


def test_repairing_twice_changes_nothing(patient: Patient) -> None:
    patient.write(WHOLE + b"garbage\n")
    assert patient.repair().changed
    before = patient.paths.transcript.stat()
    assert not patient.repair().changed
    assert patient.paths.transcript.stat() == before
    assert patient.found() == ["kept_original"]


def test_the_repaired_file_is_its_owner_s_alone(patient: Patient) -> None:
    patient.write(WHOLE + b"garbage\n")
    patient.paths.transcript.chmod(0o644)
    patient.repair()
    assert patient.paths.transcript.stat().st_mode & 0o777 == 0o600


def test_a_dry_run_tells_the_same_and_does_nothing(patient: Patient) -> None:
    patient.write(WHOLE + b"garbage\n")
    planned = patient.repair(dry_run=True)
    assert not planned.changed
    assert [path.name for path in patient.paths.directory.iterdir()] == ["transcript.jsonl"]
    assert planned.lines == patient.repair().lines


def test_a_bare_file_is_repaired_and_no_lock_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "backup.jsonl"
    path.write_bytes(WHOLE + b"garbage\n")
    repair(Subject.at(path, Disk()), Disk(), Holder(), moment=MOMENT)
    assert path.read_bytes() == WHOLE
    names = sorted(item.name for item in tmp_path.iterdir())
    assert names == [f"backup.damaged-{MOMENT}.jsonl", "backup.jsonl"]


# --- what is refused, and what fails ---------------------------------------------------------


def test_a_session_that_is_being_written_is_refused(patient: Patient) -> None:
    patient.write(WHOLE + b"garbage\n")
    with (
        SessionLock(patient.paths.lock, patient.disk, this_process("now", "rewake")),
        pytest.raises(SessionBusyError),
    ):
        patient.repair()
    assert patient.read() == WHOLE + b"garbage\n"


def test_a_transcript_for_newer_readers_is_refused(patient: Patient) -> None:
    from tests.doctor.test_check_events import written

    from rewake.model.events import RunStart

    newer = written(RunStart(2, min_reader_version=99)) + b"garbage\n"
    patient.write(newer)
    with pytest.raises(UnreadableVersionError):
        patient.repair()
    assert patient.read() == newer


def test_a_transcript_that_is_not_there_is_not_found(patient: Patient) -> None:
    with pytest.raises(SessionNotFoundError):
        patient.repair()


@pytest.mark.parametrize("operation", ["write", "sync", "sync_directory", "rename"])
def test_a_disk_that_fails_leaves_the_original_and_nothing_else(
    patient: Patient, operation: str
) -> None:
    patient.write(WHOLE + b"garbage\n")
    disk = FaultyDisk()
    disk.fail(operation, errno.ENOSPC)
    with pytest.raises(StorageError, match="space"):
        repair(patient.subject, disk, Holder(), moment=MOMENT)
    assert patient.read() == WHOLE + b"garbage\n"
    assert not swap.sibling_of(patient.paths.transcript).exists()
    assert patient.repair().changed
    assert patient.read() == WHOLE
    assert len(list(patient.paths.directory.glob("*.damaged-*"))) == 1


def test_everything_is_durable_before_the_repaired_file_takes_over(patient: Patient) -> None:
    patient.write(WHOLE + b"garbage\n")
    disk = FaultyDisk()
    repair(patient.subject, disk, Holder(), moment=MOMENT)
    calls = [call for call in disk.calls if call not in {"lock", "close"}]
    assert calls == ["write", "sync", "sync_directory", "rename", "sync_directory"]


def test_a_disk_that_fills_up_in_the_middle_of_a_write_leaves_the_original(
    patient: Patient,
) -> None:
    patient.write(WHOLE + b"garbage\n")
    disk = FaultyDisk()
    disk.write_bytes_max = 100
    with pytest.raises(StorageError, match="100 of"):
        repair(patient.subject, disk, Holder(), moment=MOMENT)
    assert patient.read() == WHOLE + b"garbage\n"
    assert not list(patient.paths.directory.glob(".*"))


def test_without_hard_links_the_original_is_copied(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: object, target: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    patient.write(WHOLE + b"garbage\n")
    patient.repair()
    assert patient.read() == WHOLE
    assert (patient.paths.directory / KEPT).read_bytes() == WHOLE + b"garbage\n"
    assert not list(patient.paths.directory.glob(".*"))
