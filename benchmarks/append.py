"""What recording costs: one write per event, one commit per event, one commit per hundred.

Everything that a session has is attached: the recorder, the fold with session memory, the trace.
Each round alternates with the bare system calls on the same disk.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal

from benchmarks.harness import Figure, Setting, Target, interleaved, median_of, say

import rewake
from rewake.log.appender import Appender
from rewake.log.disk import Disk
from rewake.model.content import Text
from rewake.model.events import Event, Message
from rewake.model.ids import IdGenerator
from rewake.record.lines import LineFormat
from rewake.record.recorder import Recorder
from rewake.record.trace import TraceSink
from rewake.state.fold import SessionState

_RATE: Final = Target("≥", 60_000)
_BATCH_RATE: Final = Target("≥", 80_000)
_FLAT: Final = Target("≤", 1.10)
_OVER_BARE_US: Final = Target("≤", 15)
_OF_BARE_RATE: Final = Target("≥", 0.75)
_BATCH: Final = 100
_US: Final = 1_000_000
Level = Literal["process", "disk"]
_THINK_S: Final = 15e-6  # what the target allows on a tmpfs
_BARE_COMMIT: Final = "write + fdatasync"

# 640 characters make a line of 1,024 bytes with its header and checksum.
_PROSE: Final = "The build of module 17 fails when the parser sees a line that is empty. " * 9
_MESSAGES: Final = (
    Message("user", (Text(_PROSE[:640]),)),
    Message("assistant", (Text(_PROSE[:640]),)),
)


def measure(setting: Setting) -> list[Figure]:
    """Both disks, all durability levels."""
    figures = _flat(setting)
    if setting.memory_disk is not None:
        figures += _commits(setting, setting.memory_disk, "tmpfs")
    return [
        *figures,
        *_commits(setting, setting.directory, "real disk"),
        *_through_session(setting),
    ]


# --- the recorder ----------------------------------------------------------------------------


def _recorder(path: Path, durability: Level) -> Recorder:
    disk = Disk()
    return Recorder(
        session_id="s" * 36,
        run_id="r" * 36,
        durability=durability,
        ids=_ids(),
        fold=SessionState().apply,
        transcript=Appender(path, disk, sync=durability == "disk"),
        sinks=(TraceSink(path.with_suffix(".trace"), disk),),
    )


def _ids() -> IdGenerator:
    return IdGenerator(lambda: time.time_ns() // 1_000_000, random.getrandbits)


def _messages() -> Iterator[Message]:
    return itertools.cycle(_MESSAGES)


def _submits(
    path: Path, durability: Level, count: int, commit_every: int = 0
) -> Callable[[], None]:
    """Open, record `count` events, flush, close; a `commit_every` of 0 is one write for each.

    Each round starts a state of its own: a conversation of all rounds is longer than any real one.
    """

    def work() -> None:
        recorder = _recorder(path, durability)
        for number, message in zip(range(1, count + 1), _messages(), strict=False):
            recorder.submit(message, barrier=commit_every > 0 and number % commit_every == 0)
        recorder.flush()
        recorder.close()

    return work


def _fill(path: Path, events: int) -> None:
    """A transcript of so many events of 1 KB, by the recorder's own line format."""
    ids, line_format = _ids(), LineFormat("s" * 36, "r" * 36, None)
    payload = b'{"role":"user","content":[{"type":"text","text":"%b"}]}' % _PROSE[:640].encode()
    previous: str | None = None
    at = "2026-01-01T00:00:00.000000Z"
    with path.open("wb", buffering=1 << 20) as file:
        for seq in range(events):
            event = Event(ids(), previous, seq, at, "", "", "message", 1, _MESSAGES[0])
            file.write(line_format.line(event, payload))
            previous = event.event_id
        file.flush()
        os.fsync(file.fileno())  # or its pages would be written back while others are timed


