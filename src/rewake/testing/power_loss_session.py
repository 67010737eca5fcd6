"""The session that loses its power: a scripted agent that marks what it was promised.

    python -m rewake.testing.power_loss_session ROOT MARKS STEPS UNSYNCED

ROOT is on the recorded disk, MARKS is the device's file for marks. After every call that promises
durability, the size of the transcript is marked: nothing below it may be missing after a crash.

With UNSYNCED `log` nothing of Rewake's own is ever synced, with `blobs` the blobs aren't, with
`files` the user's files aren't: the suite must then find losses, or it is blind.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Final, Literal
from unittest import mock

import msgspec

import rewake
from rewake.agent.ports import Tool, ToolContext
from rewake.agent.tools import change
from rewake.agent.tools.edit import EditTool
from rewake.agent.tools.write import WriteTool
from rewake.log import lock
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk
from rewake.model.content import JsonObject
from rewake.model.events import FileRead

Unsynced = Literal["nothing", "log", "blobs", "files"]
SESSION_ID: Final = "power-loss"
PROJECT, HOME = "project", "home"
_BOOT_ID: Final = "the boot before the power failed"
_BIG_BYTES: Final = 100_000  # above the 64 KiB that a line may hold, so that it becomes a blob


class Mark(msgspec.Struct, frozen=True):
    """`acknowledged` bytes of the transcript were promised to be durable; -1 before there are any."""

    acknowledged: int


class _Agent:
    """Plays the steps of one run, marking each promise."""

    def __init__(self, session: rewake.Session, marks: int) -> None:
        self._session = session
        self._transcript = session.directory / "transcript.jsonl"
        self._marks = marks
        self._context = ToolContext(
            project=session.root,
            cwd=session.root,
            session_directory=session.directory,
            blobs=session.blobs,
            files=session,
        )

    def mark(self) -> None:
        """Everything recorded so far was promised."""
        mark(self._marks, self._transcript.stat().st_size)

    def step(self, number: int) -> None:
        """A prompt, an answer, and what it asks for; now and then something less common."""
        session = self._session
        content: list[rewake.Text | rewake.Image] = [rewake.Text(f"step {number}")]
        if number % 5 == 0:
            picture = os.urandom(3_000)
            content.append(rewake.Image("image/png", session.blobs.put(picture), len(picture)))
        prompt = session.user(content)
        self.mark()
        if number % 3 == 0:
            arguments = {"file_path": f"new/{number}/file.txt", "content": f"made in {number}\n"}
            self._change(WriteTool(), arguments)
        self._edit(number)
        if number % 4 == 0:
            self._big_result(number)
        if number % 6 == 0:
            session.checkpoint(f"summary up to {number}", keep=[prompt])
            self.mark()
        if number % 7 == 0:
            session.rewind(prompt)
            self.mark()
        if number % 8 == 0:
            session.record(session.state.checkpoint())
            self.mark()

    def _edit(self, number: int) -> None:
        name = f"file{number % 3}.txt"
        path = self._session.root / name
        head = path.read_text().splitlines()[0]
        # The whole file grows and its beginning changes, so neither a cut nor an old one fits both.
        new = f"{_head(number)}\n" + f"line of step {number}\n" * 40
        self._change(
            EditTool(),
            {"file_path": name, "edits": [{"old_string": f"{head}\n", "new_string": new}]},
            reads=path,
        )

    def _change(self, tool: Tool, arguments: JsonObject, reads: Path | None = None) -> None:
        name = tool.spec.name
        calls = [rewake.ToolCall("call_1", name, arguments)]
        if reads is not None:
            calls.insert(0, rewake.ToolCall("call_0", "Read", {"file_path": str(reads)}))
        self._session.assistant([rewake.Text("on it"), *calls], usage=rewake.Usage(10, 10))
        if reads is not None:
            with self._session.action(calls[0], intent=rewake.ReadOnlyIntent()) as reading:
                reading.complete("read", outcome=_seen(reads))
        action = self._session.action(calls[-1])
        prepared = tool.prepare(action.request(), arguments, self._context)
        action.intent = prepared.intent
        action.start()
        self.mark()
        output = asyncio.run(tool.run(prepared, self._context))
        if output.is_error:
            raise RuntimeError(f"the workload's own {name} failed: {output.content}")
        action.complete(output.result(), outcome=output.outcome)
        self.mark()

    def _big_result(self, number: int) -> None:
        call = rewake.ToolCall("call_2", "Deploy", {})
        self._session.assistant([call], usage=rewake.Usage(1, 1))
        with self._session.action(
            call, intent=rewake.OtherIntent("deploys", str(number))
        ) as action:
            self.mark()
            action.complete(os.urandom(_BIG_BYTES // 2).hex())
        self.mark()


def mark(descriptor: int, acknowledged: int) -> None:
    """Tell the device; it is in the log when this returns."""
    os.write(descriptor, msgspec.json.encode(Mark(acknowledged)))


def _head(number: int) -> str:
    return f"=== version {number} ==="


def _seen(path: Path) -> rewake.Outcome:
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return rewake.Outcome(reads=(FileRead(str(path), sha256),))


def play(root: Path, marks: int, steps: int) -> None:
    """Two runs of one session, the second one resumed; the project's files are durable before."""
    project = root / PROJECT
    project.mkdir(exist_ok=True)
    for number in range(3):
        (project / f"file{number}.txt").write_text(f"{_head(0)}\n")
    os.sync()
    mark(marks, -1)
    half = steps // 2
    with rewake.open_session(project, home=root / HOME, session_id=SESSION_ID) as session:
        agent = _Agent(session, marks)
        agent.mark()
        for number in range(1, half + 1):
            agent.step(number)
        session.terminal("interrupted")
        agent.mark()
    with rewake.open_session(project, home=root / HOME, resume=SESSION_ID) as session:
        agent = _Agent(session, marks)
        agent.mark()
        for number in range(half + 1, steps + 1):
            agent.step(number)
        session.terminal("done")
        agent.mark()


