"""Commands written in Markdown: what they stand for, and what they may do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.shell import Shell, call, turn
from tests.cli.terminal import CTRL_D, ENTER, Terminal
from tests.extensions.writing import skill, write

from rewake.agent.commands import Commands, WrittenCommand, load_commands
from rewake.agent.providers.choose import may_come_with_a_project
from rewake.agent.skills import Skills
from rewake.agent.written import Root


def loaded(*roots: Path) -> Commands:
    return load_commands([Root(root, "user") for root in roots], Skills())


def command(body: str) -> WrittenCommand:
    return WrittenCommand("c", "", body, Path("c.md"), "user")


def test_placeholders_stand_for_the_arguments() -> None:
    assert command("Fix $1 in $2: $ARGUMENTS").expanded("a 'b c'") == "Fix a in b c: a 'b c'"


def test_a_placeholder_without_its_argument_is_empty() -> None:
    assert command("[$1|$2]").expanded("a") == "[a|]"


def test_a_backslash_keeps_a_placeholder() -> None:
    assert command(r"Say \$1 and \$ARGUMENTS, not $1").expanded("x") == (
        "Say $1 and $ARGUMENTS, not x"
    )


def test_arguments_that_have_no_place_follow_the_text() -> None:
    assert command("Fix it.").expanded("now") == "Fix it.\n\nArguments: now"
    assert command("Fix it.").expanded("") == "Fix it."


@given(st.text())
def test_arguments_are_never_read_as_placeholders(arguments: str) -> None:
    assert command("<$ARGUMENTS>").expanded(arguments) == f"<{arguments}>"


def test_the_directory_is_the_namespace(tmp_path: Path) -> None:
    write(tmp_path / "commands/git/tidy.md", "Tidy.")
    write(tmp_path / "commands/plain.md", "Plain.")
    assert {one.name for one in loaded(tmp_path).commands} == {"git:tidy", "plain"}


def test_a_name_that_can_not_be_typed_and_an_empty_file_are_problems(tmp_path: Path) -> None:
    write(tmp_path / "commands/two words.md", "x")
    write(tmp_path / "commands/empty.md", "---\ndescription: x\n---\n")
    found = loaded(tmp_path)
    assert found.commands == ()
    assert len(found.problems) == 2


def test_a_command_s_text_is_the_prompt_and_what_was_typed_is_kept(shell: Shell) -> None:
    write(shell.project / ".rewake/commands/greet.md", "Greet $1 kindly.")
    done = shell.run("-p", "/greet Ada", "--model", shell.script(turn("Hello Ada.")), "--json")
    (prompt,) = [
        event["payload"]
        for event in shell.events(done.json["session_id"])
        if event["event_type"] == "message" and event["payload"]["role"] == "user"
    ]
    assert prompt["content"][0]["text"] == "Greet Ada kindly."
    assert prompt["typed"] == "/greet Ada"
    (listed,) = shell.run_json("sessions", "--json")
    assert listed["title"] == "/greet Ada"


def test_a_word_that_nobody_has_written_is_a_prompt(shell: Shell) -> None:
    done = shell.run("-p", "/greet Ada", "--model", shell.script(turn("Hm.")), "--json")
    shown = shell.run_json("show", done.json["session_id"], "--json")
    assert shown["messages"][0]["content"][0]["text"] == "/greet Ada"


def test_a_user_s_command_brings_its_rules_for_its_run_only(shell: Shell) -> None:
    text = "---\nallowed-tools: Bash(touch:*)\n---\nTouch it."
    write(shell.home / "commands/touch.md", text)
    model = shell.script(
        turn("", call("Bash", command="touch a")),
        turn("Done."),
        turn("", call("Bash", command="touch b")),
        turn("Done."),
    )
    done = shell.run("-p", "/touch", "--model", model, "--json")
    assert (shell.project / "a").exists()
    shell.run("-p", "touch it", "--resume", done.json["session_id"], "--json")
    assert not (shell.project / "b").exists()


def test_a_project_s_command_loosens_no_permissions(shell: Shell) -> None:
    text = "---\nallowed-tools: Bash(touch:*)\n---\nTouch it."
    write(shell.project / ".rewake/commands/touch.md", text)
    model = shell.script(turn("", call("Bash", command="touch a")), turn("Done."))
    done = shell.run("-p", "/touch", "--model", model, "--json")
    assert not (shell.project / "a").exists()
    assert "comes with the project" in done.err


def test_where_rules_may_be_missing_no_command_allows_anything(shell: Shell) -> None:
    newer = {"settings_version": 99, "permissions": {"forbid": ["Bash(touch:*)"]}}
    write(shell.home / "settings.json", json.dumps(newer))
    text = "---\nallowed-tools: Bash(touch:*)\n---\nTouch it."
    write(shell.home / "commands/touch.md", text)
    model = shell.script(turn("", call("Bash", command="touch a")), turn("Done."))
    done = shell.run("-p", "/touch", "--model", model, "--json")
    assert not (shell.project / "a").exists()
    assert "its allowed-tools don't count" in done.err


def test_a_command_may_choose_the_model_of_its_run(shell: Shell) -> None:
    other = shell.root / "other.jsonl"
    other.write_text('{"text": "From the other."}\n')
    write(shell.home / "commands/ask.md", f"---\nmodel: script:{other}\n---\nAsk.")
    done = shell.run("-p", "/ask", "--model", shell.script(turn("From the first.")), "--json")
    assert done.json["response"] == "From the other."


def test_a_command_of_the_project_brings_no_model_of_its_own(shell: Shell) -> None:
    """A script in a clone would say which tools are called, in the model's place."""
    write(shell.project / "evil.jsonl", '{"text": "From the clone."}\n')
    write(shell.project / ".rewake/commands/ask.md", "---\nmodel: script:evil.jsonl\n---\nAsk.")
    done = shell.run("-p", "/ask", "--model", shell.script(turn("From the first.")), "--json")
    assert done.json["response"] == "From the first."
    assert "comes with the project, so its model" in done.err


