"""Going back, branches, forks, titles and tags, typed at the prompt."""

from __future__ import annotations

from tests.cli.shell import Shell, call, texts, turn
from tests.cli.terminal import CTRL_C, CTRL_D, ENTER, Terminal

CTRL_U = "\x15"
ANSWERS = (turn("Red."), turn("Green."), turn("Blue."))


def typed(terminal: Terminal, *pairs: tuple[str, str]) -> None:
    """Type each line at the prompt and wait for what it brings."""
    for line, answer in pairs:
        terminal.ready()
        terminal.type(line + ENTER)
        terminal.expect(answer)


def test_the_last_words_shown_are_those_of_a_person_or_the_model(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(*ANSWERS), "--session-id", "s") as terminal:
        typed(terminal, ("one", "Red."), ("two", "Green."), ("/compact", "compacted"))
        typed(terminal, ("/rewind 2", "back at 2 messages: Red."), (CTRL_U + "/undo", "back at "))
        assert "[rewake]" not in terminal.expect("Files are as they were")


def test_a_title_without_a_text_is_asked_of_the_model(shell: Shell) -> None:
    model = shell.script(turn("Red."), turn('Title: "A walk in the park"\n\nIt fits.'))
    with Terminal(shell, "--model", model, "--session-id", "s") as terminal:
        typed(terminal, ("one", "Red."), ("/title", "A walk in the park"))
        terminal.ready()
        terminal.type(CTRL_D)
        assert terminal.code() == 0
    shown = shell.run("show", "s", "--json").json
    assert (shown["title"], shown["state"]) == ("A walk in the park", "done")
    assert said(shell) == ["one", "Red."]


def said(shell: Shell, session: str = "s") -> list[str]:
    shown = shell.run("show", session, "--json").json
    return [text for _, text in texts(shown["messages"])]


def test_going_back_changing_ones_mind_and_labels(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(*ANSWERS), "--session-id", "s") as terminal:
        typed(
            terminal,
            ("/rewind", "nothing to go back to yet"),
            ("/title Too early", "No session yet"),
            ("one", "Red."),
            ("two", "Green."),
            ("/rewind 7", "There is no prompt 7"),
            ("/rewind nowhere", "no message nowhere"),
            ("/rewind", "2. two"),
        )
        terminal.expect("Which one? [1-2]")
        terminal.type("2" + ENTER)
        terminal.expect("back at 2 messages")
        terminal.expect("two")  # to be changed and sent
        terminal.type(" instead" + ENTER)
        terminal.expect("Green.")
        typed(terminal, ("/tree", "● "), ("/branch 1", "back at 4 messages"))
        typed(terminal, ("/undo", "back at 4 messages"), ("/undo", "back at 4 messages"))
        typed(
            terminal,
            ("/branch 9", "There is no branch 9"),
            ("/title A walk", "A walk"),
            ("/tag fun red", "fun red"),
            ("/tag -red", "fun"),
            ("/memory", "Current goal"),
        )
        terminal.ready()
        terminal.type(CTRL_D)
        assert terminal.code() == 0
    assert said(shell) == ["one", "Red.", "two", "Green."]
    shown = shell.run("show", "s", "--json").json
    assert (shown["title"], shown["tags"], shown["state"]) == ("A walk", ["fun"], "done")
    branches = shell.run("show", "s", "--tree", "--json").json["branches"]
    assert [branch["is_active"] for branch in branches][-1]
    assert shell.run("check", "s").code == 0


def changing(shell: Shell) -> str:
    """The model of a session that changes two files in its second turn."""
    (shell.project / "a.txt").write_text("old\n")
    change = call("Bash", command="echo new > a.txt; echo b > b.txt")
    return shell.script(turn("Red."), turn("", change), turn("Green."), turn("Blue."))


