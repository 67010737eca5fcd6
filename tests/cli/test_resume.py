"""Going on with a session: after an orderly end, after kill -9, in another directory, by title."""

from __future__ import annotations

import signal

import pytest
from tests.cli.shell import Shell, call, texts, turn

EDIT = call("Edit", file_path="a.txt", edits=[{"old_string": "before", "new_string": "after"}])
LOOK_AND_EDIT = (
    turn("", call("Read", file_path="a.txt")),
    turn("I edit.", EDIT, call("Bash", command="echo once >> ran")),
    turn("All done."),
)
WITH_MODEL = ("--permission-mode", "bypass", "--session-id", "s")


@pytest.fixture
def killed(shell: Shell) -> str:
    """The model of a session `s` that was killed between an edit and the record of its outcome."""
    (shell.project / "a.txt").write_text("before\n")
    model = shell.script(*LOOK_AND_EDIT)
    shell.killed_at("after_replace_target:1", "-p", "Edit it", "--model", model, *WITH_MODEL)
    return model


def test_a_killed_edit_gets_its_verdict_with_evidence_and_the_task_is_finished(
    shell: Shell, killed: str
) -> None:
    before = shell.transcript("s").read_bytes()
    done = shell.run("-p", "", "--resume", "s", "--model", killed, "--json")
    answer = done.json
    assert (done.code, answer["status"], answer["response"]) == (0, "done", "All done.")
    (uncertain,) = answer["uncertain_actions"]
    assert (uncertain["tool_name"], uncertain["verdict"]) == ("Edit", "applied")
    assert uncertain["evidence"]["actual"] == uncertain["evidence"]["expected_after"]
    (pending,) = answer["pending_actions"]
    assert pending["tool_name"] == "Bash"
    assert "WAS applied" in done.err
    assert "sha256" in done.err
    assert "Pending: Bash had not started" in done.err
    assert (shell.project / "a.txt").read_text() == "after\n"
    assert not (shell.project / "ran").exists()
    assert shell.transcript("s").read_bytes().startswith(before)


def test_show_tells_what_a_resume_would_find_and_changes_nothing(shell: Shell, killed: str) -> None:
    before = {path: path.read_bytes() for path in shell.home.rglob("*") if path.is_file()}
    shown = shell.run("show", "s", "--json").json
    assert [one["verdict"] for one in shown["uncertain_actions"]] == ["applied"]
    assert [one["tool_name"] for one in shown["pending_actions"]] == ["Bash"]
    assert shown["state"] == "interrupted"
    assert "WAS applied" in shell.run("show", "s").out
    assert before == {path: path.read_bytes() for path in shell.home.rglob("*") if path.is_file()}


def test_an_edit_killed_before_the_file_changed_was_not_applied(shell: Shell) -> None:
    (shell.project / "a.txt").write_text("before\n")
    model = shell.script(*LOOK_AND_EDIT)
    shell.killed_at("before_replace_target:1", "-p", "Edit it", "--model", model, *WITH_MODEL)
    answer = shell.run("-p", "", "--resume", "s", "--model", model, "--json").json
    assert [one["verdict"] for one in answer["uncertain_actions"]] == ["not_applied"]
    assert (shell.project / "a.txt").read_text() == "before\n"


def test_continue_goes_on_with_the_newest_session_of_the_project(shell: Shell) -> None:
    model = shell.script(turn("One."), turn("Two."))
    shell.run("-p", "first", "--model", model, "--session-id", "s")
    answer = shell.run("-p", "second", "-c", "--model", model, "--json").json
    assert (answer["session_id"], answer["response"]) == ("s", "Two.")
    shown = shell.run("show", "s", "--json").json
    assert texts(shown["messages"]) == [
        ("user", "first"),
        ("assistant", "One."),
        ("user", "second"),
        ("assistant", "Two."),
    ]


def test_an_empty_prompt_goes_on_also_where_the_model_had_the_last_word(shell: Shell) -> None:
    model = shell.script(turn("One."), turn("Two."))
    shell.run("-p", "first", "--model", model, "--session-id", "s")
    done = shell.run("-p", "--resume", "s", "--model", model, "--json")
    assert (done.code, done.json["response"]) == (0, "Two.")


def test_a_session_is_found_by_the_beginning_of_its_id_and_by_its_title(shell: Shell) -> None:
    model = shell.script()
    shell.run("-p", "Mend the fence", "--model", model, "--session-id", "abcdef-1")
    for wanted in ("abc", "mend the fence"):
        done = shell.run("-p", "x", "--resume", wanted, "--model", model, "--json")
        assert done.json["session_id"] == "abcdef-1"


