"""The commands as the command-line library sees them: for help, complaints and shell completion.

Built from the table; see there why ordinary command lines don't come by here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from typer.core import TyperCommand

from rewake.cli import table
from rewake.cli.dispatch import run_command
from rewake.cli.quick import default_of, regular
from rewake.cli.terminal import note
from rewake.errors import UsageError

# What the library raises for wrong arguments; it exports only this subclass of it.
_ParseError: Final[type[Exception]] = next(
    base for base in reversed(typer.BadParameter.__mro__) if hasattr(base, "show")
)
_TYPES: Final[dict[str, type]] = {
    "flag": bool,
    "text": str,
    "path": Path,
    "integer": int,
    "number": float,
}


_SHORT_MAX: Final = 60  # what a terminal of 80 columns has room for
_SHORT_MIN: Final = 24
_NO_COMMAND: Final = "No such command"
_REQUIRED: Final = re.compile(r"^\{(.*)\}")


class UsageShownError(UsageError):
    """Wrong arguments; what is wrong with them has been shown, with the usage."""


class _Command(TyperCommand):
    """A command whose help shows arguments as every manual does: ID, [CALL], [ID]..."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = super().collect_usage_pieces(ctx)
        return [_REQUIRED.sub(r"\1", piece) for piece in pieces]

    def get_help(self, ctx: Any) -> str:
        return super().get_help(ctx).replace("<list[str]>", "<str>...   ")  # as wide as it was


def run_with_typer(arguments: Sequence[str]) -> int:
    """Parse with the library and run. Raises UsageShownError, KeyboardInterrupt and RewakeError."""
    command = typer.main.get_command(build_app())
    try:
        code = command.main(regular(arguments), prog_name="rewake", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except _ParseError as error:
        _reword(error)
        show_usage = getattr(error, "show", None)
        if callable(show_usage):
            show_usage()
        if _message(error).startswith(_NO_COMMAND):  # the likeliest reason: words of a prompt
            note('A prompt stands in quotes after -p: rewake -p "Make the tests pass"')
        raise UsageShownError(_message(error), remedy="See rewake --help.") from error
    return int(code or 0)


def _reword(error: Exception) -> None:
    """Leaves out what names the library's own exception."""
    message = getattr(error, "message", None)
    if isinstance(message, str):
        setattr(error, "message", message.replace("Value error, ", ""))  # noqa: B010  # no such member in its type


def _message(error: Exception) -> str:
    format_message = getattr(error, "format_message", None)
    return str(format_message()) if callable(format_message) else str(error)


def build_app() -> typer.Typer:
    """The whole table as one app."""
    app = typer.Typer(
        name="rewake",
        rich_markup_mode=None,  # plain text, like everything else here
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    root = app.callback(
        invoke_without_command=True, help=table.ROOT.help, epilog=_verbatim(table.ROOT.examples)
    )
    root(_function(table.ROOT))
    for command in table.COMMANDS.values():
        register = app.command(
            command.name,
            cls=_Command,
            help=command.help,
            short_help=_short(command.help),
            epilog=_verbatim(command.examples),
        )
        register(_function(command))
    return app


def _short(text: str) -> str:
    """As much of a command's first sentence as a line of the list has room for, not cut in a clause."""
    sentence = text.split("\n", maxsplit=1)[0].split(". ", maxsplit=1)[0].rstrip(".")
    if len(sentence) > _SHORT_MAX:
        ends = [sentence[:_SHORT_MAX].rfind(mark) for mark in (";", ":", ", ")]
        end = next((at for at in ends if at > _SHORT_MIN), len(sentence))
        sentence = sentence[:end]
    return f"{sentence}."


def _verbatim(text: str) -> str:
    """Keeps the library from folding lines: each paragraph is marked."""
    return "\n\n".join(f"\b\n{part.strip()}" for part in text.strip().split("\n\n"))


def _function(command: table.Command) -> Callable[..., int]:
    """The function whose signature tells the library about the command's options."""
    is_root = command is table.ROOT

    def run(**values: Any) -> int:
        context = values.pop("context", None)
        if is_root and context is not None and context.invoked_subcommand is not None:
            _refuse_options_of_root(context.invoked_subcommand, values)
            return 0
        given = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
        }
        return run_command(command.name, table.Values(given))

    parameters = [_parameter(option) for option in command.options]
    if command.argument is not None:
        parameters.insert(0, _parameter(command.argument))
    if command.second is not None:
        parameters.insert(1, _parameter(command.second))
    if is_root:
        parameters.insert(0, _named("context", typer.Context, inspect.Parameter.empty))
    run.__name__ = command.name or "rewake"
    run.__doc__ = command.help
    # The library reads the signature and the annotations; both must tell the same.
    setattr(run, "__signature__", inspect.Signature(parameters))  # noqa: B010  # a plain assignment has no type
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _refuse_options_of_root(command: str, values: dict[str, Any]) -> None:
    """An option before a command would be ignored: the list of another project, no JSON."""
    for option in table.ROOT.options:
        if option.flags and values[option.name] != default_of(option):
            raise UsageError(
                f"{option.flags[0]} stands before the command {command}, where it means nothing.",
                remedy=f"Put it behind, if `rewake {command} --help` has it; a prompt needs quotes.",
            )


def _completion(option: table.Option) -> Callable[[str], list[str]] | None:
    """What the shell offers beside choices."""
    if option.completes is None:
        return None

    def keys(incomplete: str) -> list[str]:
        from rewake.settings.keys import KEYS

        return [name for name in KEYS if name.startswith(incomplete)]

    return keys


def _named(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=annotation, default=default)


def _parameter(option: table.Option) -> inspect.Parameter:
    if not option.flags:
        argument = typer.Argument(
            help=option.help, metavar=option.metavar, autocompletion=_completion(option)
        )
        single: Any = Literal[option.choices] if option.choices else str
        kind: Any = list[str] if option.may_repeat else single
        kind = kind if option.is_required else kind | None
        default = inspect.Parameter.empty if option.is_required else None
        return _named(option.name, Annotated[kind, argument], default)
    flags = list(option.flags)
    if option.negation is not None:
        flags[-1] = f"{flags[-1]}/{option.negation}"
    declared = typer.Option(
        *flags,
        help=option.help,
        metavar=option.metavar,
        min=option.least,
        hidden=option.hidden,
        show_default=False,
    )
    annotation: Any = Literal[option.choices] if option.choices else _TYPES[option.kind]
    if option.kind != "flag":
        annotation = annotation | None
    return _named(option.name, Annotated[annotation, declared], default_of(option))
