"""The commands as a user types them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.shell import Shell, call, turn

KEY = "gh" + "p_" + "0123456789abcdefghijABCDEFGHIJ012345"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    opened = Shell(tmp_path.resolve())
    yield opened
    opened.close()


def session(shell: Shell, prompt: str = "Write a.py") -> str:
    model = shell.script(
        turn("I write.", call("Write", file_path="a.py", content="x\n")), turn("ok")
    )
    done = shell.run("-p", prompt, "--json", "-m", model, "--permission-mode", "bypass")
    return str(done.json["session_id"])


def test_export_import_resume(shell: Shell) -> None:
    session_id = session(shell, f"use {KEY}")
    done = shell.run("export", session_id[:13], "-o", "s.zst")
    assert done.code == 0
    assert "Exported" in done.out
    assert "GitHub Token" in done.err
    again = shell.run("import", "s.zst")
    assert again.code == 2  # redacted, so it isn't what is here
    assert "--as" in again.err
    moved = {"REWAKE_HOME": str(shell.root / "other")}
    other = shell.root / "elsewhere"
    other.mkdir()
    done = shell.run("import", str(shell.project / "s.zst"), "--cwd", str(other), env=moved)
    assert done.code == 0, done.err
    assert f"recorded in {shell.project}" in done.out
    assert f"rewake --resume {session_id}" in done.out
    resumed = shell.run(
        "-p",
        "more",
        "--resume",
        session_id,
        "--json",
        "-m",
        shell.script(turn("yes")),
        env=moved,
        cwd=other,
    )
    assert resumed.json["resumed"] is True
    assert resumed.json["project"] == str(other)
    assert shell.run("check", session_id, "--deep", env=moved, cwd=other).code == 0
    assert "[redacted: GitHub Token]" in shell.run("show", session_id, env=moved, cwd=other).out


def test_export_as_text_goes_to_stdout(shell: Shell) -> None:
    session(shell)
    done = shell.run("export", "newest", "--format", "markdown")
    assert done.out.startswith("# Write a.py\n")
    assert "No secret was found" in done.err
    assert json.loads(shell.run("export", "newest", "--format", "atif").out)["steps"]
    assert shell.run("export", "newest", "-o", "-").code == 2
    assert shell.run("export", "newest", "--json").json["members"] > 3


def test_an_exact_copy_says_so_and_is_no_work_to_import(shell: Shell) -> None:
    session(shell)
    assert "Nothing was redacted" in shell.run("export", "newest", "--no-redact", "-o", "s").err
    done = shell.run("import", "s")
    assert done.code == 0
    assert "here already" in done.out


def test_a_hostile_archive_ends_with_the_status_of_damage(shell: Shell) -> None:
    (shell.project / "x").write_bytes(b"no archive")
    done = shell.run("import", "x", "--json")
    assert done.code == 6
    assert done.json["error"]["type"] == "ArchiveError"


def test_delete_list_restore(shell: Shell) -> None:
    first, second = session(shell, "first"), session(shell, "second")
    done = shell.run("delete", first, second)
    assert done.code == 0, done.err
    assert done.out.count("rewake trash restore") == 2
    listed = shell.run("trash").out
    assert first in listed
    assert "second" in listed
    assert "No sessions" in shell.run("sessions").out
    assert shell.run("trash", "restore", first).code == 0
    assert first[:13] in shell.run("sessions").out
    assert shell.run("trash", "restore", first).code == 4
    assert shell.run("trash", "nonsense").code == 2
    assert shell.run("trash", "restore").code == 2


def test_a_wrong_name_deletes_nothing(shell: Shell) -> None:
    session_id = session(shell)
    assert shell.run("delete", session_id, "nonsense").code == 4
    assert session_id[:13] in shell.run("sessions").out


def test_nothing_goes_without_a_yes(shell: Shell) -> None:
    session_id = session(shell)
    shell.run("delete", session_id)
    done = shell.run("trash", "empty")
    assert done.code == 2
    assert "--yes" in done.err
    assert session_id in done.out
    assert shell.run("trash", "empty", "--older-than", "1d", "--yes").out.startswith(
        "There is nothing"
    )
    assert shell.run("trash", "empty", "--yes").code == 0
    looked = shell.run("gc", "--dry-run")
    assert "1 blobs without a name" in looked.out
    assert "Nothing was removed" in looked.out
    assert shell.run("gc").code == 2
    assert "Removed 1 blobs" in shell.run("gc", "--yes").out
    assert shell.run("gc", "--json").json["plans"][0]["useless"] == []


def test_old_sessions_are_announced_and_go_to_the_trash(shell: Shell) -> None:
    session_id = session(shell)
    assert "To the trash" not in shell.run("gc", "--older-than", "1d", "--dry-run").out
    looked = shell.run("gc", "--quota", "1kB", "--dry-run")
    assert session_id in looked.out
    assert session_id[:13] in shell.run("sessions").out
    assert shell.run("gc", "--quota", "1kB", "--yes").code == 0
    assert session_id in shell.run("trash").out
    assert shell.run("gc", "--quota", "much").code == 2


def test_stats_have_a_table_and_a_chart(shell: Shell) -> None:
    assert "No sessions" in shell.run("stats").out
    session(shell)
    out = shell.run("stats", "--all").out
    assert "tokens in" in out
    assert str(shell.project)[-20:] in out
    assert shell.run("stats", "--json").json["total"]["sessions"] == 1


def test_lists_of_the_trash_are_aligned_and_name_the_project_by_its_path(shell: Shell) -> None:
    first = session(shell, "first")
    shell.run("-p", "other", "--model", shell.script(turn("ok")), "--session-id", "short")
    deleted = shell.run("delete", first, "short", "--json")
    listed = shell.run_json("trash", "--json")
    assert {one["project"] for one in listed} == {str(shell.project)}
    assert f'"project": "{shell.project}"' in deleted.out
    rows = sorted(shell.run("trash").out.splitlines(), key=lambda row: "other" in row)
    places = {row.index(title) for row, title in zip(rows, ("  first", "  other"), strict=True)}
    assert len(places) == 1
