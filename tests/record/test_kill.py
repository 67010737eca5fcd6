"""SIGKILL at each crash point of a real process: what it acknowledged is there, and once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from rewake.model.content import Text
from rewake.model.events import Message

_WRITE = """
import os, random, sys, time
from pathlib import Path
from rewake.log.appender import Appender
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk, arm_crash_point
from rewake.model.content import Text
from rewake.model.events import Message
from rewake.model.ids import IdGenerator
from rewake.record.recorder import Recorder

directory, durability = Path(sys.argv[1]), sys.argv[2]
durable = durability == "disk"
recorder = Recorder(
    session_id="session",
    run_id="run",
    durability=durability,
    ids=IdGenerator(lambda: time.time_ns() // 1_000_000, random.getrandbits),
    fold=lambda event: None,
    transcript=Appender(directory / "transcript.jsonl", Disk(), sync=durable),
    blobs=BlobStore(directory / "blobs", Disk(), durable=durable),
)
arm_crash_point(os.environ)
for number in range(30):
    text = "x" * 70_000 if number % 10 == 9 else "short"
    event = recorder.submit(Message("user", (Text(f"{number} {text}"),)), barrier=True)
    os.write(1, event.event_id.encode() + b"\\n")
"""


ALWAYS = (
    "before_write_event:7",
    "after_write_event:7",
    "before_write_blob:2",
    "before_rename:2",
    "after_rename:2",
    "after_write_blob:2",
)
WHERE_SYNCED = ("before_sync_event:7", "after_sync_event:7")


@pytest.mark.parametrize(
    ("durability", "point"),
    [("process", point) for point in ALWAYS] + [("disk", point) for point in ALWAYS + WHERE_SYNCED],
)
def test_what_was_acknowledged_is_there(world: Any, durability: str, point: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WRITE, str(world.directory), durability],
        env={**os.environ, "REWAKE_CRASH_POINT": point},
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    acknowledged = done.stdout.decode().split()
    events = world.check_chain()
    assert [event.event_id for event in events][: len(acknowledged)] == acknowledged
    assert len(events) - len(acknowledged) in {0, 1}
    recorder = world.recorder(durability)
    recorder.submit(Message("user", (Text("awake"),)), barrier=True)
    assert len(world.check_chain()) == len(events) + 1
