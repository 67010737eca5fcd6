"""A user's shell for tests: a home, a project, scripted models, and `rewake` as a real process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEADLINE_S = 15


def call(name: str, **arguments: object) -> dict[str, object]:
    """A tool call of a scripted turn."""
    return {"name": name, "arguments": arguments}


def turn(text: str = "", *calls: dict[str, object], **more: object) -> dict[str, object]:
    """A scripted turn."""
    return {"text": text, "tool_calls": list(calls), **more}


@dataclass
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Its one line of output."""
        (line, _) = self.out.split("\n")
        found = json.loads(line)
        assert isinstance(found, dict)
        return found


@dataclass
class Shell:
    """Runs `rewake` in `project` with its own home."""

    root: Path
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.project.mkdir()

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def environ(self) -> dict[str, str]:
        """What a user's environment has, without keys and without the test's own settings."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "REWAKE_HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "xterm",
        }

    def script(self, *turns: dict[str, object]) -> str:
        """The name of a model that answers with these turns."""
        path = self.root / "script.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in turns))
        return f"script:{path}"

    def start(
        self, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.Popen[str]:
        """Start it; it is ended with the test at the latest."""
        process = subprocess.Popen(
            [sys.executable, "-m", "rewake", *arguments],
            cwd=cwd or self.project,
            env={**self.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        return process

    def run(
        self,
        *arguments: str,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        file_kib_max: int | None = None,
    ) -> Done:
        """Run it to its end. No file may grow beyond `file_kib_max`."""
        command = [sys.executable, "-m", "rewake", *arguments]
        if file_kib_max is not None:
            command = ["bash", "-c", f'ulimit -f {file_kib_max}; exec "$@"', "bash", *command]
        done = subprocess.run(
            command,
            cwd=cwd or self.project,
            env={**self.environ, **(env or {})},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def run_json(self, *arguments: str) -> Any:
        """What it prints as JSON."""
        return json.loads(self.run(*arguments).out)

    def killed_at(self, point: str, *arguments: str) -> None:
        """Run it until it reaches a crash point, where it kills itself with SIGKILL."""
        done = self.run(*arguments, env={"REWAKE_CRASH_POINT": point})
        assert done.code == -signal.SIGKILL, done.err

    def transcript(self, session_id: str) -> Path:
        """The file of a session."""
        (found,) = self.home.glob(f"projects/*/sessions/{session_id}/transcript.jsonl")
        return found

    def events(self, session_id: str) -> list[dict[str, Any]]:
        """The lines of a session's transcript."""
        lines = self.transcript(session_id).read_bytes().split(b"\n")
        return [json.loads(line) for line in lines if line]

    def wait_for_event(self, session_id: str, event_type: str, **payload: object) -> None:
        """Return when such an event is in the transcript."""

        def is_there() -> bool:
            paths = list(self.home.glob(f"projects/*/sessions/{session_id}/transcript.jsonl"))
            lines = paths[0].read_bytes().split(b"\n")[:-1] if paths else []
            events = [json.loads(line) for line in lines]
            return any(
                event["event_type"] == event_type and payload.items() <= event["payload"].items()
                for event in events
            )

        wait_until(is_there)

    def close(self) -> None:
        """End what still runs."""
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.communicate()


def wait_until(condition: Any) -> None:
    """Look until it is so, for a generous while."""
    until = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.01)


def texts(messages: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """Role and text of messages as `rewake show --json` has them."""
    return [
        (message["role"], block["text"])
        for message in messages
        for block in message["content"]
        if block["type"] == "text"
    ]
