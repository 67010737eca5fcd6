"""What recording costs: one write per event, one commit per event, one commit per hundred.

Each figure is measured in rounds that alternate with the bare system calls in the same process, so
that a busy machine disturbs both; the best round of each counts. `python -m benchmarks.append`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

from rewake.log.appender import Appender
from rewake.log.disk import Disk
from rewake.model.content import Text
from rewake.model.events import Event, Message
from rewake.model.ids import IdGenerator
from rewake.record.lines import LineFormat
from rewake.record.recorder import Recorder
from rewake.record.trace import TraceSink

Figures = dict[str, float]
_MESSAGE: Final = Message(
    "user", (Text("The build fails in module 17. " * 33),)
)  # a line of 1.3 KB
_ROUNDS: Final = 5


class CountingFold:
    """The smallest fold there can be; `benchmarks.run` hands in the real one."""

    def __init__(self) -> None:
        self.events = 0

    def __call__(self, _event: Event) -> None:
        self.events += 1


def _ids() -> IdGenerator:
    return IdGenerator(lambda: time.time_ns() // 1_000_000, random.getrandbits)


def _recorder(
    path: Path, durability: Literal["process", "disk"], fold: Callable[[Event], None]
) -> Recorder:
    disk = Disk()
    return Recorder(
        session_id="s" * 36,
        run_id="r" * 36,
        durability=durability,
        ids=_ids(),
        fold=fold,
        transcript=Appender(path, disk, sync=durability == "disk"),
        sinks=(TraceSink(path.with_name("trace.jsonl"), disk),),
    )


def fill(path: Path, events: int) -> None:
    """Write a transcript of so many events of 1 KB, by the recorder's own line format."""
    ids, form = _ids(), LineFormat("s" * 36, "r" * 36, None)
    payload = b'{"role":"user","content":[{"type":"text","text":"%b"}]}' % (b"x" * 700)
    previous: str | None = None
    with path.open("wb", buffering=1 << 20) as file:
        for seq in range(events):
            event = Event(
                ids(),
                previous,
                seq,
                "2026-01-01T00:00:00.000000Z",
                "s",
                "r",
                "message",
                1,
                _MESSAGE,
            )
            file.write(form.line(event, payload))
            previous = event.event_id


def _bare(path: Path, count: int, *, sync: bool) -> float:
    """Seconds per event of the system calls alone."""
    line = b"x" * 1300
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    began = time.perf_counter()
    for _ in range(count):
        os.write(descriptor, line)
        if sync:
            os.fdatasync(descriptor)
    took = time.perf_counter() - began
    os.close(descriptor)
    return took / count


def _recorded(recorder: Recorder, count: int, commit_every: int) -> float:
    """Seconds per event; at level process `commit_every` is 0 and the final flush is included."""
    began = time.perf_counter()
    if commit_every:
        for number in range(1, count + 1):
            recorder.submit(_MESSAGE, barrier=number % commit_every == 0)
    else:
        for _ in range(count):
            recorder.submit(_MESSAGE)
        recorder.flush()
    return (time.perf_counter() - began) / count


def process_level(
    directory: Path, fold: Callable[[Event], None], existing: int, count: int = 20_000
) -> Figures:
    """One write(2) per event into a file that holds `existing` events already."""
    path = directory / f"transcript-{existing}.jsonl"
    fill(path, existing)
    recorder = _recorder(path, "process", fold)
    bare = mine = float("inf")
    for _ in range(_ROUNDS):
        bare = min(bare, _bare(directory / "bare", count, sync=False))
        mine = min(mine, _recorded(recorder, count, 0))
    recorder.close()
    return {"events_per_s": 1 / mine, "us_per_event": mine * 1e6, "bare_us_per_event": bare * 1e6}


def disk_level(
    directory: Path, fold: Callable[[Event], None], commit_every: int, count: int = 2_000
) -> Figures:
    """A commit per event, or per so many, against a bare write + fdatasync per event."""
    recorder = _recorder(directory / f"commits-{commit_every}.jsonl", "disk", fold)
    bare = mine = float("inf")
    for _ in range(_ROUNDS):
        bare = min(bare, _bare(directory / "bare", count, sync=True))
        mine = min(mine, _recorded(recorder, count, commit_every))
    recorder.close()
    return {
        "events_per_s": 1 / mine,
        "us_per_event": mine * 1e6,
        "bare_us_per_event": bare * 1e6,
        "over_bare_us": (mine - bare) * 1e6,
        "rate_to_bare": bare / mine,
    }


def measure(fold: Callable[[Event], None] | None = None) -> dict[str, Figures]:
    """All figures by name. `fold` is what each event goes through; without one, a counter."""
    fold = fold or CountingFold()
    figures: dict[str, Figures] = {}
    for where, parent in (("memory disk", "/dev/shm"), ("real disk", None)):  # noqa: S108  # tmpfs
        if parent is not None and not Path(parent).is_dir():
            continue
        directory = Path(tempfile.mkdtemp(prefix="rewake-append-", dir=parent))
        try:
            for existing in (0, 50_000, 1_000_000):
                name = f"{where}: process, {existing} events before"
                figures[name] = process_level(directory, fold, existing)
            figures[f"{where}: disk, commit per event"] = disk_level(directory, fold, 1)
            figures[f"{where}: disk, commit per 100"] = disk_level(directory, fold, 100)
        finally:
            shutil.rmtree(directory)
    return figures


def main() -> None:
    """Print the table, or JSON with `--json`."""
    figures = measure()
    if "--json" in sys.argv:
        print(json.dumps(figures, indent=2))
        return
    for name, values in figures.items():
        print(f"{name:48}", "  ".join(f"{key} {value:,.1f}" for key, value in values.items()))


if __name__ == "__main__":
    main()
