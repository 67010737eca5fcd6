"""Lines: bytes become events, corrupt lines and a torn tail, and nothing else happens."""

from __future__ import annotations

import json
import zlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.strategies import Writer, transcripts

from rewake.model import events as ev
from rewake.model.codec import (
    CorruptLine,
    Decoder,
    TornTail,
    decode_header,
    decode_line,
    seal_line,
)
from rewake.model.content import Text

ID = "018f0000-0000-7000-8000-000000000001"
PARENT = "018f0000-0000-7000-8000-000000000000"
HEADER: dict[str, object] = {
    "event_id": ID,
    "parent_id": PARENT,
    "seq": 3,
    "timestamp": "2026-01-01T00:00:00.000000Z",
    "session_id": "s",
    "run_id": "r",
    "step": 2,
    "event_type": "terminal",
    "schema_version": 1,
    "payload": {"reason": "done"},
}


def line_of(**changes: object) -> bytes:
    """A line without its newline, in Rewake's key order, with its checksum."""
    return seal_line(json.dumps({**HEADER, **changes}, separators=(",", ":")).encode()[:-1])[:-1]


def bare(**changes: object) -> bytes:
    """The same without a checksum."""
    return json.dumps({**HEADER, **changes}).encode()


def event_of(line: bytes) -> ev.Event:
    found = decode_line(line)
    assert isinstance(found, ev.Event), found
    return found


def reason_of(line: bytes) -> str:
    found = decode_line(line, 7)
    assert isinstance(found, CorruptLine), found
    assert found.line == line
    assert found.offset == 7
    return found.reason


def feed_all(data: bytes, pieces: list[bytes]) -> tuple[list[object], TornTail | None]:
    assert b"".join(pieces) == data
    decoder = Decoder()
    found: list[object] = []
    for piece in pieces:
        found += decoder.feed(piece)
    return found, decoder.finish()


# --- streams ---------------------------------------------------------------------------------


@given(transcripts())
def test_every_line_of_a_valid_transcript_is_an_event(data: bytes) -> None:
    found, tail = feed_all(data, [data])
    assert tail is None
    assert [type(event) for event in found] == [ev.Event] * data.count(b"\n")


@given(transcripts())
def test_the_lines_of_the_events_are_the_file(data: bytes) -> None:
    events = Decoder().feed(data)
    assert b"".join(event.line + b"\n" for event in events) == data
    for event in events:
        assert data[event.offset :].startswith(event.line + b"\n")


@given(transcripts(max_steps=2))
@settings(max_examples=30)
def test_one_byte_at_a_time_gives_what_all_at_once_gives(data: bytes) -> None:
    data = data[:-1]
    single = [bytes((byte,)) for byte in data]
    assert feed_all(data, single) == feed_all(data, [data])


@given(st.binary(max_size=60), st.data())
def test_pieces_of_any_size_give_what_all_at_once_gives(data: bytes, draw: st.DataObject) -> None:
    data += b"\n" + bare() + b"\n\x00\n" + data
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert feed_all(data, pieces) == feed_all(data, [data])


@given(st.lists(st.one_of(st.binary(), st.just(b"\n"), st.just(line_of())), max_size=8))
def test_any_bytes_become_events_corrupt_lines_and_a_torn_tail(parts: list[bytes]) -> None:
    data = b"".join(parts)
    decoder = Decoder(offset=100)
    found = decoder.feed(data)
    tail = decoder.finish()
    assert b"".join(item.line + b"\n" for item in found) + (tail.line if tail else b"") == data
    at = 100
    for item in found:
        assert item.offset == at
        at += len(item.line) + 1
    assert tail is None or (tail.offset == at and b"\n" not in tail.line)


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=4))
def test_any_json_value_is_a_line_of_its_own(value: object) -> None:
    assert reason_of(json.dumps(value).encode()).startswith(("not a JSON object", "not an event"))


@given(transcripts(max_steps=2), st.data())
def test_one_changed_byte_costs_at_most_its_line(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data) - 1))
    new = draw.draw(st.integers(0, 255).filter(lambda byte: byte not in (data[at], 0x0A)))
    if data[at] == 0x0A:  # a lost newline joins two lines: covered below
        return
    before = Decoder().feed(data)
    after = Decoder().feed(data[:at] + bytes((new,)) + data[at + 1 :])
    differ = [old for old, now in zip(before, after, strict=True) if old != now]
    assert len(differ) == 1
    assert differ[0].offset <= at <= differ[0].offset + len(differ[0].line)


def test_a_torn_tail_at_every_byte_of_a_record_leaves_the_lines_before_it() -> None:
    whole = line_of(payload={"reason": "día 🙂"}) + b"\n"
    record = json.dumps({**HEADER, "payload": {"reason": "día 🙂"}}, ensure_ascii=False).encode()
    for cut in range(len(record) + 1):
        decoder = Decoder()
        assert len(decoder.feed(whole + record[:cut])) == 1
        tail = decoder.finish()
        assert tail == (TornTail(len(whole), record[:cut]) if cut else None)


