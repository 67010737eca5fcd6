"""Payloads: what goes out comes back, what can't be read is kept, what can't be written is refused."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.strategies import JSON_OBJECTS, JSON_VALUES, payloads

from rewake.errors import InvalidValueError
from rewake.model import events as ev
from rewake.model.codec import DEPTH_MAX, decode_payload, encode_payload, preview_of
from rewake.model.content import Opaque, Text, Thinking, ToolCall, ToolResult
from rewake.model.upcast import upcast


def reread(payload: ev.KnownPayload) -> ev.KnownPayload | ev.Spilled | ev.Unknown:
    return decode_payload(ev.EVENT_TYPES[type(payload)], 1, encode_payload(payload))


def nested(levels: int) -> object:
    value: object = "x"
    for _ in range(levels):
        value = [value]
    return value


@given(payloads())
def test_every_payload_comes_back_equal(payload: ev.KnownPayload) -> None:
    assert reread(payload) == payload


@given(payloads())
def test_encoding_what_came_back_gives_the_same_bytes(payload: ev.KnownPayload) -> None:
    again = reread(payload)
    assert encode_payload(again) == encode_payload(payload)


@given(payloads())
def test_the_bytes_of_a_payload_are_one_line_of_strict_json(payload: ev.KnownPayload) -> None:
    encoded = encode_payload(payload)
    assert b"\n" not in encoded
    json.loads(encoded.decode("utf-8"), parse_constant=pytest.fail)


@given(st.sampled_from(sorted(ev.PAYLOAD_TYPES)), st.integers(-(2**70), 2**70), st.binary())
def test_any_bytes_become_a_payload_or_an_unknown(name: str, version: int, raw: bytes) -> None:
    found = decode_payload(name, version, raw)
    if isinstance(found, ev.Unknown):
        assert found.raw == raw
        assert found.problem


@given(st.sampled_from(sorted(ev.PAYLOAD_TYPES)), st.integers(0, 3), JSON_VALUES)
def test_any_json_becomes_a_payload_or_an_unknown(name: str, version: int, value: object) -> None:
    raw = json.dumps(value).encode()
    found = decode_payload(name, version, raw)
    assert not isinstance(found, ev.Unknown) or found.raw == raw


def test_fields_at_their_default_are_left_out() -> None:
    assert encode_payload(ev.Terminal("done")) == b'{"reason":"done"}'


def test_the_first_line_says_what_it_is_even_where_that_is_the_default() -> None:
    written = json.loads(encode_payload(ev.SessionStart()))
    assert written["format"] == "rewake-transcript"
    assert written["version"] == written["min_reader_version"] == 1


def test_unknown_fields_are_tolerated() -> None:
    assert decode_payload("terminal", 1, b'{"reason":"done","mood":"fine"}') == ev.Terminal("done")


def test_a_payload_from_a_newer_version_is_read_as_far_as_it_is_understood() -> None:
    assert decode_payload("terminal", 9, b'{"reason":"done","new":1}') == ev.Terminal("done")


def test_a_field_of_the_wrong_type_makes_the_payload_unknown_with_the_reason() -> None:
    found = decode_payload("terminal", 1, b'{"reason":7}')
    assert isinstance(found, ev.Unknown)
    assert found.problem is not None
    assert "reason" in found.problem


def test_an_unknown_event_type_keeps_its_payload_byte_for_byte() -> None:
    raw = b'{ "b" : 1.50, "a" : "\\u00e9" }'
    assert encode_payload(decode_payload("hologram", 1, raw)) == raw


@pytest.mark.parametrize(
    "raw",
    [
        b'{"type":"hologram","depth":[1, 2.50]}',
        b'{ "type" : "text" }',
        b'{"type":"text","text":7}',
        b"7",
        b"null",
        '{"type":"é\u2028"}'.encode(),
        b'{"type":"hologram","half":"\\udc00"}',
    ],
)
def test_a_block_that_cannot_be_read_stays_in_its_place_byte_for_byte(raw: bytes) -> None:
    line = (
        b'{"role":"user","content":[{"type":"text","text":"a"},%b,{"type":"text","text":"b"}]}'
        % raw
    )
    found = decode_payload("message", 1, line)
    assert isinstance(found, ev.Message)
    assert found.content == (Text("a"), Opaque(raw), Text("b"))
    assert encode_payload(found) == line


def test_an_opaque_block_beside_provider_data_and_a_lone_surrogate_round_trips() -> None:
    message = ev.Message(
        "assistant",
        (Opaque(b'{"type":"z"}'), Text("\ud800")),
        model="\udfff",
        provider={"content": [], "id": None},
    )
    assert reread(message) == message


def test_lone_surrogates_come_back_wherever_they_stand() -> None:
    call = ToolCall("\ud800", "Re\udc00ad", {"\ud800": ["\udfff", {"x": "a\udbffb"}]})
    message = ev.Message("assistant", (Text("\ud83d"), Thinking("\ude00"), call), source="\ud800")
    assert reread(message) == message


def test_a_pair_of_surrogates_is_one_character() -> None:
    found = decode_payload("terminal", 1, b'{"reason":"\\ud83d\\ude00"}')
    assert found == ev.Terminal("\U0001f600")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_non_finite_numbers_are_refused(number: float) -> None:
    for arguments in ({"x": number}, {"x": [{"y": number}], "z": "\ud800"}):
        message = ev.Message("assistant", (ToolCall("1", "t", arguments),))
        with pytest.raises(InvalidValueError, match="no number"):
            encode_payload(message)


def test_a_non_finite_number_beside_an_opaque_block_is_refused() -> None:
    blocks = (Opaque(b"{}"), ToolCall("1", "t", {"x": float("nan")}))
    with pytest.raises(InvalidValueError):
        encode_payload(ev.Message("assistant", blocks))


def test_a_null_is_no_reason_to_refuse() -> None:
    assert reread(ev.Metadata({"title": None})) == ev.Metadata({"title": None})


@pytest.mark.parametrize("value", [object(), {1, object()}, {(1, 2): 3}])
def test_values_that_are_no_json_are_refused(value: object) -> None:
    with pytest.raises(InvalidValueError):
        encode_payload(ev.Metadata({"x": value}))


@pytest.mark.parametrize("number", [10**30, -(10**30), 2**63, 2**64, 10**4000])
def test_huge_integers_come_back_exactly(number: int) -> None:
    assert reread(ev.Metadata({"x": number})) == ev.Metadata({"x": number})


def test_an_integer_beyond_what_python_converts_is_refused() -> None:
    with pytest.raises(InvalidValueError):
        encode_payload(ev.Metadata({"x": 10**5000}))


def test_numbers_out_of_range_make_the_payload_unknown() -> None:
    for raw in (b'{"entries":{"x":1e999}}', b'{"entries":{"x":1e999,"s":"\\ud800"}}'):
        assert isinstance(decode_payload("metadata", 1, raw), ev.Unknown)


def test_nesting_up_to_the_limit_is_written_and_read() -> None:
    # The payload, `entries` and `x` take levels of their own.
    payload = ev.Metadata({"x": nested(DEPTH_MAX - 2)})
    assert reread(payload) == payload


def test_nesting_beyond_the_limit_is_refused() -> None:
    for levels in (DEPTH_MAX, 900, 100_000):
        with pytest.raises(InvalidValueError):
            encode_payload(ev.Metadata({"x": nested(levels)}))


def test_many_values_side_by_side_are_no_nesting() -> None:
    payload = ev.Metadata({"x": [{"y": []}] * 1000})
    assert reread(payload) == payload


# --- spilled payloads ------------------------------------------------------------------------

SPILLED = ev.Spilled(ev.SpilledBlob("a" * 64, 70_000), msgspec.Raw(b'{"role":"user"}'))


@pytest.mark.parametrize("name", sorted(ev.PAYLOAD_TYPES))
def test_a_spilled_payload_is_recognised_for_every_type_in_any_key_order(name: str) -> None:
    blob = b'"blob":{"sha256":"%b","size":70000}' % (b"a" * 64)
    preview = b'"preview":{"role":"user"}'
    assert encode_payload(SPILLED) == b"{%b,%b}" % (blob, preview)
    for raw in (b"{%b,%b}" % (blob, preview), b"{%b,%b}" % (preview, blob)):
        assert decode_payload(name, 1, raw) == SPILLED


def test_a_preview_with_a_lone_surrogate_is_recognised() -> None:
    raw = b'{"blob":{"sha256":"x","size":1},"preview":{"s":"\\ud800"}}'
    found = decode_payload("message", 1, raw)
    assert isinstance(found, ev.Spilled)
    assert encode_payload(found) == raw


def test_data_that_looks_like_a_blob_deeper_in_a_payload_is_data() -> None:
    payload = ev.Metadata({"blob": {"sha256": "x", "size": 1}})
    assert reread(payload) == payload
    project = ev.SessionStart(project={"blob": {"sha256": "x", "size": 1}})
    assert reread(project) == project


def test_a_preview_keeps_the_shape_and_cuts_long_strings() -> None:
    result = ev.Result((Text("x" * 100_000),))
    payload = ev.ToolLifecycle("Read", "completed", call_id="1", result=result)
    preview = decode_payload("tool_lifecycle", 1, preview_of(encode_payload(payload)))
    assert isinstance(preview, ev.ToolLifecycle)
    assert preview.call_id == "1"
    assert preview.result is not None
    assert preview.result.content == (Text("x" * 300 + " …"),)


@given(JSON_OBJECTS)
def test_a_preview_is_bounded_json(plain: dict[str, object]) -> None:
    encoded = json.dumps({"many": [plain] * 200, "long": ["\ud800" * 5000] * 200}).encode()
    preview = preview_of(encoded)
    assert len(preview) <= 8192
    assert isinstance(json.loads(preview), dict)


# --- old versions ----------------------------------------------------------------------------


def raise_key_error(payload: dict[str, object]) -> dict[str, object]:
    return {"reason": payload["why"]}


@pytest.fixture
def terminal_at_version_3(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = {
        ("terminal", 1): lambda old: {"why": old.pop("cause"), **old},
        ("terminal", 2): raise_key_error,
    }
    monkeypatch.setitem(ev.SCHEMA_VERSIONS, "terminal", 3)
    monkeypatch.setattr(upcast, "__defaults__", (steps,))


@pytest.mark.usefixtures("terminal_at_version_3")
def test_an_old_payload_is_upcast_through_each_version() -> None:
    assert decode_payload("terminal", 1, b'{"cause":"done"}') == ev.Terminal("done")
    assert decode_payload("terminal", 2, b'{"why":"\\ud800"}') == ev.Terminal("\ud800")
    assert decode_payload("terminal", 3, b'{"reason":"done"}') == ev.Terminal("done")


@pytest.mark.usefixtures("terminal_at_version_3")
@pytest.mark.parametrize("raw", [b'{"reason":"done"}', b"[]", b"7", b"null"])
def test_an_old_payload_that_no_step_can_use_is_unknown_with_its_own_bytes(raw: bytes) -> None:
    found = decode_payload("terminal", 1, raw)
    assert isinstance(found, ev.Unknown)
    assert found.raw == raw


def test_a_version_that_never_was_is_unknown_at_once() -> None:
    for version in (0, -1, -(10**15)):
        assert isinstance(decode_payload("terminal", version, b'{"reason":"x"}'), ev.Unknown)


def test_a_tool_result_block_inside_a_message_round_trips() -> None:
    message = ev.Message("tool", (ToolResult("call_1", (Text("r"),), is_error=True),))
    assert reread(message) == message
