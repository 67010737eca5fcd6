"""Files go back to how they were at a message, whatever the agent used."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.files.conftest import MakeWorld, commit_all, picture

from rewake.compose.files import plan_rewind, rewind_files, undo_files_rewind

Settle = Callable[[], None]


def fill(root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    (root / "src").mkdir()
    (root / "src" / "b.bin").write_bytes(bytes(range(256)))
    (root / "src" / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "src" / "run.sh").chmod(0o755)
    (root / "secret").write_bytes(b"s")
    (root / "secret").chmod(0o600)
    (root / "empty").write_bytes(b"")
    (root / "link").symlink_to("a.txt")
    (root / "new\nline").write_bytes(b"n")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe.txt")).write_bytes(b"latin \xe9")


COMMANDS = {
    "changed": "printf three >> a.txt",
    "created": "printf x > new.txt",
    "created in a new directory": "mkdir -p deep/er && printf x > deep/er/f",
    "an empty directory": "mkdir void",
    "deleted": "rm a.txt src/b.bin",
    "renamed": "mv a.txt z.txt",
    "a directory moved": "mv src lib",
    "a directory removed": "rm -rf src",
    "chmod": "chmod 600 a.txt && chmod 644 src/run.sh",
    "chmod of a secret": "chmod 644 secret",
    "chmod of a directory": "chmod 700 src",
    "link made": "ln -s src other",
    "link retargeted": "ln -sfn src link",
    "link replaced by a file": "rm link && printf x > link",
    "file replaced by a link": "rm a.txt && ln -s ../outside a.txt",
    "file became a directory": "rm a.txt && mkdir a.txt && printf x > a.txt/inner",
    "directory became a file": "rm -r src && printf x > src",
    "directory became a link": "mv src lib && ln -s lib src",
    "binary": "printf '\\0\\1\\2' > src/b.bin",
    "emptied": ": > a.txt",
    "filled": "printf x > empty",
    "newline in a name": "printf m > 'new\nline' && printf o > 'other\nline'",
    "not UTF-8": "printf m > \"$(printf '\\377\\376').txt\"",
    "replaced by a rename": "printf other > t && mv t a.txt",
    "same size, same time": "touch -r a.txt ref && printf 'ONE\\r\\nTWO\\r\\n' > a.txt"
    " && touch -r ref a.txt && rm ref",
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_what_a_command_did_is_taken_back_exactly_and_can_be_brought_again(
    begin: MakeWorld, project: Path, settled: Settle, command: str
) -> None:
    fill(project)
    settled()
    world = begin()
    before = picture(project)
    asked = world.ask()
    world.run(command)
    after = picture(project)
    assert after != before

    rewind_files(world.session, asked)
    assert picture(project) == before

    undo_files_rewind(world.session)
    assert picture(project) == after

    undo_files_rewind(world.session)
    assert picture(project) == before


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_the_history_is_in_the_transcript_alone(
    begin: MakeWorld, project: Path, settled: Settle, command: str
) -> None:
    fill(project)
    settled()
    world = begin()
    before = picture(project)
    asked = world.ask()
    world.run(command)
    world.ask("something else")
    world.again()

    rewind_files(world.session, asked)
    assert picture(project) == before


def test_an_edit_by_a_tool_goes_back_together_with_its_directories(
    begin: MakeWorld, project: Path, settled: Settle
) -> None:
    fill(project)
    settled()
    world = begin()
    before = picture(project)
    asked = world.ask()
    world.write("a.txt", b"other")
    world.write("x/y/z.txt", b"new")
    world.run("printf more >> x/y/z.txt")
    rewind_files(world.session, asked)
    assert picture(project) == before


def test_each_message_is_a_point_to_go_back_to(
    begin: MakeWorld, project: Path, settled: Settle
) -> None:
    fill(project)
    settled()
    world = begin()
    points = []
    for number in range(4):
        points.append((world.ask(), picture(project)))
        world.run(f"printf {number} >> a.txt; printf {number} > n{number}; rm -f n{number - 1}")
    for asked, then in [points[2], points[0], points[3], points[1]]:
        rewind_files(world.session, asked)
        assert picture(project) == then


def test_what_somebody_else_changed_since_is_kept_and_named(
    begin: MakeWorld, project: Path, settled: Settle
) -> None:
    fill(project)
    settled()
    world = begin()
    asked = world.ask()
    world.run("printf agent > a.txt; printf agent > empty")
    (project / "a.txt").write_bytes(b"mine")
    (project / "mine.txt").write_bytes(b"mine")

    done = rewind_files(world.session, asked)

    assert [step.path for step in done.plan.conflicts] == [os.fsencode(project / "a.txt")]
    assert (project / "a.txt").read_bytes() == b"mine"
    assert (project / "mine.txt").read_bytes() == b"mine"
    assert (project / "empty").read_bytes() == b""


def test_force_overrules_a_conflict_and_the_undo_brings_it_back(
    begin: MakeWorld, project: Path, settled: Settle
) -> None:
    fill(project)
    settled()
    world = begin()
    asked = world.ask()
    world.run("printf agent > a.txt")
    (project / "a.txt").write_bytes(b"mine")

    rewind_files(world.session, asked, force=True)
    assert (project / "a.txt").read_bytes() == b"one\r\ntwo\r\n"

    undo_files_rewind(world.session)
    assert (project / "a.txt").read_bytes() == b"mine"


def test_an_edit_between_two_changes_of_the_agent_is_a_conflict(
    begin: MakeWorld, project: Path, settled: Settle
) -> None:
    fill(project)
    settled()
    world = begin()
    asked = world.ask()
    world.run("printf agent > a.txt")
    (project / "a.txt").write_bytes(b"mine")
    world.run("printf more >> a.txt")

    plan = plan_rewind(world.session, asked)

    assert [(step.act, step.why) for step in plan.steps] == [("conflict", "mixed")]


def test_a_rewind_that_changes_nothing_leaves_the_undo_to_the_one_before(
    begin: MakeWorld, project: Path, settled: Settle
) -> None:
    (project / "a").write_bytes(b"1")
    settled()
    world = begin()
    asked = world.ask()
    world.run("echo 2 > a")
    rewind_files(world.session, asked)
    assert rewind_files(world.session, asked).rewind_id == ""
    undo_files_rewind(world.session)
    assert (project / "a").read_bytes() == b"2\n"


def test_what_is_not_covered_is_told_by_every_plan_that_may_miss_it(
    begin: MakeWorld, project: Path
) -> None:
    (project / ".gitignore").write_bytes(b"*.o\n")
    (project / "x.o").write_bytes(b"1")
    commit_all(project)
    world = begin()
    first = world.ask()
    world.run("echo 2 > x.o")
    second = world.ask()
    world.run("echo 3 > x.o")
    third = world.ask()
    plans = [plan_rewind(world.session, asked) for asked in (first, second, third)]
    assert [plan.not_covered for plan in plans] == [("ignored by git: x.o",)] * 2 + [()]
    assert len(world.notices) == 1


def test_the_users_own_settings_are_no_work_that_is_not_covered(
    begin: MakeWorld, project: Path
) -> None:
    commit_all(project)
    (project / ".rewake").mkdir()
    (project / ".rewake" / ".gitignore").write_text(".gitignore\nsettings.local.*\n*.bak\n")
    (project / ".rewake" / "settings.local.json").write_text("{}")
    world = begin()
    world.ask()
    world.run("echo 2 > a")
    assert world.notices == []


def test_a_touched_file_is_no_conflict(begin: MakeWorld, project: Path, settled: Settle) -> None:
    fill(project)
    settled()
    world = begin()
    before = picture(project)
    asked = world.ask()
    world.run("printf agent > a.txt")
    os.utime(project / "a.txt", (1, 1))
    rewind_files(world.session, asked)
    assert picture(project) == before


def test_only_the_paths_named_go_back(begin: MakeWorld, project: Path, settled: Settle) -> None:
    fill(project)
    settled()
    world = begin()
    asked = world.ask()
    world.run("printf x > a.txt; printf x > src/b.bin; printf x > src/new")
    rewind_files(world.session, asked, only=["src"])
    assert (project / "a.txt").read_bytes() == b"x"
    assert (project / "src" / "b.bin").read_bytes() == bytes(range(256))
    assert not (project / "src" / "new").exists()


def test_a_hard_link_is_written_in_place(begin: MakeWorld, project: Path, settled: Settle) -> None:
    fill(project)
    (project / "twin").hardlink_to(project / "a.txt")
    settled()
    world = begin()
    before = picture(project)
    asked = world.ask()
    world.run("printf x > a.txt")
    rewind_files(world.session, asked)
    assert picture(project) == before
    assert (project / "twin").samefile(project / "a.txt")


def test_a_link_out_of_the_project_is_never_followed(
    begin: MakeWorld, project: Path, settled: Settle, tmp_path: Path
) -> None:
    fill(project)
    settled()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.bin").write_bytes(b"theirs")
    world = begin()
    asked = world.ask()
    world.run("printf x > src/b.bin")
    (project / "src").rename(project / "moved")
    (project / "src").symlink_to(outside)

    plan = rewind_files(world.session, asked).plan

    assert [step.why for step in plan.conflicts] == ["leads_elsewhere"]
    assert (outside / "b.bin").read_bytes() == b"theirs"


def test_a_directory_with_somebody_elses_file_stays(
    begin: MakeWorld, project: Path, settled: Settle
) -> None:
    fill(project)
    settled()
    world = begin()
    asked = world.ask()
    world.run("mkdir made && printf x > made/agent")
    (project / "made" / "mine").write_bytes(b"mine")
    rewind_files(world.session, asked)
    assert sorted(path.name for path in (project / "made").iterdir()) == ["mine"]


def test_a_command_that_fails_has_its_changes_recorded(
    begin: MakeWorld, project: Path, settled: Settle
) -> None:
    fill(project)
    settled()
    world = begin()
    before = picture(project)
    asked = world.ask()
    world.run("printf x > a.txt; exit 3", check=False)
    rewind_files(world.session, asked)
    assert picture(project) == before


def test_conversation_and_files_go_back_together_and_are_brought_back_together(
    begin: MakeWorld, project: Path, settled: Settle
) -> None:
    fill(project)
    settled()
    world = begin()
    before = picture(project)
    asked = world.ask()
    world.session.assistant("I will.")
    world.run("printf x > a.txt")
    after = picture(project)
    rewind_files(world.session, asked, conversation=True)
    assert [entry.message.role for entry in world.session.messages] == ["user"]
    assert picture(project) == before
    undo_files_rewind(world.session)
    assert [entry.message.role for entry in world.session.messages] == ["user", "assistant"]
    assert picture(project) == after
