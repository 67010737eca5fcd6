"""Going back, branches, forks, titles and tags, typed at the prompt."""

from __future__ import annotations

from tests.cli.shell import Shell, texts, turn
from tests.cli.terminal import CTRL_C, CTRL_D, ENTER, PROMPT, Terminal

ANSWERS = (turn("Red."), turn("Green."), turn("Blue."))


def typed(terminal: Terminal, *pairs: tuple[str, str]) -> None:
    """Type each line at the prompt and wait for what it brings."""
    for line, answer in pairs:
        terminal.expect(PROMPT)
        terminal.type(line + ENTER)
        terminal.expect(answer)


def test_a_title_without_a_text_is_asked_of_the_model(shell: Shell) -> None:
    model = shell.script(turn("Red."), turn('Title: "A walk in the park"\n\nIt fits.'))
    with Terminal(shell, "--model", model, "--session-id", "s") as terminal:
        typed(terminal, ("one", "Red."), ("/title", "A walk in the park"))
        terminal.expect(PROMPT)
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
        terminal.expect(PROMPT)
        terminal.type(CTRL_D)
        assert terminal.code() == 0
    assert said(shell) == ["one", "Red.", "two", "Green."]
    shown = shell.run("show", "s", "--json").json
    assert (shown["title"], shown["tags"], shown["state"]) == ("A walk", ["fun"], "done")
    branches = shell.run("show", "s", "--tree", "--json").json["branches"]
    assert [branch["is_active"] for branch in branches][-1]
    assert shell.run("check", "s").code == 0


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
        terminal.expect(PROMPT)
        terminal.process.kill()
    assert said(shell) == ["one"]


def test_what_is_left_behind_can_be_summed_up_for_the_new_branch(shell: Shell) -> None:
    model = shell.script(
        turn("Red."), turn("Green."), turn("IT WAS A MISTAKE", usage={"output_tokens": 7})
    )
    with Terminal(shell, "--model", model, "--session-id", "s") as terminal:
        typed(terminal, ("one", "Red."), ("two", "Green."))
        typed(terminal, ("/rewind 2 --summarize", "back at 2 messages"))
        terminal.expect(PROMPT)
        terminal.type(CTRL_C)  # the prompt that was taken back is not wanted any more
        terminal.expect(PROMPT)
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
        terminal.expect(PROMPT)
        terminal.type(CTRL_D)
        assert terminal.code() == 0
    assert shell.transcript("s").read_bytes().startswith(origin)
    assert said(shell) == ["one", "Red."]
    assert said(shell, fork) == ["one", "Red.", "two", "Green."]
    assert shell.run("show", fork, "--json").json["forked_from"]["session_id"] == "s"
