"""The prompt while the agent works: queueing, questions, interruption, what is kept of each."""

from __future__ import annotations

import json

from tests.cli.shell import Shell, call, texts, turn, wait_until
from tests.cli.terminal import (
    ASKED,
    CTRL_C,
    CTRL_D,
    ENTER,
    ESC,
    SHIFT_TAB,
    UP,
    WORKING,
    Terminal,
)

WAITING = call("Bash", command="touch started; while [ ! -e go ]; do sleep 0.05; done")
WRITE = call("Write", file_path="made.txt", content="one\ntwo\n")
BYPASS = ("--permission-mode", "bypass")
# What comes after the first piece of it never comes.
ENDLESS = turn("# The beginning\n\nand then something more is said", piece_delay_ms=60_000)


def said(shell: Shell) -> list[tuple[str, str]]:
    return texts(shell.run("show", "newest", "--json").json["messages"])


def test_a_message_sent_meanwhile_reaches_the_agent_before_its_next_request(shell: Shell) -> None:
    model = shell.script(turn("First.", WAITING), turn("Second."))
    with Terminal(shell, "--model", model, *BYPASS) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see("● Bash")
        terminal.type("also this" + ENTER)
        terminal.see("↳ also this")
        (shell.project / "go").touch()
        terminal.see_idle("> also this", "Second.")
        assert "↳" not in terminal.screen
    assert said(shell) == [
        ("user", "go"),
        ("assistant", "First."),
        ("user", "also this"),
        ("assistant", "Second."),
    ]


def test_a_message_sent_during_the_last_answer_becomes_the_next_prompt(shell: Shell) -> None:
    model = shell.script(turn("The first answer: One.", piece_delay_ms=1000), turn("Two."))
    with Terminal(shell, "--model", model) as terminal:
        terminal.ready()
        terminal.type("first" + ENTER)
        terminal.see("The first")
        terminal.type("second" + ENTER)
        terminal.see_idle("One.", "Two.")
    assert [text for role, text in said(shell) if role == "user"] == ["first", "second"]


def test_up_takes_a_queued_message_back(shell: Shell) -> None:
    model = shell.script(turn("", WAITING), turn("Second."))
    with Terminal(shell, "--model", model, *BYPASS) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see("● Bash")
        terminal.type("a slip" + ENTER)
        terminal.see("↳ a slip")
        terminal.type(UP)
        terminal.see_no("↳")
        terminal.see("> a slip")
        (shell.project / "go").touch()
        terminal.see_idle("Second.", "> a slip")
    assert ("user", "a slip") not in said(shell)


def test_a_command_sent_meanwhile_waits_for_the_end_of_the_run(shell: Shell) -> None:
    model = shell.script(turn("", WAITING), turn("Second."))
    with Terminal(shell, "--model", model, *BYPASS) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see("● Bash")
        terminal.type("/status" + ENTER)
        terminal.see("↳ /status")
        (shell.project / "go").touch()
        terminal.see_idle("Second.", "transcript ")
    assert [role for role, _ in said(shell)] == ["user", "assistant"]


def test_esc_interrupts_and_what_was_queued_comes_back_to_be_edited(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(ENDLESS)) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see("The beginning")
        terminal.type("next" + ENTER)
        terminal.see("↳ next")
        terminal.type(ESC)
        terminal.see_idle("Interrupted")
        terminal.see("> next")
        terminal.type(" and more" + ENTER)
        terminal.until(lambda: terminal.screen.count("The beginning") > 1, "a second answer")
    assert said(shell) == [("user", "go"), ("user", "next and more")]


def test_what_an_interrupted_answer_had_said_stays_to_be_read(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(ENDLESS)) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see("The beginning", WORKING)
        terminal.type(CTRL_C)
        terminal.see_idle("Interrupted", "The beginning")


def test_ctrl_c_twice_at_an_empty_prompt_leaves_and_once_clears_what_is_typed(
    shell: Shell,
) -> None:
    with Terminal(shell, "--model", shell.script()) as terminal:
        terminal.ready()
        terminal.type("half a thou")
        terminal.see("> half a thou")
        terminal.type(CTRL_C)
        terminal.see_no("half")
        terminal.type(CTRL_C)
        terminal.see("Ctrl-C again to leave")
        terminal.type(CTRL_C)
        assert terminal.code() == 0


def test_ctrl_d_while_the_agent_works_stops_it_and_leaves(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(ENDLESS)) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see("The beginning")
        terminal.type(CTRL_D)
        assert terminal.code() == 0
    assert shell.run("show", "newest", "--json").json["terminal"]["reason"] == "interrupted"


def test_keys_typed_before_a_question_is_seen_do_not_answer_it(shell: Shell) -> None:
    model = shell.script(turn("", WRITE, delay_ms=300), turn("Done."))
    with Terminal(shell, "--model", model) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER + "yes, and")
        terminal.see(ASKED)
        terminal.see("> yes, and")
        assert not (shell.project / "made.txt").exists()
        terminal.type("n")
        terminal.see_idle("Done.", "> yes, and")
    assert not (shell.project / "made.txt").exists()


