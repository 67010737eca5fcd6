"""In a user's repository: nothing of theirs is run or changed, and what git has isn't trusted blindly."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from tests.files.conftest import MakeWorld, age, commit_all, git, picture

from rewake.compose.files import plan_rewind, rewind_files


def repository(root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\n")
    (root / "b").mkdir()
    (root / "b" / "c.txt").write_bytes(b"c\n")
    (root / ".gitignore").write_bytes(b"*.log\nbuild/\n")


def checksum(root: Path) -> str:
    """All of `.git`, with names, contents and modes."""
    digest = hashlib.sha256()
    for key, value in sorted(picture(root / ".git").items()):
        digest.update(repr((key, value)).encode())
    return digest.hexdigest()


def test_the_users_repository_stays_byte_for_byte_as_it_was(
    begin: MakeWorld, project: Path
) -> None:
    repository(project)
    commit_all(project)
    (project / "a.txt").write_bytes(b"dirty\n")
    (project / "staged").write_bytes(b"staged\n")
    git(project, "add", "staged")
    (project / "untracked").write_bytes(b"untracked\n")
    # A fresh stat of an unchanged file tempts git to refresh the index.
    os.utime(project / "b" / "c.txt")
    status = git(project, "--no-optional-locks", "status", "--porcelain=v2")
    before = checksum(project)
    world = begin()
    asked = world.ask()
    world.run("printf x >> a.txt; printf x > new; rm b/c.txt")
    rewind_files(world.session, asked)
    assert checksum(project) == before
    assert git(project, "--no-optional-locks", "status", "--porcelain=v2") == status


def test_nothing_that_a_repository_configures_is_run(
    begin: MakeWorld, project: Path, tmp_path: Path
) -> None:
    repository(project)
    (project / ".gitattributes").write_bytes(b"*.txt filter=evil diff=evil\n")
    commit_all(project)
    marker = tmp_path / "was-run"
    script = tmp_path / "evil"
    script.write_text(f"#!/bin/sh\ntouch {marker}\ncat\n")
    script.chmod(0o755)
    for key in (
        *("core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "diff.evil.textconv"),
        *("core.pager", "diff.external", "core.sshCommand", "filter.evil.process"),
    ):
        git(project, "config", key, str(script))
    hooks = project / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-index-change", "pre-auto-gc", "reference-transaction"):
        (hooks / hook).write_text(f"#!/bin/sh\ntouch {marker}\n")
        (hooks / hook).chmod(0o755)
    # Unsettled stats make git read contents, where a filter would run.
    for path in (project / "a.txt", project / "b" / "c.txt"):
        os.utime(path)
    world = begin()
    before = picture(project)
    asked = world.ask()
    world.run("printf x >> a.txt")
    rewind_files(world.session, asked)
    assert picture(project) == before
    assert not marker.exists()


@pytest.mark.parametrize(
    "attributes",
    ["* text=auto\n", "* text eol=crlf\n", "*.txt filter=lfs\n", "*.txt ident\n"],
)
def test_what_git_converts_comes_back_in_the_files_own_bytes(
    begin: MakeWorld, project: Path, attributes: str
) -> None:
    (project / ".gitattributes").write_text(attributes)
    (project / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    (project / "id.txt").write_bytes(b"$Id: mine $\n")
    git(project, "init", "-q")
    git(project, "config", "filter.lfs.clean", "tr a-z n-za-m")
    age(project)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "first")
    world = begin()
    before = picture(project)
    asked = world.ask()
    world.run("printf x > crlf.txt; printf x > id.txt")
    assert {step.act for step in plan_rewind(world.session, asked).steps} == {"restore"}
    rewind_files(world.session, asked)
    assert picture(project) == before


def test_autocrlf_counts_as_conversion(begin: MakeWorld, project: Path) -> None:
    (project / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    git(project, "init", "-q")
    git(project, "config", "core.autocrlf", "true")
    age(project)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "first")
    world = begin()
    asked = world.ask()
    world.run("printf x > crlf.txt")
    rewind_files(world.session, asked)
    assert (project / "crlf.txt").read_bytes() == b"one\r\ntwo\r\n"


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_what_git_was_told_not_to_look_at_is_looked_at(
    begin: MakeWorld, project: Path, flag: str
) -> None:
    repository(project)
    commit_all(project)
    git(project, "update-index", flag, "a.txt")
    (project / "a.txt").write_bytes(b"local settings\n")
    world = begin()
    asked = world.ask()
    world.run("printf x > a.txt")
    rewind_files(world.session, asked)
    assert (project / "a.txt").read_bytes() == b"local settings\n"


def test_a_rewrite_with_the_same_size_and_time_is_seen(begin: MakeWorld, project: Path) -> None:
    repository(project)
    commit_all(project)
    world = begin()
    asked = world.ask()
    world.run("touch -r a.txt ref; printf 'ONE\\n' > a.txt; touch -r ref a.txt; rm ref")
    rewind_files(world.session, asked)
    assert (project / "a.txt").read_bytes() == b"one\n"


def test_a_rewrite_that_git_itself_overlooks_is_seen(begin: MakeWorld, project: Path) -> None:
    repository(project)
    commit_all(project)
    status = (project / "a.txt").stat()
    # In the same second as the commit's own stat, with the old time: git compares whole seconds.
    (project / "a.txt").write_bytes(b"TWO\n")
    os.utime(project / "a.txt", ns=(status.st_atime_ns, status.st_mtime_ns))
    world = begin()
    asked = world.ask()
    world.run("printf 'x' > a.txt")
    rewind_files(world.session, asked)
    assert (project / "a.txt").read_bytes() == b"TWO\n"


def test_an_object_that_the_command_prunes_is_no_loss(begin: MakeWorld, project: Path) -> None:
    repository(project)
    commit_all(project)
    (project / "staged").write_bytes(b"only in the index\n")
    age(project, 10)
    git(project, "add", "staged")
    world = begin()
    asked = world.ask()
    world.run("git rm -q -f --cached staged; rm staged; git gc -q --prune=now")
    rewind_files(world.session, asked)
    assert (project / "staged").read_bytes() == b"only in the index\n"


def test_a_commit_by_the_agent_is_left_and_the_files_go_back(
    begin: MakeWorld, project: Path
) -> None:
    repository(project)
    commit_all(project)
    world = begin()
    before = picture(project)
    asked = world.ask()
    world.run(
        "printf x > a.txt; git add -A; git -c user.name=a -c user.email=a@b commit -q -m agent"
    )
    world.run("printf y > a.txt")
    head = git(project, "rev-parse", "HEAD")
    rewind_files(world.session, asked)
    assert picture(project) == before
    assert git(project, "rev-parse", "HEAD") == head


def test_a_checkout_of_another_branch_is_a_change_of_files_like_any_other(
    begin: MakeWorld, project: Path
) -> None:
    repository(project)
    commit_all(project)
    git(project, "checkout", "-q", "-b", "other")
    (project / "a.txt").write_bytes(b"other\n")
    (project / "more").write_bytes(b"more\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "other")
    git(project, "checkout", "-q", "main")
    world = begin()
    before = picture(project)
    asked = world.ask()
    world.run("git checkout -q other")
    rewind_files(world.session, asked)
    assert picture(project) == before


def test_a_command_that_removes_the_repository_is_no_obstacle(
    begin: MakeWorld, project: Path
) -> None:
    repository(project)
    commit_all(project)
    (project / "a.txt").write_bytes(b"dirty\n")
    world = begin()
    asked = world.ask()
    world.run("rm -rf .git; printf x > a.txt")
    rewind_files(world.session, asked)
    assert (project / "a.txt").read_bytes() == b"dirty\n"


def test_a_command_that_removes_everything_is_on_record_as_far_as_git_was_not_needed(
    begin: MakeWorld, project: Path
) -> None:
    (project / "committed").write_bytes(b"1")
    (project / "d").mkdir()
    (project / "d/changed").write_bytes(b"1")
    commit_all(project)
    (project / "young").write_bytes(b"1")
    git(project, "add", "young")
    git(project, "commit", "-q", "-m", "second")
    (project / "d/changed").write_bytes(b"2")
    (project / "untracked").write_bytes(b"2")
    world = begin()
    asked = world.ask()
    world.run("rm -rf ./* ./.git")
    plan = rewind_files(world.session, asked).plan
    assert (project / "d/changed").read_bytes() == b"2"
    assert (project / "untracked").read_bytes() == b"2"
    assert plan.not_covered == ("its content was not kept: committed, young",)
    assert not plan.is_possible
    world.run("echo 3 > untracked")


def test_ignored_files_are_covered_once_a_tool_has_edited_them(
    begin: MakeWorld, project: Path
) -> None:
    repository(project)
    commit_all(project)
    (project / "x.log").write_bytes(b"mine")
    world = begin()
    world.write("x.log", b"agent")
    world.again()
    asked = world.ask()
    world.run("printf more >> x.log")
    rewind_files(world.session, asked)
    assert (project / "x.log").read_bytes() == b"agent"


def test_ignored_files_are_reported_as_not_covered(begin: MakeWorld, project: Path) -> None:
    repository(project)
    commit_all(project)
    (project / "build").mkdir()
    (project / "build" / "out").write_bytes(b"o")
    (project / "x.log").write_bytes(b"x")
    world = begin()
    world.ask()
    world.run("true")
    assert any("ignored" in notice and "build/" in notice for notice in world.notices)


def test_a_file_that_a_command_has_ignored_is_not_taken_for_deleted(
    begin: MakeWorld, project: Path
) -> None:
    repository(project)
    commit_all(project)
    (project / "mine").write_bytes(b"m")
    world = begin()
    asked = world.ask()
    world.run("printf 'mine\\n' >> .gitignore")
    assert [step.shown for step in plan_rewind(world.session, asked).steps] == [
        str(project / ".gitignore")
    ]


def test_nested_repositories_and_submodules_are_named_and_not_entered(
    begin: MakeWorld, project: Path, tmp_path: Path
) -> None:
    repository(project)
    library = tmp_path / "library"
    library.mkdir()
    (library / "l").write_bytes(b"l")
    commit_all(library)
    commit_all(project)
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "sub")
    git(project, "commit", "-q", "-m", "sub")
    nested = project / "nested"
    nested.mkdir()
    (nested / "n").write_bytes(b"n")
    commit_all(nested)
    world = begin()
    asked = world.ask()
    world.run("printf x > nested/n; printf x > sub/l; printf x > a.txt")
    assert any("nested" in notice and "sub" in notice for notice in world.notices)
    assert [step.shown for step in plan_rewind(world.session, asked).steps] == [
        str(project / "a.txt")
    ]


@pytest.mark.parametrize("version", ["2", "4"])
def test_every_version_of_the_index_is_read(begin: MakeWorld, project: Path, version: str) -> None:
    repository(project)
    for number in range(30):
        (project / "b" / f"file-with-a-common-beginning-{number}").write_bytes(b"%d" % number)
    commit_all(project)
    git(project, "update-index", "--index-version", version)
    world = begin()
    before = picture(project)
    asked = world.ask()
    world.run("rm -r b; printf x > a.txt")
    rewind_files(world.session, asked)
    assert picture(project) == before


@pytest.mark.parametrize("how", ["split", "sha256", "worktree", "empty"])
def test_unusual_repositories_are_covered_as_well(
    begin: MakeWorld, project: Path, tmp_path: Path, how: str
) -> None:
    if how == "worktree":
        main = tmp_path / "main"
        main.mkdir()
        repository(main)
        commit_all(main)
        project.rmdir()
        git(main, "worktree", "add", "-q", str(project))
    elif how == "sha256":
        repository(project)
        git(project, "init", "-q", "--object-format=sha256")
        age(project)
        git(project, "add", "-A")
        git(project, "commit", "-q", "-m", "first")
    else:
        repository(project)
        git(project, "init", "-q")
    if how == "split":
        commit_all(project)
        git(project, "update-index", "--split-index")
    age(project)
    world = begin()
    before = picture(project)
    asked = world.ask()
    world.run("printf x > a.txt; mkdir -p n/m; printf n > n/m/o; rm b/c.txt")
    rewind_files(world.session, asked)
    assert picture(project) == before


def test_a_repository_that_git_refuses_is_walked_instead(
    begin: MakeWorld, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repository(project)
    commit_all(project)
    monkeypatch.setenv("PATH", str(tmp_path))
    world = begin()
    before = picture(project)
    asked = world.ask()
    monkeypatch.setenv("PATH", os.defpath)
    real = subprocess.Popen

    def without_git(command: object, *arguments: object, **keywords: object) -> object:
        if isinstance(command, list) and command[0] == "git":
            raise FileNotFoundError(2, "No such file or directory", "git")
        return real(command, *arguments, **keywords)  # type: ignore[call-overload]  # as given

    monkeypatch.setattr(subprocess, "Popen", without_git)
    world.run("printf x > a.txt")
    rewind_files(world.session, asked)
    assert picture(project) == before


def test_committed_files_are_not_copied(begin: MakeWorld, project: Path) -> None:
    repository(project)
    for number in range(50):
        (project / f"f{number}").write_bytes(b"%d" % number)
    (project / "mine").write_bytes(b"dirty")
    commit_all(project)
    (project / "mine").write_bytes(b"more")
    world = begin()
    asked = world.ask()
    world.run("printf x > f7")
    # The file that was dirty, and the changed file before and after.
    blobs = [path for path in (world.home / "projects").rglob("blobs/*") if path.is_file()]
    assert len(blobs) == 3
    rewind_files(world.session, asked)
    assert (project / "f7").read_bytes() == b"7"


def test_a_mode_that_git_does_not_know_comes_back(begin: MakeWorld, project: Path) -> None:
    repository(project)
    (project / "a.txt").chmod(0o600)
    commit_all(project)
    world = begin()
    asked = world.ask()
    world.run("chmod 640 a.txt; rm b/c.txt")
    rewind_files(world.session, asked)
    assert (project / "a.txt").stat().st_mode & 0o777 == 0o600
