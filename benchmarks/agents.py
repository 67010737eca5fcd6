"""What sub-agents cost the session that had them: its own size, waking it up, listing them.

Their transcripts are beside it and are not read, so a session that had two hundred wakes up like one
without; it is compared with that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.build import build_with_agents
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

import rewake
from rewake.compose.sessions import open_session, resume

_PARENT_MB: Final = Target("≤", 1)
# Those of a session of a gigabyte (resume.py).
_IN_PROCESS_MS: Final = Target("≤", 60)
_WHOLE_PROCESS_MS: Final = Target("≤", 200)
_RESUME: Final = """
import sys
from rewake.compose.sessions import resume
resume(sys.argv[1], project=sys.argv[2], home=sys.argv[3])
"""
_MS: Final = 1_000
_MB: Final = 1e6


def measure(setting: Setting) -> list[Figure]:
    """A session with all its agents, beside one with a single agent."""
    sizes = setting.sizes
    say(f"building {sizes.agents} sub-agents of {sizes.agent_bytes / _MB:g} MB")
    one = build_with_agents(setting.directory / "one", 1, sizes.agent_bytes)
    built = build_with_agents(setting.directory / "many", sizes.agents, sizes.agent_bytes)
    beside = sum(path.stat().st_size for path in (built.path.parent / "agents").glob("*.jsonl"))
    note = f"{built.size / max(sizes.agents, 1):,.0f} bytes an agent, {beside / _MB:,.1f} MB beside"
    return [
        Figure(
            f"transcript of a session with {sizes.agents} sub-agents",
            built.size / _MB,
            "MB",
            _PARENT_MB,
            note=note,
        ),
        *_waking(setting, built, one),
        *_listing(setting, built),
    ]


def _waking(setting: Setting, built: BuiltTranscript, one: BuiltTranscript) -> list[Figure]:
    def look(at: BuiltTranscript) -> None:
        if resume(at.session_id, project=at.project, home=at.home).damage:
            raise AssertionError("a session that was just built is damaged")

    def write(at: BuiltTranscript) -> None:
        open_session(at.project, resume=at.session_id, home=at.home).close()

    def whole(at: BuiltTranscript) -> None:
        asked = (at.session_id, str(at.project), str(at.home))
        run_process(python(_RESUME, *asked))

    rounds, processes = setting.sizes.rounds, setting.sizes.processes
    looked, looked_one = median_of((lambda: look(built), lambda: look(one)), rounds)
    wrote, wrote_one = median_of((lambda: write(built), lambda: write(one)), rounds)
    ran, ran_one = median_of((lambda: whole(built), lambda: whole(one)), processes)
    beside = "a session with one"
    return [
        Figure(
            "resume: in the process", looked * _MS, "ms", _IN_PROCESS_MS, looked_one * _MS, beside
        ),
        Figure(
            "resume: opened for writing at level disk, closed",
            wrote * _MS,
            "ms",
            None,
            wrote_one * _MS,
            beside,
        ),
        Figure(
            "resume: a whole process", ran * _MS, "ms", _WHOLE_PROCESS_MS, ran_one * _MS, beside
        ),
    ]


def _listing(setting: Setting, built: BuiltTranscript) -> list[Figure]:
    def listed() -> int:
        return len(rewake.agents(built.session_id, project=built.project, home=built.home))

    def read_all() -> None:
        for path in sorted(Path(built.path.parent, "agents").glob("*.jsonl")):
            path.read_bytes()

    first = seconds(listed)
    took, read = median_of((listed, read_all), setting.sizes.rounds)
    note = f"the first time {first * _MS:.0f} ms"
    return [
        Figure("list of them", took * _MS, "ms", None, read * _MS, "reading all their bytes", note)
    ]
