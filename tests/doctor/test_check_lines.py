"""Every way in which bytes of a transcript can be damaged has a finding with its place."""

from __future__ import annotations

import pytest
from tests.doctor.sessions import Patient, of_another_session, story, without_checksum

from rewake.doctor.findings import LISTED_MAX

LINES = story("one", "two", "three")
WHOLE = b"".join(LINES)
THIRD = len(LINES[0]) + len(LINES[1])


def joined(*lines: bytes) -> bytes:
    return b"".join(lines)


def test_a_healthy_session_has_no_findings(patient: Patient) -> None:
    patient.write(WHOLE)
    report = patient.check(deep=True)
    assert report.findings == ()
    assert report.ok
    assert (report.events, report.bytes) == (5, len(WHOLE))


def test_a_torn_tail_is_a_warning_at_its_offset(patient: Patient) -> None:
    assert patient.found(WHOLE + b'{"event_id":"01') == ["torn_tail"]
    finding = patient.the("torn_tail")
    assert finding.severity == "warning"
    assert (finding.offset, finding.line_number) == (len(WHOLE), 6)


def test_a_torn_tail_that_is_a_whole_event_says_so(patient: Patient) -> None:
    assert patient.found(WHOLE[:-1]) == ["torn_tail"]
    assert "one whole event" in patient.the("torn_tail").detail


@pytest.mark.parametrize("line", [b"null", b"7", b"[]", b"{}", b"garbage", b"", b"\xff\xfe"])
def test_a_line_in_the_place_of_an_event_is_an_error(patient: Patient, line: bytes) -> None:
    found = patient.found(joined(*LINES[:2], line + b"\n", *LINES[3:]))
    assert found == ["corrupt_line", "missing_parent"]
    finding = patient.the("corrupt_line")
    assert finding.severity == "error"
    assert (finding.offset, finding.line_number) == (THIRD, 3)


@pytest.mark.parametrize("line", [b'{"event_id":"0', b"", b"\0" * 512])
def test_a_line_between_two_events_that_follow_each_other_is_a_write_that_was_cut_short(
    patient: Patient, line: bytes
) -> None:
    assert patient.found(joined(*LINES[:2], line + b"\n", *LINES[2:])) == ["cut_write"]
    assert patient.the("cut_write").severity == "warning"


def test_a_changed_byte_is_a_checksum_mismatch_and_the_next_event_misses_its_parent(
    patient: Patient,
) -> None:
    changed = LINES[2].replace(b'"one"', b'"ohe"')
    found = patient.found(joined(*LINES[:2], changed, *LINES[3:]))
    assert found == ["checksum_mismatch", "missing_parent"]
    assert patient.the("missing_parent").line_number == 4


def test_two_records_without_a_newline_between_them_are_glued(patient: Patient) -> None:
    assert patient.found(joined(*LINES[:2], LINES[2][:-1], *LINES[3:])) == ["glued_records"]
    assert patient.the("glued_records").detail == "2 events on one line"


def test_a_record_after_one_that_was_cut_short_is_glued_too(patient: Patient) -> None:
    found = patient.found(joined(*LINES[:2], LINES[2][:70], *LINES[3:]))
    assert found == ["glued_records", "missing_parent"]
    assert patient.the("glued_records").detail == "1 event and 70 other bytes on one line"


def test_records_without_checksums_are_found_glued_where_nothing_stands_between_them(
    patient: Patient,
) -> None:
    third, fourth = without_checksum(LINES[2]), without_checksum(LINES[3])
    found = patient.found(joined(*LINES[:2], third[:-1], fourth, LINES[4]))
    assert found == ["glued_records", "no_checksum", "no_checksum"]


def test_a_line_of_nuls_is_named_as_that(patient: Patient) -> None:
    found = patient.found(joined(*LINES[:2], b"\0" * 512 + b"\n", *LINES[3:]))
    assert found == ["nul_line", "missing_parent"]


@pytest.mark.parametrize(("before", "after"), [(512, 0), (0, 512), (3, 4)])
def test_nuls_around_a_record_are_a_warning_since_the_record_is_used(
    patient: Patient, before: int, after: int
) -> None:
    padded = b"\0" * before + LINES[2][:-1] + b"\0" * after + b"\n"
    assert patient.found(joined(*LINES[:2], padded, *LINES[3:])) == ["nul_padding"]
    assert patient.the("nul_padding").severity == "warning"


def test_a_long_tail_of_nuls_is_torn(patient: Patient) -> None:
    assert patient.found(WHOLE + b"\0" * 4096) == ["torn_tail"]


def test_a_line_without_a_checksum_is_only_noted(patient: Patient) -> None:
    assert patient.found(joined(*LINES[:4], without_checksum(LINES[4]))) == ["no_checksum"]
    assert patient.check().ok


def test_carriage_returns_are_no_damage(patient: Patient) -> None:
    assert patient.found(WHOLE.replace(b"\n", b"\r\n")) == []


def test_a_line_of_another_session_is_foreign(patient: Patient) -> None:
    strange = of_another_session(LINES[2])
    assert patient.found(joined(*LINES[:2], strange, *LINES[2:])) == ["foreign_session"]
    assert patient.the("foreign_session").offset == THIRD


def test_a_foreign_first_line_doesn_t_make_all_others_foreign(patient: Patient) -> None:
    found = patient.found(joined(of_another_session(LINES[0]), *LINES))
    assert found == ["foreign_session"]


def test_a_byte_order_mark_costs_nothing_but_a_repair(patient: Patient) -> None:
    assert patient.found(b"\xef\xbb\xbf" + WHOLE) == ["glued_records"]


def test_an_empty_transcript_is_no_damage(patient: Patient) -> None:
    assert patient.found(b"") == ["no_events"]
    assert patient.check().ok


def test_of_one_kind_the_first_are_listed_and_all_are_counted(patient: Patient) -> None:
    patient.write(WHOLE + b"x\n" * 1000)
    report = patient.check()
    assert report.counts == {"corrupt_line": 1000}
    assert len(report.findings) == LISTED_MAX


def test_a_tail_is_only_noted_while_somebody_writes(patient: Patient) -> None:
    from rewake.log.lock import SessionLock, this_process

    patient.write(WHOLE + b'{"event')
    with SessionLock(patient.paths.lock, patient.disk, this_process("now", "rewake")):
        report = patient.check()
    assert [finding.kind for finding in report.findings] == ["being_written", "torn_tail"]
    assert report.ok


def test_a_line_of_a_hundred_thousand_ends_of_records_takes_no_time(patient: Patient) -> None:
    hostile = b"{" + b'{"event_id":",,"crc32":"00000000"}' * 100_000
    assert patient.found(WHOLE + hostile + b"\n") == ["checksum_mismatch"]
