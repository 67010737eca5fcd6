"""`rewake -p`: one prompt, one answer, one exit status."""

from __future__ import annotations

import json
import stat

from tests.cli.shell import Shell, call, turn

ESCAPES = "\x1b[31mred\x1b[0m\x1b]0;title\x07 \u202eevil"


def test_the_answer_goes_to_stdout_and_everything_else_to_stderr(shell: Shell) -> None:
    model = shell.script(
        turn("Let me look.", call("Bash", command="echo seen")), turn("That is all.")
    )
    done = shell.run("-p", "Look", "--model", model, "--permission-mode", "bypass")
    assert (done.code, done.out) == (0, "That is all.\n")
    for shown in ("Model: script:", "Let me look.", "Bash", "seen", "Session "):
        assert shown in done.err


def test_json_is_one_line_with_all_that_a_script_needs(shell: Shell) -> None:
    model = shell.script(turn("Yes.\u2028No.", usage={"input_tokens": 7, "output_tokens": 2}))
    done = shell.run("-p", "Well?", "--model", model, "--json")
    answer = done.json
    assert done.code == 0
    assert answer["status"] == "done"
    assert answer["terminal_reason"] == "done"
    assert answer["response"] == "Yes.\u2028No."
    assert answer["usage"]["input_tokens"] == 7
    assert answer["uncertain_actions"] == answer["pending_actions"] == answer["damage"] == []
    assert answer["error"] is None
    events = shell.events(answer["session_id"])
    assert answer["transcript"] == str(shell.transcript(answer["session_id"]))
    assert {event["run_id"] for event in events} == {answer["run_id"]}
    assert events[-1]["event_type"] == "terminal"


def test_stream_json_has_each_event_as_it_is_recorded_and_then_the_result(shell: Shell) -> None:
    done = shell.run(
        "-p", "Hi", "--model", shell.script(turn("Hello.")), "--output-format", "stream-json"
    )
    *events, result = [json.loads(line) for line in done.out.splitlines()]
    assert result["type"] == "result"
    assert result["response"] == "Hello."
    assert {event["type"] for event in events} == {"event"}
    recorded = shell.events(result["session_id"])
    assert [event["event_id"] for event in events] == [event["event_id"] for event in recorded]
    assert events[-1]["payload"] == recorded[-1]["payload"]


def test_a_dash_reads_the_prompt_from_stdin(shell: Shell) -> None:
    done = shell.run("-p", "-", "--model", shell.script(), "--json", stdin="from the pipe")
    assert _prompt(shell, done.json["session_id"]) == "from the pipe"


def test_what_is_piped_in_is_appended_to_the_prompt(shell: Shell) -> None:
    done = shell.run("-p", "Review this:", "--model", shell.script(), "--json", stdin="the diff\n")
    assert _prompt(shell, done.json["session_id"]) == "Review this:\n\nthe diff\n"


def test_a_prompt_may_begin_with_a_dash(shell: Shell) -> None:
    done = shell.run("-p", "--verbose is broken", "--model", shell.script(), "--json")
    assert _prompt(shell, done.json["session_id"]) == "--verbose is broken"


def test_an_empty_prompt_is_a_usage_error(shell: Shell) -> None:
    done = shell.run("-p", "", "--model", shell.script(), "--json")
    assert (done.code, done.json["status"]) == (2, "error")
    assert "prompt is empty" in done.err


def test_without_a_terminal_and_without_a_prompt_it_says_to_use_p(shell: Shell) -> None:
    done = shell.run()
    assert (done.code, done.out) == (2, "")
    assert "rewake -p" in done.err


def test_cwd_is_where_the_agent_works(shell: Shell) -> None:
    other = shell.root / "other"
    other.mkdir()
    model = shell.script(turn("", call("Write", file_path="made.txt", content="x\n")))
    done = shell.run(
        *("-p", "Write", "--model", model, "--permission-mode", "acceptEdits"),
        *("--cwd", str(other), "--json"),
    )
    assert done.json["project"] == str(other)
    assert (other / "made.txt").read_text() == "x\n"


def test_a_cwd_that_is_not_there_is_a_usage_error(shell: Shell) -> None:
    done = shell.run("-p", "x", "--cwd", "nowhere", "--model", shell.script())
    assert done.code == 2
    assert "nowhere" in done.err


def test_without_a_terminal_nothing_is_allowed_silently(shell: Shell) -> None:
    model = shell.script(turn("", call("Bash", command="touch made")), turn("I could not."))
    done = shell.run("-p", "Try", "--model", model)
    assert done.code == 0
    assert not (shell.project / "made").exists()
    assert "permission" in done.err


def test_a_session_gets_the_id_that_was_asked_for_once(shell: Shell) -> None:
    model = shell.script()
    first = shell.run("-p", "x", "--model", model, "--session-id", "mine", "--json")
    assert first.json["session_id"] == "mine"
    second = shell.run("-p", "x", "--model", model, "--session-id", "mine", "--json")
    assert second.code == 2
    assert "--resume mine" in second.json["error"]["remedy"]


def test_an_id_can_not_leave_the_sessions_directory(shell: Shell) -> None:
    done = shell.run("-p", "x", "--model", shell.script(), "--session-id", "../../x")
    assert done.code == 2


def test_without_persistence_nothing_is_written(shell: Shell) -> None:
    model = shell.script(turn("", call("Bash", command="echo hi")), turn("Done."))
    done = shell.run(
        *("-p", "x", "--model", model, "--no-session-persistence", "--json"),
        *("--permission-mode", "bypass"),
        env={"TMPDIR": str(shell.root)},
    )
    assert (done.code, done.json["response"], done.json["transcript"]) == (0, "Done.", None)
    assert not shell.home.exists()
    assert {path.name for path in shell.root.iterdir()} == {"project", "script.jsonl"}


