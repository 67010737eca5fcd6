"""The entry of the `rewake` command.

The rule kept here: nothing heavy is imported before it is needed, because start-up is a feature.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rewake.version import VERSION


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with `argv` (default: the process's own); returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in (["--version"], ["-V"]):
        print(f"rewake {VERSION}")  # noqa: T201  # a command line prints
        return 0
    from rewake.cli.app import run_app

    return run_app(arguments)
