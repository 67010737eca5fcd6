"""The agent of `rewake demo`: a real child process that can be killed.

The rule kept here: what the child has told on its stdout is what it has acknowledged, so it is all
that the checks compare with.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from rewake.cli.terminal import clean, say
from rewake.errors import RewakeError
from rewake.log.disk import CRASH_MARKER_VARIABLE, CRASH_POINT_VARIABLE
from rewake.model.content import JsonObject

_POLL_S: Final = 0.02
_CRASH_POINT: Final = "after_replace_target:1"
"""Between the file's change and the record of its outcome."""


class DemoError(RewakeError):
    """A step of the demo was not as it should be."""


@dataclass(frozen=True, slots=True)
class Request:
    """What the child is asked to do. `narrowed` gives it only the one edit of the demo."""

    project: Path
    model: str
    narrowed: bool

    def command(self, prompt: str, *more: str) -> list[str]:
        """The command line; what a user would type, but for `--demo-project`."""
        narrowed = ("--demo-project", str(self.project)) if self.narrowed else ()
        return [
            *(sys.executable, "-m", "rewake", "-p", prompt),
            *("--output-format", "stream-json", "--permission-mode", "acceptEdits"),
            *("--cwd", str(self.project), "--model", self.model),
            *(*narrowed, *more),
        ]


@dataclass(slots=True)
class Child:
    """A running child. `told` is what it has said on stdout, one object a line."""

    process: subprocess.Popen[bytes]
    told: list[JsonObject] = field(default_factory=list)
    _readers: list[threading.Thread] = field(default_factory=list)

    @classmethod
    def start(cls, command: list[str], environ: Mapping[str, str]) -> Child:
        """Start it; its remarks on stderr are shown, indented."""
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environ),
        )
        child = cls(process)
        for stream, take in ((process.stdout, child._hear), (process.stderr, _show)):
            if stream is None:
                raise TypeError("both streams are pipes")
            reader = threading.Thread(target=take, args=(stream,), daemon=True)
            reader.start()
            child._readers.append(reader)
        return child

    def wait(self, timeout_s: float) -> int:
        """Its exit status (minus the signal that ended it), once all it said has been heard."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise DemoError(f"The child did not end within {timeout_s:.0f} s.") from None
        for reader in self._readers:
            reader.join()
        return code

    def kill(self) -> None:
        """SIGKILL, by its process id, and wait until it is gone."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _hear(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                if line.endswith(b"\n"):
                    self.told.append(json.loads(line))

    @property
    def acknowledged(self) -> list[str]:
        """The ids of the events that it said were recorded, in order."""
        return [str(item["event_id"]) for item in self.told if item.get("type") == "event"]

    @property
    def result(self) -> JsonObject | None:
        """The final result, if it got so far."""
        results = [item for item in self.told if item.get("type") == "result"]
        return results[-1] if results else None


def start_to_be_killed(request: Request, prompt: str, session_id: str, marker: Path) -> Child:
    """A child that stops inside its first edit, says so in `marker`, and waits for its end."""
    environ = {
        **os.environ,
        CRASH_POINT_VARIABLE: _CRASH_POINT,
        CRASH_MARKER_VARIABLE: str(marker),
    }
    return Child.start(request.command(prompt, "--session-id", session_id), environ)


def start_to_resume(request: Request, session_id: str) -> Child:
    """A child that goes on with what is there."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if name not in {CRASH_POINT_VARIABLE, CRASH_MARKER_VARIABLE}
    }
    return Child.start(request.command("", "--resume", session_id), environ)


def wait_until_inside_edit(child: Child, marker: Path, timeout_s: float) -> None:
    """Return when the child has changed the file and not yet recorded that it did."""
    until = time.monotonic() + timeout_s
    while not marker.exists():
        if child.process.poll() is not None:
            child.wait(timeout_s)
            raise DemoError(
                f"The child ended (status {child.process.returncode}) without editing anything.",
                remedy=_why(child),
            )
        if time.monotonic() > until:
            child.kill()
            raise DemoError(f"The model asked for no edit within {timeout_s:.0f} s.")
        time.sleep(_POLL_S)


def _why(child: Child) -> str:
    result = child.result or {}
    error = result.get("error")
    if isinstance(error, dict):
        return f"{error.get('message', '')} {error.get('remedy', '')}".strip()
    return f"It answered: {result.get('response', '')}"


def _show(stream: IO[bytes]) -> None:
    with stream:
        for line in stream:
            say("     " + clean(line.decode("utf-8", "replace").rstrip("\n")))
