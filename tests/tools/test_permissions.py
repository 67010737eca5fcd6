from __future__ import annotations

import dataclasses

import pytest
from tests.tools.bench import Bench

from rewake.agent.permissions import (
    Allowed,
    Answer,
    Denied,
    PermissionMode,
    Permissions,
    Question,
    Refusal,
)
from rewake.agent.ports import Prepared
from rewake.agent.rules import parse_rule
from rewake.agent.tools.bash import BashTool
from rewake.agent.tools.edit import EditTool
from rewake.agent.tools.glob import GlobTool
from rewake.agent.tools.grep import GrepTool
from rewake.agent.tools.read import ReadTool
from rewake.agent.tools.todo import TodoWriteTool
from rewake.agent.tools.write import WriteTool
from rewake.errors import SettingsError
from rewake.model.content import plain_text
from rewake.model.events import ShellIntent

BASH, EDIT, GLOB, READ, WRITE = BashTool(), EditTool(), GlobTool(), ReadTool(), WriteTool()


def command_allowed(command: str, *allow: str, deny: tuple[str, ...] = ()) -> bool:
    """Whether the rules alone let the command run."""
    permissions = Permissions("default", allow, deny)
    prepared = Prepared(intent=ShellIntent(command, "/", "outputs/x"), subject=command, summary="")
    return isinstance(permissions.decide(BASH, prepared), Allowed)


def write(bench: Bench, name: str) -> Prepared:
    return bench.prepare(WRITE, file_path=name, content="x")


# --- modes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "plan", "bypass"])
def test_reading_is_allowed_in_every_mode(bench: Bench, mode: PermissionMode) -> None:
    bench.write("a.txt", "x")
    for tool, arguments in (
        (READ, {"file_path": "a.txt"}),
        (GrepTool(), {"pattern": "x"}),
        (TodoWriteTool(), {"todos": []}),
    ):
        prepared = bench.prepare(tool, **arguments)
        assert isinstance(Permissions(mode).decide(tool, prepared), Allowed)


@pytest.mark.parametrize(
    ("mode", "edit", "command"),
    [
        ("default", False, False),
        ("acceptEdits", True, False),
        ("plan", False, False),
        ("bypass", True, True),
    ],
)
def test_what_a_mode_allows_without_a_terminal(
    bench: Bench,
    mode: PermissionMode,
    edit: bool,  # noqa: FBT001  # a table's column
    command: bool,  # noqa: FBT001  # a table's column
) -> None:
    permissions = Permissions(mode)
    run = bench.prepare(BASH, command="make")
    assert isinstance(permissions.decide(WRITE, write(bench, "a.py")), Allowed) == edit
    assert isinstance(permissions.decide(BASH, run), Allowed) == command


def test_plan_mode_is_not_widened_by_rules(bench: Bench) -> None:
    permissions = Permissions("plan", allow=["Edit", "Bash"])
    assert isinstance(permissions.decide(WRITE, write(bench, "a.py")), Denied)
    assert isinstance(permissions.decide(BASH, bench.prepare(BASH, command="ls")), Denied)


def test_without_a_terminal_the_reason_says_how_to_allow_it(bench: Bench) -> None:
    decision = Permissions().decide(BASH, bench.prepare(BASH, command="git commit -m x"))
    assert isinstance(decision, Denied)
    assert '"Bash(git commit:*)"' in decision.reason
    assert "--permission-mode" in decision.reason


@pytest.mark.parametrize(
    "path", [".git/hooks/pre-commit", ".rewake/settings.json", "sub/.GIT/config"]
)
def test_files_that_could_allow_anything_are_not_covered_by_blanket_permission(
    bench: Bench, path: str
) -> None:
    prepared = write(bench, path)
    assert isinstance(Permissions("acceptEdits").decide(WRITE, prepared), Denied)
    blanket = ["Edit", "Edit(**)", "Edit(./**)", "Edit(/**)", "Edit(?*/**)", "Edit([.s]*/**)"]
    assert isinstance(Permissions("default", allow=blanket).decide(WRITE, prepared), Denied)
    named = Permissions("default", allow=[f"Write({path})"])
    assert isinstance(named.decide(WRITE, prepared), Allowed)


