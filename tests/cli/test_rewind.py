"""`rewake rewind`, `show --tree`, `resolve`, and resuming at a message or in a fork."""

from __future__ import annotations

from tests.cli.shell import Shell, call, texts, turn


def conversation(shell: Shell) -> tuple[str, list[str]]:
    """The model of a session `s` of two turns, and the ids of its messages."""
    model = shell.script(turn("Red."), turn("Green."), turn("Blue."))
    shell.run("-p", "one", "--model", model, "--session-id", "s")
    shell.run("-p", "two", "-r", "s")
    return model, [one["id"] for one in shell.run("show", "s", "--json").json["messages"]]


def said(shell: Shell, session: str = "s") -> list[str]:
    return [text for _, text in texts(shell.run("show", session, "--json").json["messages"])]


def test_a_rewind_leaves_a_branch_that_can_be_taken_up_again(shell: Shell) -> None:
    _, ids = conversation(shell)
    back = shell.run("rewind", "s", "--to", ids[1], "--json").json
    assert (back["session_id"], back["messages"]) == ("s", 2)
    assert said(shell) == ["one", "Red."]
    shown = shell.run("show", "s", "--json").json
    assert (shown["state"], shown["runs"]) == ("done", 2)
    left, active = shell.run("show", "s", "--tree", "--json").json["branches"]
    assert (left["is_active"], left["last_text"], left["forked_at"]) == (False, "Green.", ids[1])
    assert active["is_active"]
    tree = shell.run("show", "s", "--tree").out
    assert f"rewake rewind s --to {left['leaf_id']}" in tree
    assert "--undo" in shell.run("rewind", "s", "--undo").out
    assert said(shell) == ["one", "Red.", "two", "Green."]
    for wrong in ((), ("--undo", "--to", ids[0]), ("--to", "nowhere")):
        assert shell.run("rewind", "s", *wrong).code == 2


def test_a_rewind_leaves_interrupted_calls_to_the_resume(shell: Shell) -> None:
    (shell.project / "a.txt").write_text("before\n")
    edit = call("Edit", file_path="a.txt", old_string="before", new_string="after")
    model = shell.script(turn("", call("Read", file_path="a.txt")), turn("", edit), turn("Done."))
    shell.killed_at(
        "after_replace_target:1",
        *("-p", "Edit", "--model", model, "--session-id", "s", "--permission-mode", "bypass"),
    )
    first = shell.run("show", "s", "--json").json["messages"][0]["id"]
    assert shell.run("rewind", "s", "--to", first).code == 0
    done = shell.run("-p", "and?", "-r", "s", "--json")
    assert done.code == 0
    assert [one["verdict"] for one in done.json["uncertain_actions"]] == ["applied"]


def test_resuming_at_a_message_and_in_a_fork(shell: Shell) -> None:
    _, ids = conversation(shell)
    origin = shell.transcript("s").read_bytes()
    fork = shell.run(
        *("-p", "three", "-r", "s", "--fork-session", "--session-id", "f"),
        *("--resume-session-at", ids[0], "--json"),
    )
    assert (fork.code, fork.json["session_id"]) == (0, "f")
    assert said(shell, "f")[:2] == ["one", "three"]
    assert shell.transcript("s").read_bytes() == origin
    shell.run("-p", "three", "-r", "s", "--resume-session-at", ids[1])
    assert said(shell) == ["one", "Red.", "three", "Green."]
    assert shell.transcript("s").read_bytes().startswith(origin)
    assert shell.run("-p", "x", "--fork-session").code == 2