def _bare(path: Path, count: int, *, sync: bool, think_s: float = 0) -> Callable[[], None]:
    """The system calls alone; with `think_s`, after as long a busy wait before each pair."""
    line = b"x" * 1023 + b"\n"

    def work() -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        for _ in range(count):
            ready = time.perf_counter() + think_s
            while think_s and time.perf_counter() < ready:
                pass
            os.write(descriptor, line)
            if sync:
                os.fdatasync(descriptor)
        os.close(descriptor)

    return work


# --- what is measured ------------------------------------------------------------------------


def _flat(setting: Setting) -> list[Figure]:
    """Into files of different sizes in turns, on the real disk."""
    count = setting.sizes.events
    works = []
    for existing in setting.sizes.existing_events:
        say(f"a file of {existing:,} events")
        path = setting.directory / f"append-{existing}.jsonl"
        _fill(path, existing)
        works.append(_submits(path, "process", count))
    works.append(_bare(setting.directory / "bare", count, sync=False))
    *taken, bare = median_of(works, setting.sizes.rounds)
    *used, _ = median_of(works, min(3, setting.sizes.rounds), time.process_time)
    figures = [
        Figure(
            f"level process, into a file of {existing:,} events",
            count / seconds,
            "events/s",
            _RATE,
            count / bare,
            "write(2) alone",
            note=f"{seconds / count * _US:.1f} µs an event; {cpu / count * _US:.1f} µs of processor",
        )
        for existing, seconds, cpu in zip(setting.sizes.existing_events, taken, used, strict=True)
    ]
    spread = max(taken) / min(taken)
    return [*figures, Figure("slowest over fastest of these files", spread, "x", _FLAT)]


def _commits(setting: Setting, directory: Path, disk: str) -> list[Figure]:
    count = max(1, setting.sizes.events // 10)
    works = (
        _bare(directory / "bare-synced", count, sync=True),
        _submits(directory / "single.jsonl", "disk", count, 1),
        _bare(directory / "bare-thinking", count, sync=True, think_s=_THINK_S),
        _submits(directory / "batched.jsonl", "disk", setting.sizes.events, _BATCH),
    )
    bares, singles, thinking, batches = interleaved(works, setting.sizes.rounds)
    bare, one = _median(bares) / count, _median(singles) / count
    # Pair by pair: what the disk does changes from second to second.
    over = _median([mine - alone for mine, alone in zip(singles, bares, strict=True)]) / count
    rate = _median([alone / mine for mine, alone in zip(singles, bares, strict=True)])
    best = _median([alone / slow for slow, alone in zip(thinking, bares, strict=True)])
    many = setting.sizes.events / _median(batches)
    name = f"level disk on {disk}, a commit per event"
    rate_note = f"a bare loop that only waits {_THINK_S * _US:.0f} µs before each has {best:.3g}"
    if disk == "tmpfs":
        compared = Figure(f"{name}: over {_BARE_COMMIT}", over * _US, "µs", _OVER_BARE_US)
    else:
        compared = Figure(
            f"{name}: of the rate of {_BARE_COMMIT}", rate, "x", _OF_BARE_RATE, note=rate_note
        )
    return [
        Figure(name, one * _US, "µs", baseline=bare * _US, baseline_name=_BARE_COMMIT),
        compared,
        Figure(
            f"level disk on {disk}, a commit per {_BATCH} events", many, "events/s", _BATCH_RATE
        ),
    ]


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _through_session(setting: Setting) -> list[Figure]:
    """`Session.record`, which adds a state checkpoint every 1,000 events or 1 MiB."""
    project = setting.directory / "append-project"
    project.mkdir(exist_ok=True)
    count = setting.sizes.events

    def work() -> None:
        home = setting.directory / "append-home"
        with rewake.open_session(project, home=home, durability="process") as session:
            for _, message in zip(range(count), _messages(), strict=False):
                session.record(message)
            session.flush()

    (taken,) = median_of((work,), setting.sizes.rounds)
    note = (
        f"with state checkpoints; {count:,} messages, never compacted; opening and closing included"
    )
    name = "level process, through Session.record"
    return [Figure(name, count / taken, "events/s", _RATE, note=note)]
