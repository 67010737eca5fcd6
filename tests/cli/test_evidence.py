"""Evidence of interrupted commands, as people read it."""

from __future__ import annotations

import pytest
from tests.cli.shell import Shell, call, turn

from rewake.cli.resumed import evidence_sentence

VANISHED = "it was started, its end was not recorded, and nothing of it runs any more"
COMMAND = {"command": "make", "output_directory": "outputs/x"}


@pytest.mark.parametrize(
    ("fact", "sentence"),
    [
        (
            {"state": "finished", "exit": {"exit_code": 2, "duration_ms": 1234}},
            "it ended with exit code 2 after 1.2 s; nothing of it runs any more",
        ),
        (
            {"state": "finished", "exit": {"signal": 9, "duration_ms": 500}, "background": True},
            "it was killed by signal 9 after 0.5 s; processes that it started still run",
        ),
        (
            {"state": "finished", "exit": {"cancelled": True, "signal": 15, "duration_ms": 100}},
            "it was stopped with the run after 0.1 s; nothing of it runs any more",
        ),
        ({"state": "running"}, "it still runs"),
        ({"state": "never_started"}, "the command never ran"),
        (
            {"state": "vanished", "start": {}, "rebooted": True},
            f"{VANISHED}; the machine was restarted since",
        ),
    ],
)
def test_the_evidence_of_a_command_is_one_sentence(fact: dict[str, object], sentence: str) -> None:
    assert evidence_sentence({**COMMAND, **fact}) == sentence


def test_a_verdict_of_a_person_does_not_make_a_done_run_an_interrupted_one(shell: Shell) -> None:
    (shell.project / "a.txt").write_text("before\n")
    edit = call("Edit", file_path="a.txt", old_string="before", new_string="after")
    model = shell.script(turn("", call("Read", file_path="a.txt")), turn("", edit), turn("Well."))
    asked = ("-p", "x", "--model", model, "--permission-mode", "acceptEdits", "--session-id", "s")
    shell.killed_at("before_replace_target:1", *asked)
    (shell.project / "a.txt").write_text("somebody else was here\n")
    assert shell.run("-p", "", "-r", "s").code == 0
    (waiting,) = shell.run("resolve", "s", "--json").json["calls"]
    assert shell.run("resolve", "s", waiting["call_id"], "--as", "applied").code == 0
    assert "the run before ended as it should" in shell.run("-p", "y", "-r", "s").err
