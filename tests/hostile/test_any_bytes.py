"""Whatever bytes a transcript has: events and a report of the damage, and nothing else."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.model.strategies import transcripts

import rewake
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk
from rewake.log.scan import Transcript
from rewake.model.codec import CorruptLine, Decoder, TornTail
from rewake.model.events import Event
from rewake.resume.load import load
from rewake.testing.view_suite import violations

MANY = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
FEW = settings(MANY, max_examples=40)

_LINE = b'{"event_id":"%s","parent_id":%s,"seq":%s,"timestamp":"","session_id":"s","event_type":"%s","payload":%s}'
_REWIND = (
    b'{"target_id":null,"scope":"files","checkpoint":{"kind":"state","fold_version":1,'
    b'"history":{"event_ids":["../x"]},"state":{}}}'
)
_SHELL = (
    b'{"tool_name":"Bash","status":"started","call_id":"../../x","intent":{"kind":"shell",'
    b'"command":"x","cwd":"/","output_directory":"../../.."}}'
)
_CHANGE = (
    b'{"tool_name":"Edit","status":"started","call_id":"x/../y","intent":{"kind":"file_change",'
    b'"changes":[{"path":"\\u0000","before":{},"after":{"kind":"file","sha256":"zz"}},'
    b'{"path":"relative","before":{},"after":{}},{"path":"","path_base64":"!","before":{},'
    b'"after":{}}]}}'
)
_VALUES = st.sampled_from(
    [
        b"0",
        b"null",
        b"1e999",
        b"-0",
        b"9" * 5000,
        b"NaN",
        b"[]",
        b"{}",
        b'"x"',
        b"[" * 3000 + b"]" * 3000,
        b'{"a":' * 3000 + b"1" + b"}" * 3000,
        b'{"role":"user","content":[{"type":"text","text":"\\ud800"}]}',
        b'{"role":"user","content":[{"type":"text","text":7}],"role":"tool"}',
        b'{"blob":{"sha256":"../../../etc/passwd","size":1}}',
        b'{"kind":"state","fold_version":1,"history":{"base":"x"},"state":{"world":{"calls":7}}}',
        _REWIND,
        _SHELL,
        _CHANGE,
    ]
)
_TYPES = st.sampled_from(
    [
        b"session",
        b"run",
        b"message",
        b"message_amendment",
        b"tool_lifecycle",
        b"checkpoint",
        b"rewind",
        b"metadata",
        b"terminal",
        b"agent",
        b"hologram",
    ]
)
_IDS = st.sampled_from(
    [b"a", b"b", b"01945a62-9e00-7000-8000-abc0ffee0000", b"01945a62-9e01-7000-8000-abc0ffee0000"]
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A line that nearly is one."""
    parent = draw(st.sampled_from([b"null", b'"a"', b'"b"', b"7"]))
    seq = draw(st.sampled_from([b"0", b"1", b"-1", b"9" * 40]))
    return _LINE % (draw(_IDS), parent, seq, draw(_TYPES), draw(_VALUES))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A valid transcript with some of its bytes replaced, cut out or doubled."""
    data = draw(transcripts(max_steps=4))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 200)))
        kind = draw(st.sampled_from(["replace", "cut", "double", "truncate"]))
        if kind == "replace":
            data = data[:start] + draw(st.binary(max_size=60)) + data[end:]
        elif kind == "cut":
            data = data[:start] + data[end:]
        elif kind == "double":
            data = data[:end] + data[start:end] + data[end:]
        else:
            data = data[:end]
    return data


HOSTILE = st.one_of(
    st.binary(max_size=300),
    st.lists(st.one_of(lines(), st.binary(max_size=40)), max_size=6).map(b"\n".join),
    st.lists(lines(), max_size=6).map(lambda found: b"\n".join([*found, b""])),
    damaged(),
)


@MANY
@given(HOSTILE)
def test_the_codec_gives_events_corrupt_lines_and_a_tail_that_cover_every_byte(
    data: bytes,
) -> None:
    decoder = Decoder(0)
    found = list(decoder.feed(data))
    assert all(isinstance(item, Event | CorruptLine) for item in found)
    tail = decoder.finish()
    spans = [(item.offset, item.offset + len(item.line) + 1) for item in found]
    if tail is not None:
        assert isinstance(tail, TornTail)
        spans.append((tail.offset, tail.offset + len(tail.line)))
    # Empty lines are the only bytes that nobody mentions.
    at = 0
    for start, end in spans:
        assert data[at:start].strip(b"\n\r") == b""
        assert start >= at
        at = end
    assert data[at:].strip(b"\n\r") == b""


@MANY
@given(HOSTILE)
def test_loading_gives_a_state_and_a_report_and_reads_no_file_of_an_attackers_choice(
    data: bytes,
) -> None:
    with tempfile.TemporaryDirectory() as where:
        path = Path(where) / "transcript.jsonl"
        path.write_bytes(data)
        blobs = BlobStore(Path(where) / "blobs", Disk(), durable=False)
        with Transcript(path) as reader:
            try:
                loaded = load(reader, blobs)
            except rewake.RewakeError as error:
                assert error.remedy  # noqa: PT017  # raised for a newer version only, with advice
                return
        assert all(-1 <= item.offset <= len(data) for item in loaded.damage)
        assert path.read_bytes() == data


@FEW
@given(HOSTILE)
def test_opening_it_gives_a_session_that_goes_on(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as where:
        home, project = Path(where) / "home", Path(where) / "project"
        project.mkdir()
        rewake.open_session(project, home=home, session_id="s", durability="process").close()
        (path,) = home.glob("projects/*/sessions/s/transcript.jsonl")
        path.write_bytes(data)
        try:
            session = rewake.open_session(
                project, home=home, resume="s", durability="process", trace=False
            )
        except rewake.RewakeError as error:
            assert error.remedy  # noqa: PT017  # a refusal says what to do
            return
        with session:
            session.user("Go on.")
            messages = session.view()
        assert violations(messages) == []
        assert path.read_bytes().startswith(data)
        again = rewake.resume("s", project=project, home=home)
        assert again.messages[-1].message.content == (rewake.Text("Go on."),)
