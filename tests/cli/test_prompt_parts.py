"""The parts of the prompt by themselves."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewake.agent.permissions import Question, Refusal
from rewake.agent.ports import Prepared
from rewake.agent.workers import AgentProgress
from rewake.cli.prompt import calls
from rewake.cli.prompt.files import FileIndex
from rewake.cli.prompt.mentions import dropped
from rewake.cli.prompt.pastes import Pastes
from rewake.cli.prompt.question import Panel
from rewake.cli.prompt.status import Facts, StatusLine
from rewake.cli.slash import Name, descriptions
from rewake.cli.terminal import Style, width
from rewake.model.events import FileChangeIntent, Outcome, ShellIntent

PLAIN = Style(enabled=False)
HOSTILE = "\x1b]0;pwned\x07\x1b[2J\u202eevil\x9b31m\rname"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def ended(prepared: Prepared, text: str, columns: int = 80, **more: object) -> list[str]:
    values: dict[str, object] = {
        "is_error": False,
        "outcome": Outcome(),
        "elapsed_s": 0.0,
        "with_diff": True,
        **more,
    }
    return calls.ended("Tool", text, prepared=prepared, columns=columns, style=PLAIN, **values)  # type: ignore[arg-type]  # a table of arguments


def edit(lines: int) -> Prepared:
    preview = "--- a\n+++ a\n@@ -0,0 +1 @@\n" + "".join(f"+line {n}\n" for n in range(lines))
    return Prepared(FileChangeIntent(()), "a", "Edit a", preview)


# --- calls as lines ----------------------------------------------------------------------------


def test_a_long_diff_is_cut_and_says_so() -> None:
    lines = ended(edit(100), "Edited a.")
    assert lines[-1].strip() == f"… {101 - calls.DIFF_LINES_MAX} more lines"
    assert len(lines) == calls.DIFF_LINES_MAX + 2
    assert not any("+++" in line for line in lines)


def test_an_error_is_shown_whatever_the_tool_says() -> None:
    assert any("Tool failed" in line for line in ended(edit(1), "", is_error=True))
    assert any("no such file" in line for line in ended(edit(1), "no such file", is_error=True))


def test_time_exit_status_and_output_of_a_command_are_told_once() -> None:
    prepared = Prepared(ShellIntent("make\nall", "/", "outputs/x"), "make", "Run make")
    lines = ended(
        prepared,
        "a\nb\nc\nd\nExit code 2 after 0.1 s.",
        outcome=Outcome(exit_code=2),
        elapsed_s=75.0,
    )
    assert lines[0] == "● Tool make all  1 min 15 s · exit 2"
    assert [line.strip("│ ") for line in lines[1:]] == ["a", "b", "c", "… 1 more lines"]


def test_a_long_line_of_a_result_stays_behind_its_bar() -> None:
    text = "Started in the background. " * 4
    lines = ended(edit(1), text, columns=40, is_error=True)
    assert all(line.startswith("  │ ") for line in lines[1:])
    assert all(width(line) < 40 for line in lines)
    assert "".join(line.removeprefix("  │ ") + " " for line in lines[1:]).split() == text.split()


@given(st.text(max_size=60), st.text(max_size=200), st.integers(10, 120))
def test_no_line_of_a_call_steers_the_terminal(name: str, text: str, columns: int) -> None:
    prepared = Prepared(ShellIntent(f"{HOSTILE}{name}", "/", "x"), "", "", f"+{HOSTILE}")
    for line in ended(prepared, f"{HOSTILE}{text}", columns, is_error=True):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", line)
    assert width(ended(prepared, "", columns)[0]) <= columns


def test_a_sub_agent_has_a_line_that_fits() -> None:
    progress = AgentProgress("id", "explorer", f"Find {HOSTILE}", "running", 2, 3, 4, "Grep x")
    line = calls.agent_at_work(progress, "3 s", 40, PLAIN)
    assert line.startswith("    ◌ explorer: Find")
    assert width(line) <= 40
    assert "\x1b" not in line


# --- pastes ------------------------------------------------------------------------------------


@given(st.lists(st.text(max_size=3000), max_size=6))
def test_a_paste_comes_back_whole_however_many_there_are(texts: list[str]) -> None:
    pastes = Pastes()
    whole = [text.replace("\r\n", "\n").replace("\r", "\n") for text in texts]
    marks = [pastes.take(text) for text in texts]
    # A short text may itself look like a mark, but only of a paste that there is.
    expanded = [pastes.expand(mark) for mark in marks]
    assert [e for e, m in zip(expanded, marks, strict=True) if m.startswith("[pasted ")] == [
        w for w, m in zip(whole, marks, strict=True) if m.startswith("[pasted ")
    ]


def test_pastes_of_one_size_are_told_apart_and_typed_marks_are_text() -> None:
    pastes = Pastes()
    first, second = pastes.take("a\n" * 9), pastes.take("b\n" * 9)
    assert (first, second) == ("[pasted 10 lines]", "[pasted 10 lines #2]")
    assert pastes.expand(f"{second} {first}") == "b\n" * 9 + " " + "a\n" * 9
    assert pastes.expand("[pasted 99 lines]") == "[pasted 99 lines]"
    assert pastes.typed(f"see {first} @x") == "see  @x"


# --- files -------------------------------------------------------------------------------------


def project(root: Path, *, is_git: bool) -> FileIndex:
    for name in ("src/deep/handler.py", "src/main.py", "docs/main.md", "build/main.o", "a b.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    (root / ".gitignore").write_text("build/\n")
    if is_git:
        subprocess.run(["git", "init", "-q", str(root)], check=True)
    return FileIndex(root)


@pytest.mark.parametrize("is_git", [True, False])
def test_files_are_found_by_a_few_letters_without_what_git_ignores(
    tmp_path: Path, *, is_git: bool
) -> None:
    index = project(tmp_path, is_git=is_git)
    assert index.find("main")[:2] == ["docs/main.md", "src/main.py"] or index.find("main")[:2] == [
        "src/main.py",
        "docs/main.md",
    ]
    assert "build/main.o" not in index.find("main")
    assert index.find("sdh")[0] == "src/deep/handler.py"
    assert index.find("src/de")[0] in {"src/deep/", "src/deep/handler.py"}
    assert "a b.txt" in index.find("")
    assert index.find("zzz") == []


def test_a_name_with_a_newline_or_that_is_no_text_does_no_harm(tmp_path: Path) -> None:
    index = project(tmp_path, is_git=True)
    (tmp_path / "new\nline").write_text("")
    Path(str(tmp_path) + "/bad\udcff").write_text("")
    assert "new\nline" in index.find("new")


def test_a_dropped_path_is_taken_for_an_image_only_where_there_is_one(tmp_path: Path) -> None:
    image = tmp_path / "a shot.png"
    image.write_bytes(b"")
    mention = f'@"{image}" '
    for pasted in (
        str(image),
        f"'{image}'",
        str(image).replace(" ", "\\ "),
        f"file://{image}".replace(" ", "%20"),
    ):
        assert dropped(pasted, tmp_path) == mention
    assert dropped("a shot.png", tmp_path) == '@"a shot.png" '
    for other in (
        "gone.png",
        "just words",
        f"{image}\n{image}",
        "",
        "'",
        "~nobody/x.png",
        "\0.png",
    ):
        assert dropped(other, tmp_path) is None


# --- questions ---------------------------------------------------------------------------------


def panel() -> Panel:
    from prompt_toolkit.buffer import Buffer

    return Panel(Buffer(multiline=False), lambda: None, lambda _wanted: None)


def question(name: str) -> Question:
    return Question("Bash", "Run it", "it", "Bash(it)", name)


def test_questions_of_several_agents_come_one_after_the_other_each_with_its_name() -> None:
    async def asked() -> tuple[list[str], list[object]]:
        one, shown = panel(), []
        tasks = [
            asyncio.ensure_future(
                one.ask(question(name), lambda name=name: shown.append(name))  # type: ignore[misc]
            )
            for name in ("first", "second", "third")
        ]
        seen = []
        for answer in ("y", "n", "r"):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            seen.append("".join(part[1] for part in one.text(80, 24)).partition("\n")[0])
            one.press(answer)
            if answer == "r":
                one.reason.text = "elsewhere"
                one.send_reason()
            await asyncio.sleep(0)
        assert shown == ["first", "second", "third"]
        return seen, list(await asyncio.gather(*tasks))

    seen, answers = asyncio.run(asked())
    assert seen == [f"{name} asks: Allow Bash?" for name in ("first", "second", "third")]
    assert answers == ["yes", "no", Refusal("elsewhere")]


@given(st.integers(1, 200), st.integers(1, 60), st.text(max_size=80))
def test_a_question_fits_wherever_it_is_asked(columns: int, rows: int, rule: str) -> None:
    async def lines() -> list[str]:
        one = panel()
        task = asyncio.ensure_future(
            one.ask(Question(HOSTILE, "x", "", HOSTILE + rule), lambda: None)
        )
        await asyncio.sleep(0)
        assert one.asked is not None
        one.asked.is_shown = one.asked.is_armed = True
        text = "".join(part[1] for part in one.text(columns, rows))
        task.cancel()
        return text.split("\n")

    found = asyncio.run(lines())
    assert "[y]" in "".join(found) or columns < 30
    assert all("\x1b" not in line for line in found)
    assert columns < 30 or all(width(line) <= columns for line in found)
    assert len(found) <= max(rows, 2) or rows >= 14


# --- the status line ---------------------------------------------------------------------------


@given(st.integers(1, 200), st.text(max_size=60))
def test_the_status_line_fits_and_keeps_what_matters_most(columns: int, model: str) -> None:
    facts = Facts(model + HOSTILE, "plan", 12_345, 100_000, 0.5, "project (main)", "2 running")
    line = StatusLine(lambda: facts)
    line.update()
    text = "".join(part[1] for part in line.text(columns))
    assert width(text) <= max(columns, 1)
    assert "\x1b" not in text
    if columns > 10:
        assert text.startswith("plan")
    if columns > 120:
        assert "12% of context (12.3k)" in text
        assert "$0.5000" in text


def test_every_command_has_a_description_for_completion() -> None:
    from typing import get_args

    assert set(get_args(Name)) == set(descriptions())
    assert all(descriptions().values())
    assert not _COLOUR.search("".join(descriptions().values()))
