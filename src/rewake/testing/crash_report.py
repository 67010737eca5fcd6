"""What the crash suite counts: broken promises by kind, one row for each kind of crash state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from rewake.model.content import JsonObject

Kind = Literal[
    "lost",  # an acknowledged event isn't there, or isn't what was acknowledged
    "unloadable",  # the session can't be resumed
    "refused",  # a request that a provider refuses, or without the newest prompt
    "rewritten",  # a request that doesn't begin with the one before
    "verdict",  # a call's end or verdict is not what the files say
    "unsettled",  # an interrupted call without a verdict, or evidence that was not used
    "intent",  # an effect without its intent in the transcript
    "files",  # not the files that the plan leaves
    "fault",  # a fault that was not told, or after which the run went on
]
KINDS: Final[tuple[Kind, ...]] = (
    "lost",
    "unloadable",
    "refused",
    "rewritten",
    "verdict",
    "unsettled",
    "intent",
    "files",
    "fault",
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One promise that was broken."""

    kind: Kind
    text: str


@dataclass(slots=True)
class Report:
    """What one crash state showed."""

    problems: list[Problem] = field(default_factory=list)
    verdicts: dict[str, int] = field(default_factory=dict)
    acknowledged: int = 0
    requests: int = 0

    def add(self, kind: Kind, text: str) -> None:
        """Note a broken promise."""
        self.problems.append(Problem(kind, text))


@dataclass(slots=True)
class Row:
    """One kind of crash state: how many were tried, and what broke in them."""

    name: str
    tried: int = 0
    acknowledged: int = 0
    requests: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    problems: list[tuple[str, Problem]] = field(default_factory=list)
    skipped: str = ""

    def add(self, what: str, report: Report) -> None:
        """Count one state."""
        self.tried += 1
        self.acknowledged += report.acknowledged
        self.requests += report.requests
        for verdict, count in report.verdicts.items():
            self.verdicts[verdict] = self.verdicts.get(verdict, 0) + count
        self.problems += [(what, problem) for problem in report.problems]

    def as_json(self) -> JsonObject:
        """The row with every problem spelt out."""
        return {
            "kind": self.name,
            "tried": self.tried,
            "acknowledged_events": self.acknowledged,
            "requests": self.requests,
            "verdicts": self.verdicts,
            "skipped": self.skipped,
            "problems": {kind: self.count(kind) for kind in KINDS},
            "details": [
                {"state": what, "kind": problem.kind, "text": problem.text}
                for what, problem in self.problems
            ],
        }

    def count(self, kind: str) -> int:
        """How many promises of one kind were broken."""
        return sum(problem.kind == kind for _, problem in self.problems)


def table(rows: Iterable[Row]) -> Iterator[str]:
    """The rows as text, with their sum."""
    counted = [row for row in rows if row.tried]
    yield f"{'crash states':42}{'tried':>7}{'acked':>9}{'requests':>10}" + "".join(
        f"{kind:>11}" for kind in KINDS
    )
    total = Row("all")
    for row in counted:
        total.tried += row.tried
        total.acknowledged += row.acknowledged
        total.requests += row.requests
        total.problems += row.problems
    for row in (*counted, total):
        yield f"{row.name:42}{row.tried:>7}{row.acknowledged:>9}{row.requests:>10}" + "".join(
            f"{row.count(kind):>11}" for kind in KINDS
        )
