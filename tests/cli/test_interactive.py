"""`rewake` on a terminal: prompts, questions, interruption, commands, leaving."""

from __future__ import annotations

import signal
import stat

from tests.cli.shell import Shell, call, turn
from tests.cli.terminal import ASKED, CTRL_C, CTRL_D, ENTER, ESC, Terminal

WRITE = call("Write", file_path="made.txt", content="one\ntwo\n")


def test_a_prompt_is_answered_and_ctrl_d_leaves(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(turn("Good morning."))) as terminal:
        terminal.ready()
        terminal.type("hello" + ENTER)
        terminal.expect("Good morning.")
        terminal.ready()
        terminal.type(CTRL_D)
        terminal.expect("rewake --resume ")
        assert terminal.code() == 0
    shown = shell.run("show", "newest", "--json").json
    assert shown["state"] == "done"
    history = shell.home / "prompt_history"
    assert "hello" in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_earlier_prompts_that_can_not_be_kept_cost_no_prompt(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(turn("Good morning."))) as terminal:
        terminal.ready()
        history = shell.home / "prompt_history"
        history.unlink()
        history.mkdir()  # nobody can write to it, root neither
        terminal.type("hello" + ENTER)
        assert "Traceback" not in terminal.see_idle("Good morning.")


def test_where_transcripts_have_no_secrets_the_prompts_kept_have_none(shell: Shell) -> None:
    shell.home.mkdir()
    (shell.home / "settings.json").write_text('{"redact_transcript": true}')
    secret = "sk-" + "ant-api03-abcdefgh12345678"
    with Terminal(shell, "--model", shell.script(turn("Good morning."))) as terminal:
        terminal.ready()
        terminal.type(f"use {secret}" + ENTER)
        terminal.expect("Good morning.")
        terminal.ready()
        terminal.type(CTRL_D)
        assert terminal.code() == 0
    assert "use [redacted: Anthropic Key]" in (shell.home / "prompt_history").read_text()
    kept = [path for path in shell.home.rglob("*") if path.is_file()]
    assert [path for path in kept if secret.encode() in path.read_bytes()] == []


def test_a_slow_model_is_seen_to_be_waited_for(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(turn("At last.", delay_ms=300))) as terminal:
        terminal.ready()
        terminal.type("hello" + ENTER)
        terminal.see("waiting for the model")
        assert "waiting" not in terminal.see_idle("At last.")


def test_leaving_without_a_prompt_leaves_no_session(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script()) as terminal:
        terminal.ready()
        terminal.type(CTRL_D)
        assert terminal.code() == 0
    assert shell.run("sessions", "--json").out.strip() == "[]"


def test_a_question_shows_the_change_and_no_means_no(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(turn("", WRITE), turn("Well."))) as terminal:
        terminal.ready()
        terminal.type("write" + ENTER)
        assert "+one" in terminal.see(ASKED)
        terminal.type("n")
        terminal.expect("Well.")
    assert not (shell.project / "made.txt").exists()


def test_yes_allows_once_and_always_spares_the_next_question(shell: Shell) -> None:
    model = shell.script(*[turn("", call("Bash", command="echo x >> ran"))] * 3, turn("Done."))
    with Terminal(shell, "--model", model) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see(ASKED)
        terminal.type("y")
        terminal.see_no(ASKED)
        terminal.see(ASKED)
        terminal.type("a")
        terminal.see_no(ASKED)
        terminal.see_idle("Done.")
    assert (shell.project / "ran").read_text() == "x\nx\nx\n"


def test_ctrl_c_interrupts_the_run_and_the_conversation_goes_on(shell: Shell) -> None:
    model = shell.script(
        turn("", call("Bash", command="touch started; sleep 60")), turn("What now?")
    )
    with Terminal(shell, "--model", model, "--permission-mode", "bypass") as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see("● Bash")
        terminal.type(CTRL_C)
        terminal.expect("Interrupted")
        terminal.ready()
        terminal.type("and" + ENTER)
        terminal.expect("What now?")
        terminal.ready()
        terminal.type("/quit" + ENTER)
        assert terminal.code() == 0
    shown = shell.run("show", "newest", "--json").json
    assert [message["role"] for message in shown["messages"]] == [
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
    ]
    assert shown["messages"][2]["content"][0]["verdict"] is not None


def test_ctrl_c_at_a_question_executes_nothing_and_interrupts(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(turn("", WRITE), turn("Next."))) as terminal:
        terminal.ready()
        terminal.type("write" + ENTER)
        terminal.see(ASKED)
        terminal.type(CTRL_C)
        terminal.expect("Interrupted")
        terminal.ready()
        terminal.type("then" + ENTER)
        terminal.expect("Next.")
    assert not (shell.project / "made.txt").exists()
    shown = shell.run("show", "newest", "--json").json
    assert "not executed" in shown["messages"][2]["content"][0]["content"][0]["text"]


