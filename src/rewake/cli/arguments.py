"""Options whose value may be left out, made regular before they are parsed.

The rule kept here: an option's value is left out exactly when nothing or another option of ours
follows, so a prompt or a title may begin with a dash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

NO_VALUE: Final = ""
_OPTIONAL: Final = frozenset({"-p", "--prompt", "-r", "--resume"})
_OPTIONS: Final = _OPTIONAL | {
    "--json",
    "--output-format",
    "--cwd",
    "--model",
    "-m",
    "--permission-mode",
    "--session-id",
    "--continue",
    "-c",
    "--no-session-persistence",
    "--max-steps",
    "--max-cost",
    "--on-unknown",
    "--demo-project",
    "--help",
    "-h",
}


def regular(arguments: Sequence[str]) -> list[str]:
    """`arguments` with an empty value for each option of ours that has none."""
    found: list[str] = []
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        found.append(argument)
        position += 1
        if argument in _OPTIONAL:
            if position < len(arguments) and not _is_option(arguments[position]):
                found.append(arguments[position])
                position += 1
            else:
                found.append(NO_VALUE)
    return found


def _is_option(argument: str) -> bool:
    return argument.partition("=")[0] in _OPTIONS


def output_format(arguments: Sequence[str]) -> str:
    """How errors are to be shown when the arguments can't be parsed; the last word counts."""
    chosen = "text"
    for position, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        if argument == "--json":
            chosen = "json"
        elif name == "--output-format":
            chosen = value or "".join(arguments[position + 1 : position + 2])
    return chosen


def is_run(arguments: Sequence[str]) -> bool:
    """Whether a prompt was given, so that the answer would have been a run's result."""
    return any(argument.partition("=")[0] in {"-p", "--prompt"} for argument in arguments)