# --- rules -----------------------------------------------------------------------------------


def test_a_deny_rule_wins_over_allow_rules_and_modes(bench: Bench) -> None:
    for mode in ("default", "acceptEdits", "bypass"):
        permissions = Permissions(mode, allow=["Edit"], deny=["Edit(secrets/**)"])
        assert isinstance(permissions.decide(WRITE, write(bench, "secrets/a")), Denied)


@pytest.mark.parametrize("path", ["secrets/a", "./secrets/a", "src/../secrets/a"])
def test_a_deny_rule_for_reading_knows_the_file_by_any_name(bench: Bench, path: str) -> None:
    bench.write("secrets/a", "x")
    bench.write("src/a", "x")
    permissions = Permissions("bypass", deny=["Read(secrets/**)"])
    assert isinstance(permissions.decide(READ, bench.prepare(READ, file_path=path)), Denied)


def test_a_deny_rule_for_reading_covers_searching_the_directory(bench: Bench) -> None:
    bench.write("secrets/a", "x")
    prepared = bench.prepare(GrepTool(), pattern="x", path="secrets")
    decision = Permissions("bypass", deny=["Read(secrets/**)"]).decide(GrepTool(), prepared)
    assert isinstance(decision, Denied)


@pytest.mark.parametrize("rule", ["Read(secrets)", "Read(secrets/)", "Read(./secrets/**)"])
def test_a_deny_rule_for_a_directory_covers_what_is_in_it(bench: Bench, rule: str) -> None:
    bench.write("secrets/deep/a", "x")
    prepared = bench.prepare(READ, file_path="secrets/deep/a")
    assert isinstance(Permissions("bypass", deny=[rule]).decide(READ, prepared), Denied)


@pytest.mark.parametrize("rule", ["Read(secrets/**)", "Read(secrets)", "Grep(secrets/a)"])
def test_a_search_of_everything_leaves_out_what_a_deny_rule_forbids(
    bench: Bench, rule: str
) -> None:
    bench.write("secrets/a", "key")
    bench.write("public", "key")
    permissions = Permissions("default", deny=[rule])
    bench.context = dataclasses.replace(bench.context, forbids=permissions.forbids)
    tool = GrepTool()
    prepared = bench.prepare(tool, pattern="key")
    assert isinstance(permissions.decide(tool, prepared), Allowed)
    assert plain_text(bench.run(tool, prepared).content) == "public"


def test_a_list_of_files_leaves_out_what_a_deny_rule_forbids(bench: Bench) -> None:
    bench.write("secrets/a", "key")
    bench.write("public", "key")
    permissions = Permissions("default", deny=["Read(secrets)"])
    bench.context = dataclasses.replace(bench.context, forbids=permissions.forbids)
    output = bench.run(GLOB, bench.prepare(GLOB, pattern="**"))
    assert plain_text(output.content) == "public"


@pytest.mark.parametrize(
    ("rule", "path", "allowed"),
    [
        ("Edit(src/**)", "src/a.py", True),
        ("Edit(src/**)", "src/deep/a.py", True),
        ("Edit(src/**)", "lib/a.py", False),
        ("Edit(src/**)", "lib/src/a.py", False),
        ("Edit(src/**)", "srcs/a.py", False),
        ("Edit(*.md)", "docs/a.md", True),
        ("Edit(*.md)", "docs/a.md.py", False),
        ("Edit(src/*.py)", "src/deep/a.py", False),
        ("Edit(a.py)", "a.py", True),
        ("Edit(a.py)", "deep/a.py", False),
        ("Edit(/src/**)", "src/a.py", True),
        ("Write(src/**)", "src/a.py", True),
        ("Edit(src/{a,b}.py)", "src/b.py", True),
        ("Read(src/**)", "src/a.py", False),
    ],
)
def test_path_rules(bench: Bench, rule: str, path: str, allowed: bool) -> None:  # noqa: FBT001  # a table's column
    decision = Permissions(allow=[rule]).decide(WRITE, write(bench, path))
    assert isinstance(decision, Allowed) == allowed


