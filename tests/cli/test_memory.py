"""`rewake memory`, `rewake instructions` and `rewake show --memory`, as a user types them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.shell import Shell, turn

KEY = "sk-ant-api03-" + "a1B2" * 10


@pytest.fixture
def note(shell: Shell) -> None:
    """A note of the project about releases."""
    done = shell.run(
        *(
            "memory",
            "edit",
            "release-steps",
            "--file",
            "-",
            "--description",
            "Releasing the library",
        ),
        stdin="Tag, then wait for CI.\n",
    )
    assert done.code == 0, done.err


@pytest.mark.usefixtures("note")
def test_a_note_is_listed_shown_searched_and_forgotten(shell: Shell) -> None:
    assert "project/release-steps" in shell.run("memory").out
    assert "Tag, then wait for CI." in shell.run("memory", "show", "release-steps").out
    (hit,) = shell.run("memory", "search", "how", "to", "release", "--json").json["hits"]
    assert (hit["name"], hit["would_be_recalled"]) == ("release-steps", True)
    assert shell.run("memory", "forget", "release-steps").code == 2
    assert shell.run("memory", "forget", "release-steps", "--yes").code == 0
    assert shell.run("memory", "list", "--json").json["notes"] == []
    assert shell.run("memory", "show", "release-steps").code == 4


@pytest.mark.usefixtures("note")
def test_only_what_is_given_is_changed(shell: Shell) -> None:
    shell.run("memory", "edit", "release-steps", "--type", "how-to")
    shown = shell.run("memory", "show", "release-steps", "--json").json
    assert (shown["type"], shown["description"]) == ("how-to", "Releasing the library")
    assert shown["body"].strip() == "Tag, then wait for CI."


def test_a_user_note_is_seen_from_every_project(shell: Shell) -> None:
    edit = ("memory", "edit", "vim", "--scope", "user", "--file", "-")
    assert shell.run(*edit, stdin="The user works in Neovim.").code == 0
    elsewhere = shell.root / "elsewhere"
    elsewhere.mkdir()
    assert "user/vim" in shell.run("memory", cwd=elsewhere).out


def test_a_secret_is_kept_only_when_the_user_says_so(shell: Shell) -> None:
    edit = ("memory", "edit", "key", "--file", "-")
    refused = shell.run(*edit, stdin=f"The key is {KEY}.")
    assert refused.code == 2
    assert "looks like a secret" in refused.err
    assert "--allow-secrets" in refused.err
    assert shell.run("memory", "list", "--json").json["notes"] == []
    assert shell.run(*edit, "--allow-secrets", stdin=f"The key is {KEY}.").code == 0


def test_a_note_for_which_there_is_no_room_leaves_nothing_behind(shell: Shell) -> None:
    assert shell.run("memory", "edit", "small", "--file", "-", stdin="x").code == 0
    edit = ("memory", "edit", "big", "--file", "-")
    full = shell.run(*edit, stdin="word " * 2_000, file_kib_max=4)
    assert full.code == 5
    assert "Error:" in full.err
    (listed,) = shell.run("memory", "--json").json["notes"]
    kept = Path(listed["path"]).parent
    assert sorted(path.name for path in kept.iterdir()) == ["MEMORY.md", "small.md"]


def test_what_does_not_exist_and_what_is_no_action_are_errors(shell: Shell) -> None:
    assert shell.run("memory", "show", "nothing").code == 4
    assert shell.run("memory", "polish").code == 2
    assert shell.run("memory", "show").code == 2
    assert shell.run("memory", "search").code == 2
    assert shell.run("memory", "edit", "x").code == 2


def test_an_editor_edits_a_note_and_a_draft_that_can_not_be_kept_stays(shell: Shell) -> None:
    editor = shell.root / "editor"
    editor.write_text(f"#!{sys.executable}\nimport sys\nopen(sys.argv[1], 'a').write({KEY!r})\n")
    editor.chmod(0o755)
    good = shell.root / "good"
    good.write_text(f"#!{sys.executable}\nimport sys\nopen(sys.argv[1], 'a').write('Ask Ada.')\n")
    good.chmod(0o755)
    assert _in_terminal(shell, good, "memory", "edit", "who") == 0
    assert "Ask Ada." in shell.run("memory", "show", "who").out
    assert _in_terminal(shell, editor, "memory", "edit", "who") == 2
    drafts = list((shell.root / "tmp").glob("rewake-note-*/who.md"))
    assert [KEY in draft.read_text() for draft in drafts] == [True]


def test_an_editor_that_is_not_there_is_said_and_leaves_nothing(shell: Shell) -> None:
    assert _in_terminal(shell, shell.root / "nowhere", "memory", "edit", "who") == 2
    assert not list((shell.root / "tmp").iterdir())


def _in_terminal(shell: Shell, editor: Path, *arguments: str) -> int:
    """Run it with a terminal as its stdin and this editor; returns its exit status."""
    (shell.root / "tmp").mkdir(exist_ok=True)
    leader, follower = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "rewake", *arguments],
            cwd=shell.project,
            env={**shell.environ, "EDITOR": str(editor), "TMPDIR": str(shell.root / "tmp")},
            stdin=follower,
            capture_output=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(leader)
        os.close(follower)
    return done.returncode


def test_instructions_say_what_applies_where_and_what_is_refused(shell: Shell) -> None:
    (shell.project / ".git").mkdir()
    (shell.project / "AGENTS.md").write_text("Use tabs. See @docs/style.md and @.env\n")
    (shell.project / ".env").write_text("A=b\n")
    (shell.project / "docs").mkdir()
    (shell.project / "docs" / "style.md").write_text("Short lines.\n")
    (shell.project / "docs" / "CLAUDE.md").write_text("In docs: plain words.\n")
    here = shell.run("instructions", "--json").json
    assert [file["shown"] for file in here["files"]] == ["AGENTS.md", "docs/style.md"]
    assert here["files"][1]["imported_by"] == "AGENTS.md"
    assert here["refused"] == [
        {"shown": ".env", "reason": "files called .env are secrets", "imported_by": "AGENTS.md"}
    ]
    there = shell.run("instructions", "docs/page.md").out
    assert there.index("AGENTS.md") < there.index("docs/CLAUDE.md  for work in docs")
    assert "No instructions apply" in shell.run("instructions", cwd=shell.root).out


@pytest.mark.usefixtures("note")
def test_what_was_recalled_is_shown_with_its_reason(shell: Shell) -> None:
    model = shell.script(turn("Done."))
    shell.run("-p", "Make a release", "--model", model, "--session-id", "s")
    shown = shell.run("show", "s", "--memory").out
    assert "Current goal: Make a release" in shown
    assert "project/release-steps  Releasing the library" in shown
    assert "in common with the prompt: release" in shown
    found = json.loads(shell.run("show", "s", "--memory", "--json").out)
    assert [one["name"] for one in found["recalled"]] == ["release-steps"]
    whole = json.loads(shell.run("show", "s", "--json").out)
    assert whole["messages"][1]["details"]["by"] == "ranking"
