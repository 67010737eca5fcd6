"""Whatever happens to the bytes of a transcript: it is noticed, and what is whole survives a repair."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.doctor.sessions import SESSION_ID, Patient, of_another_session
from tests.model.strategies import Writer, payloads, transcripts

from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk
from rewake.log.layout import SessionPaths
from rewake.log.scan import Transcript
from rewake.model.events import KnownPayload, Rewind
from rewake.resume.load import load

no_deadline = settings(deadline=None)  # they write files, and share the disk with others
# What says nothing about bytes: a healthy transcript may have unfinished calls and stray results.
NO_DAMAGE = {"open_call", "orphan_result"}
Damage = Callable[[st.DrawFn, bytes], bytes]


def flip(draw: st.DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, len(data) - 1))
    return data[:at] + bytes([data[at] ^ 1 << draw(st.integers(0, 7))]) + data[at + 1 :]


def cut_the_end(draw: st.DrawFn, data: bytes) -> bytes:
    return data[: draw(st.integers(1, len(data)))]


def cut_a_piece(draw: st.DrawFn, data: bytes) -> bytes:
    start = draw(st.integers(0, len(data) - 1))
    return data[:start] + data[start + draw(st.integers(1, 700)) :]


def nuls(draw: st.DrawFn, data: bytes) -> bytes:
    """Over what was there, or between it."""
    start, count = draw(st.integers(0, len(data))), draw(st.integers(1, 700))
    return data[:start] + b"\0" * count + data[start + (count if draw(st.booleans()) else 0) :]


def glue(draw: st.DrawFn, data: bytes) -> bytes:
    lines = data.split(b"\n")
    at = draw(st.integers(1, len(lines) - 1))
    return b"\n".join(lines[:at]) + b"\n".join(lines[at:])


def repeat(draw: st.DrawFn, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    line = draw(st.sampled_from(lines))
    lines.insert(draw(st.integers(0, len(lines))), line)
    return b"".join(lines)


def swap(draw: st.DrawFn, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    one, other = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def strange_line(draw: st.DrawFn, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    strangers = [b"\n", b"null\n", b"{\xff}\n", b'{"event_id":"0\n', of_another_session(lines[0])]
    lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(strangers)))
    return b"".join(lines)


KINDS: list[Damage] = [
    flip, cut_the_end, cut_a_piece, nuls, glue, repeat, swap, strange_line
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A transcript and what became of it."""
    whole = draw(transcripts(max_steps=4))
    data = whole
    for damage in draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4)):
        if data.count(b"\n") < 2:
            break
        data = damage(draw, data)
    return whole, data


def patient_in(directory: str) -> Patient:
    return Patient(SessionPaths(Path(directory), SESSION_ID), Disk())


def damage_found(patient: Patient) -> set[str]:
    return set(patient.check(deep=False).counts) - NO_DAMAGE


@no_deadline
@given(transcripts(max_steps=6))
def test_a_healthy_transcript_is_found_healthy(whole: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        patient = patient_in(directory)
        Path(directory).chmod(0o700)
        patient.write(whole)
        assert damage_found(patient) == set()


@no_deadline
@given(damaged())
def test_damage_is_always_found_unless_whole_lines_are_cut_off_the_end(
    case: tuple[bytes, bytes],
) -> None:
    whole, data = case
    is_a_beginning = whole.startswith(data) and data.endswith(b"\n")
    with tempfile.TemporaryDirectory() as directory:
        patient = patient_in(directory)
        patient.write(data)
        assert bool(damage_found(patient)) is not is_a_beginning


@no_deadline
@given(damaged())
def test_a_repair_keeps_every_whole_record_in_order_and_leaves_nothing_to_repair(
    case: tuple[bytes, bytes],
) -> None:
    whole, data = case
    with tempfile.TemporaryDirectory() as directory:
        patient = patient_in(directory)
        patient.write(data)
        assume("wrong_directory" not in patient.check().counts)
        report = patient.repair()
        repaired = patient.read()
        assert records_in(whole, repaired) == records_in(whole, data)
        assert repaired == b"" or repaired.endswith(b"\n")
        assert report.bytes_after == len(repaired)
        if report.kept_original is not None:
            assert Path(report.kept_original).read_bytes() == data
        else:
            assert repaired == data
        assert not [item for item in patient.check().findings if item.severity == "error"]
        assert "corrupt_line" not in kinds_at_load(patient)
        before = patient.paths.transcript.stat()
        assert not patient.repair().changed
        assert patient.paths.transcript.stat() == before


@settings(no_deadline, max_examples=50)  # they are large, and drawing them is slow
@given(st.lists(payloads(), max_size=6))
def test_whole_lines_that_say_nonsense_are_looked_at_without_an_error(
    nonsense: list[KnownPayload],
) -> None:
    writer = Writer()
    for payload in nonsense:
        if isinstance(payload, Rewind) and not (payload.target_id or "").isascii():
            continue  # the writer of the tests gives it as a parent, which it can't encode
        writer.write(payload)
    never_raises(b"".join(writer.lines))


@no_deadline
@given(st.binary(max_size=300))
def test_any_bytes_at_all_are_looked_at_without_an_error(data: bytes) -> None:
    never_raises(data)


def never_raises(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        patient = patient_in(directory)
        patient.write(data)
        report = patient.check(deep=True)
        if "version_too_new" not in report.counts:  # a repair refuses that
            patient.repair()
            assert not patient.repair().changed


def records_in(whole: bytes, data: bytes) -> list[bytes]:
    """The records of `whole` that are in `data` unharmed, in the order of their first places there."""
    records = [record for record in whole.split(b"\n") if record and record in data]
    return sorted(records, key=data.index)


def kinds_at_load(patient: Patient) -> set[str]:
    with Transcript(patient.paths.transcript) as reader:
        loaded = load(reader, BlobStore(patient.paths.blobs, Disk(), durable=False))
    return {item.kind for item in loaded.damage}
