"""Whatever stands in a transcript, an exact archive of it holds every byte, and a redacted one every event."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.archive.machines import Machine
from tests.model.strategies import transcripts

from rewake.log.disk import Disk
from rewake.log.layout import SessionPaths
from rewake.log.scan import Transcript
from rewake.model.codec import decode_line
from rewake.model.events import Event
from rewake.redaction.redactor import Redactor

SESSION_ID = "00000000-0000-7000-8000-000000000000"
SECRET = "v3ry-Secret-Value"
DAMAGE = st.sampled_from(
    [
        b"",
        b"garbage\n",
        b"\x00\x00\n",
        b"torn {",
        b"{}\n",
        b'{"a":"\xff"}\n',
        b"\r\n",
        SECRET.encode(),
    ]
)
one_disk = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def write(machine: Machine, data: bytes) -> None:
    paths = SessionPaths(
        machine.at.layout.create_project(machine.project, Disk(), sync=False), SESSION_ID
    )
    Disk().make_directory(paths.directory, sync=False)
    Disk().write_atomic(paths.transcript, data, sync=False)


def carried(data: bytes, redactor: Redactor | None) -> bytes:
    """The transcript on another machine."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        here, there = Machine(root / "here"), Machine(root / "there")
        write(here, data)
        here.export(SESSION_ID, root / "x", redactor)
        here.export(SESSION_ID, root / "y", redactor and Redactor({"A_SECRET": SECRET}))
        assert (root / "x").read_bytes() == (root / "y").read_bytes()
        there.take(root / "x")
        return there.paths(SESSION_ID).transcript.read_bytes()


@one_disk
@given(transcripts(), DAMAGE)
def test_an_exact_copy_is_exact(data: bytes, damage: bytes) -> None:
    assert carried(data + damage, None) == data + damage


@one_disk
@given(transcripts(), DAMAGE, st.booleans())
def test_a_redacted_copy_has_every_event_in_its_place(
    data: bytes,
    damage: bytes,
    planted: bool,  # noqa: FBT001  # Hypothesis passes by position
) -> None:
    if planted:
        lines = data.split(b"\n")
        data = b"\n".join(_with_secret(line) for line in lines)
    before = events(data + damage)
    after = events(carried(data + damage, Redactor({"A_SECRET": SECRET})))
    assert [header(event) for event in before] == [header(event) for event in after]
    if planted:
        assert all(SECRET.encode() not in event.line for event in after)
    assert [
        event.line for event, other in zip(before, after, strict=True) if event.line == other.line
    ] == [event.line for event in before if SECRET.encode() not in event.line]


def _with_secret(line: bytes) -> bytes:
    """The same event with a secret in each plain text of its payload."""
    from rewake.model import jsontext
    from rewake.model.codec import with_members

    if not isinstance(decode_line(line), Event):
        return line
    payload = jsontext.loads(jsontext.members(line)["payload"])
    if payload.get("role") != "user":
        return line
    payload["content"].append({"type": "text", "text": f"it is {SECRET}!"})
    return with_members(line, {"payload": jsontext.dumps(payload)})


def events(data: bytes) -> list[Event]:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        with Transcript(Path(file.name)) as reader:
            return [item for item in reader.forward() if isinstance(item, Event)]


def header(event: Event) -> tuple[object, ...]:
    return (event.event_id, event.parent_id, event.seq, event.event_type, type(event.payload))
