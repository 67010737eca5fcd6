"""`rewake config`, and how a run takes settings, as a user meets them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.cli.shell import Shell, call, turn
from tests.cli.terminal import ASKED, CTRL_D, ENTER, Terminal

from rewake.settings.keys import KEYS


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def user(shell: Shell) -> Path:
    return shell.home / "settings.json"


@pytest.fixture
def team(shell: Shell) -> Path:
    return shell.project / ".rewake" / "settings.json"


# --- looking and changing --------------------------------------------------------------------


def test_what_is_set_is_got_listed_explained_and_unset(shell: Shell, user: Path) -> None:
    assert shell.run("config").out.startswith("Nothing is set.")
    done = shell.run("config", "set", "max_steps", "7")
    assert done.out == f"max_steps is 7 (was not set) in {user}.\n"
    assert shell.run("config", "get", "max_steps").out == "7\n"
    assert f"max_steps  7  {user}:2" in shell.run("config", "list").out
    shell.run("config", "set", "max_steps", "3", "--local")
    explained = shell.run("config", "explain", "max_steps").out
    local = shell.project / ".rewake/settings.local.json"
    assert explained.startswith("max_steps = 3\n")
    assert f"local    counts        {local}:2  3" in explained
    assert f"user     overridden    {user}:2  7" in explained
    assert shell.run("config", "unset", "max_steps", "--local").code == 0
    assert shell.run("config", "get", "max_steps").out == "7\n"
    assert shell.run("config", "get", "model").code == 1


def test_everything_can_be_had_as_json(shell: Shell, user: Path) -> None:
    changed = shell.run("config", "set", "permissions.allow", "Read", "--json").json
    assert changed == {
        "key": "permissions.allow",
        "source": "user",
        "file": str(user),
        "before": None,
        "after": ["Read"],
        "changed": True,
        "dry_run": False,
    }
    assert shell.run("config", "get", "permissions", "--json").json["value"] == {"allow": ["Read"]}
    listed = shell.run("config", "--json").json
    assert listed["permissions.allow"]["sources"][0]["where"] == f"{user}:3"
    assert set(shell.run("config", "list", "--all", "--json").json) == set(KEYS)
    assert shell.run("config", "explain", "model", "--json").json["model"]["value"] is None
    assert shell.run("config", "check", "--json").json["status"] == "done"
    assert shell.run("config", "migrate", "--json").json == {"dry_run": False, "files": []}
    assert shell.run("config", "trust", "--json").json["content"] is None
    schema = json.loads(shell.run("config", "schema", "--json").out)
    assert schema["properties"]["max_steps"]["description"]


def test_lists_grow_and_shrink_and_comments_stay(shell: Shell, user: Path) -> None:
    put(user, '{\n  // mine\n  "permissions": {"allow": ["Read"]} // so far\n}\n')
    shell.run("config", "set", "permissions.allow", "Edit", "Bash(make:*)", "--add")
    assert shell.run("config", "get", "permissions.allow").out == (
        '["Read", "Edit", "Bash(make:*)"]\n'
    )
    shell.run("config", "set", "permissions.allow", "Read", "--remove")
    text = user.read_text()
    assert text == (
        '{\n  // mine\n  "permissions": {"allow": ["Edit", "Bash(make:*)"]} // so far\n}\n'
    )


def test_a_toml_file_is_changed_in_its_own_way(shell: Shell, user: Path) -> None:
    toml = put(user.with_suffix(".toml"), '# mine\nmodel = "a" # now\n')
    assert shell.run("config", "set", "max_steps", "4").code == 0
    assert shell.run("config", "set", "model", "b").code == 0
    text = toml.read_text()
    assert "# mine" in text
    assert 'model = "b" # now' in text
    assert shell.run("config", "get", "max_steps").out == "4\n"
    assert not user.exists()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["get", "modle"], 2, "Did you mean model?"),
        (["set", "max_steps", "many"], 9, 'expected a whole number, found "many"'),
        (["set", "permissions", "x"], 2, "permissions.allow"),
        (["set", "mcp_servers.x", "no json"], 2, "is no JSON"),
        (["set", "model"], 2, "rewake config set KEY VALUE"),
        (["set", "model", "a", "b"], 2, "in quotes"),
        (["set", "model", "a", "--user", "--local"], 2, "one place"),
        (["set", "model", "a", "--add"], 9, "is no list"),
        (["bogus"], 2, "bogus"),
    ],
)
def test_what_can_not_be_done_is_told_with_what_can(
    shell: Shell, user: Path, arguments: list[str], code: int, told: str
) -> None:
    put(user, '{"model": "m"}')
    done = shell.run("config", *arguments)
    assert (done.code, told in done.err) == (code, True), done.err
    assert user.read_text() == '{"model": "m"}'


def test_a_dry_run_changes_nothing(shell: Shell, user: Path) -> None:
    done = shell.run("config", "set", "model", "a", "--dry-run")
    assert "model would be a" in done.out
    assert not user.exists()


def test_a_change_that_does_not_count_says_so(shell: Shell) -> None:
    shell.run("config", "set", "model", "near", "--local")
    assert "settings.local.json:2 comes before it" in shell.run("config", "set", "model", "far").err


def test_check_tells_everything_at_once_with_its_place(
    shell: Shell, user: Path, team: Path
) -> None:
    put(user, '{\n  "max_steps": 0,\n  "theme": 5,\n  "modle": "x"\n}')
    put(team, '{"verify": "make", "permissions": {"deny": ["no rule"]}}')
    done = shell.run("config", "check")
    assert done.code == 9
    assert f"{user}:3:12: theme can't be used: expected a text, found 5." in done.out
    assert "Did you mean model?" in done.out
    assert f"{team}:1:45: permissions.deny[0] can't be used" in done.out
    put(user, '{"max_steps": 0, "modle": "x"}')
    assert "max_steps can't be used: expected a number above 0" in shell.run("config", "check").out
    put(user, '{"modle": "x"}')
    put(team, '{"verify": "make"}')
    done = shell.run("config", "check")
    assert (done.code, "verify doesn't count" in done.out) == (0, True)


def test_check_speaks_of_mcp_json_too(shell: Shell) -> None:
    put(shell.project / ".mcp.json", '{"mcpServers": {"broken": {}, "fine": {"command": "x"}}}')
    done = shell.run("config", "check")
    assert "the MCP server 'broken' can't be used" in done.out
    assert "mcp_servers doesn't count" in done.out


def test_check_speaks_of_hooks_and_servers_that_never_run(shell: Shell, user: Path) -> None:
    hooks = {"PreToolUse": [{"matcher": "("}], "Before": []}
    servers = {"neither": {}, "hole": {"command": "x", "args": ["${NOT_SET_ANYWHERE}"]}}
    put(user, json.dumps({"hooks": hooks, "mcp_servers": servers}, indent=1))
    done = shell.run("config", "check")
    assert done.code == 0
    for said in (
        f"{user}:3, the matcher '(' of PreToolUse is no regular expression",
        "there is no hook event 'Before'",
        "'neither' needs either a command or a url",
        "NOT_SET_ANYWHERE is not set",
    ):
        assert said in done.out


def test_two_formats_in_one_place_are_refused(shell: Shell, user: Path) -> None:
    put(user, "{}")
    put(user.with_suffix(".toml"), "")
    done = shell.run("config")
    assert done.code == 9
    assert "settings.toml:1:1: there is settings.json beside it" in done.err


def test_a_mode_that_no_project_may_bring_is_not_written_into_its_file(shell: Shell) -> None:
    """It would keep everybody who has the project from working in it."""
    done = shell.run("config", "set", "permissions.mode", "bypass", "--project")
    assert done.code == 9
    assert "can't switch permissions off" in done.err
    assert not (shell.project / ".rewake/settings.json").exists()
    assert shell.run("config", "set", "permissions.mode", "bypass", "--local").code == 0


# --- edit ------------------------------------------------------------------------------------


def editor(shell: Shell, script: str) -> dict[str, str]:
    program = put(shell.root / "editor", f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"EDITOR": str(program)}


def test_the_editor_changes_a_copy_which_is_checked_before_it_counts(
    shell: Shell, user: Path
) -> None:
    good = editor(shell, 'printf \'{"model": "typed"}\' > "$1"')
    assert shell.run("config", "edit", env=good).code == 0
    assert json.loads(user.read_text()) == {"model": "typed"}
    bad = editor(shell, 'printf \'{"model": 5}\' > "$1"')
    done = shell.run("config", "edit", env=bad)
    assert done.code == 9
    assert "expected a text, found 5" in done.err
    assert json.loads(user.read_text()) == {"model": "typed"}
    assert (shell.home / "settings.json.rejected").read_text() == '{"model": 5}'


def test_what_was_typed_is_kept_where_the_file_can_not_be_written(shell: Shell) -> None:
    file = put(shell.project / ".rewake/settings.json", "{}")
    file.chmod(0o400)
    typed = editor(shell, 'printf \'{"model": "typed"}\' > "$1"')
    done = shell.run("config", "edit", "--project", env=typed)
    assert done.code == 5
    assert (shell.home / "settings.json.rejected").read_text() == '{"model": "typed"}'


def test_what_was_typed_stays_where_it_is_if_the_home_can_not_take_it(
    shell: Shell, user: Path
) -> None:
    (shell.home / "settings.json.rejected").mkdir(parents=True)
    (shell.root / "tmp").mkdir()
    bad = editor(shell, 'printf \'{"model": 5}\' > "$1"') | {"TMPDIR": str(shell.root / "tmp")}
    done = shell.run("config", "edit", env=bad)
    assert done.code == 9
    (kept,) = (shell.root / "tmp").glob("rewake-*/settings.json")
    assert kept.read_text() == '{"model": 5}'
    assert str(kept) in done.err


@pytest.mark.parametrize("chosen", ["/nowhere/editor", "vi 'half a quote"])
def test_an_editor_that_can_not_be_started_is_named(shell: Shell, chosen: str) -> None:
    done = shell.run("config", "edit", env={"EDITOR": chosen})
    assert done.code == 2
    assert f"The editor {chosen} can't be started" in done.err


def test_an_editor_that_typed_nothing_leaves_nothing(shell: Shell, user: Path) -> None:
    done = shell.run("config", "edit", env=editor(shell, "exit 1"))
    assert done.code == 2
    assert "typed" not in done.err
    assert not (shell.home / "settings.json.rejected").exists()


def test_an_empty_toml_file_is_edited_as_it_is(shell: Shell, user: Path) -> None:
    toml = put(user.with_suffix(".toml"), "")
    done = shell.run("config", "edit", env=editor(shell, 'echo "max_steps = 3" >> "$1"'))
    assert done.code == 0
    assert toml.read_text() == "max_steps = 3\n"


def test_a_broken_file_can_be_mended_in_the_editor(shell: Shell, user: Path) -> None:
    put(user, '{"model": ')
    done = shell.run("config", "edit", env=editor(shell, 'printf \'"a"}\' >> "$1"'))
    assert done.code == 0
    assert json.loads(user.read_text()) == {"model": "a"}


def test_who_typed_something_wrong_may_go_back_to_the_editor(shell: Shell, user: Path) -> None:
    twice = editor(
        shell,
        'if [ -e again ]; then printf \'{"theme": "x"}\' > "$1"; else touch again; echo "{" > "$1"; fi',
    )
    with Terminal(shell, "config", "edit", env=twice) as terminal:
        terminal.expect("settings.json:2:1")
        terminal.expect("Go back to the editor? [y]es, [n]o:")
        terminal.type("y\n")
        terminal.expect("is changed.")
        assert terminal.code() == 0
    assert json.loads(user.read_text()) == {"theme": "x"}


def test_what_somebody_else_changed_meanwhile_is_not_overwritten(shell: Shell, user: Path) -> None:
    put(user, '{"model": "a"}')
    script = f'printf \'{{"model": "b"}}\' > "$1"; printf \'{{"model": "c"}}\' > {user}'
    done = shell.run("config", "edit", env=editor(shell, script))
    assert (done.code, "somebody else" in done.err) == (9, True)
    assert json.loads(user.read_text()) == {"model": "c"}


# --- migrate ---------------------------------------------------------------------------------


def test_own_files_are_brought_up_to_date_and_the_projects_when_asked(
    shell: Shell, user: Path, team: Path
) -> None:
    put(user, '{\n  "maxSteps": 3 // three\n}\n')
    put(team, '{"permissions": {"defaultMode": "plan"}}')
    done = shell.run("-p", "x", "--model", shell.script(turn("Done.")))
    assert done.code == 0, done.err
    assert f"{user} was brought up to date (maxSteps is max_steps now" in done.err
    assert f"{team} uses old names (`rewake config migrate` writes it)" in done.err
    assert '"max_steps": 3 // three' not in user.read_text()
    assert '"max_steps": 3' in user.read_text()
    assert "// three" in user.read_text()
    assert (shell.home / "settings.json.v0.bak").read_text() == '{\n  "maxSteps": 3 // three\n}\n'
    assert "defaultMode" in team.read_text()
    shown = shell.run("config", "migrate", "--dry-run")
    assert "permissions.defaultMode is permissions.mode now" in shown.out
    assert "defaultMode" in team.read_text()
    assert shell.run("config", "migrate").code == 0
    assert json.loads(team.read_text()) == {"permissions": {"mode": "plan"}, "settings_version": 1}
    assert shell.run("config", "migrate").out == "All files are up to date.\n"


# --- trust -----------------------------------------------------------------------------------


def test_without_a_terminal_a_projects_rules_do_not_count_and_that_is_said(
    shell: Shell, team: Path
) -> None:
    put(team, '{"permissions": {"allow": ["Bash"], "deny": ["Read"]}}')
    model = shell.script(turn("", call("Bash", command="touch made")), turn("Done."))
    done = shell.run("-p", "x", "--model", model)
    assert "don't count until you trust them: permissions.allow" in done.err
    assert not (shell.project / "made").exists()
    assert shell.run("config", "trust", "--yes").code == 0
    done = shell.run("-p", "x", "--model", model)
    assert "trust" not in done.err
    assert (shell.project / "made").exists()


def test_trust_is_shown_asked_for_given_and_taken_back(shell: Shell, team: Path) -> None:
    long = f"make {'x' * 5000} && hidden"
    put(team, json.dumps({"verify": long}))
    assert f"verify: {long}  " in shell.run("config", "trust", "--show").err
    put(team, '{\n  "verify": "make test"\n}')
    shown = shell.run("config", "trust", "--show")
    assert f"verify: make test  {team}:2" in shown.err
    assert "don't count yet" in shown.out
    assert shell.run("config", "trust").code == 2
    with Terminal(shell, "config", "trust") as terminal:
        terminal.expect("Trust these settings of the project? [y]es, [n]o:")
        terminal.type("y\n")
        terminal.expect("own settings count.")
        assert terminal.code() == 0
    assert shell.run("config", "get", "verify").out == "make test\n"
    shell.run("config", "trust", "--no")
    assert shell.run("config", "get", "verify").code == 1


def test_the_question_stands_once_at_the_beginning_of_a_conversation(
    shell: Shell, team: Path
) -> None:
    put(team, '{"hooks": {"Stop": [{"hooks": [{"command": "./it"}]}]}}')
    with Terminal(shell, "--model", shell.script()) as terminal:
        terminal.expect("Trust these settings")
        terminal.type("Fix the parser" + ENTER)  # a prompt that was typed ahead is no answer
        terminal.expect("next time you are asked again")
        terminal.ready()
        terminal.type(CTRL_D)
        assert terminal.code() == 0
    for expected in ("Trust these settings", "\n>"):
        with Terminal(shell, "--model", shell.script()) as terminal:
            before = terminal.expect(expected)
            if expected != "\n>":
                assert "hooks: Stop: " in before
                assert "./it" in before
                terminal.type("n" + ENTER)
                terminal.ready()
            else:
                assert "Trust" not in before
            terminal.type(CTRL_D)
            assert terminal.code() == 0


# --- a run -----------------------------------------------------------------------------------


def test_sources_can_be_limited_and_settings_given_for_one_run(shell: Shell, user: Path) -> None:
    put(user, '{"max_steps": "broken"}')
    model = shell.script(*[turn("", call("TodoWrite", todos=[]))] * 3, turn("Done."))
    assert shell.run("-p", "x", "--model", model).code == 9
    limited = ["-p", "x", "--model", model, "--setting-sources", "project,local"]
    assert shell.run(*limited).code == 0
    assert shell.run(*limited, "--settings", '{"max_steps": 1}').code == 10
    file = put(shell.root / "once.toml", "max_steps = 1\n")
    assert shell.run(*limited, "--settings", str(file)).code == 10
    assert shell.run(*limited, "--settings", str(file), "--max-steps", "9").code == 0
    assert shell.run(*limited, "--settings", "nowhere.json").code == 2
    assert shell.run(*limited, "--settings", "[1]" * 2000).code == 2
    beside = ["--settings", file.name, "--cwd", str(shell.project)]
    assert shell.run(*limited, *beside, cwd=shell.root).code == 10
    assert shell.run(*limited, "--settings", "{").code == 9
    assert shell.run("-p", "x", "--setting-sources", "moon").code == 2


def test_a_conversation_starts_with_a_broken_file_left_out_and_asks_for_everything(
    shell: Shell, user: Path
) -> None:
    (shell.project / ".git").mkdir()
    put(user, '{"permissions": {"mode": "acceptEdits", "deny": ["Bash"]')
    put(
        shell.project / ".rewake/settings.local.json",
        '{"permissions": {"allow": ["Write"], "mode": "acceptEdits"}}',
    )
    model = shell.script(
        turn("", call("Write", file_path="made.txt", content="one\n")), turn("Well.")
    )
    arguments = ["--model", model, "--permission-mode", "bypass"]
    with Terminal(shell, *arguments) as terminal:
        terminal.ready()
        terminal.type("go" + ENTER)
        told = " ".join(terminal.see(ASKED).split())
        assert "A settings file is left out:" in told
        assert "so everything is asked" in told
        terminal.type("n")
        terminal.expect("Well.")
    assert not (shell.project / "made.txt").exists()


def test_gc_takes_its_limits_from_the_settings_and_says_so(shell: Shell, user: Path) -> None:
    shell.run("-p", "x", "--model", shell.script(turn("Done.")))
    put(user, '{"retention": {"age_days_max": 30, "bytes_max": 1000}}')
    looked = shell.run("gc", "--dry-run")
    assert f"because of retention.age_days_max 30 in {user}:1" in looked.out
    assert f"retention.bytes_max 1,000 in {user}:1" in looked.out
    assert "To the trash" not in shell.run("gc", "--quota", "1GB", "--dry-run").out
    assert "To the trash" in shell.run("gc", "--all", "--dry-run").out
    assert shell.run("gc", "--json", "--dry-run").json["limits"]
    assert len(json.loads(shell.run("sessions", "--json").out)) == 1


def test_a_projects_retention_needs_trust_and_never_holds_for_others(
    shell: Shell, team: Path
) -> None:
    shell.run("-p", "x", "--model", shell.script(turn("Done.")))
    put(team, '{"retention": {"bytes_max": 1}}')
    assert "To the trash" not in shell.run("gc", "--dry-run").out
    shell.run("config", "trust", "--yes")
    assert "To the trash" in shell.run("gc", "--dry-run").out
    assert "To the trash" not in shell.run("gc", "--all", "--dry-run").out


def test_the_small_model_finds_titles(shell: Shell, user: Path) -> None:
    done = shell.run("-p", "x", "--json", "--model", shell.script(turn("Done.")))
    small = put(shell.root / "small.jsonl", f"{json.dumps({'text': 'Small talk'})}\n" * 3)
    put(user, json.dumps({"small_model": f"script:{small}"}))
    titled = shell.run("title", done.json["session_id"], "--generate")
    assert titled.out == "Small talk\n", titled.err


def test_the_small_model_finds_titles_at_the_prompt_too(shell: Shell, user: Path) -> None:
    small = put(shell.root / "small.jsonl", f"{json.dumps({'text': 'Small talk'})}\n" * 3)
    put(user, json.dumps({"small_model": f"script:{small}"}))
    with Terminal(shell, "--model", shell.script(*[turn("Red.")] * 5)) as terminal:
        terminal.ready()
        terminal.type("one" + ENTER)
        terminal.see_idle("Red.")
        terminal.type("/title" + ENTER)
        terminal.see("Small talk")


def test_settings_at_resume_are_todays(shell: Shell, user: Path) -> None:
    looking = turn("", call("TodoWrite", todos=[]))
    model = shell.script(looking, turn("Done."), *[looking] * 3)
    done = shell.run("-p", "x", "--json", "--model", model)
    assert done.code == 0
    put(user, '{"max_steps": 1}')
    again = shell.run("-p", "more", "-r", done.json["session_id"], "--model", model)
    assert again.code == 10


def test_the_personal_file_stays_out_of_git_and_git_stays_as_it_is(shell: Shell) -> None:
    subprocess.run(["git", "init", "-q"], cwd=shell.project, check=True)
    before = {path: path.read_bytes() for path in (shell.project / ".git").rglob("*.*")}
    shell.run("config", "set", "model", "a", "--local")
    status = subprocess.run(
        ["git", "status", "--porcelain"],
        cwd=shell.project,
        check=True,
        capture_output=True,
        text=True,
    )
    assert status.stdout == ""
    assert {path: path.read_bytes() for path in (shell.project / ".git").rglob("*.*")} == before
