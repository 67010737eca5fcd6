"""What comes with a project counts only as far as the user trusts it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.settings.conftest import Files

from rewake.compose.settings import answer, change_settings, keep_rule
from rewake.errors import SettingsError
from rewake.settings.edit import Edit

WIDE = {
    "permissions": {"allow": ["Bash(make:*)"], "additional_directories": ["/srv"]},
    "hooks": {"PreToolUse": [{"hooks": [{"command": "./hook"}]}]},
    "mcp_servers": {"one": {"command": "server"}},
    "verify": "make test",
    "max_cost_usd": 1000,
    "instructions": {"import_directories": ["/etc"]},
    "redact_transcript": False,
}


def track(project: Path, *names: str) -> None:
    for arguments in (["init", "-q"], ["add", "-f", *names]):
        subprocess.run(["git", "-C", str(project), *arguments], check=True)


def test_what_widens_does_not_count_until_it_is_trusted_and_what_forbids_always_does(
    files: Files,
) -> None:
    wide = WIDE | {"permissions": {**WIDE["permissions"], "deny": ["Read(.env)"]}}  # type: ignore[dict-item]
    files.team(json.dumps(wide))
    loaded = files.loaded()
    settings = loaded.settings
    assert settings.permissions.allow == ()
    assert settings.permissions.additional_directories == ()
    assert settings.permissions.deny == ("Read(.env)",)
    assert (settings.hooks, settings.mcp_servers, settings.verify) == ({}, {}, None)
    assert (settings.max_cost_usd, settings.redact_transcript) == (None, None)
    assert settings.instructions.import_directories == ()
    assert {item.key for item in loaded.untrusted} == {
        "permissions.allow",
        "permissions.additional_directories",
        "hooks",
        "mcp_servers",
        "verify",
        "max_cost_usd",
        "instructions.import_directories",
        "redact_transcript",
    }
    answer(files.at, loaded, trusted=True)
    trusted = files.loaded()
    assert trusted.untrusted == ()
    assert trusted.settings.verify == "make test"
    assert trusted.settings.permissions.allow == ("Bash(make:*)",)


def test_what_the_user_switched_off_or_bounded_a_clone_can_not_change(files: Files) -> None:
    """Notes go into prompts, a trace holds what was said, and each compaction is a paid request."""
    files.user('{"memory": {"enabled": false, "recall": false}, "trace": {"enabled": false}}')
    wide = {
        "memory": {"enabled": True, "recall": True, "recall_time_ms_max": 10**9},
        "trace": {"enabled": True, "file_bytes_max": 10**15, "files_max": 10**6},
        "compact_at_tokens": 1,
        "verify_max": 10**6,
        "mcp_wait_s": 10**6,
    }
    files.team(json.dumps(wide))
    settings = files.loaded().settings
    assert (settings.memory.enabled, settings.memory.recall) == (False, False)
    assert settings.memory.recall_time_ms_max is None
    assert (settings.trace.enabled, settings.trace.file_bytes_max) == (False, None)
    assert settings.trace.files_max is None
    assert (settings.compact_at_tokens, settings.verify_max) == (None, None)
    assert settings.mcp_wait_s is None


def test_a_project_may_switch_memory_and_trace_off(files: Files) -> None:
    files.team('{"memory": {"enabled": false}, "trace": {"enabled": false}}')
    loaded = files.loaded()
    assert (loaded.settings.memory.enabled, loaded.settings.trace.enabled) == (False, False)
    assert loaded.untrusted == ()


def test_another_content_is_another_question_and_the_old_one_stays_answered(files: Files) -> None:
    files.team('{"verify": "make"}')
    answer(files.at, files.loaded(), trusted=True)
    files.team('{"verify": "make evil"}')
    assert files.loaded().settings.verify is None
    assert files.loaded().answer is None
    files.team('{  "verify": "make", "theme": "other"}')  # nothing new that would need trust
    assert files.loaded().settings.verify == "make"


def test_a_no_is_kept_too(files: Files) -> None:
    files.team('{"verify": "make"}')
    answer(files.at, files.loaded(), trusted=False)
    assert files.loaded().answer is False
    assert files.loaded().settings.verify is None


@pytest.mark.parametrize(("mode", "counts"), [("plan", "plan"), ("acceptEdits", None)])
def test_a_mode_from_the_project_counts_only_where_it_narrows(
    files: Files, mode: str, counts: str | None
) -> None:
    files.team(json.dumps({"permissions": {"mode": mode}}))
    assert files.loaded().settings.permissions.mode == counts


def test_a_trusted_project_cannot_switch_permissions_off_either(files: Files) -> None:
    files.team('{"permissions": {"mode": "bypass"}}')
    with pytest.raises(SettingsError, match="comes with the project"):
        files.loaded()


def test_the_projects_file_is_not_made_unusable_by_setting_bypass_in_it(files: Files) -> None:
    edit = Edit("put", ("permissions", "mode"), "bypass")
    with pytest.raises(SettingsError, match=r"^permissions\.mode can't be used: .* comes with the"):
        change_settings(files.at, "project", [edit])
    assert not (files.project / ".rewake" / "settings.json").exists()
    files.team('{"permissions": {"mode": "bypass"}, "verify": "make"}')
    change_settings(files.at, "project", [Edit("remove", ("verify",))])  # the way out of it
    change_settings(files.at, "project", [Edit("put", ("permissions", "mode"), "plan")])
    assert files.loaded().settings.permissions.mode == "plan"


def test_a_local_file_stays_the_users_own_beside_shared_settings_that_are_committed(
    files: Files,
) -> None:
    """A commit leaves the names of directories in git's index, too."""
    files.team('{"theme": "dark"}')
    files.local(json.dumps(WIDE))
    track(files.project, ".rewake/settings.json")
    git = ["git", "-C", str(files.project), "-c", "user.name=x", "-c", "user.email=x@y.z"]
    subprocess.run([*git, "commit", "-qm", "settings"], check=True)
    assert b".rewake\0" in (files.project / ".git" / "index").read_bytes()
    assert files.loaded().untrusted == ()
    assert files.loaded().settings.verify == "make test"


