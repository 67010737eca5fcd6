"""Sizes and depths that no writer makes: memory and time stay bounded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.hostile.conftest import Plant

import rewake
from rewake.model.codec import CorruptLine, Decoder
from rewake.model.events import Event

_HEAD = (
    b'{"event_id":"%b","seq":9,"timestamp":"","session_id":"s","event_type":"message","payload":'
)
_RESUME = """
import resource, sys
import rewake
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
state = rewake.resume("s", project=sys.argv[1], home=sys.argv[2])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((peak - before) * 1024, len(state.messages), [item.kind for item in state.damage])
"""


def line(payload: bytes, event_id: bytes = b"01945a62-9e00-7000-8000-abc0ffee0000") -> bytes:
    return _HEAD % event_id + payload + b"}\n"


def decode(data: bytes) -> Event | CorruptLine:
    (found,) = Decoder(0).feed(data)
    return found


def test_json_as_deep_as_a_line_is_long_costs_that_line() -> None:
    deep = b"[" * 1_000_000 + b"]" * 1_000_000
    assert isinstance(decode(line(deep)), Event | CorruptLine)
    assert isinstance(decode(b"[" * 1_000_000 + b"\n"), CorruptLine)


def test_huge_numbers_cost_their_line_at_most() -> None:
    for number in (b"9" * 1_000_000, b"1e999999999", b"-" + b"9" * 5000, b"0." + b"1" * 100_000):
        found = decode(line(b'{"role":"user","content":[],"usage":{"input_tokens":%b}}' % number))
        assert isinstance(found, Event | CorruptLine)


def test_of_a_repeated_member_the_last_one_counts() -> None:
    found = decode(
        b'{"event_id":"a","event_id":"b","seq":1,"seq":2,"timestamp":"","session_id":"s",'
        b'"event_type":"hologram","payload":{}}\n'
    )
    assert isinstance(found, Event)
    assert (found.event_id, found.seq) == ("b", 2)


def resume_in_a_process(project: Path, home: Path) -> tuple[int, int, str]:
    command = [sys.executable, "-c", _RESUME, str(project), str(home)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    grown, messages, damage = done.stdout.split(" ", 2)
    return int(grown), int(messages), damage.strip()


def test_a_line_of_100_mb_is_loaded_with_a_few_times_its_size(
    project: Path, home: Path, directory: Path
) -> None:
    size = 100 << 20
    transcript = directory / "transcript.jsonl"
    with transcript.open("ab") as file:
        text = b'{"role":"user","content":[{"type":"text","text":"'
        file.write(line(text + b"x" * size + b'"}]}', b"f1945a62-9e00-7000-8000-abc0ffee0000"))
    grown, messages, damage = resume_in_a_process(project, home)
    assert messages == 1  # it names no parent, so the conversation begins with it
    assert damage == "[]"
    assert grown < 7 * size


def test_garbage_of_100_mb_without_a_newline_is_one_torn_tail(
    project: Path, home: Path, plant: Plant, directory: Path
) -> None:
    size = 100 << 20
    before = (directory / "transcript.jsonl").read_bytes()
    path = plant(before)
    with path.open("ab") as file:
        file.write(b"x" * size)
    grown, messages, damage = resume_in_a_process(project, home)
    assert (messages, damage) == (1, "['torn_tail']")
    assert grown < 4 * size


def test_memory_follows_the_largest_line_not_the_file(
    project: Path, home: Path, directory: Path
) -> None:
    """200 MB of unknown lines in the middle, each 100 KB; what is active stays small."""
    transcript = directory / "transcript.jsonl"
    filler = (
        b'{"event_id":"f%07d-9e00-7000-8000-abc0ffee0000","seq":9,"timestamp":"","session_id":"s","event_type":"hologram","payload":{"x":"'
        + b"x" * 100_000
        + b'"}}\n'
    )  # one line, as it is in the file
    with transcript.open("ab") as file:
        for number in range(2_000):
            file.write(filler % number)
    with rewake.open_session(project, home=home, resume="s", trace=False) as session:
        session.record(session.state.checkpoint(), barrier=True)
        session.user("still here")
    grown, messages, _ = resume_in_a_process(project, home)
    assert messages == 1
    assert grown < 50 << 20
