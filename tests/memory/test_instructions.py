"""Which instruction files apply, and which files never get into a prompt by way of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rewake.compose.memory import SecretFinder
from rewake.memory import instructions as module
from rewake.memory.imports import imports_in
from rewake.memory.instructions import (
    Applying,
    Bounds,
    Instructions,
    directories_down_to,
)

KEY = "sk-ant-api03-" + "a1B2" * 10
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "b3BlbnNzaC1rZXktdjEAAAAA" * 4 + "\n"

Look = Callable[..., Applying]


@pytest.fixture
def bounds(home: Path, project: Path, tmp_path: Path) -> Bounds:
    return Bounds(home, project, user_home=tmp_path / "user", secrets_in=SecretFinder())


@pytest.fixture
def look(bounds: Bounds, project: Path) -> Look:
    def applying(path: Path = project, **changed: object) -> Applying:
        found = Instructions(replace(bounds, **changed))  # type: ignore[arg-type]  # bounds' own fields
        return found.applying(directories_down_to(project, path))

    return applying


def shown(found: Applying) -> list[str]:
    return [file.shown for file in found.files]


def reasons(found: Applying) -> dict[str, str]:
    return {one.shown: one.reason for one in found.refused}


def test_far_comes_before_near_and_a_local_file_after_its_shared_one(
    look: Look, home: Path, project: Path
) -> None:
    sub = project / "a" / "b"
    sub.mkdir(parents=True)
    for path in (home, project, sub):
        for name in ("CLAUDE.local.md", "AGENTS.local.md", "CLAUDE.md", "AGENTS.md"):
            (path / name).write_text(f"{path} {name}")
    assert shown(look(sub)) == [
        f"{home}/AGENTS.md",
        f"{home}/CLAUDE.md",
        *("AGENTS.md", "CLAUDE.md", "AGENTS.local.md", "CLAUDE.local.md"),
        *("a/b/AGENTS.md", "a/b/CLAUDE.md", "a/b/AGENTS.local.md", "a/b/CLAUDE.local.md"),
    ]


def test_a_directory_outside_of_the_project_has_the_projects_instructions(
    look: Look, project: Path, tmp_path: Path
) -> None:
    (project / "AGENTS.md").write_text("x")
    (tmp_path / "AGENTS.md").write_text("not ours")
    assert shown(look(tmp_path)) == ["AGENTS.md"]


# --- one file is one file --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["symlink", "hard link", "import"])
def test_a_file_with_two_names_is_read_once(look: Look, project: Path, kind: str) -> None:
    agents, claude = project / "AGENTS.md", project / "CLAUDE.md"
    agents.write_text("Use tabs.")
    if kind == "symlink":
        claude.symlink_to("AGENTS.md")
    elif kind == "hard link":
        claude.hardlink_to(agents)
    else:
        claude.write_text("@AGENTS.md\n@./AGENTS.md\n@../project/AGENTS.md")
    found = look()
    assert sum("Use tabs." in file.text for file in found.files) == 1
    assert "the same file" in " ".join(reasons(found).values())


def test_case_variants_of_one_file_are_read_once(look: Look, project: Path) -> None:
    agents = project / "AGENTS.md"
    agents.write_text("See @agents.md and @Agents.MD")
    # What a case-insensitive file system makes of the other spellings.
    (project / "agents.md").hardlink_to(agents)
    (project / "Agents.MD").hardlink_to(agents)
    assert shown(look()) == ["AGENTS.md"]


def test_imports_that_go_in_circles_end(look: Look, project: Path) -> None:
    (project / "AGENTS.md").write_text("@a.md")
    (project / "a.md").write_text("A @b.md")
    (project / "b.md").write_text("B @a.md @b.md @AGENTS.md")
    assert shown(look()) == ["AGENTS.md", "a.md", "b.md"]


# --- imports ---------------------------------------------------------------------------------


def test_only_text_asks_for_a_file() -> None:
    text = """\
See @docs/a.md, (@b.md) and "@c.md".
Not `@code.md`, me@example.com, [link](@link.md), <!-- @comment.md -->.

```
@fence.md
```

    @indented.md

- item
    - @nested.md