def test_files_are_private(shell: Shell) -> None:
    shell.run("-p", "x", "--model", shell.script())
    for path in shell.home.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_the_limit_of_steps_ends_with_its_own_status(shell: Shell) -> None:
    model = shell.script(*[turn("", call("Glob", pattern="*"))] * 5)
    done = shell.run("-p", "x", "--model", model, "--max-steps", "2", "--json")
    assert (done.code, done.json["status"], done.json["terminal_reason"]) == (
        10,
        "limit",
        "max_steps",
    )
    assert done.json["steps"] == 2


def test_the_limit_of_cost_ends_with_its_own_status(shell: Shell) -> None:
    usage = {"input_tokens": 1, "output_tokens": 1, "cost_usd": 0.4}
    model = shell.script(*[turn("", call("Glob", pattern="*"), usage=usage)] * 5)
    done = shell.run("-p", "x", "--model", model, "--max-cost", "0.5", "--json")
    assert (done.code, done.json["terminal_reason"], done.json["steps"]) == (10, "max_cost", 2)


def test_an_error_of_the_model_ends_with_its_own_status(shell: Shell) -> None:
    model = shell.script({"error": {"status": 401, "message": "bad key"}})
    done = shell.run("-p", "x", "--model", model, "--json")
    assert (done.code, done.json["status"]) == (7, "error")
    assert "bad key" in done.json["error"]["message"]
    assert done.json["error"]["exit_code"] == 7
    assert shell.events(done.json["session_id"])[-1]["payload"]["reason"] == "model_error"


def test_a_model_that_is_none_is_refused_before_a_session_is_made(shell: Shell) -> None:
    done = shell.run("-p", "x", "--model", "script:nowhere.jsonl", "--json")
    assert (done.code, done.json["session_id"]) == (2, None)
    assert not shell.home.exists()


def test_a_broken_settings_file_is_named(shell: Shell) -> None:
    (shell.project / ".rewake").mkdir()
    (shell.project / ".rewake" / "settings.json").write_text("{")
    done = shell.run("-p", "x", "--model", shell.script())
    assert done.code == 9
    assert "settings.json" in done.err
    assert not shell.home.exists()


def test_no_control_sequence_of_anybody_reaches_the_output(shell: Shell) -> None:
    model = shell.script(turn(ESCAPES, call("Bash", command="printf '\\033[31mx\\033[0m'")))
    done = shell.run("-p", ESCAPES, "--model", model, "--permission-mode", "bypass")
    shown = done.out + done.err + shell.run("sessions").out + shell.run("show", "newest").out
    assert not any(char in shown for char in "\x1b\x07\u202e")
    assert "red" in shown


def test_a_fact_that_can_not_be_kept_stops_the_agent_before_its_next_effect(shell: Shell) -> None:
    model = shell.script(*[turn("x" * 20_000, call("Bash", command="echo x >> made"))] * 20)
    done = shell.run(
        *("-p", "x", "--model", model, "--permission-mode", "bypass", "--json"),
        *("--session-id", "full"),
        file_kib_max=64,
    )
    assert (done.code, done.json["terminal_reason"]) == (5, "storage_error")
    assert "resume the session" in done.json["error"]["remedy"]
    lines = shell.transcript("full").read_bytes().split(b"\n")[:-1]
    started = [line for line in lines if b'"status":"started"' in line]
    assert len((shell.project / "made").read_text().split()) == len(started)


def _prompt(shell: Shell, session_id: str) -> str:
    (prompt,) = [
        event["payload"]["content"][0]["text"]
        for event in shell.events(session_id)
        if event["event_type"] == "message" and event["payload"]["role"] == "user"
    ]
    assert isinstance(prompt, str)
    return prompt


def test_two_formats_at_once_are_a_usage_error(shell: Shell) -> None:
    done = shell.run("-p", "x", "--json", "--output-format", "text", "--model", shell.script())
    assert done.code == 2
    assert "exclude each other" in done.err


def test_an_argument_that_can_not_be_parsed_is_a_usage_error_for_scripts_too(shell: Shell) -> None:
    done = shell.run("sessions", "--json", "--limit", "x")
    assert (done.code, done.json["error"]["type"]) == (2, "UsageError")


def test_a_refused_key_comes_with_what_to_do(shell: Shell) -> None:
    model = shell.script({"error": {"status": 401, "message": "invalid key"}}, turn("Hi."))
    done = shell.run("-p", "x", "--model", model, "--json")
    assert (done.code, done.json["error"]["remedy"]) == (7, "Check the key in the environment.")


def test_a_home_that_is_no_directory_is_named(shell: Shell) -> None:
    file = shell.root / "file"
    file.write_text("")
    for home in (file, file / "below"):
        done = shell.run("sessions", env={"REWAKE_HOME": str(home)})
        assert done.code == 2
        assert str(home) in done.err
        assert "REWAKE_HOME" in done.err


def test_the_usage_of_a_command_reads_like_a_manual(shell: Shell) -> None:
    assert "rewake delete [OPTIONS] ID [ID]..." in shell.run("delete", "--help").out
    assert "rewake resolve [OPTIONS] ID [CALL]" in shell.run("resolve", "--help").out
    assert "list[" not in shell.run("tag", "--help").out


def test_a_call_is_told_with_its_tool_named_once(shell: Shell) -> None:
    (shell.project / "a.txt").write_text("one\n")
    calls = [call("Read", file_path="a.txt"), call("Bash", command="true")]
    model = shell.script(turn("", *calls), turn("Done."))
    said = shell.run("-p", "look", "--model", model, "--permission-mode", "bypass").err
    assert "● Read a.txt\n" in said
    assert "● Bash true\n" in said