def test_a_session_that_is_not_there_has_its_own_status(shell: Shell) -> None:
    done = shell.run("-p", "x", "--resume", "nobody", "--model", shell.script(), "--json")
    assert (done.code, done.json["error"]["type"]) == (4, "SessionNotFoundError")


def test_resume_without_an_id_prints_the_list_where_nobody_can_choose(shell: Shell) -> None:
    model = shell.script()
    shell.run("-p", "The first one", "--model", model, "--session-id", "one")
    done = shell.run("-p", "x", "--resume", "--model", model)
    assert done.code == 2
    assert "The first one" in done.err
    assert "--continue" in done.err


def test_a_session_goes_on_in_its_own_project_from_anywhere(shell: Shell) -> None:
    model = shell.script(turn("One."), turn("", call("Write", file_path="w.txt", content="x")))
    shell.run("-p", "x", "--model", model, "--session-id", "s")
    done = shell.run(
        *("-p", "write", "--resume", "s", "--model", model, "--permission-mode", "bypass"),
        cwd=shell.root,
    )
    assert done.code == 0
    assert str(shell.project) in done.err
    assert (shell.project / "w.txt").exists()


def test_a_session_whose_project_is_gone_asks_where_to_work(shell: Shell) -> None:
    model = shell.script()
    shell.run("-p", "x", "--model", model, "--session-id", "s")
    shell.project.rmdir()
    done = shell.run("-p", "y", "--resume", "s", "--model", model, cwd=shell.root)
    assert done.code == 2
    assert "--cwd" in done.err


@pytest.fixture
def unknown(shell: Shell) -> str:
    """The model of a session `s` with a call that no evidence can settle."""
    (shell.project / "a.txt").write_text("before\n")
    model = shell.script(*LOOK_AND_EDIT)
    shell.killed_at("before_replace_target:1", "-p", "Edit it", "--model", model, *WITH_MODEL)
    (shell.project / "a.txt").write_text("somebody else was here\n")
    return model


def test_on_unknown_stop_ends_with_its_own_status_and_records_nothing(
    shell: Shell, unknown: str
) -> None:
    before = shell.transcript("s").read_bytes()
    done = shell.run("-p", "", "-r", "s", "--model", unknown, "--on-unknown", "stop", "--json")
    assert (done.code, done.json["error"]["type"]) == (8, "UncertainError")
    assert "NOT KNOWN" in done.err
    assert shell.transcript("s").read_bytes() == before


def test_on_unknown_tell_goes_on(shell: Shell, unknown: str) -> None:
    done = shell.run("-p", "", "-r", "s", "--model", unknown, "--json")
    assert done.code == 0
    assert [one["verdict"] for one in done.json["uncertain_actions"]] == ["unknown"]


def test_damage_is_told_with_its_offset_and_the_session_goes_on(shell: Shell) -> None:
    model = shell.script(turn("One."), turn("Two."))
    shell.run("-p", "x", "--model", model, "--session-id", "s")
    path = shell.transcript("s")
    lines = path.read_bytes().split(b"\n")
    offset = len(b"\n".join(lines[:3])) + 1
    lines[3] = b"\x00" * 10
    path.write_bytes(b"\n".join(lines) + b'{"torn')
    done = shell.run("-p", "y", "-r", "s", "--model", model, "--json")
    assert done.code == 0
    kinds = {(item["kind"], item["offset"]) for item in done.json["damage"]}
    assert ("corrupt_line", offset) in kinds
    assert f"corrupt line at byte {offset}" in done.err
    assert f"at byte {offset}" in shell.run("show", "s").out


def test_a_second_process_on_a_session_is_told_who_has_it(shell: Shell) -> None:
    model = shell.script(turn("", call("Bash", command="sleep 60")))
    first = shell.start("-p", "x", "--model", model, *WITH_MODEL)
    shell.wait_for_event("s", "tool_lifecycle", status="started")
    second = shell.run("-p", "y", "--resume", "s", "--model", model, "--json")
    assert (second.code, second.json["error"]["type"]) == (3, "SessionBusyError")
    assert str(first.pid) in second.err
    shown = shell.run("show", "s", "--json").json
    assert (shown["state"], shown["pid"]) == ("running", first.pid)
    assert [one["verdict"] for one in shown["uncertain_actions"]] == [None]
    first.send_signal(signal.SIGTERM)
    assert first.wait(10) == 143
