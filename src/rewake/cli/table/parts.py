"""What a command and its options are made of, and the options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

Kind = Literal["flag", "text", "path", "integer", "number"]
Value = str | Path | int | float | bool | tuple[str, ...] | None

NO_VALUE: Final = ""
"""The value of an option whose value was left out."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option, or the argument of a command when `flags` is empty.

    With `may_be_bare` its value may be left out; `may_repeat` is for an argument that takes all that
    is left. `negation` is the flag that says no to a flag that
    is on by default. `least` is the smallest number allowed. `completes` says what else the shell may
    offer for it.
    """

    name: str
    flags: tuple[str, ...]
    kind: Kind
    help: str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    default: Value = None
    least: int | None = None
    hidden: bool = False
    may_be_bare: bool = False
    may_repeat: bool = False
    is_required: bool = False
    negation: str | None = None
    completes: Literal["settings"] | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """One command. The root has the empty name."""

    name: str
    help: str
    examples: str
    options: tuple[Option, ...]
    argument: Option | None = None
    second: Option | None = None


@dataclass(frozen=True, slots=True)
class Values:
    """What was given for the options of one command, by option name and of the option's kind."""

    given: Mapping[str, Value] = field(default_factory=dict)

    def flag(self, name: str) -> bool:
        """A flag."""
        return self.given.get(name) is True

    def text(self, name: str) -> str | None:
        """A text or a choice, None where it wasn't given."""
        value = self.given.get(name)
        return value if isinstance(value, str) else None

    def texts(self, name: str) -> tuple[str, ...]:
        """All texts of an argument that may repeat."""
        value = self.given.get(name)
        return value if isinstance(value, tuple) else ()

    def path(self, name: str) -> Path | None:
        """A path, None where it wasn't given."""
        value = self.given.get(name)
        return value if isinstance(value, Path) else None

    def integer(self, name: str) -> int | None:
        """An integer, None where it wasn't given."""
        value = self.given.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def number(self, name: str) -> float | None:
        """A number, None where it wasn't given."""
        value = self.given.get(name)
        return float(value) if isinstance(value, int | float) else None


CWD: Final = Option("cwd", ("--cwd",), "path", "The project's directory.", "DIR")

SESSION: Final = Option(
    "session", (), "text", "Id, beginning of an id, title, or newest.", "ID", is_required=True
)

SUBJECT: Final = Option(
    "session", (), "text", "Id, title or path of a transcript; the newest by default.", "ID"
)

MODEL_FLAGS: Final = ("-m", "--model")

ALL: Final = Option("everywhere", ("--all",), "flag", "All projects, not only this one.")

YES: Final = Option("yes", ("-y", "--yes"), "flag", "Don't ask.")
