"""Who wins: an administrator over the command line over what is nearer over what is farther."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec
import pytest
from tests.cli.conftest import shell
from tests.cli.shell import Done, Shell, call, turn
from tests.settings.conftest import Files

import rewake
from rewake.cli.options import AgentChoices
from rewake.cli.settled import settings_of
from rewake.compose.settings import places_of
from rewake.errors import SettingsError, UsageError
from rewake.settings import Settings, load
from rewake.settings.check import lookup
from rewake.settings.jsonschema import json_schema
from rewake.settings.keypath import parse_key, value_of
from rewake.settings.keys import KEYS, Key

__all__ = ["shell"]


def test_each_source_comes_before_the_ones_farther_away(files: Files) -> None:
    written = [("user", files.user), ("project", files.team), ("local", files.local)]
    for name, write in written:
        write(json.dumps({"theme": name}))
        assert files.loaded().settings.theme == name
    extra = ("--settings", None, '{"theme": "extra"}')
    assert files.loaded(extra=extra).settings.theme == "extra"
    flags = {"theme": "flags"}
    assert files.loaded(extra=extra, flags=flags).settings.theme == "flags"
    files.managed('{"theme": "managed"}')
    loaded = files.loaded(extra=extra, flags=flags)
    assert loaded.settings.theme == "managed"
    assert [(said.source, said.status) for said in loaded.said("theme")] == [
        ("managed", "counts"),
        *[(name, "overridden") for name in ("flags", "flags", "local", "project", "user")],
    ]


def test_lists_add_up_and_mappings_by_name(files: Files) -> None:
    files.user(
        '{"permissions": {"allow": ["A", "B"]}, "mcp_servers": {"x": {"command": "user"},'
        ' "y": {"command": "user"}}, "hooks": {"Stop": [{"matcher": "user"}]}}'
    )
    files.local(
        '{"permissions": {"allow": ["B", "C"]}, "mcp_servers": {"x": {"url": "http://local"}},'
        ' "hooks": {"Stop": [{"matcher": "local"}], "Start": []}}'
    )
    files.managed('{"permissions": {"allow": ["D"]}}')
    settings = files.loaded().settings
    assert settings.permissions.allow == ("A", "B", "C", "D")
    assert settings.mcp_servers["x"].command is None
    assert settings.mcp_servers["y"].command == "user"
    assert [item.matcher for item in settings.hooks["Stop"]] == ["user", "local"]


def test_null_says_nothing(files: Files) -> None:
    files.user('{"theme": "a", "max_steps": 3}')
    files.local('{"theme": null}')
    assert files.loaded().settings.theme == "a"


def test_sources_can_be_limited_but_not_the_administrators(files: Files) -> None:
    files.user('{"theme": "user", "max_steps": 1}')
    files.local('{"theme": "local"}')
    files.managed('{"verify_max": 2}')

    def limited(sources: str) -> Settings:
        return load(places_of(files.at, sources=sources)).settings

    assert (limited("user").theme, limited("user, local").theme) == ("user", "local")
    assert (limited("").theme, limited("").verify_max) == (None, 2)
    with pytest.raises(UsageError, match="knows no moon"):
        limited("user,moon")


@pytest.mark.parametrize(
    ("choices", "key"),
    [
        (AgentChoices(permission_mode="bypass"), "permissions.mode"),
        (AgentChoices(model="other:model"), "model"),
        (AgentChoices(max_steps=100), "max_steps"),
    ],
    ids=["permissions.mode", "model", "max_steps"],
)
def test_an_option_against_the_administrators_setting_is_refused(
    files: Files, choices: AgentChoices, key: str
) -> None:
    file = files.managed('{"permissions": {"mode": "plan"},\n"model": "a:b",\n"max_steps": 5}')
    with pytest.raises(SettingsError, match=rf"can't set {re.escape(key)} to") as caught:
        settings_of(choices, files.at)
    assert str(file) in caught.value.message
    same = AgentChoices(permission_mode="plan", model="a:b", max_steps=5)
    assert settings_of(same, files.at).settings.max_steps == 5


MANAGED_MAIN = """
import sys
from pathlib import Path
from rewake.compose import place
place.MANAGED = Path(sys.argv.pop(1))
from rewake.cli.main import main
sys.exit(main())
"""


def managed(shell: Shell, settings: Mapping[str, object], *arguments: str) -> Done:
    """`rewake` on a machine whose administrator has set this."""
    directory = shell.root / "etc"
    directory.mkdir(exist_ok=True)
    (directory / "settings.json").write_text(json.dumps(settings))
    ended = subprocess.run(
        [sys.executable, "-c", MANAGED_MAIN, str(directory), *arguments],
        cwd=shell.project,
        env=shell.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    return Done(ended.returncode, ended.stdout, ended.stderr)


def test_an_administrators_model_and_mode_hold_also_when_a_session_is_resumed(
    shell: Shell,
) -> None:
    write = turn("", call("Write", file_path="made.txt", content="x"))
    model = shell.script(write, turn("Done."), write, turn("Done."))
    arguments = ["-p", "x", "--json", "--permission-mode", "acceptEdits", "--model", model]
    free = shell.run(*arguments)
    assert (shell.project / "made.txt").exists()
    (shell.project / "made.txt").unlink()
    other = shell.root / "managed.jsonl"
    other.write_text(f"{json.dumps(write)}\n" * 9)
    said = {"permissions": {"mode": "plan"}, "model": f"script:{other}", "max_steps": 2}
    resumed = managed(shell, said, "-p", "more", "--json", "-r", free.json["session_id"])
    assert resumed.code == 10, resumed.err
    assert resumed.json["model"] == f"script:{other}"
    assert not (shell.project / "made.txt").exists()
    refused = managed(shell, said, *arguments)
    assert (refused.code, "for everybody here" in refused.err) == (9, True)


def test_the_administrators_denials_hold_in_every_mode(shell: Shell) -> None:
    model = shell.script(turn("", call("Bash", command="touch made")), turn("Done."))
    done = managed(
        shell,
        {"permissions": {"deny": ["Bash"]}},
        *("-p", "x", "--permission-mode", "bypass", "--model", model, "--setting-sources", ""),
    )
    assert done.code == 0, done.err
    assert not (shell.project / "made").exists()


# --- the table, the types, the schema, the guide -------------------------------------------------


def row(key: Key) -> str:
    """The key's line in the guide."""
    trust = "yes" if key.needs_trust else ""
    if key.narrows:
        values = ", ".join(f"`{json.dumps(value).strip(chr(34))}`" for value in key.narrows)
        trust += f", but {values}"
    together = {"nearest": "", "together": "add up", "by_name": "add up by name"}[key.merge]
    return f"| `{key.name}` | {key.meaning} | {key.default} | {together} | {trust} |"


