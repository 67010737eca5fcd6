"""What is typed, pasted, completed and attached at the prompt, on a real terminal."""

from __future__ import annotations

import base64
import json
import subprocess

from tests.cli.shell import Shell, call, turn
from tests.cli.terminal import CTRL_D, ENTER, ESC, TAB, Terminal

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYPgPAAEEAQB9ssjfAAAAAElFTkSuQmCC"
)
HELLO = turn("Hello.")


def blocks(shell: Shell) -> list[dict[str, object]]:
    """The content of the newest session's first message."""
    content = shell.run("show", "newest", "--json").json["messages"][0]["content"]
    assert isinstance(content, list)
    return content


def repository(shell: Shell) -> None:
    subprocess.run(["git", "init", "-q", str(shell.project)], check=True)
    (shell.project / "src").mkdir()
    (shell.project / "src" / "main.py").write_text("def main(): ...\n")
    (shell.project / "src" / "my notes.txt").write_text("remember\n")
    (shell.project / "build").mkdir()
    (shell.project / "build" / "main.o").write_text("")
    (shell.project / ".gitignore").write_text("build/\n")


def test_a_path_is_completed_and_its_file_goes_with_the_prompt(shell: Shell) -> None:
    repository(shell)
    edit = call("Edit", file_path="src/main.py", old_string="...", new_string="pass")
    model = shell.script(turn("", edit), turn("Edited."))
    with Terminal(shell, "--model", model, "--permission-mode", "acceptEdits") as terminal:
        terminal.ready()
        terminal.type("fix @mai")
        assert "main.o" not in terminal.see("> fix @mai", "src/main.py")
        terminal.type(TAB)
        terminal.see("> fix @src/main.py")
        terminal.type(ENTER)
        # It counts as read, so the edit is refused by nothing.
        terminal.see_idle("Edited.", "+def main(): pass")
    typed, attached = blocks(shell)
    assert typed["text"] == "fix @src/main.py"
    assert "def main(): ..." in str(attached["text"])
    info = shell.run("show", "newest", "--json").json
    assert info["title"] == "fix @src/main.py"


def test_a_path_with_a_space_is_quoted_and_an_ignored_file_can_still_be_named(
    shell: Shell,
) -> None:
    repository(shell)
    with Terminal(shell, "--model", shell.script(HELLO)) as terminal:
        terminal.ready()
        terminal.type("read @note")
        terminal.see("src/my notes.txt")
        terminal.type(TAB + " and @build, please" + ENTER)
        terminal.see_idle("Hello.")
    typed, notes, listing = blocks(shell)
    assert typed["text"] == 'read @"src/my notes.txt" and @build, please'
    assert "remember" in str(notes["text"])
    assert "main.o" in str(listing["text"])


def test_tab_twice_keeps_the_only_completion(shell: Shell) -> None:
    repository(shell)
    with Terminal(shell, "--model", shell.script(HELLO)) as terminal:
        terminal.ready()
        terminal.type("see @mai")
        terminal.see("src/main.py")
        terminal.type(TAB)
        terminal.see("> see @src/main.py")
        terminal.type(TAB + ", please" + ENTER)
        terminal.see_idle("Hello.")
    assert blocks(shell)[0]["text"] == "see @src/main.py, please"


def test_a_search_of_earlier_prompts_shows_what_it_finds(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(HELLO, HELLO)) as terminal:
        terminal.ready()
        terminal.type("Mend the lexer" + ENTER)
        terminal.see_idle("Hello.")
        terminal.type("\x12lex")
        terminal.see("I-search backward: lex")
        assert terminal.see("I-search").count("> Mend the lexer") == 2


def test_commands_are_completed_with_what_they_do(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script()) as terminal:
        terminal.ready()
        terminal.type("/stat")
        terminal.see("this session: model, tokens")
        terminal.type(TAB + ENTER)
        terminal.expect("No session yet")


def test_sessions_are_completed_after_resume(shell: Shell) -> None:
    model = shell.script(HELLO)
    shell.run("-p", "an older one", "--model", model, "--session-id", "older-session")
    with Terminal(shell, "--model", model) as terminal:
        terminal.ready()
        terminal.type("/resume old")
        terminal.see("older-session", "an older one")
        terminal.type(TAB)
        terminal.see("> /resume older-session")
        terminal.type(ENTER)
        terminal.expect("Resumed session older-session")


def test_a_long_paste_is_a_mark_and_is_sent_whole(shell: Shell) -> None:
    pasted = "".join(f"line {number} @src\n" for number in range(120))
    with Terminal(shell, "--model", shell.script(HELLO)) as terminal:
        terminal.ready()
        terminal.type("see \x1b[200~" + pasted + "\x1b[201~")
        terminal.see("> see [pasted 121 lines]")
        terminal.type(" end" + ENTER)
        terminal.see_idle("Hello.")
    (typed,) = blocks(shell)
    assert typed["text"] == f"see {pasted} end"


def test_a_pasted_path_of_an_image_becomes_the_image(shell: Shell) -> None:
    image = shell.root / "a shot.png"
    image.write_bytes(PNG)
    with Terminal(shell, "--model", shell.script(HELLO)) as terminal:
        terminal.ready()
        escaped = str(image).replace(" ", "\\ ")
        terminal.type(f"\x1b[200~{escaped}\x1b[201~")
        terminal.see(f'@"{image}"')
        terminal.type("what is it?" + ENTER)
        terminal.see_idle("Hello.")
    _, shown = blocks(shell)
    assert (shown["type"], shown["media_type"], shown["size"]) == ("image", "image/png", len(PNG))


