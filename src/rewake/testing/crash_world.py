"""A home, a project and the real program in it: started, killed, resumed from outside.

The rule kept here: the program is the `rewake` command in a process of its own, and what it has
acknowledged is what it has printed: with `--output-format stream-json` every event is printed after
it was recorded, so each whole line that came out names an event that must never be lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import rewake
from rewake.log.blobs import BlobStore
from rewake.log.disk import CRASH_POINT_VARIABLE, Disk
from rewake.log.layout import Layout, SessionPaths
from rewake.model.content import JsonObject
from rewake.model.ids import IdGenerator
from rewake.testing import crash_plan as plans
from rewake.testing.crash_plan import Plan

RUN_SECONDS_MAX: Final = 120
_KEPT: Final = ("PATH", "LANG", "TMPDIR", "VIRTUAL_ENV", "SYSTEMROOT")


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that ended by itself."""

    code: int
    stdout: str
    stderr: str

    def result(self) -> JsonObject:
        """The last line of stdout as JSON; empty when there is none."""
        lines = self.stdout.strip().split("\n")
        try:
            found = json.loads(lines[-1])
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


@dataclass(slots=True)
class World:
    """One session's surroundings.

    `prelude` is run in the program first, to break it on purpose; `crash_point` arms one; `gate` is
    the open end of the plan's gate. With a `model` of its own, scripts are not used; `variables` are
    added to the program's environment.
    """

    directory: Path
    plan: Plan
    prelude: str = ""
    model: str = ""
    variables: dict[str, str] = field(default_factory=dict)
    crash_point: str = ""
    gate: int = -1
    session_id: str = field(
        default_factory=IdGenerator(lambda: time.time_ns() // 1_000_000, secrets.randbits)
    )
    home: Path = field(init=False)
    project: Path = field(init=False)
    acknowledged: Path = field(init=False)

    def __post_init__(self) -> None:
        self.home = self.directory / "home"
        self.project = self.directory / "project"
        self.acknowledged = self.directory / "acknowledged.jsonl"
        self.project.mkdir(parents=True)
        (self.project / plans.GATE).write_text("open\n")

    # --- commands ----------------------------------------------------------------------------

    def command(self, prompt: str, script: str, *, resume: bool, output: str) -> list[str]:
        """The program and its arguments."""
        file = self.directory / f"{secrets.token_hex(4)}.script"
        file.write_text(script)
        which = "--resume" if resume else "--session-id"
        program = ["-m", "rewake"]
        if self.prelude:
            main = "from rewake.cli.main import main\nraise SystemExit(main())"
            program = ["-c", f"{self.prelude}\n{main}"]
        return [
            *(sys.executable, *program, "-p", prompt, which, self.session_id),
            *("--cwd", str(self.project), "--model", self.model or f"script:{file}"),
            *("--permission-mode", "bypass", "--output-format", output),
            *("--settings", json.dumps({"compact_at_tokens": plans.COMPACT_AT_TOKENS})),
        ]

    def first(self) -> list[str]:
        """The command that works through the plan from its beginning."""
        return self.command(
            plans.PROMPT, plans.script(self.plan), resume=False, output="stream-json"
        )

    def environment(self) -> dict[str, str]:
        """What the program sees: nothing of the user's own home or keys."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        if self.crash_point:
            kept[CRASH_POINT_VARIABLE] = self.crash_point
        return {
            **kept,
            **self.variables,
            "HOME": str(self.directory),
            "PYTHONPATH": str(Path(rewake.__file__).parent.parent),  # this very build, not another
            "REWAKE_HOME": str(self.home),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def start_quietly(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a command whose stdout acknowledges nothing."""
        return self._start(command, self.directory / "stdout.log")

    def start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a command whose stdout is what it acknowledges."""
        return self._start(command, self.acknowledged)

    def ended(self, code: int) -> Ended:
        """A started command that ended by itself."""
        return Ended(code, self.acknowledged.read_text(), self.stderr())

    def stderr(self) -> str:
        """The end of what started commands have said."""
        return (self.directory / "stderr.log").read_text(errors="replace")[-1000:]

    def _start(self, command: Sequence[str], stdout: Path) -> subprocess.Popen[bytes]:
        with stdout.open("ab") as out, (self.directory / "stderr.log").open("ab") as err:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self.environment(),
                cwd=self.directory,
                start_new_session=True,
            )

    def run_acknowledging(self, command: Sequence[str]) -> Ended:
        """Run a command to its end; what it prints is acknowledged. For limits that hit files."""
        ended = self.run(command)
        with self.acknowledged.open("a") as out:
            out.write(ended.stdout)
        return ended

    def run(self, command: Sequence[str]) -> Ended:
        """Run a command to its end."""
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=self.environment(),
            cwd=self.directory,
            timeout=RUN_SECONDS_MAX,
            check=False,
            start_new_session=True,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    # --- what there is -----------------------------------------------------------------------

    def acks(self) -> list[JsonObject]:
        """The events that the program has told us of. A line cut by the kill tells nothing."""
        try:
            text = self.acknowledged.read_bytes()
        except FileNotFoundError:
            return []
        whole = [json.loads(line) for line in text.split(b"\n")[:-1] if line]
        return [item for item in whole if item.get("type") == "event"]

    def paths(self) -> SessionPaths | None:
        """The session's files, if it has a transcript."""
        found = [
            paths
            for paths in Layout(self.home).sessions(None, on_problem=lambda _path, _error: None)
            if paths.session_id == self.session_id
        ]
        return found[0] if found and found[0].transcript.exists() else None

    def blobs(self, paths: SessionPaths) -> BlobStore:
        """The blobs of the project, for reading."""
        return BlobStore(paths.blobs, Disk(), durable=False)

    def wait_for_commands(self) -> None:
        """Return when no command that a run started is alive any more."""
        paths = self.paths()
        for alive in self._alive(paths) if paths is not None else ():
            descriptor = os.open(alive, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH)
            finally:
                os.close(descriptor)

    def _alive(self, paths: SessionPaths) -> Iterator[Path]:
        with contextlib.suppress(FileNotFoundError):
            for output in paths.outputs.iterdir():
                if (output / "alive").exists():
                    yield output / "alive"
