"""Where things are, and how a session is found."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from rewake.errors import SessionNotFoundError, UsageError
from rewake.log.disk import Disk
from rewake.log.layout import Layout, SessionPaths, default_home, project_root


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "home")


def new_session(layout: Layout, root: Path, session_id: str) -> SessionPaths:
    root.mkdir(parents=True, exist_ok=True)
    paths = layout.create_session(root, session_id, Disk(), sync=False)
    paths.transcript.touch()
    return paths


def test_home_is_what_the_environment_says(tmp_path: Path) -> None:
    assert default_home({"REWAKE_HOME": str(tmp_path)}) == tmp_path
    assert default_home({"REWAKE_HOME": "relative"}).is_absolute()


def test_home_without_the_environment_is_the_platform_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for environment in ({}, {"REWAKE_HOME": ""}):
        home = default_home(environment)
        assert home.name == "rewake"
        assert home.is_relative_to(tmp_path)


def test_the_root_is_the_nearest_directory_with_a_git_entry(tmp_path: Path) -> None:
    deep = tmp_path / "repository" / "a" / "b"
    deep.mkdir(parents=True)
    assert project_root(deep) == deep
    (tmp_path / "repository" / ".git").mkdir()
    assert project_root(deep) == tmp_path / "repository"
    (tmp_path / "repository" / "a" / ".git").write_text("gitdir: elsewhere")  # a worktree
    assert project_root(deep) == tmp_path / "repository" / "a"


def test_the_root_is_a_real_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert project_root(tmp_path / "link") == tmp_path / "real"


def test_projects_whose_names_look_alike_do_not_share_a_directory(
    layout: Layout, tmp_path: Path
) -> None:
    one = layout.project_directory(tmp_path / "a-b" / "c")
    other = layout.project_directory(tmp_path / "a" / "b-c")
    assert one.name.rsplit("-", 1)[0] == other.name.rsplit("-", 1)[0]
    assert one != other


def test_a_link_to_a_project_is_the_project(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert layout.project_directory(tmp_path / "link") == layout.project_directory(
        tmp_path / "real"
    )


@pytest.mark.parametrize("name", ["größe", "a b", "x" * 250, "..", "-", "日本語", "a\nb"])
def test_any_project_has_a_readable_ascii_name(layout: Layout, tmp_path: Path, name: str) -> None:
    directory = layout.project_directory(tmp_path / name)
    assert directory.parent == layout.projects
    assert directory.name.isascii()
    assert len(directory.name) < 100
    assert directory.name[0].isalnum()


def test_the_root_directory_is_a_project_too(layout: Layout) -> None:
    assert layout.project_directory(Path("/")).name.startswith("root-")


def test_a_project_says_which_path_it_is_of(layout: Layout, tmp_path: Path) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    root.mkdir()
    directory = layout.create_project(root, Disk(), sync=False)
    identity = json.loads((directory / "project.json").read_bytes())
    assert [Path(path) for path in identity["roots"]] == [root]


def test_a_session_s_directories_are_private(layout: Layout, tmp_path: Path) -> None:
    paths = layout.create_session(tmp_path, "s1", Disk(), sync=False)
    directory = paths.directory
    while directory != tmp_path:
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        directory = directory.parent


def test_a_session_s_files_are_where_they_belong(tmp_path: Path) -> None:
    paths = SessionPaths(tmp_path, "s1")
    directory = tmp_path / "sessions" / "s1"
    assert paths.directory == directory
    assert paths.transcript == directory / "transcript.jsonl"
    assert paths.trace == directory / "trace.jsonl"
    assert paths.lock == directory / "lock"
    assert paths.output("c1") == directory / "outputs" / "c1"
    assert paths.agent_transcript("a1") == directory / "agents" / "a1.jsonl"
    assert paths.blobs == tmp_path / "blobs"


def test_a_durable_session_syncs_every_directory_up_to_the_home(
    layout: Layout, tmp_path: Path, disk: Any
) -> None:
    paths = layout.create_session(tmp_path, "s1", disk, sync=True)
    assert "sync_directory" in disk.calls
    disk.calls.clear()
    layout.make_durable(paths, disk)
    # sessions/, the project, projects/, the home, and where the home is
    assert disk.calls == ["sync_directory"] * 5


def test_an_id_is_used_once(layout: Layout, tmp_path: Path) -> None:
    layout.create_session(tmp_path, "s1", Disk(), sync=False)
    new_session(layout, tmp_path, "s1")  # killed before its first line: free again
    with pytest.raises(UsageError, match=r"exists already.*--resume s1"):
        layout.create_session(tmp_path, "s1", Disk(), sync=False)


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "/etc", "a\0b", ".hidden", "x" * 129])
def test_an_id_never_leaves_its_folder(layout: Layout, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="can't be used as an id"):
        layout.create_session(tmp_path, name, Disk(), sync=False)
    with pytest.raises(UsageError):
        SessionPaths(tmp_path, "s1").output(name)
    with pytest.raises(SessionNotFoundError):
        layout.find(name)


def test_only_directories_with_a_transcript_are_sessions(layout: Layout, tmp_path: Path) -> None:
    paths = new_session(layout, tmp_path / "p", "s1")
    layout.create_session(tmp_path / "p", "empty", Disk(), sync=False)
    (paths.directory.parent / "stray.jsonl").touch()
    (layout.projects / "stray").touch()
    paths.agents.mkdir()
    paths.agent_transcript("a1").touch()
    assert [found.session_id for found in layout.sessions()] == ["s1"]


def test_sessions_of_one_project_or_of_all(layout: Layout, tmp_path: Path) -> None:
    new_session(layout, tmp_path / "p", "s1")
    new_session(layout, tmp_path / "q", "s2")
    assert {found.session_id for found in layout.sessions()} == {"s1", "s2"}
    assert [found.session_id for found in layout.sessions(tmp_path / "q")] == ["s2"]
    assert list(layout.sessions(tmp_path / "none")) == []


def test_a_session_is_found_by_its_id_or_a_unique_beginning(layout: Layout, tmp_path: Path) -> None:
    for session_id in ("abc", "abcd", "b1"):
        new_session(layout, tmp_path / "p", session_id)
    assert layout.find("abc").session_id == "abc"
    assert layout.find("b", tmp_path / "p").session_id == "b1"
    with pytest.raises(SessionNotFoundError, match="2 sessions begin with 'ab'") as found:
        layout.find("ab")
    assert found.value.candidates == ("abc", "abcd")
    with pytest.raises(SessionNotFoundError, match="no session 'x'"):
        layout.find("x")
    with pytest.raises(SessionNotFoundError):
        layout.find("b1", tmp_path / "q")


def test_an_unreadable_project_hides_no_other(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_session(layout, tmp_path / "p", "s1")
    broken = new_session(layout, tmp_path / "q", "s2").directory.parent
    real = os.scandir

    def scandir(path: Path) -> Any:
        if path == broken:
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    problems: list[Path] = []
    found = layout.sessions(on_problem=lambda path, _error: problems.append(path))
    assert [paths.session_id for paths in found] == ["s1"]
    assert problems == [broken]
    assert layout.find("s1").session_id == "s1"
    with pytest.raises(SessionNotFoundError, match="can't be read"):
        layout.find("s2")
    with pytest.raises(PermissionError):
        list(layout.sessions())


def test_a_project_that_another_process_has_just_made_is_not_made_a_second_time(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identities = Layout._identities  # where a process looks before it chooses a name

    def meanwhile(self: Layout) -> object:
        monkeypatch.setattr(Layout, "_identities", identities)
        seen = identities(self)
        new_session(layout, tmp_path / "project", "theirs")
        return seen

    monkeypatch.setattr(Layout, "_identities", meanwhile)
    ours = new_session(layout, tmp_path / "project", "ours")
    assert [path.name for path in layout.projects.iterdir()] == [ours.project.name]
