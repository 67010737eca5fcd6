"""A project, a home, and processes that are driven line by line and never outlive their test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

# Every child has these names; it says words with `say` and waits for one with `hear`.
PRELUDE = """
import json, os, sys
from pathlib import Path
import rewake

home, project = map(Path, sys.argv[1:3])
arguments = sys.argv[3:]

def say(*words):
    print(*words, flush=True)

def hear():
    return sys.stdin.readline().strip()
"""


class Child:
    """One process. `hear` waits for its next line; an empty one means that it ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


Spawn = Callable[..., Child]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
def spawn(home: Path, project: Path) -> Iterator[Spawn]:
    with ExitStack() as stack:

        def start(code: str, *arguments: str) -> Child:
            command = [sys.executable, "-c", PRELUDE + code, str(home), str(project), *arguments]
            process = stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(process.kill)
            return Child(process)

        yield start
