"""What waking up costs: time in the process and as a whole process, and memory, at 1 GB.

Each state of the file is measured the same way: as work left it, right after a rewind into its first
1%, after a compaction that kept messages spread over all of it, and a session whose messages drown
in side records.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from pathlib import Path
from typing import Final

from benchmarks.build import build_side_records
from benchmarks.harness import (
    BuiltTranscript,
    Figure,
    Setting,
    Target,
    median_of,
    python,
    run_process,
    say,
    seconds,
)

from rewake.compose.sessions import open_session, resume
from rewake.log.scan import Transcript
from rewake.model.events import Checkpoint, Event, History
from rewake.state.conversation import Conversation, Snapshot
from rewake.state.fold import SessionState

_IN_PROCESS_MS: Final = Target("≤", 60)
_WHOLE_PROCESS_MS: Final = Target("≤", 200)
_MEMORY_MB: Final = Target("≤", 40)
_SAMPLE_BYTES: Final = 50_000_000
_REWIND_INTO: Final = 0.005
_MS: Final = 1_000

# A process of its own for each: `ru_maxrss` of a child counts its parent's pages too, VmHWM doesn't.
_RESUME: Final = """
import sys
from rewake.compose.sessions import resume
resume(sys.argv[1], project=sys.argv[2], home=sys.argv[3])
"""
_IDLE: Final = "import rewake.compose.sessions\n"
_PEAK: Final = """
import re
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read()).group(1))
"""


def measure(setting: Setting) -> list[Figure]:
    """All states in an order in which each builds on the file that the one before left."""
    built = setting.transcript
    figures = [*_baselines(setting, built), *_state(setting, built, "as work left it")]
    _keep_spread(built, setting.sizes.kept_ids)
    name = f"{setting.sizes.kept_ids} kept ids spread over the file"
    figures += _state(setting, built, name)
    figures += _rewound(setting, built)
    sizes = setting.sizes
    say(f"building {sizes.side_records:,} side records between {sizes.kept_ids} messages")
    drowned = build_side_records(
        setting.directory / "side", sizes.kept_ids, sizes.side_records, sizes.transcript_bytes
    )
    figures += _state(setting, drowned, f"{sizes.side_records:,} side records, no compaction")
    return figures


def _baselines(setting: Setting, built: BuiltTranscript) -> list[Figure]:
    """What a program pays that reads the whole file."""
    sample = min(built.size, _SAMPLE_BYTES)

    def parse() -> None:
        with built.path.open("rb") as file:
            while file.tell() < sample:
                json.loads(file.readline())

    def cat() -> None:
        subprocess.run(["cat", str(built.path)], stdout=subprocess.DEVNULL, check=True)

    parsed, copied = median_of((parse, cat), min(3, setting.sizes.rounds))
    scale = built.size / sample
    note = f"{sample / 1e6:.0f} of {built.size / 1e6:,.0f} MB read, scaled"
    size = f"{built.size / 1e6:,.0f} MB, {built.events:,} events"
    return [
        Figure("baseline: json.loads of every line", parsed * scale * _MS, "ms", note=note),
        Figure("baseline: cat to /dev/null", copied * _MS, "ms", note=size),
    ]


def _state(setting: Setting, built: BuiltTranscript, name: str) -> list[Figure]:
    def wake() -> None:
        state = resume(built.session_id, project=built.project, home=built.home)
        if state.damage:
            raise AssertionError(f"{name}: {state.damage[0]}")

    def wake_and_write() -> None:
        open_session(built.project, resume=built.session_id, home=built.home).close()

    first = seconds(wake)
    (in_process,) = median_of((wake,), setting.sizes.rounds)
    (used,) = median_of((wake,), setting.sizes.rounds, time.process_time)
    (writing,) = median_of((wake_and_write,), setting.sizes.rounds)
    asked = (built.session_id, str(built.project), str(built.home))
    whole, bare = median_of(
        (lambda: run_process(python(_RESUME, *asked)), lambda: run_process(python("pass"))),
        setting.sizes.processes,
    )
    figures = [
        Figure(
            f"{name}: in the process",
            in_process * _MS,
            "ms",
            _IN_PROCESS_MS,
            note=f"the first time {first * _MS:.1f} ms; {used * _MS:.1f} ms of processor",
        ),
        Figure(
            f"{name}: opened for writing at level disk, closed",
            writing * _MS,
            "ms",
            note="with lock, run event and syncs",
        ),
        Figure(
            f"{name}: a whole process",
            whole * _MS,
            "ms",
            _WHOLE_PROCESS_MS,
            bare * _MS,
            "python -c pass",
        ),
    ]
    return figures + _memory(name, asked)


def _memory(name: str, asked: tuple[str, str, str]) -> list[Figure]:
    if not Path("/proc/self/status").exists():
        return []
    peaks = [
        statistics.median(int(run_process(python(code + _PEAK, *asked))) for _ in range(3))
        for code in (_RESUME, _IDLE)
    ]
    resumed, idle = (peak / 1024 for peak in peaks)
    note = f"peak {resumed:.1f} MB against {idle:.1f} MB with the same modules imported"
    return [
        Figure(f"{name}: memory over an idle process", resumed - idle, "MB", _MEMORY_MB, note=note)
    ]


def _keep_spread(built: BuiltTranscript, count: int) -> None:
    """Compact to messages from all over the file, as many compactions that each keep some would."""
    with open_session(built.project, resume=built.session_id, home=built.home) as session:
        distance = max(1, len(built.spread_ids) // count)
        wanted = built.spread_ids[::distance][:count]
        with Transcript(built.path) as reader:
            found = reader.find_many(wanted).found
        events = [found[event_id] for event_id in sorted(found)]
        session.record(_compacted_to(events, session.state))


def _compacted_to(events: list[Event], state: SessionState) -> Checkpoint:
    snapshot = Snapshot(sealed=[event.event_id for event in events])
    history = History(None, tuple(event.event_id for event in events))
    kept = Conversation.restore(snapshot, events, history)
    compacted = SessionState(kept, state.world)
    return compacted.checkpoint(
        "compaction", kept=kept.entries, summary="What was done.", trigger="tokens"
    )


def _rewound(setting: Setting, built: BuiltTranscript) -> list[Figure]:
    target = built.spread_ids[int(len(built.spread_ids) * _REWIND_INTO)]
    with open_session(built.project, resume=built.session_id, home=built.home) as session:
        took = seconds(lambda: session.rewind(target))
        kept = len(session.messages)
    share = _offset(built, target) / built.size
    rewinding = Figure(
        "the rewind itself",
        took * _MS,
        "ms",
        note=f"to {share:.2%} of the file, {kept} messages active",
    )
    return [rewinding, *_state(setting, built, "right after a rewind into the first 1%")]


def _offset(built: BuiltTranscript, event_id: str) -> int:
    with Transcript(built.path) as reader:
        event = reader.find(event_id)
    return event.offset if event is not None else 0
