from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.catalogue.conftest import Make
from tests.cli.shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "shell").mkdir()
    return Shell(tmp_path / "shell")


@pytest.fixture
def home(shell: Shell) -> Path:
    return shell.home


@pytest.fixture
def project(shell: Shell) -> Path:
    return shell.project


def test_a_hit_shows_itself_and_the_command_to_go_on_there(make: Make, shell: Shell) -> None:
    make("s1", ("Mend the aardvark", "An \x1b[31motter\x1b[0m was mended"), title="Animals")
    done = shell.run("search", "otter")
    assert done.code == 0
    title, hit, command = done.out.splitlines()
    assert title.startswith("Animals  ")
    assert hit == "  answer: An [otter] was mended"
    assert command.startswith("  rewake --resume s1 --resume-session-at ")


def test_search_in_json_is_one_object(make: Make, shell: Shell) -> None:
    make("s1", ("Mend the otter",), tags=["zoo"])
    found = shell.run("search", "otter", "--tag", "zoo", "--json").json
    assert found["problems"] == []
    (hit,) = found["hits"]
    assert hit["session_id"] == "s1"
    assert hit["resume"] == f"rewake --resume s1 --resume-session-at {hit['message_id']}"
    ((start, end),) = hit["marks"]
    assert hit["snippet"][start:end] == "otter"


def test_search_looks_into_this_project_unless_told_otherwise(
    make: Make, shell: Shell, tmp_path: Path
) -> None:
    make("s1", ("An otter",), root=tmp_path / "other")
    assert shell.run("search", "otter").out.startswith("Nothing found in ")
    assert str(tmp_path / "other") in shell.run("search", "otter", "--all").out
    assert "s1" in shell.run("search", "otter", "--project", str(tmp_path / "other")).out


@pytest.mark.parametrize(
    ("since", "count"),
    [("2000-01-01", 1), ("1d", 1), ("today", 1), ("yesterday", 1), ("2w", 1), ("2999-01-01", 0)],
)
def test_days_are_understood(make: Make, shell: Shell, since: str, count: int) -> None:
    make("s1", ("An otter",))
    assert len(shell.run("search", "otter", "--since", since, "--json").json["hits"]) == count


@pytest.mark.parametrize(
    ("until", "count"), [("today", 1), ("yesterday", 0), ("2999-12-31", 1), ("2000-01-01T12:00", 0)]
)
def test_the_last_day_is_included(make: Make, shell: Shell, until: str, count: int) -> None:
    make("s1", ("An otter",))
    assert len(shell.run("search", "otter", "--until", until, "--json").json["hits"]) == count


@pytest.mark.parametrize("time", ["soon", "2026-13-01", "99999w", ""])
def test_a_time_that_is_none_is_told(make: Make, shell: Shell, time: str) -> None:
    make("s1")
    done = shell.run("search", "otter", "--since", time)
    assert done.code == 2
    assert "is no time" in done.err


def test_a_query_without_words_is_told(make: Make, shell: Shell) -> None:
    make("s1")
    done = shell.run("search", "...", "--json")
    assert done.code == 2
    assert "no word to search for" in done.json["error"]["message"]


def test_a_file_alone_can_be_asked_for(make: Make, shell: Shell) -> None:
    make("s1")
    assert shell.run("search", "", "--file", "app.py").out.startswith("Nothing found")


def test_reindex_says_what_it_read(make: Make, shell: Shell) -> None:
    make("s1", ("An otter", "Yes"))
    done = shell.run("reindex")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Indexed 1 sessions of ")
    assert shell.run("reindex", "--all", "--json").json["passages"] == 2


def test_a_terminal_gets_a_bar_that_leaves_nothing_behind(make: Make, shell: Shell) -> None:
    code = (
        "import sys, rewake.cli.bar as bar\n"
        "bar._FIRST_S = 0\n"
        "with bar.Bar('Indexing') as shown:\n"
        "    shown.show(5_000_000, 10_000_000)\n"
    )
    reader, terminal = os.openpty()
    try:
        subprocess.run([sys.executable, "-c", code], stderr=terminal, check=True)
        shown = os.read(reader, 4_096).decode()
    finally:
        os.close(terminal)
        os.close(reader)
    assert " 50%  5 MB of 10 MB" in shown
    assert shown.endswith("\r\x1b[K")


def test_a_list_of_sessions_survives_a_catalogue_that_is_none(make: Make, shell: Shell) -> None:
    make("s1", ("An otter",))
    (shell.home / "catalogue.sqlite").write_bytes(b"no database" * 1_000)
    done = shell.run("sessions")
    assert (done.code, done.err) == (0, "")
    assert "An otter" in done.out
    (shell.home / "catalogue.sqlite").unlink()
    (shell.home / "catalogue.sqlite").mkdir()
    done = shell.run("sessions")
    assert (done.code, done.err) == (0, "")
    assert "An otter" in done.out
