"""The crash suite: kill the real program in every way, resume, and compare with what really happened.

    python -m rewake.testing.crash              a sample, two to three minutes
    python -m rewake.testing.crash --complete   a kill at every system call, about an hour
    python -m rewake.testing.crash --json FILE  the figures as JSON as well

The rule kept here: a promise that was broken in any state makes the exit status 1, and the suite
first shows on broken builds that it would see it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Final

from rewake.testing import crash_agents as agents
from rewake.testing import crash_kill as killing
from rewake.testing import crash_plan as plans
from rewake.testing import crash_shell as shell
from rewake.testing.crash_broken import BUILDS
from rewake.testing.crash_faults import faults
from rewake.testing.crash_kill import Kill, Outcome, Way
from rewake.testing.crash_report import Report, Row, table
from rewake.testing.crash_world import World

_SAMPLED: Final[Mapping[Way, int]] = {
    "random": 10,
    "main": 12,
    "worker": 4,
    "resume": 4,
    "point": 6,
    "spawn": 8,
}
_COMPLETE_RANDOM: Final = 100
_NAMES: Final[dict[Way, str]] = {
    "random": "at a random moment",
    "main": "at a system call",
    "worker": "at a system call of a worker thread",
    "resume": "at a system call while resuming",
    "point": "at a named point",
    "spawn": "at a system call around a spawn",
}


@dataclass(frozen=True, slots=True)
class Suite:
    """What to run, and where. `jobs` sessions at a time."""

    directory: Path
    complete: bool = False
    every: int = 1
    seed: int = 1
    jobs: int = 2
    sampled: Mapping[Way, int] = field(default_factory=lambda: _SAMPLED)
    tell: Callable[[str], None] = print

    # --- kills -------------------------------------------------------------------------------

    def kills(self, way: Way) -> Row:
        """Kill in one way, as often as this suite does."""
        row = Row(f"kill {_NAMES[way]}")
        if way not in {"random", "point"}:
            row.skipped = killing.why_no_strace()
        if row.skipped:
            return row
        chosen = self._chosen(way)
        with ThreadPoolExecutor(self.jobs) as pool:
            for kill, outcome in zip(chosen, pool.map(self._try, chosen), strict=True):
                if outcome.hit or outcome.report.problems:
                    row.add(str(kill), outcome.report)
        return row

    def _try(self, kill: Kill) -> Outcome:
        plan = plans.one_command() if kill.way == "spawn" else plans.forty_steps()
        directory = self._new()
        outcome = killing.try_kill(World(directory, plan), kill)
        if not outcome.report.problems:
            shutil.rmtree(directory)
        return outcome

    def _chosen(self, way: Way) -> list[Kill]:
        found = self._all(way)
        if self.complete or way == "random":
            return found[:: self.every]
        return evenly(found, self.sampled[way], f"{self.seed} {way}")

    def _all(self, way: Way) -> list[Kill]:
        match way:
            case "random":
                count = _COMPLETE_RANDOM if self.complete else self.sampled["random"]
                return list(killing.random_kills(count, self.seed))
            case "main":
                return killing.main_kills(World(self._new(), plans.forty_steps()))
            case "resume":
                return killing.resume_kills(World(self._new(), plans.forty_steps()))
            case "spawn":
                return killing.spawn_kills(World(self._new(), plans.one_command()))
            case "worker":
                return list(killing.worker_kills())
            case "point":
                return list(killing.point_kills())

    def agents(self) -> Row:
        """Kill a session with sub-agents, once, and again while they are taken up."""
        row = Row("kill with sub-agents")
        draw = random.Random(f"{self.seed} agents")  # noqa: S311  # reproducible, not secret
        kills = self._kills_of_agents(draw)
        chosen: list[tuple[Kill, Kill | None]] = [(kill, None) for kill in kills]
        chosen += [
            (kill, Kill("point", "after_write_event", draw.randrange(1, 40)))
            for kill in kills[:: 1 if self.complete else 3]
        ]
        with ThreadPoolExecutor(self.jobs) as pool:
            outcomes = pool.map(lambda pair: self._try_agents(*pair), chosen)
            for (kill, again), outcome in zip(chosen, outcomes, strict=True):
                if outcome.hit or outcome.report.problems:
                    row.add(f"{kill}{' and again' if again else ''}", outcome.report)
        return row

    def _kills_of_agents(self, draw: random.Random) -> list[Kill]:
        count = _COMPLETE_RANDOM if self.complete else self.sampled["random"]
        kills = list(agents.random_places(count, draw.randrange))
        points = [kill for kill in killing.point_kills() if kill.number % 2 or self.complete]
        kills += points if self.complete else draw.sample(points, self.sampled["point"])
        if not killing.why_no_strace():
            found = killing.main_kills(agents.new_world(lambda plan: World(self._new(), plan)))
            kills += found if self.complete else evenly(found, self.sampled["main"], str(self.seed))
        return kills[:: self.every]

    def _try_agents(self, kill: Kill, again: Kill | None) -> Outcome:
        directory = self._new()
        outcome = agents.try_kill(
            agents.new_world(lambda plan: World(directory, plan)), kill, again
        )
        if not outcome.report.problems:
            shutil.rmtree(directory)
        return outcome

    # --- the rest ----------------------------------------------------------------------------

    def wrapper(self) -> Row:
        """Kill a command's wrapper at its system calls."""
        row = Row("kill of a command's wrapper", skipped=killing.why_no_strace())
        if row.skipped:
            return row
        calls = shell.wrapper_calls(self._new())
        if not self.complete:
            calls = calls[:: max(1, len(calls) // 12)]
        for call, number in calls:
            row.add(f"{call} {number}", _of_race(shell.kill_wrapper(self._new(), call, number)))
        return row

    def race(self) -> Row:
        """Recovery while a wrapper is starting."""
        row = Row("recovery while a command starts")
        count = 500 if self.complete else 40
        for number, race in enumerate(shell.races(self._new(), count, self.seed)):
            row.add(f"race {number}", _of_race(race))
        return row

    def faults(self) -> Row:
        """Disks that fill up, fail, disappear."""
        row = Row("fault of the disk")
        for fault in faults():
            why_not = fault.why_not()
            if why_not:
                self.tell(f"  left out: {fault.name}: {why_not}")
                continue
            row.add(fault.name, fault.run(World(self._new(), plans.forty_steps())))
        return row

    def sensitivity(self) -> list[str]:
        """The broken builds in which the suite saw nothing; must be empty."""
        blind = []
        for broken in BUILDS:
            world = World(self._new(), plans.forty_steps(), prelude=broken.prelude)
            outcome = killing.try_kill(world, broken.kill)
            seen = {problem.kind for problem in outcome.report.problems}
            if broken.seen_as not in seen:
                blind.append(f"{broken.name}: saw {sorted(seen) or 'nothing'}")
        return blind

    def _new(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.directory))


def evenly(found: Sequence[Kill], count: int, seed: str) -> list[Kill]:
    """So many kills, drawn from every call in turn, so that the frequent ones don't take all."""
    draw = random.Random(seed)  # noqa: S311  # reproducible, not secret
    by_call: dict[str, list[Kill]] = {}
    for kill in found:
        by_call.setdefault(kill.call, []).append(kill)
    piles = list(by_call.values())
    draw.shuffle(piles)
    for pile in piles:
        draw.shuffle(pile)
    in_turn = [kill for layer in zip_longest(*piles) for kill in layer if kill is not None]
    return in_turn[:count]


def _of_race(race: shell.Race) -> Report:
    report = Report(verdicts={race.verdict: 1})
    if race.problem:
        report.add("verdict", race.problem)
    return report


# --- the command -----------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite; 0 when every promise held."""
    parser = argparse.ArgumentParser(prog="python -m rewake.testing.crash", description=__doc__)
    parser.add_argument("--complete", action="store_true", help="every system call, not a sample")
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="with --complete: only each N-th kill"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here as well")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default 1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--directory", type=Path, help="keep failing states here")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="rewake-crash-") as temporary:
        directory = options.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        suite = Suite(
            directory,
            complete=options.complete,
            every=options.every,
            seed=options.seed,
            jobs=options.jobs,
            tell=_say,
        )
        rows, blind = _run(suite)
    for line in table(rows):
        _say(line)
    for sentence in blind:
        _say(f"BLIND: a broken build was not seen: {sentence}")
    if options.json is not None:
        figures = {"rows": [row.as_json() for row in rows], "blind": blind}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if blind or any(row.problems for row in rows) else 0


def _run(suite: Suite) -> tuple[list[Row], list[str]]:
    begun = time.monotonic()
    blind = suite.sensitivity()
    _say(f"broken builds seen: {len(BUILDS) - len(blind)} of {len(BUILDS)}")
    rows = []
    parts = [suite.wrapper, suite.race, suite.faults, suite.agents]
    ways = [lambda way=way: suite.kills(way) for way in _NAMES]
    for part in (*parts, *ways):
        row = part()
        rows.append(row)
        said = f"left out: {row.skipped}" if row.skipped else f"{row.tried} tried"
        _say(f"{row.name}: {said}, {len(row.problems)} broken ({time.monotonic() - begun:.0f} s)")
        for what, problem in row.problems[:20]:
            _say(f"  {what}: {problem.kind}: {problem.text[:300]}")
    return rows, blind


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