def test_the_users_own_local_file_needs_no_trust(files: Files) -> None:
    files.local(json.dumps(WIDE))
    assert files.loaded().settings.verify == "make test"
    assert files.loaded().untrusted == ()


def test_a_local_file_out_of_an_archive_is_nobodys_own(files: Files) -> None:
    """Where there is no repository nobody can tell who put it there; a download brings all that was tracked."""
    (files.project / ".git").rmdir()
    files.local(json.dumps(WIDE | {"permissions": {"mode": "bypass"}}))
    loaded = files.loaded()
    assert (loaded.settings.verify, loaded.settings.hooks) == (None, {})
    assert loaded.settings.permissions.mode is None
    answer(files.at, loaded, trusted=True)
    assert files.loaded().settings.verify == "make test"
    assert files.loaded().settings.permissions.mode == "bypass"


def test_what_the_user_sets_without_a_repository_counts_at_once(files: Files) -> None:
    (files.project / ".git").rmdir()
    keep_rule(files.at, "Bash(make:*)")
    keep_rule(files.at, "Edit")
    assert files.loaded().settings.permissions.allow == ("Bash(make:*)", "Edit")


def test_a_local_file_that_came_with_the_project_does(files: Files) -> None:
    local = files.local(json.dumps(WIDE))
    track(files.project, str(local))
    assert files.loaded().settings.verify is None


@pytest.mark.parametrize("version", ["2", "4"])
def test_a_link_on_the_way_to_the_local_file_came_with_the_project_too(
    files: Files, version: str
) -> None:
    (files.project / ".rewake").rmdir()
    (files.project / "conf").mkdir()
    (files.project / "conf/settings.local.json").write_text(json.dumps(WIDE))
    (files.project / ".rewake").symlink_to("conf")
    subprocess.run(["git", "-C", str(files.project), "init", "-q"], check=True)
    subprocess.run(
        ["git", "-C", str(files.project), "config", "index.version", version], check=True
    )
    track(files.project, ".")
    assert files.loaded().settings.verify is None


def test_a_damaged_file_of_answers_means_no_trust(files: Files) -> None:
    files.team('{"verify": "make"}')
    answer(files.at, files.loaded(), trusted=True)
    (files.home / "trusted.json").write_bytes(b"{")
    assert files.loaded().settings.verify is None


def test_an_own_change_of_a_trusted_project_asks_nothing_new(files: Files) -> None:
    change_settings(files.at, "project", [Edit("put", ("verify",), "make")])
    assert files.loaded().settings.verify == "make"
    files.team('{"verify": "from elsewhere"}')
    change_settings(files.at, "project", [Edit("put", ("max_steps",), 9)])
    assert files.loaded().settings.max_steps is None


def test_always_is_kept_in_the_local_file_which_git_does_not_see(files: Files) -> None:
    subprocess.run(["git", "-C", str(files.project), "init", "-q"], check=True)
    file = keep_rule(files.at, "Bash(make:*)")
    keep_rule(files.at, "Bash(make:*)")
    assert json.loads(file.read_text()) == {"permissions": {"allow": ["Bash(make:*)"]}}
    assert files.loaded().settings.permissions.allow == ("Bash(make:*)",)
    status = subprocess.run(
        ["git", "-C", str(files.project), "status", "--porcelain"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert status.stdout == ""