def test_files_go_back_as_one_says_after_seeing_what_would_happen(shell: Shell) -> None:
    options = ("--model", changing(shell), "--session-id", "s", "--permission-mode", "bypass")
    a, b = shell.project / "a.txt", shell.project / "b.txt"
    with Terminal(shell, *options) as terminal:
        typed(
            terminal,
            ("/diff", "Nothing was changed yet"),
            ("one", "Red."),
            ("/diff", "0 files changed"),
            ("two", "Green."),
            ("/diff 2", "+new"),
        )
        terminal.expect("2 files changed, +2 -1 lines")
        typed(terminal, ("/diff 9", "There is no prompt 9"), ("/diff nowhere", "no message"))
        typed(terminal, ("/rewind 2", "2 paths to be taken back"))
        assert "a.txt (+1 -1)" in terminal.expect("Enter for nothing:")
        terminal.type("what" + ENTER)
        terminal.expect("Enter for nothing:")
        terminal.type(ENTER)
        terminal.expect("and so are the files")
        assert a.read_text() == "new\n"
        typed(terminal, ("/rewind 2", "Enter for nothing:"))
        terminal.type("f" + ENTER)
        terminal.expect("2 paths taken back. The conversation is as it was.")
        assert (a.read_text(), b.exists()) == ("old\n", False)
        typed(terminal, ("/undo", "2 paths taken back."))
        assert (a.read_text(), b.read_text()) == ("new\n", "b\n")
        b.write_text("mine\n")
        typed(terminal, ("/rewind 2", "somebody else has changed it since"))
        terminal.expect("Enter for nothing:")
        terminal.type("b" + ENTER)
        terminal.expect("Left as they are")
        terminal.expect("back at 2 messages")
        terminal.expect("1 path taken back.")
        terminal.expect("two")  # to be changed and sent
        assert (a.read_text(), b.read_text()) == ("old\n", "mine\n")
        terminal.type(CTRL_C)
        typed(terminal, ("/undo", "1 path taken back."))
        assert a.read_text() == "new\n"
        typed(terminal, ("/rewind 2", "Enter for nothing:"))
        terminal.type("conversation" + ENTER)
        terminal.expect("Files are as they were.")
        assert a.read_text() == "new\n"
    assert said(shell) == ["one", "Red."]
    assert shell.run("check", "s").code == 0


def test_a_rewind_of_both_keeps_the_summary_and_what_it_cost(shell: Shell) -> None:
    model = changing(shell)
    options = ("--model", model, "--session-id", "s", "--permission-mode", "bypass")
    with Terminal(shell, *options) as terminal:
        typed(terminal, ("one", "Red."), ("two", "Green."))
        typed(terminal, ("/rewind 2 --summarize", "Enter for nothing:"))
        terminal.type("b" + ENTER)
        terminal.expect("given the summary")
    assert (shell.project / "a.txt").read_text() == "old\n"
    rewind = next(one for one in shell.events("s") if one["event_type"] == "rewind")
    assert rewind["payload"]["scope"] == "both"
    assert said(shell)[:2] == ["one", "Red."]
    assert "Summary of what was left behind" in said(shell)[2]


def test_a_rewind_counts_at_once_and_no_answer_means_no(shell: Shell) -> None:
    model = shell.script(*ANSWERS)
    shell.run("-p", "one", "--model", model, "--session-id", "s")
    shell.run("-p", "two", "--model", model, "-r", "s")
    first = shell.run("show", "s", "--json").json["messages"][0]["id"]
    with Terminal(shell, "-r", "s") as terminal:
        typed(terminal, ("/rewind", "Which one?"))
        terminal.type(CTRL_C)
        terminal.expect("as it was")
        typed(terminal, ("/branch", "Which one?"))
        terminal.type(ENTER)
        terminal.expect("as it was")
        typed(terminal, (f"/rewind {first}", "back at 1 message"))
        terminal.ready()
        terminal.process.kill()
    assert said(shell) == ["one"]


def test_what_is_left_behind_can_be_summed_up_for_the_new_branch(shell: Shell) -> None:
    model = shell.script(
        turn("Red."), turn("Green."), turn("IT WAS A MISTAKE", usage={"output_tokens": 7})
    )
    with Terminal(shell, "--model", model, "--session-id", "s") as terminal:
        typed(terminal, ("one", "Red."), ("two", "Green."))
        typed(terminal, ("/rewind 2 --summarize", "back at 2 messages"))
        terminal.ready()
        terminal.type(CTRL_C)  # the prompt that was taken back is not wanted any more
        terminal.ready()
        terminal.type(CTRL_D)
        assert terminal.code() == 0
    shown = shell.run("show", "s", "--json").json
    assert shown["usage"]["output_tokens"] >= 7
    note = shown["messages"][-1]
    assert (note["role"], note["source"]) == ("user", "rewake")
    assert "IT WAS A MISTAKE" in note["content"][0]["text"]
    assert said(shell)[:2] == ["one", "Red."]


def test_a_fork_goes_on_and_the_origin_stays_as_it_is(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(*ANSWERS), "--session-id", "s") as terminal:
        typed(terminal, ("/fork", "nothing to fork"), ("one", "Red."), ("/fork", "Forked s,"))
        fork = terminal.expect(".\r").split()[-1]
        origin = shell.transcript("s").read_bytes()
        typed(terminal, ("two", "Green."), ("/resume s", "Resumed session s"))
        terminal.ready()
        terminal.type(CTRL_D)
        assert terminal.code() == 0
    assert shell.transcript("s").read_bytes().startswith(origin)
    assert said(shell) == ["one", "Red."]
    assert said(shell, fork) == ["one", "Red.", "two", "Green."]
    assert shell.run("show", fork, "--json").json["forked_from"]["session_id"] == "s"
