"""Disks that are full, fail or may not be written; processes killed in the middle; old and new versions."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.conftest import shell
from tests.cli.shell import Shell, turn
from tests.log.conftest import FaultyDisk
from tests.settings.conftest import Files

from rewake.compose.settings import answer, bring_up_to_date
from rewake.errors import LockUnsupportedError, SettingsError, StorageError
from rewake.log.disk import Disk
from rewake.settings.edit import Edit
from rewake.settings.migrations import (
    CURRENT,
    STEPS,
    Converted,
    Dropped,
    Moved,
    Split,
    Step,
    migrate,
)
from rewake.settings.write import change, migrate_file

__all__ = ["shell"]

OLD = '{\n  // mine\n  "model": "a",\n  "later": [1, 2]\n}\n'
PUT = [Edit("put", ("model",), "b")]
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mount") is None, reason="mounting needs root"
)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


# --- the disk ----------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["write", "sync", "rename"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_disk_that_fails_changes_nothing_and_says_so(
    files: Files, operation: str, number: int
) -> None:
    file = files.user(OLD)
    disk = FaultyDisk()
    disk.fail(operation, number)
    with pytest.raises(StorageError, match="The settings are as they were") as caught:
        change(files.places(), "user", PUT, disk)
    assert str(file) in caught.value.message
    assert file.read_text() == OLD
    assert names(files.home) == ["settings.json"]
    change(files.places(), "user", PUT, disk)
    assert file.read_text() == OLD.replace('"a"', '"b"')


def test_a_directory_that_can_not_be_synced_is_told_as_what_it_is(files: Files) -> None:
    files.user(OLD)
    disk = FaultyDisk()
    disk.fail("sync_directory")
    with pytest.raises(StorageError, match="a power loss may take that back"):
        change(files.places(), "user", PUT, disk)


@contextmanager
def mounted(directory: Path, *options: str) -> Iterator[None]:
    subprocess.run(["mount", *options, str(directory)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)


@needs_root
def test_a_full_disk_changes_nothing_and_everything_is_read(files: Files) -> None:
    with mounted(files.home, "-t", "tmpfs", "-o", "size=64k", "none"):
        file = files.user('{"model": "a"}')
        rest = files.home / "rest"
        with pytest.raises(OSError, match="No space"):
            rest.write_bytes(bytes(1 << 20))
        grow = [Edit("put", ("permissions", "allow"), ["Read" * 100] * 50)]
        with pytest.raises(StorageError, match="The settings are as they were"):
            change(files.places(), "user", grow, Disk())
        assert file.read_text() == '{"model": "a"}'
        assert names(files.home) == ["rest", "settings.json"]
        assert files.loaded().settings.model == "a"
        rest.unlink()
        change(files.places(), "user", PUT, Disk())
        assert files.loaded().settings.model == "b"


@needs_root
def test_a_read_only_home_is_read_and_told(files: Files) -> None:
    files.user('{"maxSteps": 4}')
    files.team('{"verify": "make"}')
    with mounted(files.home, "--bind", str(files.home)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(files.home)], check=True)
        loaded = files.loaded()
        assert loaded.settings.max_steps == 4
        (told, *_) = bring_up_to_date(files.at, loaded)
        assert "uses old names (maxSteps is max_steps now) and stays so" in told
        with pytest.raises(StorageError):
            change(files.places(), "user", PUT, Disk())
        with pytest.raises(StorageError):
            answer(files.at, loaded, trusted=True)
        assert files.loaded().settings.verify is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_directory_that_may_not_be_written_is_told(files: Files) -> None:
    file = files.user(OLD)
    files.home.chmod(0o500)
    try:
        with pytest.raises(StorageError, match="The settings are as they were"):
            change(files.places(), "user", PUT, Disk())
    finally:
        files.home.chmod(0o700)
    assert file.read_text() == OLD


def test_a_file_that_may_not_be_read_is_an_error_with_a_place(files: Files) -> None:
    file = files.user(OLD)
    file.chmod(0)
    if os.access(file, os.R_OK):
        pytest.skip("root reads anything")
    with pytest.raises(SettingsError, match=r"settings\.json:1:1: the settings file can't be read"):
        files.loaded()


def test_a_file_system_without_locks_is_refused(files: Files) -> None:
    file = files.user(OLD)

    class NoLocks(Disk):
        def lock(self, descriptor: int, operation: int) -> None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    with pytest.raises(LockUnsupportedError, match="can't lock"):
        change(files.places(), "user", PUT, NoLocks())
    assert file.read_text() == OLD


def test_the_limit_of_file_sizes_is_told(shell: Shell) -> None:
    shell.run("config", "set", "model", "a")
    before = (shell.home / "settings.json").read_bytes()
    many = [f"Tool{number}" for number in range(500)]
    done = shell.run("config", "set", "permissions.allow", *many, file_kib_max=1)
    assert (done.code, "as they were" in done.err) == (5, True), done.err
    assert (shell.home / "settings.json").read_bytes() == before


# --- killed --------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["before_rename:1", "after_rename:1"])
def test_killed_in_a_change_it_is_made_or_not_and_the_next_one_tidies_up(
    shell: Shell, point: str
) -> None:
    shell.run("config", "set", "model", "a")
    shell.killed_at(point, "config", "set", "model", "b")
    wanted = "a" if point.startswith("before") else "b"
    assert shell.run("config", "get", "model").out == f"{wanted}\n"
    assert shell.run("config", "set", "max_steps", "3").code == 0
    assert names(shell.home) == ["settings.json"]
    assert shell.run("config", "get", "model").out == f"{wanted}\n"


@pytest.mark.parametrize("point", ["before_rename", "after_rename"])
@pytest.mark.parametrize("number", [1, 2])
def test_killed_in_a_migration_it_goes_on_the_next_time(
    shell: Shell, point: str, number: int
) -> None:
    shell.home.mkdir()
    file = shell.home / "settings.json"
    file.write_text('{"maxSteps": 3}')
    shell.killed_at(f"{point}:{number}", "config", "migrate")
    assert shell.run("config", "get", "max_steps").out == "3\n"
    assert shell.run("config", "migrate").code == 0
    assert json.loads(file.read_text()) == {"max_steps": 3, "settings_version": 1}
    assert (shell.home / "settings.json.v0.bak").read_text() == '{"maxSteps": 3}'
    assert shell.run("config", "set", "theme", "x").code == 0
    assert names(shell.home) == ["settings.json", "settings.json.v0.bak"]


@pytest.mark.parametrize("point", ["before_rename:1", "after_rename:1"])
def test_killed_while_an_answer_is_kept_nothing_is_trusted_by_halves(
    shell: Shell, point: str
) -> None:
    (shell.project / ".rewake").mkdir()
    (shell.project / ".rewake/settings.json").write_text('{"verify": "make"}')
    shell.killed_at(point, "config", "trust", "--yes")
    wanted = None if point.startswith("before") else True
    assert shell.run("config", "trust", "--show", "--json").json["trusted"] is wanted
    assert shell.run("config", "trust", "--yes").code == 0
    assert shell.run("config", "get", "verify").out == "make\n"
    assert names(shell.home) == ["trusted.json"]


# --- versions ------------------------------------------------------------------------------------

Sample = tuple[dict[str, object], dict[str, object]]
RELEASED: dict[int, list[Sample]] = {
    0: [
        (
            {
                "maxSteps": 3,
                "mcpServers": {"a": {"command": "x"}},
                "permissions": {
                    "defaultMode": "bypassPermissions",
                    "additionalDirectories": ["/srv"],
                    "allow": ["Read"],
                },
                "cleanupPeriodDays": 30,
                "other": {"kept": True},
            },
            {
                "max_steps": 3,
                "mcp_servers": {"a": {"command": "x"}},
                "permissions": {
                    "mode": "bypass",
                    "additional_directories": ["/srv"],
                    "allow": ["Read"],
                },
                "retention": {"age_days_max": 30},
                "other": {"kept": True},
                "settings_version": 1,
            },
        ),
        ({"model": "a", "max_steps": 2}, {"model": "a", "max_steps": 2}),
        ({"maxSteps": 3, "max_steps": 4}, {"maxSteps": 3, "max_steps": 4}),
    ],
    1: [({"max_steps": 3, "settings_version": 1}, {"max_steps": 3, "settings_version": 1})],
}
"""By version: a file as it was then, and what it is now. No released one ever goes away here."""


def test_there_is_a_file_of_every_version_ever_released() -> None:
    assert sorted(RELEASED) == list(range(CURRENT + 1))


@pytest.mark.parametrize("version", sorted(RELEASED))
def test_from_every_version_it_walks_to_the_newest_and_stays_there(
    files: Files, version: int
) -> None:
    for number, (before, after) in enumerate(RELEASED[version]):
        text = json.dumps(before)
        file = files.user(text)
        for _ in range(2):
            migrate_file(files.places(), "user", Disk())
            assert json.loads(file.read_text()) == after, number
        backup = files.home / f"settings.json.v{version}.bak"
        assert backup.exists() == (before != after)
        if backup.exists():
            assert backup.read_text() == text
            backup.unlink()


def divide(value: object) -> dict[tuple[str, ...], object] | None:
    if not isinstance(value, str) or ":" not in value:
        return None
    left, _, right = value.partition(":")
    return {("one",): left, ("group", "two"): right}


LATER = (
    *STEPS,
    Step(
        2,
        (
            Moved(("max_steps",), ("limits", "steps")),
            Converted(
                ("limits", "steps"), lambda value: [value] if isinstance(value, int) else value
            ),
        ),
    ),
    Step(3, (Split(("model",), divide), Dropped(("theme",), "colours follow the terminal"))),
)


@pytest.mark.parametrize(
    "before",
    [
        {"maxSteps": 3, "model": "x:y", "theme": "red"},
        {"max_steps": 3, "settings_version": 1, "model": "x:y", "theme": "red"},
        {"limits": {"steps": [3]}, "settings_version": 2, "model": "x:y", "theme": "red"},
        {"limits": {"steps": [3]}, "settings_version": 3, "one": "x", "group": {"two": "y"}},
    ],
    ids=["0", "1", "2", "3"],
)
def test_steps_of_every_kind_are_walked_from_every_version_and_twice(
    before: dict[str, object],
) -> None:
    data = json.loads(json.dumps(before))
    for _ in range(2):
        migrate(data, steps=LATER)
        assert data == {
            "limits": {"steps": [3]},
            "one": "x",
            "group": {"two": "y"},
            "settings_version": 3,
        }
    assert migrate(data, steps=LATER) == ()


def test_what_can_not_be_divided_or_has_a_successor_already_stays() -> None:
    data = {"model": "plain", "limits": {"steps": [1]}, "max_steps": 9, "settings_version": 1}
    before = json.loads(json.dumps(data))
    assert migrate(data, steps=LATER) == ()
    assert data == before
    data = {"model": "x:y", "one": "taken", "settings_version": 2}
    assert migrate(data, steps=LATER) == ()
    assert data == {"model": "x:y", "one": "taken", "settings_version": 2}


def test_a_dropped_key_says_why() -> None:
    data: dict[str, object] = {"theme": "red", "settings_version": 2}
    assert migrate(data, steps=LATER) == ("theme was dropped: colours follow the terminal",)


def test_errors_under_an_old_name_are_told_where_that_stands(files: Files) -> None:
    files.user('{\n  "permissions": {\n    "defaultMode": "yolo"}}')
    with pytest.raises(SettingsError, match=r"settings\.json:3:20: permissions\.mode"):
        files.loaded()


def test_the_first_backup_of_a_version_is_never_overwritten(files: Files) -> None:
    file = files.user('{"maxSteps": 3}')
    file.chmod(0o640)
    migrate_file(files.places(), "user", Disk())
    backup = files.home / "settings.json.v0.bak"
    assert stat.S_IMODE(backup.stat().st_mode) == 0o640
    files.user('{"maxSteps": 4}')
    migrate_file(files.places(), "user", Disk())
    assert backup.read_text() == '{"maxSteps": 3}'
    assert files.loaded().settings.max_steps == 4


def test_a_migration_of_toml_keeps_comments(files: Files) -> None:
    file = files.user('# mine\nmaxSteps = 3\n[mcpServers.a]\ncommand = "x"\n', ".toml")
    migrate_file(files.places(), "user", Disk())
    assert "# mine" in file.read_text()
    assert files.loaded().settings.max_steps == 3
    assert files.loaded().settings.mcp_servers["a"].command == "x"
    assert files.loaded().sources[0].changes == ()


def test_a_full_disk_during_a_migration_loses_nothing(files: Files) -> None:
    file = files.user('{"maxSteps": 3}')
    for operation in ("write", "sync", "rename"):
        disk = FaultyDisk()
        disk.fail(operation, errno.ENOSPC)
        with pytest.raises(StorageError):
            migrate_file(files.places(), "user", disk)
        assert file.read_text() == '{"maxSteps": 3}'
        assert files.loaded().settings.max_steps == 3


NEWER = {
    "settings_version": 99,
    "model": "a",
    "max_steps": {"soft": 3},
    "later": {"x": 1},
}


def test_a_file_of_a_newer_version_is_read_as_far_as_it_is_understood(files: Files) -> None:
    text = json.dumps(NEWER)
    file = files.user(text)
    loaded = files.loaded()
    assert (loaded.settings.model, loaded.settings.max_steps) == ("a", None)
    assert not loaded.is_guarded
    (told,) = loaded.notices()
    assert "newer Rewake (settings_version 99)" in told
    assert "max_steps" in told
    assert migrate_file(files.places(), "user", Disk()) is None
    assert file.read_text() == text


def test_rules_of_a_newer_version_that_are_not_understood_mean_that_everything_is_asked(
    files: Files,
) -> None:
    files.user(
        json.dumps({**NEWER, "permissions": {"deny": [{"tool": "Bash"}], "allow": ["Read"]}})
    )
    files.local('{"permissions": {"allow": ["Edit"], "mode": "acceptEdits"}}')
    loaded = files.loaded()
    assert loaded.is_guarded
    assert loaded.settings.permissions.allow == ()
    assert loaded.settings.permissions.mode == "default"


# --- a broken source beside good ones ------------------------------------------------------------


def test_a_broken_file_may_be_left_out_but_never_widens_anything(files: Files) -> None:
    files.user('{"permissions": {"deny": ["Bash"]')
    files.local(
        json.dumps(
            {
                "model": "kept",
                "permissions": {
                    "allow": ["Bash"],
                    "deny": ["Read(.env)"],
                    "mode": "bypass",
                    "additional_directories": ["/"],
                },
                "mcp_servers": {"a": {"command": "x"}},
                "redact_transcript": False,
            }
        )
    )
    with pytest.raises(SettingsError):
        files.loaded()
    loaded = files.loaded(may_leave_out=True, flags={"permissions": {"mode": "bypass"}})
    permissions = loaded.settings.permissions
    assert (permissions.allow, permissions.additional_directories) == ((), ())
    assert (permissions.mode, permissions.deny) == ("default", ("Read(.env)",))
    assert loaded.settings.mcp_servers == {}
    assert loaded.settings.redact_transcript is True
    assert loaded.settings.model == "kept"
    assert len(list(loaded.notices())) == 2


def test_a_mode_that_only_looks_stays_with_a_broken_file(files: Files) -> None:
    files.user("{")
    files.local('{"permissions": {"mode": "plan"}}')
    assert files.loaded(may_leave_out=True).settings.permissions.mode == "plan"


@pytest.mark.parametrize("text", ["{", '{"model": 5}', '{"permissions": {"mode": "yolo"}}'])
def test_a_broken_administrators_file_is_never_left_out(files: Files, text: str) -> None:
    files.managed(text)
    with pytest.raises(SettingsError, match="etc/settings"):
        files.loaded(may_leave_out=True)


def test_bytes_that_are_no_text_end_a_run_before_it_begins(shell: Shell) -> None:
    (shell.home).mkdir()
    (shell.home / "settings.json").write_bytes(b"\xff\xfe")
    done = shell.run("-p", "x", "--model", shell.script(turn("Done.")))
    assert done.code == 9
    assert "settings.json:1:1: a byte that isn't UTF-8" in done.err


def test_a_rule_of_a_kind_that_only_a_newer_version_has_means_that_everything_is_asked(
    files: Files,
) -> None:
    files.user(
        '{"settings_version": 99, "permissions": {"allow": ["Bash"], "forbid": ["Bash(rm:*)"]}}'
    )
    loaded = files.loaded()
    assert loaded.is_guarded
    assert loaded.settings.permissions.allow == ()


def test_a_kind_of_rule_that_is_not_known_is_told_at_each_start(files: Files) -> None:
    """Other agents have `ask`; who relies on it must hear that it does nothing here."""
    file = files.user('{"permissions": {\n"ask": ["Bash(git push:*)"], "denny": []}}')
    told = list(files.loaded().notices())
    assert [one.partition(" is no key")[0] for one in told] == [
        f"{file}:2: permissions.ask",
        f"{file}:2: permissions.denny",
    ]


@pytest.mark.parametrize("key", ["memory.recall_notes_max", "agents.depth_max"])
def test_a_number_below_zero_is_an_error_and_zero_is_none(files: Files, key: str) -> None:
    group, name = key.split(".")
    files.user(json.dumps({group: {name: -1}}))
    with pytest.raises(SettingsError, match="expected 0 or a number above it, found -1"):
        files.loaded()
    files.user(json.dumps({group: {name: 0}}))
    assert getattr(getattr(files.loaded().settings, group), name) == 0
