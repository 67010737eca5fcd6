"""The entry of the `rewake` command, and the one place where an error becomes an exit status.

The rules kept here: nothing heavy is imported before it is needed, because start-up is a feature; an
expected error is told in a sentence with its remedy on stderr, and in JSON on stdout where JSON was
asked for; only a defect of Rewake shows a traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from rewake.version import VERSION

_COMPLETE_VARIABLE: Final = "_REWAKE_COMPLETE"  # set by the scripts of --install-completion


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with `argv` (default: the process's own); returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in (["--version"], ["-V"]):
        print(f"rewake {VERSION}")  # noqa: T201  # a command line prints
        return 0
    from rewake.cli.failing import report

    try:
        return _run(arguments)
    except KeyboardInterrupt as error:
        return report(error, arguments)
    except Exception as error:  # noqa: BLE001  # expected or not, every error ends in an exit status
        return report(error, arguments)


def _run(arguments: list[str]) -> int:
    from rewake.cli.dispatch import run_command
    from rewake.cli.quick import parse
    from rewake.cli.terminal import prepare_streams
    from rewake.log.disk import arm_crash_point

    prepare_streams()
    arm_crash_point(os.environ)
    parsed = parse(arguments) if _COMPLETE_VARIABLE not in os.environ else None
    if parsed is not None:
        return run_command(*parsed)
    from rewake.cli.app import run_with_typer

    return run_with_typer(arguments)
