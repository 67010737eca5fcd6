"""Records to bytes and back, the view, and finding events by id in a large file.

A record here is a whole line with header and checksum. The comparisons parse or print the same JSON
without knowing its types, which is less work: they check nothing and make plain dictionaries.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Final

import msgspec
from benchmarks.harness import Figure, Setting, median_of

from rewake.log.scan import Transcript
from rewake.model.codec import decode_line, encode_payload
from rewake.model.content import Text, ToolCall, Usage
from rewake.model.events import Event, Message, Result, ToolLifecycle
from rewake.model.ids import IdGenerator
from rewake.record.lines import LineFormat
from rewake.state.fold import SessionState
from rewake.state.view import view

_RECORD_KB: Final = (1, 10, 100)
_BYTES_PER_ROUND: Final = 4_000_000
_HEADER_BYTES: Final = 460
_US: Final = 1_000_000
_MS: Final = 1_000
_WORDS: Final = 'The parser returns no module for an empty line, "so" the build fails.\n'


def measure(setting: Setting) -> list[Figure]:
    """Codec by size, then view, then lookups."""
    figures: list[Figure] = []
    for size in _RECORD_KB:
        figures += _codec(setting, size)
    return [*figures, *_view(setting), *_find(setting)]


def _codec(setting: Setting, size: int) -> list[Figure]:
    event = _event(size * 1024 - _HEADER_BYTES)
    message = event.payload
    line_format = LineFormat("s" * 36, "r" * 36, None)
    line = line_format.line(event, encode_payload(message))[:-1]
    plain = json.loads(line)
    count = max(1, _BYTES_PER_ROUND // len(line) // (1 if setting.sizes.rounds > 1 else 100))

    def repeat(work: Callable[[], object]) -> Callable[[], None]:
        def works() -> None:
            for _ in range(count):
                work()

        return works

    works = (
        lambda: decode_line(line),
        lambda: json.loads(line),
        lambda: msgspec.json.decode(line),
        lambda: line_format.line(event, encode_payload(message)),
        lambda: json.dumps(plain).encode(),
        lambda: msgspec.json.encode(plain),
    )
    times = median_of([repeat(work) for work in works], setting.sizes.rounds)
    mine_in, json_in, msgspec_in, mine_out, json_out, msgspec_out = (t / count * _US for t in times)
    return [
        Figure(f"decode {size} KB", mine_in, "µs", baseline=json_in, baseline_name="json.loads"),
        Figure(
            f"decode {size} KB", mine_in, "µs", baseline=msgspec_in, baseline_name="msgspec untyped"
        ),
        Figure(f"encode {size} KB", mine_out, "µs", baseline=json_out, baseline_name="json.dumps"),
        Figure(
            f"encode {size} KB",
            mine_out,
            "µs",
            baseline=msgspec_out,
            baseline_name="msgspec untyped",
        ),
    ]


def _event(text_bytes: int) -> Event:
    text = (_WORDS * (text_bytes // len(_WORDS) + 1))[: max(1, text_bytes - text_bytes // 20)]
    message = Message("assistant", (Text(text),), "some-model", Usage(9_000, 300))
    event_id = _ids()()
    at = "2026-01-01T00:00:00.000000Z"
    return Event(event_id, event_id, 1, at, "s" * 36, "r" * 36, "message", 1, message, 7)


def _ids() -> IdGenerator:
    return IdGenerator(lambda: time.time_ns() // 1_000_000, lambda _bits: 1)


def _view(setting: Setting) -> list[Figure]:
    """Half of the messages have a call with its result."""
    ids, state = _ids(), SessionState()
    for _ in range(setting.sizes.view_messages // 2):
        _fold(state, ids, "message", Message("user", (Text(_WORDS * 8),)))
        said = Message(
            "assistant", (Text(_WORDS * 8), ToolCall("call_1", "Read", {"file_path": "a.py"}))
        )
        message_id = _fold(state, ids, "message", said)
        result = Result((Text(_WORDS * 20),))
        ended = ToolLifecycle("Read", "completed", message_id, message_id, result=result)
        _fold(state, ids, "tool_lifecycle", ended)
    (taken,) = median_of((lambda: view(state.conversation),), setting.sizes.rounds)
    name = f"view of {setting.sizes.view_messages:,} messages, half with a call"
    return [Figure(name, taken * _MS, "ms")]


def _fold(
    state: SessionState, ids: IdGenerator, kind: str, payload: Message | ToolLifecycle
) -> str:
    event_id = ids()
    at = "2026-01-01T00:00:00.000000Z"
    state.apply(Event(event_id, None, 0, at, "s", "r", kind, 1, payload))
    return event_id


def _find(setting: Setting) -> list[Figure]:
    built = setting.transcript
    distance = max(1, len(built.spread_ids) // setting.sizes.kept_ids)
    wanted = built.spread_ids[::distance][: setting.sizes.kept_ids]
    with Transcript(built.path) as reader:

        def together() -> None:
            found = reader.find_many(wanted).found
            if len(found) != len(wanted):
                raise AssertionError(f"{len(wanted) - len(found)} events were not found")

        def one_by_one() -> None:
            for event_id in wanted:
                reader.find(event_id)

        shared, alone = median_of((together, one_by_one), setting.sizes.rounds)
    name = f"find_many of {len(wanted)} ids in {built.size / 1e6:,.0f} MB"
    return [Figure(name, shared * _MS, "ms", baseline=alone * _MS, baseline_name="one by one")]
