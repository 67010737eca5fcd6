"""Changes of settings files: none lost, all or nothing, everything else kept."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.settings.conftest import Files

from rewake.errors import SettingsError, StorageError
from rewake.log.disk import Disk
from rewake.settings.edit import Edit
from rewake.settings.write import change

START = """
import sys
from pathlib import Path
from rewake.log.disk import Disk
from rewake.settings import Places
from rewake.settings.edit import Edit
from rewake.settings.write import change, migrate_file

places = Places(Path(sys.argv[1]), Path(sys.argv[2]))
print("ready", flush=True)
sys.stdin.readline()
"""
CHANGE = """
for number in range(10):
    change(places, "user", [Edit("add", ("permissions", "allow"), f"Tool{sys.argv[3]}x{number}")], Disk())
"""
MIGRATE = """
print(migrate_file(places, "user", Disk()) is not None)
"""


def at_once(files: Files, count: int, code: str) -> list[str]:
    """Run `code` in so many processes that begin at the same time; what each printed."""
    command = [sys.executable, "-c", START + code, str(files.home), str(files.project)]
    running = [
        subprocess.Popen(
            [*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for number in range(count)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    printed = [process.communicate()[0].strip() for process in running]
    assert [process.returncode for process in running] == [0] * count
    return printed


def test_ten_processes_lose_no_change_of_each_other(files: Files) -> None:
    files.user('{\n  // mine\n  "later": [1], "model": "a"\n}\n')
    at_once(files, 10, CHANGE)
    wanted = {f"Tool{number}x{step}" for number in range(10) for step in range(10)}
    assert set(files.load().permissions.allow) == wanted
    text = (files.home / "settings.json").read_text()
    assert "// mine" in text
    assert '"later": [1], "model": "a"' in text
    assert [path.name for path in files.home.iterdir()] == ["settings.json"]


def test_of_processes_that_migrate_at_once_one_does(files: Files) -> None:
    files.user('{"maxSteps": 3}')
    assert sorted(at_once(files, 5, MIGRATE)) == ["False"] * 4 + ["True"]
    assert files.load().max_steps == 3
    assert (files.home / "settings.json.v0.bak").read_text() == '{"maxSteps": 3}'


def test_a_link_is_written_where_it_leads_and_mode_and_owner_stay(files: Files) -> None:
    dotfiles = files.home.parent / "dotfiles"
    dotfiles.mkdir()
    real = dotfiles / "rewake.json"
    real.write_text('{"model": "a"}')
    real.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(real, 1234, 2345)
    before = real.stat()
    (files.home / "settings.json").symlink_to(real)
    change(files.places(), "user", [Edit("put", ("model",), "b")], Disk())
    assert (files.home / "settings.json").is_symlink()
    assert json.loads(real.read_text()) == {"model": "b"}
    after = real.stat()
    assert stat.S_IMODE(after.st_mode) == 0o640
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)


def test_a_link_out_of_the_project_that_came_with_it_is_not_written(files: Files) -> None:
    outside = files.home / "other.json"
    outside.write_text("{}")
    link = files.project / ".rewake/settings.local.json"
    link.symlink_to(outside)
    for arguments in (["init", "-q"], ["add", "-f", str(link)]):
        subprocess.run(["git", "-C", str(files.project), *arguments], check=True)
    with pytest.raises(SettingsError, match="leads out of it"):
        change(files.places(), "local", [Edit("put", ("model",), "b")], Disk())
    assert outside.read_text() == "{}"


def test_a_read_only_file_is_refused_also_for_root(files: Files) -> None:
    file = files.user('{"model": "a"}')
    file.chmod(0o400)
    with pytest.raises(StorageError, match="read-only"):
        change(files.places(), "user", [Edit("put", ("model",), "b")], Disk())
    assert json.loads(file.read_text()) == {"model": "a"}


@pytest.mark.parametrize("text", ["{", '{"model": "a", "model": "b"}', "[]", "\x00"])
def test_a_broken_file_is_refused_and_stays_as_it_is(files: Files, text: str) -> None:
    file = files.user(text)
    with pytest.raises(SettingsError, match=r"settings\.json:1:"):
        change(files.places(), "user", [Edit("put", ("model",), "b")], Disk())
    assert file.read_text() == text


def test_a_value_that_could_not_be_used_is_refused(files: Files) -> None:
    file = files.user('{"model": "a"}')
    with pytest.raises(SettingsError, match="max_steps"):
        change(files.places(), "user", [Edit("put", ("max_steps",), "many")], Disk())
    assert json.loads(file.read_text()) == {"model": "a"}


def test_a_file_of_a_newer_version_is_left_alone(files: Files) -> None:
    file = files.user('{"settings_version": 99, "model": "a"}')
    with pytest.raises(SettingsError, match="newer"):
        change(files.places(), "user", [Edit("put", ("model",), "b")], Disk())
    assert "99" in file.read_text()


def test_the_directory_is_made_and_the_teams_file_is_readable_by_the_team(tmp_path: Path) -> None:
    files = Files(tmp_path)
    (files.project / ".rewake").rmdir()
    written = change(files.places(), "project", [Edit("put", ("model",), "b")], Disk())
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(written.file.stat().st_mode) == 0o666 & ~mask