def test_a_word_typed_at_a_question_is_no_answer_whatever_letters_it_has(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(turn("", WRITE), turn("Done."))) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see(ASKED)
        terminal.type("why")
        terminal.see("> why", "[y] Yes, this once")
        terminal.see(ASKED)  # it listens again
        assert not (shell.project / "made.txt").exists()
        terminal.type("n")
        terminal.see_idle("Done.", "> why")
    assert not (shell.project / "made.txt").exists()


def test_arrows_and_enter_answer_too_and_a_paste_does_not(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(turn("", WRITE), turn("Done."))) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see(ASKED)
        terminal.type("\x1b[200~y\x1b[201~")
        terminal.type("\x1b[B\x1b[B")
        terminal.see("❯ [n] No")  # noqa: RUF001  # as it is shown
        terminal.type(ENTER)
        terminal.see_idle("Done.")
    assert not (shell.project / "made.txt").exists()


def test_a_no_can_say_what_to_do_instead(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(turn("", WRITE), turn("Done."))) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see(ASKED)
        terminal.type("r")
        terminal.see("What should be done instead?")
        terminal.type("put it in docs/" + ENTER)
        terminal.see_idle("Done.")
    assert not (shell.project / "made.txt").exists()
    shown = shell.run("show", "newest", "--json").json
    assert "put it in docs/" in json.dumps(shown["messages"])


def test_always_is_kept_in_the_local_settings_and_git_never_sees_them(shell: Shell) -> None:
    command = call("Bash", command="echo x >> ran")
    model = shell.script(turn("", command), turn("Done."))
    with Terminal(shell, "--model", model) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see("[a] Always Bash(echo x >> ran)", ASKED)
        terminal.type("a")
        terminal.see_idle("Done.", "kept in")
    local = json.loads((shell.project / ".rewake" / "settings.local.json").read_text())
    assert local["permissions"]["allow"] == ["Bash(echo x >> ran)"]
    assert "settings.local" in (shell.project / ".rewake" / ".gitignore").read_text()
    with Terminal(shell, "--model", model) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see_idle("Done.")
        assert "Allow" not in terminal.all
    assert (shell.project / "ran").read_text() == "x\nx\n"


def test_shift_tab_changes_the_permission_mode_and_never_to_bypass(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(turn("Hi."), turn("", WRITE))) as terminal:
        terminal.ready()
        terminal.type("hello" + ENTER)
        terminal.see_idle("Hi.")
        terminal.type(SHIFT_TAB)
        terminal.see("Permission mode acceptEdits")
        terminal.see("acceptEdits ·")
        terminal.type("write" + ENTER)
        terminal.see_idle("done")
        terminal.type(SHIFT_TAB)
        terminal.see("Permission mode plan")
        terminal.type(SHIFT_TAB)
        terminal.see("Permission mode default")
    assert (shell.project / "made.txt").exists()


def test_the_status_line_tells_model_context_cost_and_place(shell: Shell) -> None:
    usage = {"input_tokens": 12_000, "output_tokens": 300, "cost_usd": 0.0123}
    with Terminal(shell, "--model", shell.script(turn("Hi.", usage=usage))) as terminal:
        terminal.ready()
        terminal.type("hello" + ENTER)
        terminal.see("12.3k tokens", "$0.0123", "project")


def test_esc_twice_at_an_empty_prompt_lets_an_earlier_one_be_edited(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(turn("Red."), turn("Blue."))) as terminal:
        terminal.ready()
        terminal.type("which colour" + ENTER)
        terminal.see_idle("Red.")
        terminal.type(ESC + ESC)
        terminal.see("Which one? [1-1]")
        terminal.type("1" + ENTER)
        terminal.see_idle("> which colour", "back at 0 messages")
        terminal.type(" instead" + ENTER)
        terminal.see_idle("> which colour instead", "Red.")
    assert said(shell)[0] == ("user", "which colour instead")


def test_a_closed_terminal_ends_the_run_and_leaves_a_valid_session(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(ENDLESS)) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see("The beginning")
        terminal.close()
        assert terminal.code() in {129, -1}
    assert shell.run("show", "newest", "--json").json["terminal"]["reason"] == "hangup"
    assert shell.run("check", "newest").code == 0


def test_a_streamed_answer_is_seen_before_it_is_whole_and_stands_once_in_the_end(
    shell: Shell,
) -> None:
    lines = "".join(f"Paragraph {number} of the answer.\n\n" for number in range(60))
    model = shell.script(turn(f"# Begin\n\n{lines}- end", piece_delay_ms=5))
    with Terminal(shell, "--model", model, rows=10, columns=60) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see("Paragraph 3 of", WORKING)
        terminal.see_idle("• end")
        for number in range(60):
            assert terminal.all.count(f"Paragraph {number} of the answer.") == 1
        # What is final is text in the scroll-back, nothing of the live part is.
        assert WORKING not in terminal.all


