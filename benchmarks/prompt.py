"""What the prompt makes a user wait for: the first prompt, a list of files, an answer being drawn."""

from __future__ import annotations

import os
import pty
import statistics
import subprocess
import time
from pathlib import Path
from typing import Final

from benchmarks.harness import Figure, Setting, Target, command, interleaved, median_of, python

from rewake.cli.prompt.blocks import Splitter
from rewake.cli.prompt.files import FileIndex
from rewake.cli.prompt.paint import Painter
from rewake.cli.prompt.themes import THEMES

_MS: Final = 1_000
_FILES: Final = 50_000
_FILES_TINY: Final = 100
_FIND_MS: Final = Target("≤", 150)
_GROWTH: Final = Target("≤", 6)
_PIECE_CHARS: Final = 16
_ANSWER: Final = (
    "## Heading\n\nA paragraph with `code` and **bold** words, as answers have them.\n\n"
    "- one\n- two\n\n```python\ndef f(x):\n    return x + 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
)
# The status line is the last thing that is drawn.
_DRAWN: Final = b"benchmarked"


def measure(setting: Setting) -> list[Figure]:
    """Start-up to the first prompt, completion of a path, drawing while an answer streams."""
    return [*_first_prompt(setting), *_files(setting), *_drawing(setting)]


def _first_prompt(setting: Setting) -> list[Figure]:
    project = setting.directory / "benchmarked"
    project.mkdir()
    environ = {
        **os.environ,
        "REWAKE_HOME": str(setting.directory / "prompt-home"),
        "TERM": "xterm",
    }
    bare, prompt = interleaved(
        (
            lambda: subprocess.run(python("import prompt_toolkit"), check=True),
            lambda: _until_drawn(project, environ),
        ),
        setting.sizes.processes,
    )
    return [
        Figure(
            "rewake: until the first prompt",
            statistics.median(prompt) * _MS,
            "ms",
            baseline=statistics.median(bare) * _MS,
            baseline_name="import prompt_toolkit alone",
        )
    ]


def _until_drawn(project: Path, environ: dict[str, str]) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        command(), cwd=project, env=environ, stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    shown = b""
    try:
        while _DRAWN not in shown:
            shown += os.read(master, 65536)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def _files(setting: Setting) -> list[Figure]:
    count = _FILES_TINY if setting.sizes.name == "tiny" else _FILES
    root = setting.directory / "many"
    for directory in range(count // 100):
        (root / f"package{directory}" / "module").mkdir(parents=True)
        for number in range(100):
            (root / f"package{directory}" / "module" / f"source_file_{number}.py").touch()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    began = time.perf_counter()
    index = FileIndex(root)
    index.find("")
    listed = time.perf_counter() - began
    # A list that is old would be made anew in the middle of a round.
    index._listed_s = float("inf")  # noqa: SLF001  # only the search is measured here
    works = (lambda: index.find("pck7srcf42"), lambda: index.find("source_file_42"))
    apart, together = median_of(works, setting.sizes.rounds)
    return [
        Figure(f"list {count:,} files of a repository", listed * _MS, "ms"),
        Figure("find ten letters that stand apart", apart * _MS, "ms", _FIND_MS),
        Figure("find a part of a name", together * _MS, "ms", _FIND_MS),
    ]


def _drawing(setting: Setting) -> list[Figure]:
    times = 2 if setting.sizes.name == "tiny" else 20
    painter = Painter(THEMES["ansi"], {"TERM": "xterm-256color"})

    def stream(text: str) -> None:
        splitter = Splitter()
        for start in range(0, len(text), _PIECE_CHARS):
            painter.lines(splitter.feed(text[start : start + _PIECE_CHARS]), 100)
        painter.lines(splitter.finish(), 100)

    short, long = median_of(
        (lambda: stream(_ANSWER * times), lambda: stream(_ANSWER * times * 4)),
        setting.sizes.rounds,
    )
    size = len(_ANSWER) * times * 4 / 1000
    return [
        Figure(
            f"draw what is final of an answer of {size:.0f} kB in pieces of {_PIECE_CHARS}",
            long * _MS,
            "ms",
        ),
        Figure("an answer four times as long takes", long / short, "times", _GROWTH),
    ]
