"""How an error ends the command: a sentence, a remedy, an exit status, and JSON where it was asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rewake.cli.table import ROOT
from rewake.cli.terminal import clean, say, style_for
from rewake.errors import ExitCode, RewakeError, SessionBusyError, UsageError

_RUNS = next(option.flags for option in ROOT.options if option.name == "prompt")


def report(error: BaseException, arguments: Sequence[str]) -> int:
    """Tell the user; returns the exit status."""
    if isinstance(error, KeyboardInterrupt):
        return int(ExitCode.INTERRUPTED)
    known = error if isinstance(error, RewakeError) else _defect(error)
    for_command_line(known)
    if _was_shown(known):
        known = UsageError(known.message, remedy=known.remedy)
    else:
        _tell(known)
    output = output_format(arguments)
    if output != "text":
        _answer_in_json(known, output, is_run=_is_run(arguments))
    return int(known.exit_code)


def for_command_line(error: RewakeError) -> None:
    """Say how to follow the remedy with `rewake`: the library doesn't know that it is used so."""
    if isinstance(error, SessionBusyError):
        from rewake.log.lock import BUSY_REMEDY

        if error.remedy == BUSY_REMEDY:
            error.remedy = (
                "End that process, fork the session (--fork-session), or only look at it"
                " (rewake show)."
            )


def _defect(error: BaseException) -> RewakeError:
    """For a defect everything is shown."""
    import traceback

    traceback.print_exception(error)
    return RewakeError(
        f"Rewake failed: {type(error).__name__}: {error}.",
        remedy="This is a defect of Rewake; what was recorded before can be resumed.",
    )


def _was_shown(error: RewakeError) -> bool:
    return type(error).__name__ == "UsageShownError"  # without importing what it comes from


def _tell(error: RewakeError) -> None:
    paint = style_for(sys.stderr)
    say(f"{paint.red('Error:')} {clean(error.message)}", stream=sys.stderr)
    if error.remedy:
        say(clean(error.remedy), stream=sys.stderr)


def _answer_in_json(error: RewakeError, output: str, *, is_run: bool) -> None:
    from rewake.cli.jsonout import print_json
    from rewake.cli.results import failed_command, failed_run

    kind = {"type": "result"} if output == "stream-json" else {}
    print_json({**kind, **(failed_run(error) if is_run else failed_command(error))})


def output_format(arguments: Sequence[str]) -> str:
    """The output that was asked for, also in arguments that can't be parsed."""
    chosen = "text"
    for position, argument in enumerate(arguments):
        name, _, value = argument.partition("=")
        if argument == "--json":
            chosen = "json"
        elif name == "--output-format":
            chosen = value or "".join(arguments[position + 1 : position + 2])
    return chosen


def _is_run(arguments: Sequence[str]) -> bool:
    """Whether a prompt was given, so that the answer would have been a run's result."""
    return any(argument.partition("=")[0] in _RUNS for argument in arguments)
