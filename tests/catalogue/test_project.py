from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.catalogue.conftest import Make, go_on

from rewake.log import git
from rewake.log.layout import Layout, project_root, where
from rewake.log.project import Identity, read_identity, refreshed

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def run_git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    ended = subprocess.run(
        ["git", *identity, "-C", str(root), *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"},
    )
    return ended.stdout.strip()


def repository(root: Path, *, origin: str | None = None, text: str = "one") -> Path:
    root.mkdir(parents=True)
    run_git(root, "init", "-q", "-b", "main")
    commit(root, text)
    if origin is not None:
        run_git(root, "remote", "add", "origin", origin)
    return root


def commit(root: Path, text: str) -> None:
    (root / "file").write_text(text)
    run_git(root, "add", ".")
    run_git(root, "commit", "-q", "-m", text)


@pytest.fixture
def layout(home: Path) -> Layout:
    return Layout(home)


def ids(layout: Layout, root: Path) -> list[str]:
    return sorted(paths.session_id for paths in layout.sessions(project_root(root)))


@needs_git
def test_a_renamed_repository_is_the_same_project(
    make: Make, layout: Layout, tmp_path: Path
) -> None:
    old = repository(tmp_path / "old")
    paths = make("s1", root=old)
    new = old.rename(tmp_path / "new")
    assert ids(layout, new) == ["s1"]
    make("s2", root=new)
    assert ids(layout, new) == ["s1", "s2"]
    assert where(paths) == (new, old)
    renamed_again = new.rename(tmp_path / "newest")
    assert ids(layout, renamed_again) == ["s1", "s2"]


@needs_git
def test_looking_from_a_new_place_writes_nothing_down(
    make: Make, layout: Layout, tmp_path: Path
) -> None:
    old = repository(tmp_path / "old")
    paths = make("s1", root=old)
    new = old.rename(tmp_path / "new")
    before = (paths.project / "project.json").read_bytes()
    assert ids(layout, new) == ["s1"]
    assert (paths.project / "project.json").read_bytes() == before


@needs_git
def test_a_moved_project_keeps_going_where_a_session_goes_on(
    make: Make, layout: Layout, home: Path, tmp_path: Path
) -> None:
    old = repository(tmp_path / "old", origin="https://example.org/a.git")
    make("s1", root=old)
    new = old.rename(tmp_path / "new")
    go_on(home, new, "s1", ("More",))
    assert ids(layout, new) == ["s1"]


@needs_git
def test_a_copy_beside_its_original_is_a_project_of_its_own(
    make: Make, layout: Layout, tmp_path: Path
) -> None:
    original = repository(tmp_path / "original")
    make("s1", root=original)
    copy = Path(shutil.copytree(original, tmp_path / "copy"))
    assert ids(layout, copy) == []
    make("s2", root=copy)
    assert (ids(layout, original), ids(layout, copy)) == (["s1"], ["s2"])


@needs_git
def test_clones_of_one_origin_are_one_project(make: Make, layout: Layout, tmp_path: Path) -> None:
    origin = "https://example.org/a.git"
    one = repository(tmp_path / "one", origin=origin)
    make("s1", root=one)
    other = Path(shutil.copytree(one, tmp_path / "other"))
    commit(other, "two")
    assert ids(layout, other) == ["s1"]
    make("s2", root=other)
    assert ids(layout, one) == ids(layout, other) == ["s1", "s2"]


@needs_git
def test_a_fork_on_another_origin_is_another_project(
    make: Make, layout: Layout, tmp_path: Path
) -> None:
    one = repository(tmp_path / "one", origin="https://example.org/a.git")
    make("s1", root=one)
    other = Path(shutil.copytree(one, tmp_path / "other"))
    run_git(other, "remote", "set-url", "origin", "https://example.org/fork.git")
    shutil.rmtree(one)
    assert ids(layout, other) == []


@needs_git
def test_another_repository_in_the_old_place_is_another_project(
    make: Make, layout: Layout, tmp_path: Path
) -> None:
    place = repository(tmp_path / "place")
    make("s1", root=place)
    moved = place.rename(tmp_path / "moved")
    make("s2", root=moved)
    repository(place, text="something else")
    assert ids(layout, place) == []
    make("s3", root=place)
    assert (ids(layout, place), ids(layout, moved)) == (["s3"], ["s1", "s2"])


@needs_git
def test_a_project_that_moved_back_is_itself(make: Make, layout: Layout, tmp_path: Path) -> None:
    place = repository(tmp_path / "place")
    make("s1", root=place)
    moved = place.rename(tmp_path / "moved")
    make("s2", root=moved)
    back = moved.rename(place)
    assert ids(layout, back) == ["s1", "s2"]


@needs_git
def test_worktrees_belong_to_their_repository(make: Make, layout: Layout, tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    make("s1", root=main)
    run_git(main, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side")
    tree = tmp_path / "tree"
    assert ids(layout, tree) == ["s1"]
    paths = make("s2", root=tree)
    assert ids(layout, main) == ids(layout, tree) == ["s1", "s2"]
    assert where(paths) == (main,)
    assert git.branch_name(tree) == "side"
    assert git.main_root(tree) == main


@needs_git
def test_worktrees_of_a_bare_repository_belong_together(
    make: Make, layout: Layout, tmp_path: Path
) -> None:
    source = repository(tmp_path / "source")
    bare = tmp_path / "bare.git"
    run_git(source, "clone", "-q", "--bare", str(source), str(bare))
    for name in ("one", "two"):
        run_git(bare, "worktree", "add", "-q", str(tmp_path / name), "-b", name)
    make("s1", root=tmp_path / "one")
    assert ids(layout, tmp_path / "two") == ["s1"]


@needs_git
def test_a_worktree_s_own_directory_of_earlier_times_is_still_looked_into(
    make: Make, layout: Layout, tmp_path: Path
) -> None:
    main, tree = repository(tmp_path / "main"), tmp_path / "tree"
    make("s1", root=tree)  # before it was a worktree, which comes to the same
    shutil.rmtree(tree)
    run_git(main, "worktree", "add", "-q", str(tree), "-b", "side")
    make("s2", root=tree)
    assert ids(layout, tree) == ["s1", "s2"]
    assert ids(layout, main) == ["s2"]


@needs_git
def test_a_submodule_is_a_project_of_its_own(make: Make, layout: Layout, tmp_path: Path) -> None:
    outer, inner = repository(tmp_path / "outer"), repository(tmp_path / "inner", text="in")
    run_git(
        outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "inner"
    )
    make("s1", root=outer)
    make("s2", root=outer / "inner")
    assert (ids(layout, outer), ids(layout, outer / "inner")) == (["s1"], ["s2"])


@needs_git
def test_what_git_knows_is_added_when_there_is_something(
    make: Make, layout: Layout, tmp_path: Path
) -> None:
    root = tmp_path / "later"
    paths = make("s1", root=root)
    assert read_identity(paths.project) == Identity(roots=(str(root),))
    run_git(root, "init", "-q", "-b", "main")
    make("s2", root=root)
    assert read_identity(paths.project) == Identity(roots=(str(root),))
    commit(root, "one")
    run_git(root, "remote", "add", "origin", "https://ada:secret@example.org/a.git")
    make("s3", root=root)
    first = run_git(root, "rev-parse", "HEAD")
    expected = Identity(roots=(str(root),), origin="https://example.org/a.git", first_commit=first)
    assert read_identity(paths.project) == expected
    assert b"secret" not in (paths.project / "project.json").read_bytes()


@needs_git
def test_git_is_asked_once(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "r")
    make("s1", root=root)

    def refuse(*_arguments: object) -> str:
        raise AssertionError("git was run")

    monkeypatch.setattr(git, "_git", refuse)
    make("s2", root=root)


@needs_git
def test_a_shallow_clone_is_known_by_its_place_alone(
    make: Make, layout: Layout, tmp_path: Path
) -> None:
    source = repository(tmp_path / "source")
    commit(source, "two")
    root = tmp_path / "shallow"
    run_git(source, "clone", "-q", "--depth", "1", f"file://{source}", str(root))
    paths = make("s1", root=root)
    identity = read_identity(paths.project)
    assert identity is not None
    assert identity.first_commit == git.NEVER
    assert ids(layout, root) == ["s1"]


@needs_git
def test_a_repository_s_own_settings_run_nothing(make: Make, tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    marker = tmp_path / "ran"
    run_git(root, "config", "core.fsmonitor", f"touch {marker}")
    run_git(root, "config", "alias.rev-list", f"!touch {marker}")
    hooks = root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    hook = hooks / "post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    make("s1", root=root)
    assert not marker.exists()


def test_without_git_a_project_is_known_by_its_place(
    make: Make, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "r"
    (root / ".git" / "refs" / "heads").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / ".git" / "refs" / "heads" / "main").write_text("0" * 40 + "\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    paths = make("s1", root=root)
    identity = read_identity(paths.project)
    assert identity is not None
    assert identity.first_commit is None  # to be asked again
    assert ids(layout, root) == ["s1"]


# --- paths that look alike -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a-b/c", "a/b-c"),
        ("Proj", "proj"),
        ("caf\u00e9", "cafe\u0301"),
        ("größe", "grosse"),
        ("日本", "日 本"),
        ("x" * 200 + "1", "x" * 200 + "2"),
    ],
)
def test_directories_that_look_alike_are_two_projects(
    make: Make, layout: Layout, tmp_path: Path, one: str, other: str
) -> None:
    (tmp_path / one).mkdir(parents=True)
    try:
        (tmp_path / other).mkdir(parents=True)
    except FileExistsError:
        pytest.skip("this file system takes them for one")
    make("s1", root=tmp_path / one)
    make("s2", root=tmp_path / other)
    assert ids(layout, tmp_path / one) == ["s1"]
    assert ids(layout, tmp_path / other) == ["s2"]


@pytest.fixture
def two_spellings(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """One directory under two names, as file systems without case or with composition have it."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting needs root")
    one, other = tmp_path / "Caf\u00e9", tmp_path / "cafe\u0301"
    one.mkdir()
    other.mkdir()
    subprocess.run(["mount", "--bind", str(one), str(other)], check=True)
    try:
        yield one, other
    finally:
        subprocess.run(["umount", str(other)], check=True)


def test_one_directory_under_two_spellings_is_one_project(
    make: Make, layout: Layout, two_spellings: tuple[Path, Path]
) -> None:
    one, other = two_spellings
    make("s1", root=one)
    assert ids(layout, other) == ["s1"]
    paths = make("s2", root=other)
    assert ids(layout, one) == ["s1", "s2"]
    assert set(where(paths)) <= {one, other}


def test_a_project_whose_directory_is_gone_is_still_listed(
    make: Make, layout: Layout, tmp_path: Path
) -> None:
    root = tmp_path / "gone"
    paths = make("s1", root=root)
    shutil.rmtree(root)
    assert ids(layout, root) == ["s1"]
    assert where(paths) == (root,)


# --- the file --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"roots": 7}', '{"roots": [7]}', "null", "\ud800", '"' * 9]
)
def test_an_identity_that_can_t_be_read_is_written_anew(
    make: Make, layout: Layout, project: Path, content: str
) -> None:
    paths = make("s1")
    file = paths.project / "project.json"
    file.write_bytes(content.encode("utf-8", "surrogatepass"))
    assert ids(layout, project) == ["s1"]
    assert where(paths) == ()
    make("s2")
    assert where(paths) == (project,)


def test_the_first_version_s_identity_is_understood(
    make: Make, layout: Layout, project: Path
) -> None:
    paths = make("s1")
    file = paths.project / "project.json"
    assert json.loads(file.read_bytes()) == {"version": 1, "roots": [str(project)]}
    assert ids(layout, project) == ["s1"]


def test_the_newest_place_is_the_last_one_and_the_oldest_are_forgotten(tmp_path: Path) -> None:
    known = Identity(roots=tuple(f"/somewhere/{number}" for number in range(50)))
    now = refreshed(known, tmp_path)
    assert now.roots[-1] == str(tmp_path)
    assert len(now.roots) == 50
    again = refreshed(now, Path("/somewhere/7"))
    assert again.roots[-2:] == (str(tmp_path), "/somewhere/7")
    assert len(set(again.roots)) == len(again.roots)


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("https://ada:secret@example.org/a.git", "https://example.org/a.git"),
        ("https://token@example.org:8443/a.git", "https://example.org:8443/a.git"),
        ("ssh://git@example.org/a.git", "ssh://example.org/a.git"),
        ("git@example.org:ada/a.git", "git@example.org:ada/a.git"),
        ("/srv/a.git", "/srv/a.git"),
        ("https://[broken/a.git", ""),
    ],
)
def test_no_credentials_are_kept(url: str, clean: str) -> None:
    assert git.without_credentials(url) == clean


@needs_git
def test_a_git_file_out_of_an_archive_makes_nothing_a_worktree_of_another_project(
    tmp_path: Path,
) -> None:
    """Else it would have that project's trust, notes and sessions."""
    main, tree = tmp_path / "main", tmp_path / "tree"
    evil, fake = tmp_path / "evil", tmp_path / "evil/fake"
    subprocess.run(["git", "init", "-q", str(main)], check=True)
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    commit = ["git", "-C", str(main), *who, "commit", "-q", "--allow-empty", "-m", "one"]
    subprocess.run(commit, check=True)
    subprocess.run(["git", "-C", str(main), "worktree", "add", "-q", str(tree)], check=True)
    assert git.main_root(tree) == main
    fake.mkdir(parents=True)
    (fake / "commondir").write_text(f"{main}/.git\n")
    (fake / "gitdir").write_text(f"{evil}/.git\n")
    for directory in ("fake", f"{main}/.git/worktrees/tree"):
        (evil / ".git").write_text(f"gitdir: {directory}\n")
        assert git.main_root(evil) == evil
