"""The commands and their options, and the one place where an error becomes an exit status.

The rule kept here: an expected error is told in a sentence with its remedy on stderr, and in JSON
on stdout where JSON was asked for; only a defect of Rewake shows a traceback.
"""

# ruff: noqa: FBT002  # the parser takes a flag's default from the function's signature
from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from rewake.cli import arguments as given
from rewake.cli.options import AgentChoices, Mode, OnUnknown, OutputFormat
from rewake.cli.terminal import clean, prepare_streams, say, style_for
from rewake.errors import ExitCode, RewakeError, UsageError
from rewake.version import VERSION

# What the parser raises for wrong arguments; typer exports only this subclass of it.
_ParseError: Final[type[Exception]] = next(
    base for base in reversed(typer.BadParameter.__mro__) if hasattr(base, "show")
)
_NEWEST: Final = "newest"  # compose.sessions.NEWEST, which is slow to import

app = typer.Typer(
    name="rewake",
    rich_markup_mode=None,  # plain help: rich alone would double the time to start
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_ROOT_HELP = """A coding agent that wakes up where it stopped.

Without options it starts a conversation in the terminal. With -p it answers one prompt and ends.
Everything is recorded as it happens: kill it at any moment and go on with --resume.
"""
_ROOT_EXAMPLES = """\b
Examples:
  rewake                                      talk in the terminal
  rewake -p "Make the tests pass"             one prompt, one answer
  git diff | rewake -p "Review this" --json   piped input, one line of JSON
  rewake -p "" --resume 0199b2c4              go on where a session was cut off
  rewake -c                                   go on with the newest session here
  rewake demo                                 see it killed in an edit and wake up

Exit status: 0 done, 1 failed, 2 usage, 3 busy, 4 not found, 5 storage, 6 damaged, 7 model,
8 uncertain, 9 settings, 10 limit, 129 SIGHUP, 130 Ctrl-C, 143 SIGTERM.
"""


@app.callback(invoke_without_command=True, help=_ROOT_HELP, epilog=_ROOT_EXAMPLES)
def root(
    context: typer.Context,
    prompt: Annotated[
        str | None,
        typer.Option(
            "-p",
            "--prompt",
            help="Answer this prompt and end; - reads it from stdin.",
            metavar="PROMPT",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Short for --output-format json: one line on stdout.")
    ] = False,
    output_format: Annotated[
        OutputFormat | None, typer.Option(help="What -p prints on stdout.")
    ] = None,
    cwd: Annotated[Path | None, typer.Option(help="Work in this directory.", metavar="DIR")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "-m",
            "--model",
            help="provider:name, local:, local:FILE.gguf or script:FILE.",
            metavar="MODEL",
        ),
    ] = None,
    permission_mode: Annotated[Mode | None, typer.Option(help="What needs no question.")] = None,
    session_id: Annotated[
        str | None, typer.Option(help="The id of the new session.", metavar="ID")
    ] = None,
    continue_: Annotated[
        bool, typer.Option("-c", "--continue", help="Go on with the newest session here.")
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option(
            "-r",
            "--resume",
            help="Go on with a session: id, beginning of an id, or title; alone it lets you pick.",
            metavar="[ID]",
        ),
    ] = None,
    no_session_persistence: Annotated[
        bool, typer.Option("--no-session-persistence", help="Record nothing on disk.")
    ] = False,
    max_steps: Annotated[
        int | None, typer.Option(min=1, help="Stop after this many model calls.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(min=0, help="Stop when this run has cost so much (US dollars).")
    ] = None,
    on_unknown: Annotated[
        OnUnknown,
        typer.Option(help="An interrupted call that no evidence settles: tell the model, or stop."),
    ] = "tell",
    demo_project: Annotated[Path | None, typer.Option(hidden=True)] = None,
    version: Annotated[bool, typer.Option("-V", "--version", help="Show the version.")] = False,
) -> int:
    """Talk in the terminal, or answer one prompt."""
    if version:
        say(f"rewake {VERSION}")
        return 0
    if context.invoked_subcommand is not None:
        return 0
    choices = AgentChoices(
        cwd=cwd,
        model=model,
        permission_mode=permission_mode,
        session_id=session_id,
        resume=_resumed(resume, cwd, newest=continue_),
        persist=not no_session_persistence,
        max_steps=max_steps,
        max_cost=max_cost,
        on_unknown=on_unknown,
        demo_project=demo_project,
    )
    if prompt is not None:
        from rewake.cli.run import run_once

        return run_once(prompt, choices, output_format or ("json" if json else "text"))
    if json or output_format is not None:
        raise UsageError(
            "--json and --output-format belong to -p.", remedy="Give a prompt with -p."
        )
    from rewake.cli.interactive import converse

    return converse(choices)


def _resumed(resume: str | None, cwd: Path | None, *, newest: bool) -> str | None:
    """What `--resume` and `--continue` mean together; a session is picked where none is named."""
    if newest and resume is not None:
        raise UsageError("--continue and --resume exclude each other.", remedy="Give one of them.")
    if newest:
        return _NEWEST
    if resume != given.NO_VALUE:
        return resume
    from rewake.cli.picking import pick_session

    return pick_session(cwd)


@app.command(
    epilog="\b\nExamples:\n  rewake sessions\n  rewake sessions --all --limit 0\n"
    "  rewake sessions --json | jq -r '.[0].session_id'\n"
)
def sessions(
    json: Annotated[
        bool, typer.Option("--json", help="An array of objects, newest first.")
    ] = False,
    everywhere: Annotated[
        bool, typer.Option("--all", help="Those of all projects, not only of this one.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=0, help="At most so many; 0 for all. Default: 50, with --json all."),
    ] = None,
    cwd: Annotated[
        Path | None, typer.Option(help="The project's directory.", metavar="DIR")
    ] = None,
) -> int:
    """List the sessions of this project, newest first."""
    from rewake.cli.sessions import list_sessions

    return list_sessions(cwd, as_json=json, everywhere=everywhere, limit=limit)


@app.command(epilog="\b\nExamples:\n  rewake path 0199b2c4\n  rewake path newest --json\n")
def path(
    session: Annotated[
        str, typer.Argument(help="Id, beginning of an id, title, or newest.", metavar="ID")
    ],
    json: Annotated[bool, typer.Option("--json", help="One object.")] = False,
    cwd: Annotated[
        Path | None, typer.Option(help="The project's directory.", metavar="DIR")
    ] = None,
) -> int:
    """Say where everything of a session is."""
    from rewake.cli.path import show_path

    return show_path(session, cwd, as_json=json)


@app.command(
    epilog="\b\nExamples:\n  rewake show newest\n  rewake show 0199b2c4 --json | jq '.messages[-1]'\n"
    "  rewake show newest --memory\n"
)
def show(
    session: Annotated[
        str, typer.Argument(help="Id, beginning of an id, title, or newest.", metavar="ID")
    ],
    json: Annotated[bool, typer.Option("--json", help="One object with all messages.")] = False,
    memory: Annotated[
        bool, typer.Option("--memory", help="Only what session memory says.")
    ] = False,
    cwd: Annotated[
        Path | None, typer.Option(help="The project's directory.", metavar="DIR")
    ] = None,
) -> int:
    """Show the conversation of a session, with what was interrupted and what is damaged."""
    from rewake.cli.show import show_session

    return show_session(session, cwd, as_json=json, only_memory=memory)


@app.command(
    epilog="\b\nExamples:\n  rewake demo\n  rewake demo --model anthropic:claude-sonnet-5-5\n"
)
def demo(
    model: Annotated[
        str | None,
        typer.Option("-m", "--model", help="Another model than the embedded one.", metavar="MODEL"),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep/--no-keep", help="Leave the scratch project for going on with it, or remove it."
        ),
    ] = True,
) -> int:
    """Watch an agent being killed in the middle of an edit and wake up. No key, no network."""
    from rewake.cli.demo import run_demo

    return run_demo(model, keep=keep)


# --- errors ----------------------------------------------------------------------------------


def run_app(arguments: Sequence[str]) -> int:
    """Parse, run, and turn whatever happens into an exit status."""
    prepare_streams()
    try:
        _arm_crash_point()
        command = typer.main.get_command(app)
        code = command.main(given.regular(arguments), prog_name="rewake", standalone_mode=False)
    except RewakeError as error:
        _tell(error)
        return _answer_in_json(arguments, error)
    except _ParseError as error:
        return _answer_in_json(arguments, _told_parse_error(error))
    except (typer.Abort, KeyboardInterrupt):
        return int(ExitCode.INTERRUPTED)
    except Exception as error:  # noqa: BLE001  # a defect: show all of it, and still answer in JSON
        traceback.print_exc()
        defect = RewakeError(
            f"Rewake failed: {type(error).__name__}: {error}",
            remedy="This is a defect of Rewake; what was recorded before can be resumed.",
        )
        _tell(defect)
        return _answer_in_json(arguments, defect)
    return int(code or 0)


def _arm_crash_point() -> None:
    from rewake.log.disk import arm_crash_point

    arm_crash_point(os.environ)


def _tell(error: RewakeError) -> None:
    paint = style_for(sys.stderr)
    say(f"{paint.red('Error:')} {clean(error.message)}", stream=sys.stderr)
    if error.remedy:
        say(clean(error.remedy), stream=sys.stderr)


def _told_parse_error(error: Exception) -> RewakeError:
    """The parser shows its error together with the usage."""
    show_usage = getattr(error, "show", None)
    if callable(show_usage):
        show_usage()
    return UsageError(str(error), remedy="See rewake --help.")


def _answer_in_json(arguments: Sequence[str], error: RewakeError) -> int:
    """Whoever asked for JSON gets one line of it, also when nothing could be done."""
    output = given.output_format(arguments)
    if output != "text":
        from rewake.cli.jsonout import print_json
        from rewake.cli.results import failed_command, failed_run

        kind = {"type": "result"} if output == "stream-json" else {}
        is_run = given.is_run(arguments)
        print_json({**kind, **(failed_run(error) if is_run else failed_command(error))})
    return int(error.exit_code)
