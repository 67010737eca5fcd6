"""What all benchmarks share: figures with targets, interleaved pairs, sizes, machine facts, output.

The rule kept here: a figure stands beside what it is compared with, and both were measured in the
same run in turns, so that a busy machine disturbs both. Medians count, not the best round.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

Clock = Callable[[], float]
_MEMORY_DISK: Final = Path("/dev/shm")  # noqa: S108  # the tmpfs of Linux; only unique directories below it are used


# --- figures ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """A bound, in the unit of the figure it belongs to."""

    relation: Literal["≤", "≥"]
    limit: float

    def is_met_by(self, value: float) -> bool:
        """Whether the value is on the right side of the bound."""
        return value <= self.limit if self.relation == "≤" else value >= self.limit


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value. `baseline` is what it is compared with, in the same unit.

    `note` says what a reader needs to judge the value, such as that it was sampled and scaled.
    """

    name: str
    value: float
    unit: str
    target: Target | None = None
    baseline: float | None = None
    baseline_name: str = ""
    note: str = ""

    @property
    def verdict(self) -> str:
        """`ok` or `missed` where there is a target."""
        if self.target is None:
            return ""
        return "ok" if self.target.is_met_by(self.value) else "missed"

    @property
    def ratio(self) -> float | None:
        """The value in units of its baseline."""
        return self.value / self.baseline if self.baseline else None


# --- sizes -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured. Targets are meant for `FULL`; `TINY` only shows that all of it runs."""

    name: str
    rounds: int
    events: int
    existing_events: tuple[int, ...]
    transcript_bytes: int
    side_records: int
    tool_calls: int
    sessions: int
    processes: int
    kept_ids: int
    view_messages: int
    agents: int
    agent_bytes: int


FULL: Final = Sizes(
    "full",
    9,
    20_000,
    (0, 50_000, 1_000_000),
    1_000_000_000,
    1_000_000,
    10_000,
    1_000,
    15,
    400,
    1_000,
    200,
    1_000_000,
)
QUICK: Final = Sizes(
    "quick", 5, 5_000, (0, 50_000), 100_000_000, 100_000, 10_000, 1_000, 7, 400, 1_000, 200, 100_000
)
TINY: Final = Sizes("tiny", 1, 100, (0, 200), 200_000, 200, 50, 3, 1, 10, 20, 3, 10_000)


class Setting:
    """One run: its sizes and its directories, which are gone when it ends.

    `directory` is on a real disk (unless the user's temporary directory isn't), `memory_disk` on a
    tmpfs, None where there is none.
    """

    def __init__(self, sizes: Sizes, directory: Path, memory_disk: Path | None) -> None:
        self.sizes = sizes
        self.directory = directory
        self.memory_disk = memory_disk

    @cached_property
    def transcript(self) -> BuiltTranscript:
        """The large transcript, built once and shared by the benchmarks that read one."""
        from benchmarks.build import build_working_session

        say(f"building a transcript of {self.sizes.transcript_bytes / 1e6:,.0f} MB")
        return build_working_session(self.directory / "home", self.sizes.transcript_bytes)


@dataclass(frozen=True, slots=True)
class BuiltTranscript:
    """A session on disk. `spread_ids` are ids of messages at even distances over the file."""

    home: Path
    project: Path
    session_id: str
    path: Path
    events: int
    spread_ids: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes now."""
        return self.path.stat().st_size


@contextmanager
def setting(sizes: Sizes, parent: Path | None) -> Iterator[Setting]:
    """The directories of a run, removed at its end, also after an error."""
    directory = Path(tempfile.mkdtemp(prefix="rewake-benchmark-", dir=parent))
    memory_disk: Path | None = None
    try:
        if _MEMORY_DISK.is_dir():
            memory_disk = Path(tempfile.mkdtemp(prefix="rewake-benchmark-", dir=_MEMORY_DISK))
        yield Setting(sizes, directory, memory_disk)
    finally:
        shutil.rmtree(directory)
        if memory_disk is not None:
            shutil.rmtree(memory_disk)


# --- timing ----------------------------------------------------------------------------------


def seconds(work: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    """How long one call takes; garbage of earlier work is collected before, not during it."""
    gc.collect()
    began = clock()
    work()
    return clock() - began


def interleaved(
    works: Sequence[Callable[[], object]], rounds: int, clock: Clock = time.perf_counter
) -> tuple[list[float], ...]:
    """Each work once a round, in turns, the order reversed every other round; seconds of each."""
    taken: tuple[list[float], ...] = tuple([] for _ in works)
    numbered = list(enumerate(works))
    for number in range(rounds):
        for index, work in numbered if number % 2 == 0 else reversed(numbered):
            taken[index].append(seconds(work, clock))
    return taken


def median_of(
    works: Sequence[Callable[[], object]], rounds: int, clock: Clock = time.perf_counter
) -> tuple[float, ...]:
    """The median seconds of each work over interleaved rounds."""
    return tuple(statistics.median(taken) for taken in interleaved(works, rounds, clock))


def run_process(arguments: Sequence[str], environ: dict[str, str] | None = None) -> str:
    """Run a command to its end; what it printed. Raises CalledProcessError with its errors shown."""
    ended = subprocess.run(
        list(arguments),
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode != 0:
        print(ended.stderr, file=sys.stderr)
        ended.check_returncode()
    return ended.stdout


def python(code: str, *arguments: str) -> list[str]:
    """The command that runs `code` in this interpreter."""
    return [sys.executable, "-c", code, *arguments]


def command(*arguments: str) -> list[str]:
    """The `rewake` command as this environment installed it."""
    return [str(Path(sys.executable).with_name("rewake")), *arguments]


# --- output ----------------------------------------------------------------------------------


def say(text: str) -> None:
    """Progress, apart from the figures."""
    print(f"… {text}", file=sys.stderr, flush=True)


def machine() -> dict[str, str | int | float]:
    """What the figures depend on. The load before the run tells whether it had the machine to itself."""
    facts: dict[str, str | int | float] = {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cpus": os.cpu_count() or 0,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    if hasattr(os, "getloadavg"):
        facts["load_1min"] = round(os.getloadavg()[0], 2)
    return facts


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.processor()
    names = [
        line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name")
    ]
    return names[0] if names else platform.processor()


def rows(figures: Sequence[Figure]) -> Iterator[str]:
    """The table's lines."""
    width = max((len(figure.name) for figure in figures), default=0)
    for figure in figures:
        target = f"{figure.target.relation} {_number(figure.target.limit)}" if figure.target else ""
        line = f"{figure.name:{width}}  {_number(figure.value):>10} {figure.unit:<9} {target:>9} {figure.verdict:<6}"
        if figure.baseline is not None and figure.ratio is not None:
            line += (
                f"  {_number(figure.ratio)} x {figure.baseline_name} ({_number(figure.baseline)})"
            )
        if figure.note:
            line += f"  [{figure.note}]"
        yield line.rstrip()


def _number(value: float) -> str:
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def as_json(
    facts: dict[str, str | int | float], sizes: Sizes, results: dict[str, list[Figure]]
) -> str:
    """Everything as one JSON document."""
    document = {
        "machine": facts,
        "sizes": asdict(sizes),
        "figures": {
            name: [
                {**asdict(figure), "verdict": figure.verdict, "ratio": figure.ratio}
                for figure in figures
            ]
            for name, figures in results.items()
        },
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
