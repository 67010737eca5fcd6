"""The two parsers agree; help, errors and completion are there for every command."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import pytest
from tests.cli.shell import Shell

from rewake.cli import app, table
from rewake.cli.quick import parse
from rewake.cli.slash import HELP, Name
from rewake.cli.table import COMMANDS, ROOT, Values
from rewake.errors import ExitCode

PARSED_BY_BOTH = [
    ["-p", "hello"],
    ["--prompt=hello", "--json"],
    ["-p", "-", "--output-format", "stream-json", "--cwd", "/tmp"],  # noqa: S108  # only a value
    ["-p", "--resume", "abc", "-m", "script:x"],
    ["-p", "", "-r"],
    ["-c", "-p", "x", "--max-steps", "3", "--max-cost", "0.25", "--on-unknown", "stop"],
    ["-p", "-x y", "--no-session-persistence", "--permission-mode", "plan"],
    ["-p", "a", "-p", "b"],
    [],
    ["sessions", "--all", "--limit", "7", "--json"],
    ["path", "abc", "--json"],
    ["show", "--memory", "abc"],
    ["check"],
    ["check", "--deep", "abc"],
    ["repair", "abc", "--dry-run"],
    ["title", "abc", "--json"],
    ["tag", "abc", "--remove"],
    ["rewind", "abc", "--to", "m", "--json"],
    ["-p", "x", "-r", "abc", "--fork-session", "--resume-session-at", "m", "--on-running", "wait"],
    ["title", "abc", "A title"],
    ["tag", "abc", "one", "two"],
    ["config"],
    ["config", "get", "model", "--json"],
    ["config", "set", "permissions.allow", "Read", "Edit", "--add", "--local"],
    ["-p", "x", "--setting-sources", "user,local", "--settings", "{}"],
    ["demo", "--no-keep"],
    ["demo", "--model", "script:x"],
]
LEFT_TO_THE_LIBRARY = [
    ["--help"],
    ["--bogus"],
    ["-p", "x", "--max-steps", "0"],
    ["-p", "x", "--max-steps", "many"],
    ["-p", "x", "--output-format", "xml"],
    ["--model"],
    ["sessions", "extra"],
    ["show"],
    ["show", "a", "b"],
    ["--json=yes"],
    ["nonsense"],
    ["config", "bogus"],
    ["title", "a", "b", "c"],
]


@contextmanager
def caught(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Values]]]:
    """What the library's parser hands over instead of being run."""
    found: list[tuple[str, Values]] = []

    def take(name: str, values: Values) -> int:
        found.append((name, values))
        return 0

    with monkeypatch.context() as patch:
        patch.setattr(app, "run_command", take)
        yield found


@pytest.mark.parametrize("arguments", PARSED_BY_BOTH, ids=" ".join)
def test_both_parsers_agree(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with caught(monkeypatch) as found:
        assert app.run_with_typer(arguments) == 0
    quick = parse(arguments)
    assert quick is not None
    ((name, values),) = found
    given = {key: value for key, value in values.given.items() if value is not None}
    assert (name, given) == (
        quick[0],
        {key: value for key, value in quick[1].given.items() if value is not None},
    )


@pytest.mark.parametrize("arguments", LEFT_TO_THE_LIBRARY, ids=" ".join)
def test_what_is_not_plainly_right_is_left_to_the_library(arguments: list[str]) -> None:
    assert parse(arguments) is None


def test_each_part_of_the_table_has_the_commands_that_are_looked_for_in_it() -> None:
    parts = [item.name for item in pkgutil.iter_modules(table.__path__)]
    loaded = [importlib.import_module(f"{table.__name__}.{part}") for part in parts]
    defined = [command.name for part in loaded for command in getattr(part, "COMMANDS", ())]
    assert sorted(defined) == sorted(COMMANDS)
    assert all(COMMANDS[name].name == name for name in COMMANDS)


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_every_command_has_help_with_examples(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    app.run_with_typer([*([name] if name else []), "--help"])
    shown = capsys.readouterr().out
    assert "Examples:" in shown
    assert "rewake" in shown
    assert "--demo-project" not in shown


def test_a_wrong_option_is_a_usage_error_also_in_json(shell: Shell) -> None:
    done = shell.run("-p", "x", "--bogus", "--json")
    assert (done.code, done.json["status"], done.json["error"]["exit_code"]) == (2, "error", 2)
    assert "--bogus" in done.err


def test_options_that_exclude_each_other_are_refused(shell: Shell) -> None:
    assert shell.run("-p", "x", "-c", "-r", "abc").code == 2
    assert shell.run("-p", "x", "-r", "abc", "--session-id", "mine").code == 2
    assert shell.run("--json").code == 2


def test_the_version_is_told(shell: Shell) -> None:
    from rewake.version import VERSION

    assert shell.run("--version").out == f"rewake {VERSION}\n"


def test_the_shell_completes_commands(shell: Shell) -> None:
    done = shell.run(
        env={
            "_REWAKE_COMPLETE": "complete_bash",
            "COMP_WORDS": "rewake sess",
            "COMP_CWORD": "1",
        }
    )
    assert done.out.split() == ["sessions"]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("rewake config exp", ["explain"]), ("rewake config get permissions.m", ["permissions.mode"])],
)
def test_the_shell_completes_actions_and_keys_of_settings(
    shell: Shell, typed: str, offered: list[str]
) -> None:
    done = shell.run(
        env={
            "_REWAKE_COMPLETE": "complete_bash",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(len(typed.split()) - 1),
        }
    )
    assert done.out.split() == offered


@pytest.mark.parametrize("before", [["--cwd", "/"], ["--json"], ["-p", "x"]])
def test_an_option_before_a_command_is_refused(shell: Shell, before: list[str]) -> None:
    done = shell.run(*before, "sessions")
    assert done.code == 2
    assert f"{before[0]} stands before the command sessions" in done.err


def test_the_words_of_an_unquoted_prompt_are_explained(shell: Shell) -> None:
    done = shell.run("-p", "make", "the", "tests", "pass")
    assert done.code == 2
    assert "A prompt stands in quotes" in done.err


def test_the_guide_has_every_command_every_option_of_a_run_and_every_word_at_the_prompt() -> None:
    guide = (Path(__file__).parents[2] / "docs/guide/cli.md").read_text()
    missing = [
        *(f"rewake {name}" for name in COMMANDS),
        *(flag for option in ROOT.options if not option.hidden for flag in option.flags),
        *(f"/{name}" for name in get_args(Name)),
        *(str(int(code)) for code in ExitCode),
    ]
    assert [word for word in missing if not re.search(rf"{re.escape(word)}\b", guide)] == []
    assert [name for name in get_args(Name) if f"/{name}" not in HELP] == []


def test_the_list_of_commands_cuts_nothing_off(shell: Shell) -> None:
    listed = shell.run("--help").out.partition("Commands:")[2].partition("Examples:")[0]
    assert "memory" in listed
    assert "..." not in listed
