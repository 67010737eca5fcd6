"""Reading a transcript backwards, forwards and by id."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewake.errors import DamagedError, StorageError
from rewake.log.scan import Transcript, line_id
from rewake.model.codec import CorruptLine, TornTail
from rewake.model.events import Event
from rewake.model.ids import join_id

Line = Callable[..., bytes]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for all examples of a property; each example overwrites it."""
    return tmp_path_factory.mktemp("scan") / "transcript.jsonl"


def _line(number: int, text: str = "x") -> bytes:
    return json.dumps(
        {
            "event_id": join_id(1_000, number),
            "seq": number,
            "timestamp": "t",
            "session_id": "s",
            "event_type": "metadata",
            "payload": {"entries": {"text": text}},
        },
        separators=(",", ":"),
    ).encode()


pieces = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\0" * 30, b"null\n", b"{}\n"]),
    st.integers(0, 50).map(lambda number: _line(number) + b"\n"),
)


@settings(max_examples=300, deadline=None)
@given(parts=st.lists(pieces, max_size=12), block_bytes=st.integers(1, 70))
def test_backwards_is_forwards_reversed(file: Path, parts: list[bytes], block_bytes: int) -> None:
    file.write_bytes(b"".join(parts))
    with Transcript(file) as transcript:
        forwards = list(transcript.forward(block_bytes=block_bytes))
        assert list(transcript.backward(block_bytes=block_bytes)) == forwards[::-1]
        assert list(transcript.forward()) == forwards


@settings(max_examples=200, deadline=None)
@given(parts=st.lists(pieces, max_size=12), block_bytes=st.integers(1, 70))
def test_the_items_are_the_file(file: Path, parts: list[bytes], block_bytes: int) -> None:
    data = b"".join(parts)
    file.write_bytes(data)
    with Transcript(file) as transcript:
        for item in transcript.forward(block_bytes=block_bytes):
            assert data[item.offset : item.offset + len(item.line)] == item.line
            end = data[item.offset + len(item.line) :][:1]
            assert end == (b"" if isinstance(item, TornTail) else b"\n")


def test_a_scan_can_start_and_end_at_any_line(path: Path) -> None:
    lines = [_line(number) + b"\n" for number in range(5)]
    path.write_bytes(b"".join(lines))
    second, fourth = len(lines[0]), len(b"".join(lines[:3]))
    with Transcript(path) as transcript:
        forwards = list(transcript.forward(second, fourth))
        backwards = list(transcript.backward(fourth))
    assert [item.seq for item in forwards if isinstance(item, Event)] == [1, 2]
    assert [item.seq for item in backwards if isinstance(item, Event)] == [2, 1, 0]


def test_a_line_without_newline_is_a_torn_tail_even_if_it_is_whole(path: Path) -> None:
    path.write_bytes(_line(0) + b"\n" + _line(1))
    with Transcript(path) as transcript:
        assert isinstance(next(iter(transcript.backward())), TornTail)
        assert transcript.find(join_id(1_000, 1)) is None


def test_reading_backwards_needs_memory_for_a_line_not_for_the_file(path: Path) -> None:
    text = "x" * 2_000
    path.write_bytes(b"".join(_line(number, text) + b"\n" for number in range(5_000)))
    with Transcript(path) as transcript:
        tracemalloc.start()
        assert sum(1 for _ in transcript.backward()) == 5_000
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 1_000_000


# --- by id -----------------------------------------------------------------------------------

damage = st.sampled_from(
    [b"null", b"", b"\0" * 50, b"{", b'{"event_id":"' + b"z" * 36 + b'"', b"\xff" * 60, b"[1]"]
)


@st.composite
def damaged_files(draw: st.DrawFn) -> bytes:
    """Events in order, with damage, foreign lines, odd key order and long lines between them."""
    numbers = draw(st.lists(st.integers(0, 10_000), unique=True, max_size=60))
    lines: list[bytes] = []
    for number in sorted(numbers):
        text = "x" * draw(st.sampled_from([0, 10, 500, 3_000, 20_000]))
        kind = draw(st.integers(0, 9))
        if kind == 0:
            lines.append(draw(damage))
        if kind == 1:
            fields = json.loads(_line(number, text))
            lines.append(json.dumps(dict(reversed(fields.items()))).encode())
        else:
            lines.append(_line(number, text))
    for _ in range(draw(st.integers(0, 2))):
        lines.insert(draw(st.integers(0, len(lines))), _line(draw(st.integers(20_000, 20_050))))
    tail = draw(st.sampled_from([b"", b'{"event_id":"', _line(99_999)]))
    return b"".join(line + b"\n" for line in lines) + tail