def test_a_rule_for_the_project_does_not_reach_an_extra_directory(bench: Bench) -> None:
    extra = bench.project.parent / "src"
    extra.mkdir()
    bench.context = dataclasses.replace(bench.context, extra_directories=(bench.project.parent,))
    prepared = write(bench, str(extra / "a.py"))
    inside = str(extra).lstrip("/")
    assert isinstance(Permissions(allow=[f"Edit({inside}/**)"]).decide(WRITE, prepared), Denied)
    assert isinstance(Permissions(allow=[f"Edit({extra}/**)"]).decide(WRITE, prepared), Allowed)


@pytest.mark.parametrize(
    "command",
    [
        "git status",
        "git status -s",
        "  git status --short src/*.py ",
        "git status 'a file; with $(odd) `name`'",
        'git status "a > b"',
        "git status; git status -s",
        "git status && git status | git status",
        "git status\ngit status",
        "git status &",
    ],
)
def test_a_prefix_rule_allows(command: str) -> None:
    assert command_allowed(command, "Bash(git status:*)")


@pytest.mark.parametrize(
    "command",
    [
        "git statusx",
        "git",
        "git push",
        "git status; rm -rf x",
        "git status && rm -rf x",
        "git status || rm -rf x",
        "git status | sh",
        "git status |& sh",
        "git status & rm -rf x",
        "git status\nrm -rf x",
        "git status\r\nrm -rf x",
        "git status $(rm -rf x)",
        'git status "$(rm -rf x)"',
        "git status `rm -rf x`",
        'git status "`rm -rf x`"',
        "git status ${x:=`rm -rf x`}",
        "git status $'a\\'; rm -rf x; \\''",
        "git status > .git/hooks/pre-commit",
        "git status >> ~/.bashrc",
        "git status 2>&1",
        "git status < /dev/tcp/host/80",
        "git status <(rm -rf x)",
        "git status >(sh)",
        "git status << EOF\n$(rm -rf x)\nEOF",
        "(git status; rm -rf x)",
        "{ git status; rm -rf x; }",
        "git status() { rm -rf x; }",
        "GIT_PAGER=evil git status",
        "PATH=. git status",
        "env git status",
        "eval git status",
        "sh -c 'git status'",
        "git\\ status; rm",
        "git status \\\n; rm -rf x",
        "git status 'open; rm -rf x",
        "git status # ; \nrm -rf x",
        "if git status; then rm -rf x; fi",
        "! git status; rm x",
        "git status\0rm",
        "",
        ";",
    ],
)
def test_a_prefix_rule_is_not_got_around(command: str) -> None:
    assert not command_allowed(command, "Bash(git status:*)")


def test_each_part_may_be_allowed_by_another_rule() -> None:
    rules = ("Bash(git status:*)", "Bash(wc:*)", "Bash(make test)")
    assert command_allowed("git status -s | wc -l; make test", *rules)
    assert not command_allowed("git status -s | wc -l; make clean", *rules)


def test_an_exact_rule_allows_that_command_only() -> None:
    assert command_allowed("npm test > log", "Bash(npm test > log)")
    assert not command_allowed("npm test > log2", "Bash(npm test > log)")
    assert not command_allowed("npm test", "Bash(npm test > log)")


@pytest.mark.parametrize("rule", ["Bash", "Bash(*)", "Bash()"])
def test_a_rule_for_every_command(rule: str) -> None:
    assert command_allowed("a | b > c; $(d)", rule)


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf x",
        "  rm x",
        "ls; rm x",
        "ls && rm x",
        "ls | xargs rm",
        "ls\nrm x",
        "echo $(rm x)",
        "echo `rm x`",
        'echo "$(rm x)"',
        "(rm x)",
        "/bin/rm x",
        "sudo rm x",
        "sudo -n rm x",
        "env A=1 rm x",
        "A=1 rm x",
        "'rm' x",
        'r"m" x',
        "r\\m x",
        "nohup rm x &",
        "timeout 5 rm x",
        "sh -c 'rm x'",
        'bash -c "cd y && rm x"',
        "if true; then rm x; fi",
        "for i in 1; do rm $i; done",
    ],
)
def test_a_deny_rule_is_read_widely(command: str) -> None:
    assert not command_allowed(command, "Bash", deny=("Bash(rm:*)",))


