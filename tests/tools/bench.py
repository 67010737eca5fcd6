"""A project, a session directory and the ports of the tools, as small as they can be."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable
from pathlib import Path

import anyio

from rewake.agent.ports import Prepared, Tool, ToolContext, ToolInputError, ToolOutput
from rewake.model.content import plain_text


class Blobs:
    """Blobs in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        self.kept[name] = data
        return name

    def put_all(self, contents: Iterable[bytes]) -> list[str]:
        return [self.put(data) for data in contents]

    def get(self, sha256: str) -> bytes:
        return self.kept[sha256]


class Files:
    """What was read, folded from outcomes as the session does it."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def read_hash(self, path: str) -> str | None:
        return self.known.get(path)


class Bench:
    """Calls tools the way the loop does: prepare, then run, then fold the outcome."""

    def __init__(self, root: Path) -> None:
        self.project = root / "project"
        self.session = root / "session"
        for directory in (self.project, self.session):
            directory.mkdir(parents=True, exist_ok=True)
        self.blobs = Blobs()
        self.files = Files()
        self.context = ToolContext(self.project, self.project, self.session, self.blobs, self.files)
        self._ids = itertools.count(1)

    def write(self, name: str, data: bytes | str) -> Path:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    def prepare(self, tool: Tool, **arguments: object) -> Prepared:
        return tool.prepare(f"call-{next(self._ids)}", dict(arguments), self.context)

    def refusal(self, tool: Tool, **arguments: object) -> str:
        """The message with which the tool refuses the arguments."""
        try:
            self.prepare(tool, **arguments)
        except ToolInputError as error:
            return str(error)
        raise AssertionError("the tool accepted the call")

    def run(self, tool: Tool, prepared: Prepared) -> ToolOutput:
        async def run() -> ToolOutput:
            return await tool.run(prepared, self.context)

        output = anyio.run(run)
        self.fold(output)
        return output

    def fold(self, output: ToolOutput) -> None:
        for read in output.outcome.reads:
            self.files.known[read.path] = read.sha256

    def call(self, tool: Tool, **arguments: object) -> ToolOutput:
        return self.run(tool, self.prepare(tool, **arguments))

    def text(self, tool: Tool, **arguments: object) -> str:
        return plain_text(self.call(tool, **arguments).content)