def test_a_fork_with_files_works_in_a_directory_of_its_own(shell: Shell) -> None:
    (shell.project / "a.txt").write_text("before\n")
    write = call("Write", file_path="made.txt", content="one\n")
    change = call("Bash", command="echo two > a.txt")
    where = call("Bash", command="pwd > where")
    model = shell.script(
        *(turn("", write), turn("Made."), turn("", change)),
        *(turn("Two."), turn("", where), turn("Three.")),
    )
    bypass = ("--permission-mode", "bypass")
    shell.run("-p", "one", "--model", model, "--session-id", "s", *bypass)
    (shell.project / "made.txt").write_text("somebody's\n")
    other = shell.root / "other"
    fork = ("-r", "s", "--fork-session", "--with-files", "../other")
    done = shell.run("-p", "two", *fork, "--session-id", "f", *bypass)
    assert done.code == 0, done.err
    assert f"Work in {other} from now on" in done.err
    assert (other / "a.txt").read_text() == "two\n"
    assert (other / "made.txt").read_text() == "somebody's\n"
    assert (shell.project / "a.txt").read_text() == "before\n"
    shown = shell.run("show", "f", "--json").json
    assert (shown["project"], shown["forked_from"]["session_id"]) == (str(other), "s")
    shell.run("-p", "three", "-r", "f", *bypass)  # from the first project
    assert (other / "where").read_text() == f"{other}\n"
    made = next(one["id"] for one in shown["messages"] if one["role"] == "user")
    back = shell.run("rewind", "f", "--to", made, "--files", "--json").json
    assert {one["path"] for one in back["changes"]} == {f"{other}/a.txt", f"{other}/where"}
    assert [one["path"] for one in back["conflicts"]] == [f"{other}/made.txt"]
    assert (other / "a.txt").read_text() == "before\n"
    assert shell.run("-p", "x", *fork, "--json").json["exit_code"] == 2
    assert shell.run("-p", "x", "-r", "s", "--with-files", "../third").code == 2
    for session in ("s", "f"):
        assert shell.run("check", session).code == 0


def test_a_person_says_what_became_of_a_call(shell: Shell) -> None:
    (shell.project / "a.txt").write_text("before\n")
    edit = call("Edit", file_path="a.txt", old_string="before", new_string="after")
    model = shell.script(turn("", call("Read", file_path="a.txt")), turn("", edit), turn("Done."))
    shell.killed_at(
        "before_replace_target:1",
        *("-p", "Edit", "--model", model, "--session-id", "s", "--permission-mode", "bypass"),
    )
    (shell.project / "a.txt").write_text("somebody else was here\n")
    stopped = shell.run("-p", "", "-r", "s", "--on-unknown", "stop", "--json")
    assert (stopped.code, stopped.json["session_id"]) == (8, "s")
    waiting = shell.run("resolve", "s", "--json")
    assert waiting.code == 8
    (one,) = waiting.json["calls"]
    resolved = shell.run("resolve", "s", one["call_id"], "--as", "applied", "--json")
    assert resolved.json["verdict"] == "applied"
    assert shell.run("resolve", "s").code == 0
    models = [e["payload"]["model"] for e in shell.events("s") if e["event_type"] == "run"]
    assert models == [model] * len(models)  # what a resume brings back is still known
    assert shell.run("resolve", "s", one["call_id"], "--as", "applied").code == 2


def test_a_verdict_on_no_call_leaves_the_session_as_it_is(shell: Shell) -> None:
    shell.run("-p", "x", "--model", shell.script(), "--session-id", "s")
    assert shell.run("resolve", "s", "nobody", "--as", "applied").code == 2
    assert [row["state"] for row in shell.run_json("sessions", "--json")] == ["done"]


def test_a_rewound_session_has_the_same_count_of_messages_everywhere(shell: Shell) -> None:
    model = shell.script(turn("Red."), turn("Green."), turn("Blue."))
    shell.run("-p", "one", "--model", model, "--session-id", "s")
    shell.run("-p", "two", "-r", "s")
    answer = shell.run("show", "s", "--json").json["messages"][1]["id"]
    assert "back at 2 messages" in shell.run("rewind", "s", "--to", answer).out
    assert " 2 messages " in shell.run("show", "s").out
    assert "(2 messages)" in shell.run("-p", "three", "-r", "s").err