@settings(max_examples=150, deadline=None)
@given(data=damaged_files(), seed=st.integers())
def test_what_a_linear_scan_finds_is_found_by_id(file: Path, data: bytes, seed: int) -> None:
    file.write_bytes(data)
    with Transcript(file) as transcript:
        linear: dict[str, Event] = {}
        for item in transcript.forward():
            if isinstance(item, Event):
                linear.setdefault(item.event_id, item)
        absent = join_id(1_000, 10_001)
        asked = [*linear, absent]
        random.Random(seed).shuffle(asked)  # noqa: S311  # test data is no secret
        lookup = transcript.find_many(asked)
        assert set(lookup.found) == set(linear)
        assert lookup.missing == (absent,)
        for event_id, event in lookup.found.items():
            assert event.event_id == event_id
            assert data[event.offset :].startswith(event.line + b"\n")
            assert transcript.find(event_id) is not None


def test_in_an_undamaged_file_bisection_finds_everything(path: Path) -> None:
    rng = random.Random(7)  # noqa: S311  # test data is no secret
    lines = [_line(number, "x" * rng.choice([0, 900, 40_000])) + b"\n" for number in range(600)]
    path.write_bytes(b"".join(lines))
    wanted = [join_id(1_000, number) for number in range(600)]
    with Transcript(path) as transcript:
        lookup = transcript.find_many(wanted)
    assert [lookup.found[event_id].seq for event_id in wanted] == list(range(600))
    assert lookup.scanned == lookup.missing == ()


def test_a_line_out_of_order_is_found_by_scanning_and_that_is_said(path: Path) -> None:
    lines = [_line(number, "x" * 900) + b"\n" for number in range(100, 400)]
    path.write_bytes(b"".join([*lines, _line(1) + b"\n"]))
    with Transcript(path) as transcript:
        lookup = transcript.find_many([join_id(1_000, 1), join_id(1_000, 200)])
    assert lookup.scanned == (join_id(1_000, 1),)
    assert lookup.missing == ()


def test_a_line_with_a_wrong_checksum_is_missing(path: Path, line: Line) -> None:
    path.write_bytes(line(0) + b"\n" + line(1, "good").replace(b"good", b"evil") + b"\n")
    with Transcript(path) as transcript:
        lookup = transcript.find_many([join_id(1_000, 0), join_id(1_000, 1)])
    assert lookup.missing == (join_id(1_000, 1),)


def test_an_id_inside_a_payload_is_not_a_line(path: Path, line: Line) -> None:
    quoted = json.dumps("\n" + _line(5).decode())[1:-1]
    path.write_bytes(line(0, quoted) + b"\n" + line(9) + b"\n")
    with Transcript(path) as transcript:
        assert transcript.find(join_id(1_000, 5)) is None


def test_a_bisection_reads_little_of_a_large_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"".join(_line(number, "x" * 900) + b"\n" for number in range(20_000)))
    read_bytes = 0
    with Transcript(path) as transcript:
        read = transcript._read

        def counting(offset: int, count: int) -> bytes:
            nonlocal read_bytes
            data = read(offset, count)
            read_bytes += len(data)
            return data

        monkeypatch.setattr(transcript, "_read", counting)
        assert transcript.find(join_id(1_000, 12_345)) is not None
    assert read_bytes < 100_000


@pytest.mark.parametrize("text", ["{", '{"event_id":7}', "null", '{"event_id":"' + "é" * 18 + '"'])
def test_what_has_no_id_has_none(text: str) -> None:
    assert line_id(text.encode()) is None


def test_ids_with_lone_surrogates_are_simply_not_there(path: Path) -> None:
    path.write_bytes(_line(0) + b"\n")
    with Transcript(path) as transcript:
        assert transcript.find("\ud800") is None


def test_a_missing_file_and_a_directory_have_their_own_errors(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Could not open"):
        Transcript(tmp_path / "none")
    with pytest.raises(DamagedError, match="is a directory"):
        Transcript(tmp_path)


def test_corrupt_lines_carry_their_offset(path: Path) -> None:
    path.write_bytes(_line(0) + b"\nnull\n" + _line(1) + b"\n")
    with Transcript(path) as transcript:
        bad = [item for item in transcript.forward() if isinstance(item, CorruptLine)]
    assert [(item.offset, item.line) for item in bad] == [(len(_line(0)) + 1, b"null")]
