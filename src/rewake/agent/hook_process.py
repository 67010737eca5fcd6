"""Runs one hook: a shell command that gets JSON on stdin and answers by its exit code and its output.

The rule kept here: it ends. After its time limit, or when it is called off, the command's whole process
group is killed; what it prints beyond a bound is read and thrown away; and a process that it leaves in
the background, holding its pipes, is not waited for.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

STDOUT_BYTES_MAX: Final = 64 << 10
STDERR_BYTES_MAX: Final = 16 << 10
_READ_BYTES: Final = 64 << 10
# How often the end of the command and a call-off are looked for.
_LOOK_S: Final = 0.02
# A command that has closed its output is about to end.
_FIRST_LOOK_S: Final = 0.0005
# What a command printed just before its end is in the pipe already.
_DRAIN_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class HookRun:
    """How a command ended. `exit_code` is None where it was killed or could not be started."""

    command: str
    exit_code: int | None
    stdout: str
    stderr: str
    duration_ms: int
    problem: str = ""


@dataclass(slots=True)
class _Streams:
    """The pipes of a command, read up to their bounds."""

    selector: selectors.BaseSelector
    taken: dict[str, bytearray] = field(default_factory=dict)

    def pass_on(self, timeout_s: float, rest: memoryview) -> memoryview:
        """Move what can be moved; returns what is left to be written."""
        for key, _ in self.selector.select(timeout_s):
            stream: IO[bytes] = key.fileobj  # type: ignore[assignment]  # only files are registered
            if key.data == "stdin":
                rest = self._write(stream, rest)
            else:
                self._read(stream, *key.data)
        return rest

    def _write(self, stream: IO[bytes], rest: memoryview) -> memoryview:
        try:
            rest = rest[os.write(stream.fileno(), rest) :]
        except BlockingIOError:
            return rest
        except OSError:  # the command doesn't want its input, which is its own business
            rest = rest[:0]
        if not rest:
            self._close(stream)
        return rest

    def _read(self, stream: IO[bytes], name: str, bytes_max: int) -> None:
        try:
            data = os.read(stream.fileno(), _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._close(stream)
            return
        kept = self.taken.setdefault(name, bytearray())
        kept += data[: max(bytes_max - len(kept), 0)]

    def _close(self, stream: IO[bytes]) -> None:
        self.selector.unregister(stream)
        stream.close()

    def text(self, name: str) -> str:
        """What was read of a stream."""
        return bytes(self.taken.get(name, b"")).decode("utf-8", "replace")


def run_hook(
    command: str,
    payload: bytes,
    *,
    cwd: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    called_off: threading.Event,
    clock: Callable[[], float] = time.monotonic,
) -> HookRun:
    """Run `command` with a shell to its end; `called_off` ends it early. Never raises OSError."""
    begun = clock()

    def ended(exit_code: int | None, streams: _Streams | None, problem: str = "") -> HookRun:
        told = [streams.text(name) if streams else "" for name in ("stdout", "stderr")]
        return HookRun(command, exit_code, told[0], told[1], int((clock() - begun) * 1000), problem)

    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return ended(None, None, f"it could not be started: {error}")
    try:
        with selectors.DefaultSelector() as selector:
            streams = _registered(selector, process)
            problem = _wait(
                process, streams, payload, called_off, lambda: clock() >= begun + timeout_s
            )
            if problem is not None:
                _kill_group(process)
                said = f"after {timeout_s:g} s" if problem == "time" else "by the interruption"
                return ended(None, streams, f"it was ended {said}")
            _drain(streams)
            return ended(process.returncode, streams)
    finally:
        _kill_group(process)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _registered(selector: selectors.BaseSelector, process: subprocess.Popen[bytes]) -> _Streams:
    ways = (
        (process.stdin, selectors.EVENT_WRITE, "stdin"),
        (process.stdout, selectors.EVENT_READ, ("stdout", STDOUT_BYTES_MAX)),
        (process.stderr, selectors.EVENT_READ, ("stderr", STDERR_BYTES_MAX)),
    )
    for stream, event, data in ways:
        if stream is not None:
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, event, data)
    return _Streams(selector)


def _wait(
    process: subprocess.Popen[bytes],
    streams: _Streams,
    payload: bytes,
    called_off: threading.Event,
    is_late: Callable[[], bool],
) -> str | None:
    """Wait for the end; else say why it is not waited for any longer: `time` or `off`."""
    rest = memoryview(payload)
    pause_s = _FIRST_LOOK_S
    while process.poll() is None:
        if called_off.is_set():
            return "off"
        if is_late():
            return "time"
        if streams.selector.get_map():
            rest = streams.pass_on(_LOOK_S, rest)
        else:
            called_off.wait(pause_s)
            pause_s = min(pause_s * 2, _LOOK_S)
    return None


def _drain(streams: _Streams) -> None:
    """Take what is in the pipes already; whoever else holds them open is not waited for."""
    nothing = memoryview(b"")
    for key in list(streams.selector.get_map().values()):
        if key.data == "stdin":
            streams.selector.unregister(key.fileobj)
    before = -1
    while streams.selector.get_map() and sum(map(len, streams.taken.values())) != before:
        before = sum(map(len, streams.taken.values()))
        streams.pass_on(_DRAIN_S, nothing)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the group of a command that hasn't ended, whose number therefore is nobody else's."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
