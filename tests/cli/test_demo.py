"""`rewake demo` with a scripted model: the same child, kill and resume as with a real one."""

from __future__ import annotations

import json

from tests.cli.shell import Shell, call, turn

LOOK = turn("First I look.", call("Read", file_path="greeting.txt"))
EDIT = turn(
    "",
    call("Edit", file_path="greeting.txt", edits=[{"old_string": "GREETING", "new_string": "Hi!"}]),
)


def test_the_demo_kills_an_agent_in_an_edit_and_wakes_it_up(shell: Shell) -> None:
    model = shell.script(LOOK, EDIT, turn("I greeted."))
    done = shell.run("demo", "--model", model, "--no-keep", env={"TMPDIR": str(shell.root)})
    assert done.code == 0, done.out + done.err
    for part in ("kill -9", "WAS applied", "I greeted.", "acknowledged events are there"):
        assert part in done.out
    (session,) = json.loads(shell.run("sessions", "--all", "--json").out)
    assert session["state"] == "done"
    assert f"rewake show {session['session_id']}" in done.out
    assert session["path"] in done.out
    assert not list(shell.root.glob("rewake-demo-*"))


def test_what_the_demo_suggests_works(shell: Shell) -> None:
    model = shell.script(LOOK, EDIT, turn("I greeted."), turn("The greeting."))
    shown = shell.run("demo", "--model", model, env={"TMPDIR": str(shell.root)}).out
    (project,) = shell.root.glob("rewake-demo-*")
    assert (project / "greeting.txt").read_text().startswith("Hi!\n")
    (session,) = json.loads(shell.run("sessions", "--all", "--json").out)
    assert f"-p 'What did you change?' --resume {session['session_id']} --model {model}" in shown
    done = shell.run(
        *("-p", "What did you change?", "--resume", session["session_id"], "--model", model)
    )
    assert (done.code, done.out) == (0, "The greeting.\n")


def test_a_model_that_edits_nothing_fails_the_demo_and_is_named(shell: Shell) -> None:
    model = shell.script(turn("I would rather not."))
    done = shell.run("demo", "--model", model, "--no-keep", env={"TMPDIR": str(shell.root)})
    assert done.code == 1
    assert "without editing anything" in done.err
    assert "I would rather not." in done.err
    assert not list(shell.root.glob("rewake-demo-*"))


def test_a_model_that_edits_again_fails_the_demo(shell: Shell) -> None:
    again = turn(
        "", call("Edit", file_path="greeting.txt", edits=[{"old_string": "Hi", "new_string": "Ho"}])
    )
    model = shell.script(LOOK, EDIT, again, turn("Twice."))
    done = shell.run("demo", "--model", model, "--no-keep", env={"TMPDIR": str(shell.root)})
    assert done.code == 1
    assert "The demo failed" in done.err


def test_an_error_of_the_model_is_told(shell: Shell) -> None:
    model = shell.script({"error": {"status": 401, "message": "no such key"}})
    done = shell.run("demo", "--model", model, "--no-keep", env={"TMPDIR": str(shell.root)})
    assert done.code == 1
    assert "no such key" in done.err


def test_a_model_that_is_none_is_refused_before_anything_is_made(shell: Shell) -> None:
    done = shell.run("demo", "--model", "foo", env={"TMPDIR": str(shell.root)})
    assert done.code == 2
    assert done.err.count("is no model") == 1
    assert not list(shell.root.glob("rewake-demo-*"))