def _ignore(*_arguments: object) -> None:
    """In the place of a sync that is left out."""


_write_atomic: Final = Disk.write_atomic


def _write_unsynced(disk: Disk, path: Path, data: bytes, **_left_out: bool) -> None:
    _write_atomic(disk, path, data, sync=False)


@contextlib.contextmanager
def leaving_out(unsynced: Unsynced, boot_id: Path) -> Iterator[None]:
    """The fault to be noticed, and the file `boot_id` in the place of the kernel's own."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(lock, "_BOOT_ID_PATH", boot_id))
        if unsynced == "log":
            stack.enter_context(mock.patch.object(Disk, "sync", _ignore))
            stack.enter_context(mock.patch.object(Disk, "sync_directory", _ignore))
        elif unsynced == "blobs":
            stack.enter_context(mock.patch.object(Disk, "write_atomic", _write_unsynced))
            stack.enter_context(mock.patch.object(BlobStore, "settle", _ignore))
        elif unsynced == "files":
            unsyncing = SimpleNamespace(**{**vars(os), "fsync": _ignore})
            stack.enter_context(mock.patch.object(change, "os", unsyncing))
        yield


def main(arguments: list[str]) -> None:
    """Play the session that the suite asks for."""
    root, marks_path, steps, unsynced = arguments
    if unsynced not in {"nothing", "log", "blobs", "files"}:
        raise SystemExit(f"{unsynced!r} is nothing that could be left out")
    marks = os.open(marks_path, os.O_WRONLY | os.O_CLOEXEC)
    boot_id = Path(root) / "boot_id"  # one that the recovery will not find its own
    boot_id.write_text(_BOOT_ID)
    with leaving_out(unsynced, boot_id):  # type: ignore[arg-type]  # checked above
        play(Path(root), marks, int(steps))
    os.close(marks)


if __name__ == "__main__":
    main(sys.argv[1:])