def test_an_answer_survives_the_window_being_resized_while_it_streams(shell: Shell) -> None:
    lines = "".join(f"Line {number} 日本語 words and words.\n\n" for number in range(80))
    model = shell.script(turn(f"{lines}The end.", piece_delay_ms=4))
    with Terminal(shell, "--model", model, rows=20, columns=80) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        for at, rows, columns in ((5, 30, 100), (20, 24, 60), (35, 30, 90), (50, 40, 120)):
            terminal.until(lambda at=at: f"Line {at} " in terminal.all, f"line {at}")  # type: ignore[misc]
            terminal.resize(rows, columns)
        terminal.see_idle("The end.")
        for number in range(55, 80):
            assert terminal.all.count(f"Line {number} ") == 1


def test_the_smallest_terminal_holds_a_conversation(shell: Shell) -> None:
    table = "|a|b|c|d|e|f|\n|-|-|-|-|-|-|\n|u|v|w|x|y|z|\n"
    model = shell.script(turn(f"# A long title\n\n{table}\n- 日本語日本語日本語日本語", WRITE))
    with Terminal(shell, "--model", model, rows=5, columns=20) as terminal:
        terminal.ready()
        terminal.type("a long prompt that wraps" + ENTER)
        terminal.see("❯[y]")  # noqa: RUF001  # as it is shown
        terminal.type("y")
        terminal.see_idle("done", "A long title", "|u|v|w|x|y|z|")
    assert (shell.project / "made.txt").exists()


def test_nothing_hostile_reaches_the_terminal_by_any_way(shell: Shell) -> None:
    evil = "\x1b]0;pwned\x07\x1b[2J\x1b[31m\u202e"
    write = call("Write", file_path="e\x1b[2Jvil.txt", content=f"{evil}\n")
    run = call("Bash", command=f"printf '\\033]0;pwned\\007\\033[2Jgone' # {evil}")
    text = f"{evil} [a](http://x/{evil}) &#27;]0;pwned&#7; `{evil}`\n\n```{evil}\n{evil}\n```\n"
    with Terminal(shell, "--model", shell.script(turn(text, write, run), turn("End."))) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see(ASKED)
        terminal.type("y")
        terminal.see_no(ASKED)
        terminal.see(ASKED)
        terminal.type("y")
        terminal.see_idle("End.")
        for steering in ("\x1b]0;", "\x1b[2J", "\u202e", "pwned\x07"):
            assert steering not in terminal.raw
        # Sequences that are written as text go as a whole, those spelled by entities as characters.
        assert "gone" in terminal.all


def test_a_command_that_takes_long_shows_what_it_has_written_so_far(shell: Shell) -> None:
    command = "for i in 1 2 3; do echo part $i; done; while [ ! -e go ]; do sleep 0.05; done"
    model = shell.script(turn("", call("Bash", command=command)), turn("End."))
    with Terminal(shell, "--model", model, *BYPASS) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see("│ part 2", "│ part 3", WORKING)
        (shell.project / "go").touch()
        terminal.see_idle("End.", "exit 0")


def test_a_second_ctrl_c_while_things_end_leaves_in_good_order(shell: Shell) -> None:
    # It takes a while to end: the shell waits for what ignores the signal.
    stubborn = call("Bash", command="trap '' TERM INT; touch started; sleep 1.5; sleep 1.5")
    with Terminal(shell, "--model", shell.script(turn("", stubborn)), *BYPASS) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see("● Bash")
        wait_until((shell.project / "started").exists)
        terminal.type(CTRL_C + CTRL_C)
        assert terminal.code() == 0
    assert shell.run("show", "newest", "--json").json["terminal"]["reason"] == "interrupted"
    assert shell.run("check", "newest").code == 0


def test_the_status_line_tells_of_commands_in_the_background(shell: Shell) -> None:
    command = "while [ ! -e go ]; do sleep 0.05; done"
    model = shell.script(
        turn("", call("Bash", command=command, run_in_background=True)), turn("Started.")
    )
    with Terminal(shell, "--model", model, *BYPASS) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see_idle("Started.", "1 command running")
        (shell.project / "go").touch()


def test_sub_agents_have_a_line_each_and_their_questions_come_one_by_one(shell: Shell) -> None:
    tasks = [call("Task", description=f"job {n}", prompt=f"do {n}", agent="worker") for n in (1, 2)]
    model = shell.script(
        turn("", *tasks),
        turn("All done."),
        {**turn("", WRITE), "agent": "worker"},
        {**turn("Child done."), "agent": "worker"},
    )
    with Terminal(shell, "--model", model) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        first = terminal.see(ASKED, "asks: Allow Write?")
        terminal.type("y")
        terminal.until(lambda: ASKED not in terminal.screen or terminal.screen != first, "no")
        terminal.see_no(ASKED)
        terminal.see(ASKED, "asks: Allow Write?")
        terminal.type("n")
        terminal.see_idle("All done.", "worker: job 1", "worker: job 2")
