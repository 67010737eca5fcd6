"""What a resumed session has back: model, permissions, directory, todo list; and who has it open."""

from __future__ import annotations

import shutil
import signal

import pytest
from tests.cli.shell import Shell, call, turn

TODOS = call("TodoWrite", todos=[{"content": "Paint it", "status": "completed"}])


def test_the_model_comes_back_unless_another_is_named_or_it_is_gone(shell: Shell) -> None:
    model = shell.script(turn("One."), turn("Two."), turn("Three."))
    shell.run("-p", "first", "--model", model, "--session-id", "s")
    again = shell.run("-p", "second", "-r", "s", "--json")
    assert (again.json["response"], again.json["model"]) == ("Two.", model)
    assert "as in the run before" in again.err
    (shell.root / "script.jsonl").rename(shell.root / "other.jsonl")
    other = f"script:{shell.root / 'other.jsonl'}"
    (shell.home / "settings.json").write_text(f'{{"model": "{other}"}}')
    gone = shell.run("-p", "third", "-r", "s", "--json")
    assert (gone.json["response"], gone.json["model"]) == ("Three.", other)
    assert f"{model}, the model of the run before, can't be used" in gone.err
    named = shell.run("-p", "fourth", "-r", "s", "--model", "script:nowhere")
    assert named.code != 0


@pytest.mark.parametrize("mode", ["plan", "acceptEdits", "bypass"])
def test_the_permission_mode_comes_back_but_never_bypass_by_itself(shell: Shell, mode: str) -> None:
    shell.run("-p", "x", "--model", shell.script(), "--session-id", "s", "--permission-mode", mode)
    done = shell.run("-p", "y", "-r", "s", "--fork-session", "--session-id", "f")
    assert done.code == 0
    modes = [
        event["payload"]["permission_mode"]
        for event in shell.events("f")
        if event["event_type"] == "run"
    ]
    assert modes == ["default" if mode == "bypass" else mode]
    assert ("never comes back by itself" in done.err) == (mode == "bypass")


def test_the_working_directory_and_the_todo_list_come_back(shell: Shell) -> None:
    (shell.project / ".git").mkdir()
    deep = shell.project / "deep"
    deep.mkdir()
    look = call("Bash", command="pwd > where")
    model = shell.script(turn("", TODOS), turn("Noted."), turn("", look), turn("Looked."))
    shell.run("-p", "plan", "--model", model, "--session-id", "s", cwd=deep)
    done = shell.run("-p", "look", "-c", "--permission-mode", "bypass")
    assert f"Working where the session did, in {deep}" in done.err
    assert (deep / "where").read_text().strip() == str(deep)
    assert shell.run("show", "s", "--json").json["todos"][0]["content"] == "Paint it"
    shutil.rmtree(deep)
    gone = shell.run("-p", "again", "-c")
    assert gone.code == 0
    assert f"{deep} is not there any more; working in {shell.project}" in gone.err


def test_continue_names_who_has_the_newest_session_and_offers_a_fork(shell: Shell) -> None:
    model = shell.script(turn("", call("Bash", command="sleep 60")), turn("Elsewhere."))
    first = shell.start(
        *("-p", "x", "--model", model, "--session-id", "s", "--permission-mode", "bypass")
    )
    shell.wait_for_event("s", "tool_lifecycle", status="started")
    busy = shell.run("-p", "y", "--continue", "--json")
    assert (busy.code, busy.json["session_id"]) == (3, "s")
    assert str(first.pid) in busy.json["error"]["message"]
    assert "--fork-session" in busy.json["error"]["remedy"]
    labelled = shell.run("title", "s", "mine", "--json")
    assert (labelled.code, labelled.json["session_id"]) == (3, "s")
    fork = shell.run("-p", "y", "--continue", "--fork-session", "--json")
    assert (fork.code, fork.json["response"]) == (0, "Elsewhere.")
    first.send_signal(signal.SIGTERM)
    assert first.wait(10) == 143


def test_labels_change_nothing_else(shell: Shell) -> None:
    (shell.project / "a.txt").write_text("before\n")
    edit = call("Edit", file_path="a.txt", old_string="before", new_string="after")
    model = shell.script(turn("", call("Read", file_path="a.txt")), turn("", edit))
    shell.killed_at(
        "after_replace_target:1",
        *("-p", "Edit", "--model", model, "--session-id", "s", "--permission-mode", "bypass"),
    )
    assert shell.run("title", "s", "A walk", "--json").json == {
        "session_id": "s",
        "title": "A walk",
    }
    assert shell.run("tag", "A walk", "fun", "red", "--json").json["tags"] == ["fun", "red"]
    assert shell.run("tag", "s", "fun", "--remove").out == "red\n"
    assert shell.run("tag", "s").out == "red\n"
    assert shell.run("tag", "s", "--remove").code == 2
    assert shell.run("title", "s", "").out == "Edit\n"
    shown = shell.run("show", "s", "--json").json
    assert (shown["runs"], shown["terminal"], shown["tags"]) == (1, None, ["red"])
    assert [one["verdict"] for one in shown["uncertain_actions"]] == ["applied"]