def test_an_image_that_is_too_large_is_refused_before_anything_is_sent(shell: Shell) -> None:
    (shell.project / "big.png").write_bytes(PNG + bytes(6 << 20))
    with Terminal(shell, "--model", shell.script(HELLO)) as terminal:
        terminal.ready()
        terminal.type("look at @big.png" + ENTER)
        # The prompt comes back to be changed.
        terminal.see_idle("can be shown", "> look at @big.png")
    done = shell.run("-p", "look at @big.png", "--model", shell.script(HELLO))
    assert done.code == 2
    assert "can be shown" in done.err


def test_p_takes_files_and_images_too_and_looks_only_at_what_was_typed(shell: Shell) -> None:
    (shell.project / "shot.png").write_bytes(PNG)
    (shell.project / "a.txt").write_text("alpha")
    done = shell.run(
        "-p", "see @shot.png and @a.txt @nobody", "--model", shell.script(HELLO), stdin="@a.txt @b"
    )
    assert done.code == 0
    typed, shot, text = blocks(shell)
    assert typed["text"] == "see @shot.png and @a.txt @nobody\n\n@a.txt @b"
    assert shot["type"] == "image"
    assert "alpha" in str(text["text"])


def test_a_rule_that_denies_a_file_holds_for_a_mention_too(shell: Shell) -> None:
    (shell.project / ".env").write_text("KEY=secret")
    settings = shell.project / ".rewake" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"permissions": {"deny": ["Read(.env)"]}}))
    done = shell.run("-p", "use @.env", "--model", shell.script(HELLO))
    assert done.code == 2
    assert "forbids" in done.err
    assert "secret" not in done.out + done.err


def test_new_lines_by_backslash_and_the_users_editor(shell: Shell) -> None:
    editor = shell.root / "editor"
    editor.write_text('#!/bin/sh\nprintf "%s and edited" "$(cat "$1")" > "$1"\n')
    editor.chmod(0o755)
    model = shell.script(HELLO)
    with Terminal(shell, "--model", model, env={"EDITOR": str(editor)}) as terminal:
        terminal.ready()
        terminal.type("one\\" + ENTER + "two" + ESC + ENTER + "three")
        terminal.see("> one", "  three")
        terminal.type("\x07")
        terminal.see("three and edited")
        terminal.type(ENTER)
        terminal.see_idle("Hello.")
    assert blocks(shell)[0]["text"] == "one\ntwo\nthree and edited"


def test_a_theme_is_worn_at_once_and_kept(shell: Shell) -> None:
    with Terminal(shell, "--model", shell.script(turn("`code`"))) as terminal:
        terminal.ready()
        terminal.type("/theme light" + ENTER)
        terminal.expect("Theme light: kept in")
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see_idle("code")
        terminal.type("/theme nothing" + ENTER)
        terminal.expect("There is no theme nothing")
        terminal.ready()
        terminal.type(CTRL_D)
        assert terminal.code() == 0
    assert json.loads((shell.home / "settings.json").read_text())["theme"] == "light"


def test_without_colour_nothing_is_coloured(shell: Shell) -> None:
    text = "# Title\n\n`code` **bold**\n\n```python\nx = 1\n```"
    model = shell.script(turn(text, call("Bash", command="nonsense-command")), turn("End."))
    arguments = ("--model", model, "--permission-mode", "bypass")
    with Terminal(shell, *arguments, env={"NO_COLOR": "1"}) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        terminal.see_idle("Title", "x = 1", "exit 127", "End.")
        # Bold and underlined are no colours; 30 to 49 and 90 to 107 are.
        import re

        codes = {c for seq in re.findall(r"\x1b\[([0-9;]*)m", terminal.raw) for c in seq.split(";")}
        assert not {c for c in codes if c.isdecimal() and (30 <= int(c) <= 48 or int(c) >= 90)}


def test_on_a_terminal_that_shows_only_lines_there_are_plain_lines(shell: Shell) -> None:
    write = call("Write", file_path="made.txt", content="one\n")
    model = shell.script(turn("# Title", write), turn("End."))
    with Terminal(shell, "--model", model, env={"TERM": "dumb"}) as terminal:
        terminal.expect("> ")
        terminal.type("go" + ENTER)
        terminal.expect("# T")
        terminal.expect("[n]o:")
        terminal.type("y" + ENTER)
        terminal.expect("End.")
        terminal.type(CTRL_D)
        assert terminal.code() == 0
        assert "\x1b" not in terminal.raw
    assert (shell.project / "made.txt").exists()


def test_p_on_a_terminal_shows_its_answer_as_markdown_and_elsewhere_as_it_is(shell: Shell) -> None:
    model = shell.script(turn("# Title\n\n**bold** [a](http://x)", call("Glob", pattern="*")))
    with Terminal(shell, "-p", "go", "--model", model) as terminal:
        terminal.expect("Title")
        terminal.expect("bold a (http://x)")
        terminal.expect("● Glob")
        terminal.expect("done")
        assert terminal.code() == 0
        assert "# Title" not in terminal.all
    assert (
        shell.run("-p", "go", "--model", shell.script(turn("# T\n\n**b**"))).out == "# T\n\n**b**\n"
    )
    with Terminal(shell, "-p", "go", "--model", model, env={"TERM": "dumb"}) as terminal:
        terminal.expect("# T")


def test_a_session_that_goes_on_begins_with_what_was_said_last(shell: Shell) -> None:
    model = shell.script(turn("Older."), turn("The **lexer** is mended."))
    shell.run("-p", "First", "--model", model)
    shell.run("-p", "Mend the lexer", "--continue", "--model", model)
    with Terminal(shell, "--continue") as terminal:
        terminal.see("> Mend the lexer", "The lexer is mended.", "Resumed session")
        assert "Older." not in terminal.all
