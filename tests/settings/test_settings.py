from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rewake.errors import ExitCode, SettingsError
from rewake.settings import Settings, load_settings


class Places:
    """The two directories that settings come from."""

    def __init__(self, root: Path) -> None:
        self.home, self.project = root / "home", root / "project"
        self.home.mkdir()
        (self.project / ".rewake").mkdir(parents=True)

    def user(self, text: str) -> Path:
        return self._write(self.home / "settings.json", text)

    def team(self, text: str) -> Path:
        return self._write(self.project / ".rewake/settings.json", text)

    def local(self, text: str) -> Path:
        return self._write(self.project / ".rewake/settings.local.json", text)

    def load(self, **overrides: object) -> Settings:
        return load_settings(self.home, self.project, overrides)

    @staticmethod
    def _write(path: Path, text: str) -> Path:
        path.write_text(text)
        return path


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def test_without_files_nothing_is_set(places: Places) -> None:
    assert places.load() == Settings()


def test_the_nearer_file_wins(places: Places) -> None:
    places.user('{"model": "a", "max_steps": 1}')
    places.team('{"model": "b"}')
    assert places.load().model == "b"
    places.local('{"model": "c"}')
    assert places.load().model == "c"
    assert places.load().max_steps == 1


def test_the_command_line_wins_over_files_where_it_says_something(places: Places) -> None:
    places.local('{"model": "c", "max_steps": 5}')
    settings = places.load(model="d", max_steps=None)
    assert (settings.model, settings.max_steps) == ("d", 5)


def test_permission_lists_add_up_and_the_mode_is_overridden(places: Places) -> None:
    places.user('{"permissions": {"allow": ["Read"], "mode": "plan"}}')
    places.team('{"permissions": {"allow": ["Edit", "Read"], "deny": ["Bash(rm:*)"]}}')
    places.local('{"permissions": {"mode": "acceptEdits"}}')
    permissions = places.load().permissions
    assert permissions.allow == ("Read", "Edit")
    assert permissions.deny == ("Bash(rm:*)",)
    assert permissions.mode == "acceptEdits"


def test_unknown_keys_are_left_alone(places: Places) -> None:
    places.user('{"later": {"dark": true}, "permissions": {"later": 1}, "model": "a"}')
    assert places.load().model == "a"


@pytest.mark.parametrize("text", ["", "  \n", "\ufeff{}"])
def test_an_empty_file_or_a_byte_order_mark_is_no_error(places: Places, text: str) -> None:
    places.user(text)
    assert places.load() == Settings()


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
def test_an_error_names_the_file_and_the_key(places: Places, text: str, key: str) -> None:
    file = places.team(text)
    places.local('{"model": "fine"}')
    with pytest.raises(SettingsError) as caught:
        places.load()
    assert str(file) in caught.value.message
    assert key in caught.value.message
    assert caught.value.remedy
    assert caught.value.exit_code is ExitCode.SETTINGS


@pytest.mark.parametrize("text", ["{", "[]", "null", "{'a': 1}", "[" * 100_000])
def test_a_file_that_is_no_object_is_an_error_that_names_it(places: Places, text: str) -> None:
    file = places.user(text)
    with pytest.raises(SettingsError, match=str(file)):
        places.load()


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(places: Places) -> None:
    (places.home / "settings.json").mkdir()
    with pytest.raises(SettingsError, match=r"settings\.json"):
        places.load()


def test_importing_settings_stays_cheap() -> None:
    script = "import sys, rewake.settings; print(*sys.modules)"
    command = [sys.executable, "-c", script]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True)
    heavy = {"pydantic_ai", "rich", "typer", "asyncio", "anyio", "pathspec"}
    assert heavy.isdisjoint(loaded.stdout.split())


def test_a_file_that_comes_with_a_clone_cannot_switch_permissions_off(tmp_path: Path) -> None:
    shared = tmp_path / "project" / ".rewake" / "settings.json"
    shared.parent.mkdir(parents=True)
    shared.write_text('{"permissions": {"mode": "bypass"}}')
    with pytest.raises(SettingsError, match=r"settings\.json, permissions\.mode"):
        load_settings(tmp_path / "home", tmp_path / "project")
    shared.with_name("settings.local.json").write_text(shared.read_text())
    shared.unlink()
    settings = load_settings(tmp_path / "home", tmp_path / "project")
    assert settings.permissions.mode == "bypass"


def test_a_local_file_under_version_control_cannot_switch_permissions_off(tmp_path: Path) -> None:
    local = tmp_path / ".rewake" / "settings.local.json"
    local.parent.mkdir()
    local.write_text('{"permissions": {"mode": "bypass"}}')
    assert load_settings(tmp_path / "home", tmp_path).permissions.mode == "bypass"
    for arguments in (["init", "-q"], ["add", "-f", str(local)]):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    with pytest.raises(SettingsError, match="comes with the project"):
        load_settings(tmp_path / "home", tmp_path)
