"""Every transcript of every version ever written still reads as it did, and v1 is still written so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.golden.make import HERE, describe, make, read_states

from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk
from rewake.log.scan import Transcript
from rewake.model import events as ev
from rewake.model.codec import Decoder, decode_payload
from rewake.resume.load import load
from rewake.state.fold import FOLD_VERSION

TRANSCRIPTS = sorted(HERE.glob("v*.jsonl"))
FILES, BLOBS = make(read_states())


def events_of(path: Path) -> list[ev.Event]:
    found = Decoder().feed(path.read_bytes())
    return [item for item in found if isinstance(item, ev.Event)]


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_golden_transcript_decodes_to_what_is_on_file(path: Path) -> None:
    expected = json.loads(path.with_suffix(".expected.json").read_text("utf-8"))
    assert describe(path.read_bytes()) == expected


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_folding_from_the_root_gives_the_state_that_the_checkpoints_give(path: Path) -> None:
    blobs = BlobStore(HERE / "blobs", Disk(), durable=False)
    with Transcript(path) as transcript:
        states = [
            load(transcript, blobs, fold_version=version).state.as_json()
            for version in (FOLD_VERSION, FOLD_VERSION + 1)
        ]
    for state in states:
        del state["history"]  # names the same events by way of another base
    assert states[0] == states[1]


def test_every_golden_transcript_has_its_writer() -> None:
    assert {path.name for path in TRANSCRIPTS} == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_version_1_is_still_written_byte_for_byte(name: str) -> None:
    assert FILES[name] == (HERE / name).read_bytes()


def test_the_blobs_on_file_are_those_that_the_transcripts_name() -> None:
    store = BlobStore(HERE / "blobs", Disk(), durable=False)
    assert {name: store.get(name) for name in BLOBS} == BLOBS


def test_a_spilled_payload_reads_from_its_blob_as_the_payload_it_stands_for() -> None:
    store = BlobStore(HERE / "blobs", Disk(), durable=False)
    (event,) = [
        event
        for event in events_of(HERE / "v1-whole.jsonl")
        if isinstance(event.payload, ev.Spilled)
    ]
    assert isinstance(event.payload, ev.Spilled)
    raw = store.get(event.payload.blob.sha256)
    assert len(raw) == event.payload.blob.size
    assert isinstance(decode_payload(event.event_type, event.schema_version, raw), ev.Message)


def test_the_golden_story_has_every_event_type_status_and_intent() -> None:
    events = events_of(HERE / "v1-whole.jsonl")
    assert {event.event_type for event in events} == set(ev.PAYLOAD_TYPES)
    phases = [event.payload for event in events if isinstance(event.payload, ev.ToolLifecycle)]
    assert {phase.status for phase in phases} == {
        "requested",
        "started",
        "completed",
        "failed",
        "resolved",
    }
    assert {type(phase.intent) for phase in phases if phase.intent} == set(ev.Intent.__args__)
