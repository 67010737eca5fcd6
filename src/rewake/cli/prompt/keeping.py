"""What the user said once and for all, kept in their own settings.

The rule kept here: an answer counts at once, also where it can't be kept; then that is said.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rewake.cli.prompt.themes import THEMES
from rewake.cli.terminal import one_line
from rewake.compose import settings
from rewake.compose.place import Place, place
from rewake.errors import RewakeError, UsageError
from rewake.settings.edit import Edit


def keeper_at(cwd: Path) -> Callable[[str], str]:
    """What keeps a rule that allows, in the local settings of the project at `cwd`, and says so."""

    def keep(rule: str) -> str:
        try:
            file = settings.keep_rule(place(cwd), rule)
        except RewakeError as error:
            return f"Always {rule}, for this run only: {error.message} {error.remedy}"
        return f"Always {rule}: kept in {file}"

    return keep


def keep_theme(name: str, at: Place) -> str:
    """Keep a theme in the user's settings; says what became of it. Raises UsageError."""
    if name not in THEMES:
        raise UsageError(
            f"There is no theme {one_line(name)}.", remedy=f"There are: {', '.join(THEMES)}."
        )
    try:
        file = settings.change_settings(at, "user", [Edit("put", ("theme",), name)]).file
    except RewakeError as error:
        return f"Theme {name}, for this run only: {error.message} {error.remedy}"
    return f"Theme {name}: kept in {file}"


def theme_lines(worn: str) -> list[str]:
    """The themes, the one at hand marked."""
    return [f"{'*' if name == worn else ' '} {name}" for name in THEMES]
