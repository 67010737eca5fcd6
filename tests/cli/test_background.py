"""`rewake commands`, and what a run says of commands that go on after it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.shell import Shell, call, turn, wait_until
from tests.cli.terminal import CTRL_D, ENTER, PROMPT, Terminal

START = call("Bash", command="echo hello; cat go; exit 7", run_in_background=True)


@pytest.fixture
def session(shell: Shell) -> Iterator[str]:
    """A session whose run ended while its command waits at the pipe `go`."""
    os.mkfifo(shell.project / "go")
    model = shell.script(turn("", START), turn("It runs."), turn("I see."))
    done = shell.run(
        *("-p", "start it", "--model", model, "--permission-mode", "bypass", "--json"),
        *("--session-id", "s"),
    )
    (command,) = done.json["running_commands"]
    assert command["state"] == "running"
    assert f"Still running in the background: {command['id']}" in done.err
    wait_until(lambda: (Path(command["output"]) / "stdout").read_bytes() == b"hello\n")
    yield command["id"]
    shell.run("commands", "s", "--stop", command["id"])


def test_they_are_listed_and_their_output_is_shown(shell: Shell, session: str) -> None:
    (found,) = shell.run_json("commands", "--json")
    assert (found["id"], found["state"], found["output_bytes"]) == (session, "running", 6)
    table = shell.run("commands", "s").out
    assert session in table
    assert "Running." in table
    assert found["output"] in table
    assert shell.run("commands", "s", "--output", session).out.startswith("hello\n")
    shown = shell.run_json("commands", "s", "--output", session, "--json")
    assert (shown["id"], shown["stdout"]) == (session, "hello\n")


def test_one_is_stopped_and_the_model_told_when_it_goes_on(shell: Shell, session: str) -> None:
    stopped = shell.run_json("commands", "s", "--stop", session, "--json")
    assert (stopped["state"], stopped["has_processes"]) == ("finished", False)
    done = shell.run("-p", "go on", "--resume", "s", "--json")
    assert done.json["running_commands"] == []
    shown = json.dumps(shell.run_json("show", "s", "--json")["messages"])
    assert shown.count("Stopped after") == 1


def test_a_resume_says_what_still_runs_and_then_what_ended(shell: Shell, session: str) -> None:
    told = shell.run("-p", "", "--resume", "s", "--max-steps", "1")
    assert f"Still running in the background: {session}" in told.err
    (shell.project / "go").write_text("")
    (found,) = shell.run_json("commands", "s", "--json")
    wait_until((Path(found["output"]) / "exit").exists)
    again = shell.run("-p", "And?", "--resume", "s")
    assert f"The background command {session} has ended." in again.err


def test_what_is_wanted_wrongly_is_said(shell: Shell, session: str) -> None:
    assert shell.run("commands", "s", "--stop", "nobody").code == 4
    assert shell.run("commands", "s", "--stop", session, "--output", session).code == 2


def test_what_a_sub_agent_left_running_is_named_when_the_run_has_ended(shell: Shell) -> None:
    os.mkfifo(shell.project / "go")
    asks = call("Task", description="serve", prompt="Start it.")
    model = shell.script(
        turn("", asks),
        turn("It runs."),
        turn("", START, agent="worker"),
        turn("Up.", agent="worker"),
    )
    started = ("-p", "start it", "--model", model, "--permission-mode", "bypass", "--json")
    done = shell.run(*started, "--session-id", "s")
    assert done.code == 0
    (command,) = done.json["running_commands"]
    try:
        assert f"Still running in the background: {command['id']}" in done.err
        assert shell.run("check", "s").out.count("leftover") == 0
    finally:
        shell.run("commands", "s", "--stop", command["id"])


def test_an_unfinished_run_says_so_everywhere(shell: Shell) -> None:
    settings = {"verify": "echo it is bad; false", "verify_max": 1}
    shell.home.mkdir()
    (shell.home / "settings.json").write_text(json.dumps(settings))
    write = call("Write", file_path="f", content="x")
    model = shell.script(turn("", write), turn("Done."), turn("Really done."))
    arguments = ("-p", "do it", "--model", model, "--permission-mode", "bypass")
    done = shell.run(*arguments, "--json")
    assert (done.code, done.json["status"], done.json["exit_code"]) == (11, "unfinished", 11)
    assert "it is bad" in done.json["unfinished"][0]
    (shell.project / "f").unlink()
    plain = shell.run(*arguments)
    assert (plain.code, plain.out) == (11, "Really done.\n")
    assert "NOT finished" in plain.err


def test_a_check_that_came_with_a_clone_does_not_run_untrusted(shell: Shell) -> None:
    (shell.project / ".rewake").mkdir()
    (shell.project / ".rewake" / "settings.json").write_text('{"verify": "touch ran"}')
    write = call("Write", file_path="f", content="x")
    model = shell.script(turn("", write), turn("Done."))
    shell.run("-p", "do it", "--model", model, "--permission-mode", "bypass")
    assert (shell.project / "f").exists()
    assert not (shell.project / "ran").exists()


def test_verify_and_commands_at_the_prompt(shell: Shell) -> None:
    shell.home.mkdir()
    (shell.home / "settings.json").write_text('{"verify": "echo checked"}')
    with Terminal(shell, "--model", shell.script(turn("Hi."))) as terminal:
        for command, answer in (
            ("/commands", "No command was started"),
            ("/verify", "The check passed."),
        ):
            terminal.expect(PROMPT)
            terminal.type(command + ENTER)
            terminal.expect(answer)
        terminal.expect(PROMPT)
        terminal.type(CTRL_D)
        assert terminal.code() == 0


def test_a_command_that_has_ended_leaves_the_status_line_by_itself(shell: Shell) -> None:
    wait = call("Bash", command="while [ ! -e go ]; do sleep 0.1; done", run_in_background=True)
    model = shell.script(turn("", wait), turn("Started."))
    with Terminal(shell, "--model", model, "--permission-mode", "bypass") as terminal:
        terminal.ready()
        terminal.type("Start it" + ENTER)
        terminal.see_idle("Started.", "1 command running")
        (shell.project / "go").touch()
        terminal.see_no("1 command running")