@pytest.mark.parametrize(
    ("name", "usual", "may"),
    [
        ("anthropic:small", "anthropic:large", True),
        ("openai:gpt", "anthropic:large", False),
        ("script:a", "script:b", False),
        ("local:weights.gguf", "local:", False),
        ("nowhere", "anthropic:large", False),
    ],
)
def test_a_project_may_choose_only_among_the_models_of_the_users_provider(
    name: str,
    usual: str,
    may: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    assert may_come_with_a_project(name, usual) is may


def test_a_model_that_can_not_be_had_is_told_and_the_usual_one_answers(shell: Shell) -> None:
    write(shell.home / "commands/ask.md", "---\nmodel: nowhere\n---\nAsk.")
    done = shell.run("-p", "/ask", "--model", shell.script(turn("From the first.")), "--json")
    assert done.json["response"] == "From the first."
    assert "The model of /ask can't be used" in done.err


def test_commands_and_skills_are_words_at_the_prompt(shell: Shell) -> None:
    write(shell.project / ".rewake/commands/greet.md", "---\ndescription: Greets.\n---\nGreet $1.")
    skill(shell.project / ".rewake", "brew", "Makes tea.")
    write(shell.project / ".rewake/commands/status.md", "Never seen: built-in words win.")
    with Terminal(shell, "--model", shell.script(turn("Hello."), turn("Tea."))) as terminal:
        terminal.ready()
        terminal.type(f"/help{ENTER}")
        terminal.expect("/greet")
        terminal.ready()
        terminal.type(f"/greet Ada{ENTER}")
        terminal.expect("Hello.")
        terminal.ready()
        terminal.type(f"/brew green{ENTER}")
        terminal.expect("Tea.")
        terminal.ready()
        terminal.type(f"/status{ENTER}")
        terminal.expect("permissions")
        terminal.ready()
        terminal.type(CTRL_D)
        assert terminal.code() == 0
    shown = shell.run_json("show", "newest", "--json")
    typed = [message["typed"] for message in shown["messages"] if message["role"] == "user"]
    assert typed == ["/greet Ada", "/brew green"]