@pytest.mark.parametrize("command", ["echo rm", "rmdir x", "git rm x", "ls 'rm'"])
def test_a_deny_rule_leaves_other_commands_alone(command: str) -> None:
    assert command_allowed(command, "Bash", deny=("Bash(rm:*)",))


@pytest.mark.parametrize("rule", ["", "Bash(", "()", "Edit(src/**", "a b", "Edit([)x"])
def test_a_rule_that_means_nothing_is_an_error(rule: str) -> None:
    with pytest.raises(SettingsError):
        parse_rule(rule)


# --- asking ----------------------------------------------------------------------------------


class User:
    """Answers from a list and remembers the questions."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.questions: list[Question] = []

    def __call__(self, question: Question) -> Answer:
        self.questions.append(question)
        return self.answers.pop(0)


def test_the_question_shows_what_would_happen(bench: Bench) -> None:
    user = User("yes")
    permissions = Permissions(ask=user)
    assert isinstance(permissions.decide(WRITE, write(bench, "a.py")), Allowed)
    assert "+x" in user.questions[0].preview
    assert "a.py" in user.questions[0].summary


def test_yes_counts_once_and_always_for_the_session(bench: Bench) -> None:
    user = User("yes", "always", "no")
    permissions = Permissions(ask=user)
    for command in ("git commit -m a", "git commit -m b", "git commit -m c"):
        prepared = bench.prepare(BASH, command=command)
        assert isinstance(permissions.decide(BASH, prepared), Allowed)
    other = permissions.decide(BASH, bench.prepare(BASH, command="git commit; rm x"))
    assert isinstance(other, Denied)
    assert len(user.questions) == 3


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("git commit -m x", "Bash(git commit:*)"),
        ("rm -rf x", "Bash(rm -rf x)"),
        ("python x.py", "Bash(python x.py)"),
        ("git -C x push", "Bash(git -C x push)"),
        ("npm run build", "Bash(npm run build)"),
        ("git add . && git commit", "Bash(git add . && git commit)"),
    ],
)
def test_always_is_offered_for_the_narrowest_useful_rule(
    bench: Bench, command: str, rule: str
) -> None:
    user = User("no")
    Permissions(ask=user).decide(BASH, bench.prepare(BASH, command=command))
    assert user.questions[0].rule == rule


@pytest.mark.parametrize(
    "command",
    [
        "git config user.name me",
        "git rebase main",
        "git submodule update",
        "git fetch origin",
        "npm install left-pad",
        "npm ci",
        "pip install rich",
        "uv add rich",
        "go test ./...",
        "docker build .",
        "gh api user",
    ],
)
def test_no_beginning_is_offered_for_what_may_run_anything(bench: Bench, command: str) -> None:
    user = User("yes")
    Permissions(ask=user).decide(BASH, bench.prepare(BASH, command=command))
    assert user.questions[0].rule == f"Bash({command})"


def test_always_for_an_edit_does_not_reach_protected_files(bench: Bench) -> None:
    user = User("always", "no")
    permissions = Permissions(ask=user)
    assert isinstance(permissions.decide(WRITE, write(bench, "a.py")), Allowed)
    assert isinstance(permissions.decide(WRITE, write(bench, "b.py")), Allowed)
    assert isinstance(permissions.decide(WRITE, write(bench, ".git/hooks/x")), Denied)
    assert len(user.questions) == 2


def test_a_no_with_a_reason_is_told_to_the_model(bench: Bench) -> None:
    permissions = Permissions(ask=lambda _question: Refusal("Use the staging copy."))
    decided = permissions.decide(BASH, bench.prepare(BASH, command="rm -r data"))
    assert isinstance(decided, Denied)
    assert "Use the staging copy." in decided.reason
