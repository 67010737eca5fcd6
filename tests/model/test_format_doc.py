"""docs/format.md says what the code does: its example decodes, and no name is missing."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from rewake.model import content
from rewake.model import events as ev
from rewake.model.codec import Decoder

PAGE = (Path(__file__).parents[2] / "docs/format.md").read_text("utf-8")
(EXAMPLE,) = re.findall(r"^```jsonl\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
NAMED = set(re.findall(r"`([a-z0-9_]+)`", PAGE))
BLOCKS = (
    content.Text,
    content.Thinking,
    content.ToolCall,
    content.ToolResult,
    content.Image,
    content.File,
)
NESTED = (
    ev.ForkOrigin,
    ev.History,
    ev.FileState,
    ev.Change,
    ev.FileRead,
    ev.OutputRead,
    ev.Verification,
    ev.Outcome,
    ev.Todo,
    ev.Result,
    ev.Resolution,
    ev.SpilledBlob,
    ev.Spilled,
    content.Usage,
    *ev.Intent.__args__,
)


def section(title: str) -> str:
    found = re.search(rf"^### `{title}`\n(.*?)(?=^##)", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert found is not None, title
    return found[1]


def test_the_example_is_a_transcript_of_committed_events() -> None:
    decoder = Decoder()
    found = decoder.feed(EXAMPLE.encode())
    assert decoder.finish() is None
    assert [type(item) for item in found] == [ev.Event] * 3
    assert [item.payload.__class__ for item in found if isinstance(item, ev.Event)] == [
        ev.SessionStart,
        ev.RunStart,
        ev.Message,
    ]


def test_the_checksums_of_the_example_are_real() -> None:
    for line in EXAMPLE.encode().splitlines(keepends=True):
        assert line[-21:] == b',"crc32":"%08x"}\n' % zlib.crc32(line[:-21])


def test_the_numbers_told_about_the_example_are_its_own() -> None:
    last = EXAMPLE.encode().splitlines(keepends=True)[-1]
    told = re.search(
        r"first (\d+) bytes.*?CRC-32 `(\w{8})`.*?line is (\d+) bytes", PAGE, flags=re.DOTALL
    )
    assert told is not None
    assert told.groups() == (str(len(last) - 21), f"{zlib.crc32(last[:-21]):08x}", str(len(last)))
    assert last[13:49] == last.split(b'"')[3]  # bytes 14 to 49, counted from 1


@pytest.mark.parametrize("name", ev.PAYLOAD_TYPES)
def test_every_field_of_every_event_type_is_described_in_its_section(name: str) -> None:
    described = set(re.findall(r"`(\w+)`", section(name)))
    fields = {field.encode_name for field in msgspec.structs.fields(ev.PAYLOAD_TYPES[name])}
    assert fields <= described


@pytest.mark.parametrize("part", [*NESTED, *BLOCKS], ids=lambda part: part.__name__)
def test_every_field_of_every_part_is_named(part: type[msgspec.Struct]) -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(part)}
    assert fields <= NAMED
    tag = part.__struct_config__.tag
    assert tag is None or tag in NAMED


def test_every_closed_word_is_named() -> None:
    closed = (ev.Role, ev.StopReason, ev.CallStatus, ev.Verdict, ev.FileKind)
    assert {word for words in closed for word in get_args(words)} <= NAMED


def test_the_versions_on_the_page_are_those_of_the_code() -> None:
    assert f"# The transcript format, version {ev.FORMAT_VERSION}\n" in PAGE
    assert f"`min_reader_version`; for this page it is {ev.READER_VERSION} |" in PAGE
    assert ev.FORMAT_NAME in PAGE