def test_a_record_without_its_newline_is_not_committed() -> None:
    decoder = Decoder()
    assert decoder.feed(line_of()) == []
    assert decoder.finish() == TornTail(0, line_of())


def test_two_records_on_one_line_are_one_corrupt_line() -> None:
    assert "checksum" in reason_of(line_of()[:50] + line_of())


# --- one line --------------------------------------------------------------------------------


def test_the_header_and_the_payload_arrive_as_they_were_written() -> None:
    line = line_of(agent_id="a1")
    assert decode_line(line, 9) == ev.Event(
        event_id=ID,
        parent_id=PARENT,
        seq=3,
        timestamp="2026-01-01T00:00:00.000000Z",
        session_id="s",
        run_id="r",
        event_type="terminal",
        schema_version=1,
        payload=ev.Terminal("done"),
        step=2,
        agent_id="a1",
        line=line,
        offset=9,
    )


def test_key_order_spaces_and_a_missing_checksum_are_accepted() -> None:
    shuffled = dict(reversed(list({**HEADER, "crc32": "00000000"}.items())))
    assert event_of(json.dumps(shuffled, indent=None).encode()).payload == ev.Terminal("done")


def test_a_checksum_is_only_what_stands_at_the_very_end() -> None:
    assert event_of(bare(crc32=7, payload={"reason": "x"})[:-1] + b" }").seq == 3
    nested = bare(payload={"reason": "x", "crc32": "00000000"})
    assert event_of(nested).payload == ev.Terminal("x")


def test_a_wrong_checksum_is_reported_with_both_values() -> None:
    line = line_of()
    body = line[:-20].replace(b"done", b"gone")
    stated, actual = line[-10:-2].decode(), f"{zlib.crc32(body):08x}"
    reason = reason_of(body + line[-20:])
    assert stated in reason
    assert actual in reason


def test_a_checksum_in_capitals_is_wrong() -> None:
    line = line_of(seq=4)
    assert line[-10:-2].upper() != line[-10:-2]
    assert "checksum" in reason_of(line[:-10] + line[-10:-2].upper() + line[-2:])


@pytest.mark.parametrize("length", range(22))
def test_lines_as_short_as_a_checksum_are_no_events(length: int) -> None:
    assert reason_of((b'x,"crc32":"00000000"}')[-length:] if length else b"")


def test_a_carriage_return_at_the_end_is_ignored() -> None:
    line = line_of() + b"\r"
    assert event_of(line).payload == ev.Terminal("done")
    assert event_of(line).line == line


@pytest.mark.parametrize("line", [b"", b"\r", b"   "])
def test_an_empty_line_is_named_so(line: bytes) -> None:
    assert reason_of(line) == "empty line"


@pytest.mark.parametrize(
    "line",
    [b"\x00", b"\x00" * 5000, bare() + b"\x00", line_of()[:40] + b"\x00" * 9 + line_of()[49:]],
)
def test_nul_bytes_are_named_as_the_reason(line: bytes) -> None:
    assert reason_of(line) == "NUL bytes" or "checksum" in reason_of(line)


def test_nuls_around_a_record_are_ignored_if_its_checksum_proves_it_whole() -> None:
    for line in (line_of() + b"\x00\x00", b"\x00" * 512 + line_of(), b"\x00" + line_of() + b"\x00"):
        assert event_of(line).payload == ev.Terminal("done")
        assert event_of(line).line == line


@pytest.mark.parametrize("line", [b"null", b"7", b"[]", b'"text"', b"{}", b"true", b'{"seq":1}'])
def test_json_that_is_no_event_is_corrupt(line: bytes) -> None:
    assert reason_of(line)


@pytest.mark.parametrize(
    "missing", ["event_id", "seq", "timestamp", "session_id", "event_type", "payload"]
)
def test_a_missing_key_is_named(missing: str) -> None:
    kept = {key: value for key, value in HEADER.items() if key != missing}
    assert missing in reason_of(json.dumps(kept).encode())


@pytest.mark.parametrize("key", ["parent_id", "run_id", "schema_version", "step"])
def test_keys_that_have_a_default_may_be_missing(key: str) -> None:
    kept = {name: value for name, value in HEADER.items() if name != key}
    assert event_of(json.dumps(kept).encode()).seq == 3


def test_an_unknown_type_and_unknown_fields_stay_byte_for_byte_in_the_line() -> None:
    line = b'{"mood": 1.50,' + bare(event_type="hologram", payload={"x": [1, 2]})[1:]
    event = event_of(line)
    assert event.line == line
    assert event.payload == ev.Unknown(b'{"x": [1, 2]}')