def test_a_closed_terminal_at_a_question_ends_in_good_order(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(turn("", WRITE))) as terminal:
        terminal.ready()
        terminal.type("write" + ENTER)
        terminal.see(ASKED)
        terminal.process.send_signal(signal.SIGHUP)
        assert terminal.code() == 129
    shown = shell.run("show", "newest", "--json").json
    assert shown["terminal"]["reason"] == "hangup"
    assert not (shell.project / "made.txt").exists()


def test_sigterm_at_the_prompt_leaves_with_its_status(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(turn("Hi."))) as terminal:
        terminal.ready()
        terminal.type("hello" + ENTER)
        terminal.expect("Hi.")
        terminal.ready()
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.code() == 143
    assert shell.run("show", "newest", "--json").json["state"] == "done"


def test_a_prompt_may_have_several_lines(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(turn("I see."))) as terminal:
        terminal.ready()
        terminal.type("one" + ESC + ENTER + "two")
        terminal.type("\x1b[200~\nthree\nfour\x1b[201~" + ENTER)
        terminal.expect("I see.")
    shown = shell.run("show", "newest", "--json").json
    assert shown["messages"][0]["content"][0]["text"] == "one\ntwo\nthree\nfour"


def test_commands_at_the_prompt(shell: Shell) -> None:
    todos = call("TodoWrite", todos=[{"content": "Paint it", "status": "completed"}])
    model = shell.script(turn("", todos), turn("Noted."), turn("A SUMMARY"), turn("Later."))
    shell.run("-p", "an older one", "--model", model, "--session-id", "older")
    with Terminal(shell, "--model", model) as terminal:
        terminal.ready()
        for command, answer in (("/help", "/compact"), ("/status", "No session yet")):
            terminal.type(command + ENTER)
            terminal.expect(answer)
        terminal.ready()
        terminal.type("plan" + ENTER)
        terminal.expect("Noted.")
        for command, answer in (
            ("/todos", "[x] Paint it"),
            ("/memory", "Current goal: plan"),
            ("/instructions", "No instructions apply here"),
            ("/status", "transcript"),
            ("/sessions", "an older one"),
            ("/compact", "was compacted"),
            ("/bogus", "There is no command"),
            ("/resume nobody", "There is no session"),
            ("/resume older", "Resumed session older"),
            ("/status", "an older one"),
        ):
            terminal.ready()
            terminal.type(command + ENTER)
            terminal.expect(answer)
        terminal.ready()
        terminal.type(CTRL_D)
        assert terminal.code() == 0
    states = {info["state"] for info in shell.run_json("sessions", "--json")}
    assert states == {"done"}


def test_resume_without_an_id_lets_the_user_pick(shell: Shell) -> None:
    model = shell.script(turn("One."), turn("Two."))
    shell.run("-p", "an older one", "--model", model, "--session-id", "older")
    with Terminal(shell, "--resume", "--model", model) as terminal:
        terminal.expect("an older one")
        terminal.type(ENTER)
        terminal.expect("Resumed session older")
        terminal.ready()
        terminal.type("next" + ENTER)
        terminal.expect("Two.")


def test_on_a_terminal_that_shows_only_lines_sessions_are_picked_by_number(shell: Shell) -> None:
    model = shell.script(turn("One."), turn("Two."))
    shell.run("-p", "an older one", "--model", model, "--session-id", "older")
    with Terminal(shell, "--resume", "--model", model, env={"TERM": "dumb"}) as terminal:
        terminal.expect("an older one")
        terminal.expect("Which one? [1-1]")
        terminal.type("7\n1\n")
        terminal.expect("Resumed session older")


def test_what_the_model_says_can_not_steer_the_terminal(shell: Shell) -> None:
    evil = "\x1b]0;pwned\x07\x1b[2Jgone"
    with Terminal(shell, "--model", shell.script(turn(evil))) as terminal:
        terminal.ready()
        terminal.type("hello" + ENTER)
        terminal.expect("gone")
        assert "pwned" not in terminal.raw


def test_p_asks_too_where_there_is_a_terminal(shell: Shell) -> None:
    model = shell.script(turn("", WRITE), turn("Written."))
    with Terminal(shell, "-p", "write", "--model", model) as terminal:
        terminal.see(ASKED)
        terminal.type("y")
        terminal.expect("Written.")
        assert terminal.code() == 0
    assert (shell.project / "made.txt").read_text() == "one\ntwo\n"