**@bold.md** @~/home.md @/abs.md @with_under_score.md.
<div>@html.md</div>
"""
    assert imports_in(text) == [
        *("docs/a.md", "b.md", "c.md", "nested.md", "bold.md"),
        *("~/home.md", "/abs.md", "with_under_score.md"),
    ]


def test_an_import_is_relative_to_the_file_that_asks(look: Look, project: Path) -> None:
    (project / "docs" / "more").mkdir(parents=True)
    (project / "AGENTS.md").write_text("@docs/a.md")
    (project / "docs" / "a.md").write_text("@more/b.md @../c.md")
    (project / "docs" / "more" / "b.md").write_text("B")
    (project / "c.md").write_text("C")
    found = look()
    assert shown(found) == ["AGENTS.md", "docs/a.md", "docs/more/b.md", "c.md"]
    assert [file.imported_by for file in found.files] == [
        "",
        "AGENTS.md",
        "docs/a.md",
        "docs/a.md",
    ]


def test_a_person_or_a_package_that_is_no_file_is_no_import(look: Look, project: Path) -> None:
    (project / "AGENTS.md").write_text("Ask @ada about @types/node.")
    found = look()
    assert shown(found) == ["AGENTS.md"]
    assert reasons(found) == {"types/node": "there is no such file"}
    assert not found.refused[0].notable


def test_imports_are_bounded_in_depth_and_number(look: Look, project: Path) -> None:
    (project / "AGENTS.md").write_text("@0.md")
    for number in range(10):
        (project / f"{number}.md").write_text(f"@{number + 1}.md")
    found = look()
    assert shown(found) == ["AGENTS.md", *(f"{number}.md" for number in range(5))]
    assert reasons(found) == {"5.md": "imports go 5 deep at most"}
    for number in range(300):
        (project / f"m{number}.md").write_text("x")
    (project / "AGENTS.md").write_text(" ".join(f"@m{number}.md" for number in range(300)))
    assert len(look().files) <= 51


# --- outside, and secrets --------------------------------------------------------------------


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "shared.md").write_text("Shared words.")
    return directory


@pytest.mark.parametrize("way", ["absolute", "relative", "link", "directory link", "home"])
def test_a_file_outside_of_the_project_is_refused_whatever_leads_there(
    look: Look, project: Path, outside: Path, tmp_path: Path, way: str
) -> None:
    (project / "link.md").symlink_to(outside / "shared.md")
    (project / "linked").symlink_to(outside)
    (tmp_path / "user").symlink_to(outside)
    asked = {
        "absolute": f"{outside}/shared.md",
        "relative": "../outside/shared.md",
        "link": "link.md",
        "directory link": "linked/shared.md",
        "home": "~/shared.md",
    }[way]
    (project / "AGENTS.md").write_text(f"@{asked}")
    found = look()
    assert shown(found) == ["AGENTS.md"]
    assert "outside of the project" in reasons(found)[f"{outside}/shared.md"]
    allowed = look(import_directories=(outside,))
    assert shown(allowed) == ["AGENTS.md", f"{outside}/shared.md"]


def test_an_instruction_file_that_leads_out_of_the_project_is_refused(
    look: Look, project: Path, outside: Path
) -> None:
    (project / "AGENTS.md").symlink_to(outside / "shared.md")
    found = look()
    assert shown(found) == []
    assert "it leads out of the project" in reasons(found)["AGENTS.md"]


def test_the_users_own_file_may_be_a_link(look: Look, home: Path, outside: Path) -> None:
    (home / "AGENTS.md").symlink_to(outside / "shared.md")
    assert shown(look()) == [f"{home}/AGENTS.md"]


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".env.production",
        ".ENV",
        "server.pem",
        "tls.key",
        "id_rsa",
        "id_ed25519",
        ".netrc",
        ".npmrc",
        "credentials.json",
        "secrets.yaml",
        ".git/config",
        ".ssh/config",
        ".aws/config",
        "shadow",
    ],
)
def test_a_secret_file_is_never_imported(look: Look, project: Path, name: str) -> None:
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text("SECRET")
    (project / "innocent.md").symlink_to(name)
    (project / "AGENTS.md").write_text(f"@{name} @./{name} @innocent.md")
    found = look()
    assert shown(found) == ["AGENTS.md"]
    assert "secrets" in reasons(found)[name]


def test_examples_of_secret_files_are_none(look: Look, project: Path) -> None:
    (project / ".env.example").write_text("PORT=80")
    (project / "AGENTS.md").write_text("@.env.example")
    assert shown(look()) == ["AGENTS.md", ".env.example"]


@pytest.mark.parametrize("content", [PRIVATE, f"key: {KEY}", "API_TOKEN=a8f5f167f44f4964e6c998de"])
def test_a_file_in_which_a_secret_stands_is_never_imported(
    look: Look, project: Path, content: str
) -> None:
    (project / "notes.md").write_text(content)
    (project / "AGENTS.md").write_text("@notes.md")
    found = look()
    assert shown(found) == ["AGENTS.md"]
    assert "looks like a secret" in reasons(found)["notes.md"]


def test_a_secret_behind_a_hard_link_is_found_by_its_content(
    look: Look, project: Path, outside: Path
) -> None:
    (outside / "id").write_text(PRIVATE)
    (project / "doc.md").hardlink_to(outside / "id")
    (project / "AGENTS.md").write_text("@doc.md")
    assert shown(look()) == ["AGENTS.md"]


def test_an_instruction_file_that_is_a_link_to_a_secret_is_refused(
    look: Look, project: Path
) -> None:
    (project / ".env").write_text("A=SECRET")
    (project / "AGENTS.md").symlink_to(".env")
    found = look()
    assert shown(found) == []
    assert "secrets" in reasons(found)["AGENTS.md"]


def test_a_rule_against_reading_holds_for_imports_and_instructions(
    look: Look, project: Path
) -> None:
    (project / "AGENTS.md").write_text("@private/a.md")
    (project / "private").mkdir()
    (project / "private" / "a.md").write_text("x")
    found = look(forbids=lambda path: path.startswith("private/"))
    assert reasons(found)["private/a.md"] == "a permission rule forbids reading it"
    assert shown(look(forbids=lambda path: path == "AGENTS.md")) == []


# --- traps -----------------------------------------------------------------------------------


def test_files_that_are_traps_are_refused_with_a_reason(look: Look, project: Path) -> None:
    os.mkfifo(project / "AGENTS.md")
    (project / "CLAUDE.md").write_bytes(b"\x7fELF\0\0")
    (project / "AGENTS.local.md").mkdir()
    (project / "CLAUDE.local.md").symlink_to("CLAUDE.local.md")
    found = look()
    assert shown(found) == []
    assert reasons(found) == {
        "AGENTS.md": "it is no regular file",
        "CLAUDE.md": "it is no text (it has NUL bytes)",
        "AGENTS.local.md": "it is no regular file",
        "CLAUDE.local.md": "it is a symbolic link",
    }


def test_a_link_to_nothing_is_refused(look: Look, project: Path) -> None:
    (project / "AGENTS.md").symlink_to("nothing.md")
    assert reasons(look()) == {"AGENTS.md": "it leads nowhere"}


def test_a_long_file_is_cut_at_a_line_and_says_so(look: Look, project: Path) -> None:
    (project / "AGENTS.md").write_text("".join(f"line {n} of many\n" for n in range(10_000)))
    (file,) = look().files
    assert file.is_cut
    assert file.text.endswith("of many\n")
    assert len(file.text) <= module.FILE_BYTES_MAX


def test_bytes_that_are_no_utf8_are_replaced_and_a_mark_is_taken_off(
    look: Look, project: Path
) -> None:
    (project / "AGENTS.md").write_bytes(b"\xef\xbb\xbfcaf\xe9\r\nnext")
    (file,) = look().files
    assert file.text == "caf\ufffd\nnext"
    assert file.is_damaged


def test_what_is_nearest_goes_first_where_not_all_fits(look: Look, project: Path) -> None:
    sub = project / "a"
    sub.mkdir()
    (project / "AGENTS.md").write_text("far " * 100)
    (sub / "AGENTS.md").write_text("near " * 100)
    found = look(sub, total_bytes_max=600)
    assert shown(found) == ["a/AGENTS.md"]
    assert "used up" in reasons(found)["AGENTS.md"]
    assert found.present == {"AGENTS.md", "a/AGENTS.md"}


def test_a_file_is_read_anew_only_when_it_has_changed(bounds: Bounds, project: Path) -> None:
    found = Instructions(bounds)
    path = project / "AGENTS.md"
    path.write_text("One.")
    (first,) = found.applying([project]).files
    assert found.applying([project]).files == (first,)
    path.write_text("Two!")
    (second,) = found.applying([project]).files
    assert (second.text, second.sha256 == first.sha256) == ("Two!", False)
    path.unlink()
    assert found.applying([project]).files == ()