def test_an_unknown_payload_is_cut_out_byte_for_byte_also_beside_a_lone_surrogate() -> None:
    payload = b'{ "x" : 1.50, "s" : "\\ud800", "\\u00e9" : [ ] }'
    line = bare(event_type="hologram", payload=0).replace(b'"payload": 0', b'"payload": ' + payload)
    assert event_of(line).payload == ev.Unknown(payload)


def test_lone_surrogates_in_header_and_payload_come_back() -> None:
    event = event_of(line_of(run_id="\udfff", payload={"reason": "\ud800"}))
    assert event.run_id == "\udfff"
    assert event.payload == ev.Terminal("\ud800")


@pytest.mark.parametrize("key", ["seq", "schema_version", "step"])
def test_a_lone_surrogate_where_a_number_belongs_costs_its_line(key: str) -> None:
    assert "surrogate" in reason_of(line_of(**{key: "\ud800"}))


def test_a_lone_surrogate_where_a_payload_has_a_number_costs_its_payload() -> None:
    event = event_of(line_of(event_type="run", payload={"generation": "\ud800"}))
    assert isinstance(event.payload, ev.Unknown)


def test_of_a_repeated_key_the_last_counts() -> None:
    twice = bare()[:-1] + b',"seq":9,"payload":{"reason":"a","reason":"b"}}'
    for line in (twice, twice[:-1] + b',"x":"\\ud800"}'):
        assert event_of(line).seq == 9
        assert event_of(line).payload == ev.Terminal("b")


def test_line_separators_of_unicode_do_not_end_a_line() -> None:
    writer = Writer()
    writer.write(ev.Message("user", (Text("a\u2028b\u2029c\x85d"),)))
    (event,) = Decoder().feed(writer.lines[0])
    assert isinstance(event, ev.Event)
    assert event.payload == ev.Message("user", (Text("a\u2028b\u2029c\x85d"),))


def test_bytes_that_are_no_utf8_are_reported_with_their_place() -> None:
    line = bare(run_id="@").replace(b"@", b"\xff")
    assert reason_of(line) == f"not UTF-8 at byte {line.index(0xFF)} of the line"


def test_surrogates_as_raw_bytes_are_not_utf8() -> None:
    assert reason_of(bare(run_id="@").replace(b"@", b"\xed\xa0\x80")).startswith("not UTF-8")


@pytest.mark.parametrize("depth", [1_000, 10_000, 100_000])
@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_nesting_without_measure_costs_its_line(depth: int, opening: bytes) -> None:
    closing = b"]" if opening == b"[" else b"}"
    deep = opening * depth + b"1" + closing * depth
    for payload in (b'{"reason":"x","d":%b}' % deep, opening * depth):
        line = bare(payload=0).replace(b'"payload": 0', b'"payload": ' + payload)
        found = decode_line(line)
        assert isinstance(found, CorruptLine) or isinstance(found.payload, ev.Unknown | ev.Terminal)
        assert decode_header(line) is None or isinstance(found, ev.Event)


def test_nesting_without_measure_in_a_payload_leaves_the_other_lines() -> None:
    deep = bare(payload=0).replace(b'"payload": 0', b'"payload": ' + b"[" * 100_000)
    first, bad, last = Decoder().feed(b"\n".join([line_of(), deep, line_of(), b""]))
    assert isinstance(first, ev.Event)
    assert isinstance(bad, CorruptLine)
    assert isinstance(last, ev.Event)


def test_a_line_of_five_megabytes_is_an_event() -> None:
    line = line_of(payload={"reason": "x" * 5_000_000})
    decoder = Decoder()
    found: list[ev.Event | CorruptLine] = []
    data = line + b"\n"
    for start in range(0, len(data), 65_536):
        found += decoder.feed(data[start : start + 65_536])
    assert [item.line for item in found] == [line]
    assert isinstance(found[0], ev.Event)


def test_a_huge_sequence_number_and_version_are_read() -> None:
    event = event_of(line_of(seq=10**30, schema_version=10**30))
    assert event.seq == 10**30
    assert event.payload == ev.Terminal("done")


def test_numbers_beyond_all_measure_cost_their_line() -> None:
    for number in (b"1" * 5000, b"1e999", b"NaN", b"-Infinity"):
        assert reason_of(bare(seq=12345).replace(b"12345", number))


# --- headers ---------------------------------------------------------------------------------


@given(transcripts(max_steps=3))
def test_a_header_agrees_with_its_event(data: bytes) -> None:
    for event in Decoder().feed(data):
        assert isinstance(event, ev.Event)
        header = decode_header(event.line)
        assert header is not None
        assert msgspec.structs.astuple(header) == (
            event.event_id,
            event.event_type,
            event.parent_id,
            event.seq,
        )


@given(st.binary())
def test_any_bytes_give_a_header_or_none(line: bytes) -> None:
    header = decode_header(line)
    assert header is None or header.event_id


def test_the_header_of_a_line_with_a_lone_surrogate_is_read() -> None:
    header = decode_header(line_of(payload={"reason": "\ud800"}))
    assert header is not None
    assert header.event_id == ID
