from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.settings.conftest import Files

from rewake.errors import ExitCode, SettingsError
from rewake.settings import Settings, load_settings
from rewake.settings.keys import KEYS


def test_without_files_nothing_is_set(files: Files) -> None:
    assert files.load() == Settings()


def test_the_nearer_file_wins(files: Files) -> None:
    files.user('{"theme": "a", "verify_max": 1}')
    files.team('{"theme": "b"}')
    assert files.load().theme == "b"
    files.local('{"theme": "c"}')
    assert files.load().theme == "c"
    assert files.load().verify_max == 1


def test_the_command_line_wins_over_files_where_it_says_something(files: Files) -> None:
    files.local('{"model": "c", "max_steps": 5}')
    settings = files.load(model="d", max_steps=None)
    assert (settings.model, settings.max_steps) == ("d", 5)


def test_permission_lists_add_up_and_the_mode_is_overridden(files: Files) -> None:
    files.user('{"permissions": {"allow": ["Read"], "mode": "plan"}}')
    files.team('{"permissions": {"deny": ["Bash(rm:*)"]}}')
    files.local('{"permissions": {"allow": ["Edit", "Read"], "mode": "acceptEdits"}}')
    permissions = files.load().permissions
    assert permissions.allow == ("Read", "Edit")
    assert permissions.deny == ("Bash(rm:*)",)
    assert permissions.mode == "acceptEdits"


def test_unknown_keys_are_left_alone(files: Files) -> None:
    files.user('{"later": {"dark": true}, "permissions": {"later": 1}, "model": "a"}')
    assert files.load().model == "a"


@pytest.mark.parametrize("text", ["", "  \n", "\ufeff{}"])
def test_an_empty_file_or_a_byte_order_mark_is_no_error(files: Files, text: str) -> None:
    files.user(text)
    assert files.load() == Settings()


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"model": 7}', "model"),
        ('{"max_steps": "many"}', "max_steps"),
        ('{"max_steps": 0}', "max_steps"),
        ('{"max_cost_usd": -1}', "max_cost_usd"),
        ('{"permissions": []}', "permissions"),
        ('{"permissions": {"mode": "yolo"}}', "permissions.mode"),
        ('{"permissions": {"allow": "Read"}}', "permissions.allow"),
        ('{"permissions": {"allow": [1]}}', "permissions.allow"),
    ],
)
def test_an_error_names_the_file_and_the_key(files: Files, text: str, key: str) -> None:
    file = files.team(text)
    files.local('{"model": "fine"}')
    with pytest.raises(SettingsError) as caught:
        files.load()
    assert str(file) in caught.value.message
    assert key in caught.value.message
    assert caught.value.remedy
    assert caught.value.exit_code is ExitCode.SETTINGS


@pytest.mark.parametrize("text", ["{", "[]", "null", "{'a': 1}", "[" * 100_000])
def test_a_file_that_is_no_object_is_an_error_that_names_it(files: Files, text: str) -> None:
    file = files.user(text)
    with pytest.raises(SettingsError, match=str(file)):
        files.load()


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(files: Files) -> None:
    (files.home / "settings.json").mkdir()
    with pytest.raises(SettingsError, match=r"settings\.json"):
        files.load()


def test_importing_settings_stays_cheap() -> None:
    script = "import sys, rewake.settings; print(*sys.modules)"
    command = [sys.executable, "-c", script]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True)
    heavy = {"pydantic_ai", "rich", "typer", "asyncio", "anyio", "pathspec"}
    assert heavy.isdisjoint(loaded.stdout.split())


def test_a_file_that_comes_with_a_clone_cannot_switch_permissions_off(tmp_path: Path) -> None:
    shared = tmp_path / "project" / ".rewake" / "settings.json"
    shared.parent.mkdir(parents=True)
    (tmp_path / "project/.git").mkdir()
    shared.write_text('{"permissions": {"mode": "bypass"}}')
    with pytest.raises(SettingsError, match=r"settings\.json:1:26: permissions\.mode"):
        load_settings(tmp_path / "home", tmp_path / "project")
    shared.with_name("settings.local.json").write_text(shared.read_text())
    shared.unlink()
    settings = load_settings(tmp_path / "home", tmp_path / "project")
    assert settings.permissions.mode == "bypass"


def test_a_local_file_under_version_control_cannot_switch_permissions_off(tmp_path: Path) -> None:
    local = tmp_path / ".rewake" / "settings.local.json"
    local.parent.mkdir()
    local.write_text('{"permissions": {"mode": "bypass"}}')
    subprocess.run(["git", "-C", str(tmp_path), "init", "-q"], check=True)
    assert load_settings(tmp_path / "home", tmp_path).permissions.mode == "bypass"
    subprocess.run(["git", "-C", str(tmp_path), "add", "-f", str(local)], check=True)
    with pytest.raises(SettingsError, match="comes with the project"):
        load_settings(tmp_path / "home", tmp_path)


def leaves(kind: type[msgspec.Struct], prefix: str = "") -> list[str]:
    """Every key of the schema, dotted; a mapping is one key."""
    found: list[str] = []
    for field in msgspec.structs.fields(kind):
        inner = field.type
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            found += leaves(inner, f"{prefix}{field.encode_name}.")
        else:
            found.append(prefix + field.encode_name)
    return found


def test_every_key_has_its_line_in_the_table() -> None:
    assert list(KEYS) == leaves(Settings)


def test_what_could_run_something_send_something_or_cost_something_needs_trust() -> None:
    """What a user has bounded or switched off is among it: a clone can't undo that."""
    free = {key.name for key in KEYS.values() if not key.needs_trust}
    assert free == {"permissions.deny", "theme"}