def test_the_guide_has_the_table_of_keys_as_it_is() -> None:
    guide = (Path(__file__).parents[2] / "docs/guide/settings.md").read_text()
    rows = [line for line in guide.splitlines() if re.match(r"\| `[a-z_.]+` \|", line)]
    assert rows == [row(key) for key in KEYS.values()]


def test_the_schema_describes_every_key_and_speaks_of_the_same_types() -> None:
    schema = json_schema()
    assert json.loads(json.dumps(schema)) == schema
    for key in KEYS.values():
        found = schema
        for name in key.path:
            reference = found.get("$ref") or found.get("anyOf", [{}])[0].get("$ref", "")
            if reference:
                found = schema["$defs"][reference.rpartition("/")[2]]
            found = found["properties"][name]
        assert key.meaning.replace("`", "") in found["description"]
        numbers = [
            one for one in found.get("anyOf", []) if one.get("type") in {"integer", "number"}
        ]
        assert all(("exclusiveMinimum" in one) == key.above_zero for one in numbers)


def test_a_file_may_name_its_schema_and_its_version(files: Files) -> None:
    files.user('{"$schema": "./schema.json", "settings_version": 1, "theme": "a"}')
    assert files.loaded().settings.theme == "a"


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("permissions.allow", ("permissions", "allow")),
        ('mcp_servers."a.b".command', ("mcp_servers", "a.b", "command")),
        ("hooks.Stop", ("hooks", "Stop")),
        ("permissions", ("permissions",)),
    ],
)
def test_a_key_is_typed_with_dots_and_quotes(typed: str, names: tuple[str, ...]) -> None:
    assert parse_key(typed) == names


@pytest.mark.parametrize(
    "typed", ["", ".", "a..b", '"', "nonsense", "theme.dark", "mcp_servers.x.y"]
)
def test_what_is_no_key_is_refused(typed: str) -> None:
    with pytest.raises(UsageError, match="There is no setting"):
        parse_key(typed)


@pytest.mark.parametrize(
    ("key", "words", "value"),
    [
        ("model", ["5"], "5"),
        ("max_steps", ["5"], 5),
        ("max_cost_usd", ["0.5"], 0.5),
        ("memory.enabled", ["true"], True),
        ("permissions.mode", ["plan"], "plan"),
        ("permissions.deny", ["Bash(rm -rf:*)", "Read"], ["Bash(rm -rf:*)", "Read"]),
        ("permissions.deny", ['["Bash"]'], ["Bash"]),
        ("mcp_servers.x", ['{"command": "y"}'], {"command": "y"}),
        ("max_steps", ["many"], "many"),
        ("max_cost_usd", ["NaN"], "NaN"),
    ],
)
def test_a_value_is_read_as_its_key_expects_it(key: str, words: list[str], value: object) -> None:
    assert value_of(parse_key(key), words) == value


def test_whatever_the_table_says_needs_no_value_is_not_set_without_files(tmp_path: Path) -> None:
    plain = msgspec.to_builtins(load(Files(tmp_path).places()).settings)
    assert {key.name for key in KEYS.values() if lookup(plain, key.path)} == set()


def test_an_error_names_every_fact_for_programs(files: Files) -> None:
    file = files.user('{\n  "max_steps": "many"\n}')
    with pytest.raises(SettingsError) as caught:
        files.loaded()
    error = caught.value
    assert (error.file, error.line, error.column) == (os.fspath(file), 2, 16)
    assert (error.key, error.expected, error.found) == ("max_steps", "a whole number", '"many"')


def test_a_program_reads_and_sets_them(files: Files) -> None:
    read = partial(rewake.load_settings, project=files.project, home=files.home)
    put = partial(rewake.set_setting, project=files.project, home=files.home)
    file = put("permissions.deny", ["Read(.env)"], source="local")
    assert file == files.project / ".rewake/settings.local.json"
    loaded = read(settings='{"theme": "x"}', sources="local")
    assert loaded.settings.permissions.deny == ("Read(.env)",)
    assert loaded.settings.theme == "x"
    put("permissions.deny", None, source="local")
    assert read().settings.permissions.deny == ()
    with pytest.raises(rewake.SettingsError, match="max_steps"):
        put("max_steps", "many")
    with pytest.raises(rewake.UsageError):
        put("nonsense", 1)
