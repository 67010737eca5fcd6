"""A verifier's last word: a line that says whether what it checked passed.

The rule kept here: an answer without such a line is not taken; it is asked for, and whoever can't give
one in the end has given none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Protocol

_VERDICT: Final = re.compile(
    r"^[\W_]*verdict[\W_]*(passed|failed|inconclusive)\b", re.IGNORECASE | re.MULTILINE
)
_WANTED: Final = (
    "[rewake] Your answer has no verdict. Repeat it briefly and end it with one line: "
    "`Verdict: passed`, `Verdict: failed` or `Verdict: inconclusive`."
)


def verdict_in(answer: str) -> str:
    """The last verdict in an answer, in lower case; empty where there is none."""
    found = _VERDICT.findall(answer)
    return str(found[-1]).lower() if found else ""


class _Answering(Protocol):
    @property
    def response(self) -> str: ...


@dataclass(slots=True)
class VerdictGate:
    """A `Gate` that sends back an answer without a verdict."""

    loop: _Answering

    async def holds_back(self) -> str | None:
        """See `Gate`."""
        return None if verdict_in(self.loop.response) else _WANTED
