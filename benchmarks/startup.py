"""What a user waits for before anything happens, as whole processes, against a bare Python."""

from __future__ import annotations

import json
import os
import statistics
import time
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.harness import (
    Figure,
    Setting,
    Target,
    command,
    interleaved,
    python,
    run_process,
    say,
)

import rewake
from rewake.model.content import Text
from rewake.model.events import Message, StateTransition

_VERSION_MS: Final = Target("≤", 80)
_IMPORT_MS: Final = Target("≤", 45)
_SESSIONS_MS: Final = Target("≤", 150)
_FIRST_REQUEST_MS: Final = Target("≤", 300)
_MS: Final = 1_000
_BARE: Final = "python -c pass"


def measure(setting: Setting) -> list[Figure]:
    """Imports, the list of sessions, the first request."""
    return [*_imports(setting), *_sessions(setting), *_first_request(setting)]


def _imports(setting: Setting) -> list[Figure]:
    bare, imported, opened, version = interleaved(
        (
            lambda: run_process(python("pass")),
            lambda: run_process(python("import rewake")),
            lambda: run_process(python("import rewake; rewake.open_session")),
            lambda: run_process(command("--version")),
        ),
        setting.sizes.processes,
    )
    base = statistics.median(bare) * _MS
    return [
        _over("rewake --version", version, bare, base, _VERSION_MS),
        _over("import rewake", imported, bare, base, _IMPORT_MS),
        _over("import rewake; rewake.open_session", opened, bare, base, None),
    ]


def _over(
    name: str, taken: list[float], bare: list[float], base: float, target: Target | None
) -> Figure:
    """The median of what each pair differs by."""
    more = statistics.median(mine - alone for mine, alone in zip(taken, bare, strict=True)) * _MS
    note = f"{more + base:.1f} ms against {base:.1f} ms"
    return Figure(f"{name}: more than {_BARE}", more, "ms", target, note=note)


def _sessions(setting: Setting) -> list[Figure]:
    count = setting.sizes.sessions
    home, project = setting.directory / "many-home", setting.directory / "many-project"
    project.mkdir()
    say(f"building {count:,} sessions")
    for number in range(count):
        _session(project, home, number)
    environ = {**os.environ, "REWAKE_HOME": str(home)}
    listing = command("sessions", "--cwd", str(project))
    figures = []
    for arguments, target in ((("--json",), _SESSIONS_MS), (("--limit", "50"), None)):
        listed, bare = interleaved(
            (
                partial(run_process, [*listing, *arguments], environ),
                partial(run_process, python("pass")),
            ),
            setting.sizes.processes,
        )
        name = f"rewake sessions {' '.join(arguments)}, of {count:,}"
        base = statistics.median(bare) * _MS
        figures.append(Figure(name, statistics.median(listed) * _MS, "ms", target, base, _BARE))
    return figures


def _session(project: Path, home: Path, number: int) -> None:
    with rewake.open_session(project, home=home, durability="process", trace=False) as session:
        session.user(f"Make test {number} pass")
        session.record(StateTransition("ready", "requesting"))
        for _ in range(5):
            session.record(Message("assistant", (Text("I look at the parser first. " * 20),)))
        session.terminal("done")


def _first_request(setting: Setting) -> list[Figure]:
    """From the start of the process to the event that says a request is made."""
    project = setting.directory / "scripted-project"
    project.mkdir()
    script = setting.directory / "script.jsonl"
    script.write_text(json.dumps({"text": "Done."}) + "\n", "utf-8")
    home = setting.directory / "scripted-home"
    environ = {**os.environ, "REWAKE_HOME": str(home)}
    asked = command("-p", "Say when", "--model", f"script:{script}", "--cwd", str(project))
    requested, whole = [], []
    for number in range(setting.sizes.processes + 1):
        began_s = time.time()
        run_process([*asked, "--session-id", f"scripted-{number}"], environ)
        whole.append(time.time() - began_s)
        (transcript,) = home.glob(f"projects/*/sessions/scripted-{number}/transcript.jsonl")
        requested.append(_requested_at(transcript) - began_s)
    # The first one makes the project's directories and compiles what nobody ran before.
    first = statistics.median(requested[1:]) * _MS
    note = f"the whole process {statistics.median(whole[1:]) * _MS:.0f} ms"
    name = "rewake -p: the first scripted request after start"
    return [Figure(name, first, "ms", _FIRST_REQUEST_MS, note=note)]


def _requested_at(transcript: Path) -> float:
    """Unix seconds of the first request, as the transcript says."""
    for line in transcript.read_bytes().splitlines():
        event = json.loads(line)
        if event["event_type"] == "state_transition" and event["payload"]["to"] == "requesting":
            return datetime.fromisoformat(event["timestamp"]).timestamp()
    raise AssertionError(f"no request in {transcript}")
