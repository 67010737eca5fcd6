"""`rewake browse` as a process on a real terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.shell import Shell, turn
from tests.cli.terminal import CTRL_D, Terminal


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    opened = Shell(tmp_path.resolve())
    yield opened
    opened.close()


def test_resume_leaves_the_browser_for_the_conversation(shell: Shell) -> None:
    model = shell.script(turn("One."))
    shell.run("-p", "an older one", "--model", model, "--session-id", "older")
    (shell.project / ".git").mkdir()
    settings = shell.project / ".rewake" / "settings.local.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(f'{{"model": "{model}"}}')
    with Terminal(shell, "browse") as terminal:
        terminal.expect("an older one")
        terminal.type("r")
        terminal.expect("Resumed session older")
        terminal.ready()
        terminal.type(CTRL_D)
        assert terminal.code() == 0


def test_q_leaves_it_and_the_terminal_is_as_it_was(shell: Shell) -> None:
    with Terminal(shell, "browse") as terminal:
        terminal.expect("No sessions in this project yet.")
        terminal.type("q")
        assert terminal.code() == 0
        assert terminal.raw.rstrip().endswith(("\x1b[?1049l", "\x1b[?25h", "l", "h"))


def test_colour_is_left_out_under_no_color(shell: Shell) -> None:
    with Terminal(shell, "browse", env={"NO_COLOR": "1"}) as terminal:
        terminal.expect("No sessions in this project yet.")
        terminal.type("q")
        terminal.code()
        painted = [part.split("m", 1)[0] for part in terminal.raw.split("\x1b[")[1:] if "m" in part]
        codes = {code for sgr in painted for code in sgr.split(";") if code.isdigit()}
        assert not codes & {"38", "48", *map(str, range(30, 38)), *map(str, range(40, 48))}


def test_without_a_terminal_it_says_what_to_use_instead(shell: Shell) -> None:
    done = shell.run("browse")
    assert done.code == 2
    assert "rewake sessions" in done.err
