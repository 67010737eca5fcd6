"""What the browser changes: names, tags, and what it leaves alone; and how it is left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.browse.looking import LARGE, looking, run
from tests.browse.seed import Seeded

import rewake
from rewake.browse import acts
from rewake.browse.app import Choice
from rewake.compose.archives import trash
from rewake.resume.listing import SessionInfo


def only(seeded: Seeded) -> SessionInfo:
    (info,) = rewake.sessions(seeded.project, home=seeded.home)
    return info


def test_a_session_is_named_and_stays_done(seeded: Seeded) -> None:
    seeded.say("Water the plants")

    async def story() -> None:
        async with looking(seeded) as reader:
            await reader.sees("1 session")
            await reader.press("n")
            await reader.sees("Title of this session")
            await reader.press("home", "ctrl+k", *"Garden", "enter")
            await reader.sees("✓ Garden")

    run(story())
    assert (only(seeded).title, only(seeded).state) == ("Garden", "done")


def test_an_empty_name_gives_the_first_prompt_back(seeded: Seeded) -> None:
    seeded.say("Water the plants", title="Garden")
    acts.rename(seeded.at, only(seeded), " ")
    assert only(seeded).title == "Water the plants"


def test_tags_are_edited_as_one_line(seeded: Seeded) -> None:
    seeded.say("Water the plants", tags=["home"])

    async def story() -> None:
        async with looking(seeded) as reader:
            await reader.sees("#home")
            await reader.press("g")
            await reader.sees("Tags, with commas between them")
            await reader.press(*", green , ,two words", "enter")
            await reader.sees("#home #green #two words")

    run(story())
    assert only(seeded).tags == ("home", "green", "two words")


def test_leaving_a_question_changes_nothing(seeded: Seeded) -> None:
    before = seeded.paths(seeded.say("Water the plants")).transcript.read_bytes()

    async def story() -> None:
        async with looking(seeded) as reader:
            await reader.sees("1 session")
            await reader.press("n", "x", "escape", "g", "escape", "n", "enter", "question_mark")
            await reader.sees("PgUp PgDn")
            await reader.press("escape")
            await reader.pilot.pause()

    run(story())
    assert seeded.paths(only(seeded).session_id).transcript.read_bytes() == before


def test_looking_around_changes_no_file(seeded: Seeded) -> None:
    session_id = seeded.rich()
    seeded.branched()
    directory = seeded.paths(session_id).directory.parent
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}

    async def story() -> None:
        async with looking(seeded, LARGE) as reader:
            await reader.sees("2 sessions")
            await reader.press("down", "up", "t")
            await reader.sees("● here")
            await reader.press("escape", "enter")
            await reader.sees("items")
            await reader.press("up", "enter", "up", "enter", "y", "escape", "y")

    run(story())
    assert {p: p.read_bytes() for p in directory.rglob("*") if p.is_file()} == before


def test_a_session_that_somebody_else_writes_is_shown_and_its_holder_is_named(
    seeded: Seeded,
) -> None:
    code = (
        "import sys, rewake\n"
        f"with rewake.open_session({str(seeded.project)!r}, home={str(seeded.home)!r}) as session:\n"
        "    session.user('At work on it')\n"
        "    session.commit()\n"
        "    print('open', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"

        async def story() -> None:
            async with looking(seeded, LARGE) as reader:
                await reader.sees(f"running, process {other.pid}")
                await reader.press("n", *"Mine", "enter")
                await reader.sees(f"being written by process {other.pid}")
                await reader.press("f")
                await reader.sees("2 sessions")

        run(story())
        assert other.stdin is not None
        other.stdin.close()


def test_resume_and_the_picker_leave_with_the_session(seeded: Seeded) -> None:
    older = seeded.say("Older")
    newest = seeded.say("Newest")

    async def story() -> None:
        async with looking(seeded) as reader:
            await reader.sees("2 sessions")
            await reader.press("down", "r")
            await reader.until(lambda: reader.app.return_value is not None)
            assert reader.app.return_value == Choice(older)
        async with looking(seeded, picks=True) as reader:
            await reader.sees("2 sessions")
            await reader.press("slash", *"newest", "enter")
            await reader.until(lambda: reader.app.return_value is not None)
            assert reader.app.return_value == Choice(newest)
        async with looking(seeded, picks=True) as reader:
            await reader.sees("2 sessions")
            await reader.press("escape")
            await reader.until(lambda: not reader.app.is_running)
            assert reader.app.return_value is None

    run(story())


def test_a_session_is_exported_to_a_file_that_is_not_there_yet(
    seeded: Seeded, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded.say("Keep me", "**Kept.**")
    monkeypatch.chdir(seeded.root)

    async def story() -> None:
        async with looking(seeded, LARGE) as reader:
            await reader.sees("1 session")
            for expected in ("Exported to", "is there already"):
                await reader.press("x")
                await reader.sees("Export to")
                await reader.press("home", "ctrl+k", *"out.md", "enter")
                await reader.sees(expected)

    run(story())
    assert "**Kept.**" in (seeded.root / "out.md").read_text()


def test_a_session_goes_to_the_trash_only_when_that_was_confirmed(seeded: Seeded) -> None:
    session_id = seeded.say("Throw me away")

    async def story() -> None:
        async with looking(seeded, LARGE) as reader:
            await reader.sees("1 session")
            await reader.press("d")
            await reader.sees("It goes to the trash")
            await reader.press("n")
            await reader.pilot.pause()
            assert only(seeded).session_id == session_id
            await reader.press("d")
            await reader.sees("It goes to the trash")
            await reader.press("y")
            await reader.sees("No sessions in this project yet.")

    run(story())
    assert [entry.session_id for entry in trash(home=seeded.home)] == [session_id]


def test_the_key_bar_can_be_clicked(seeded: Seeded) -> None:
    seeded.say("Click")

    async def story() -> None:
        async with looking(seeded) as reader:
            screen = await reader.sees("? Keys")
            line = screen.split("\n")[-1]
            await reader.pilot.click("#keys", offset=(line.index("Keys"), 0))
            await reader.sees("PgUp PgDn")

    run(story())


def test_without_colour_nothing_is_coloured(
    seeded: Seeded, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded.rich()
    monkeypatch.setenv("NO_COLOR", "1")

    async def story() -> None:
        async with looking(seeded, LARGE, environ={"NO_COLOR": "1"}) as reader:
            await reader.sees("Why does the retry test fail?")
            lines = reader.app.screen._compositor.render_strips()
            styles = [segment.style for line in lines for segment in line if segment.style]
            colours = [colour for style in styles for colour in (style.color, style.bgcolor)]
            assert all(colour is None or colour.is_default for colour in colours)
            selected = [s for s in lines[2] if s.style is not None and s.style.reverse]
            assert selected, "the selected row stands out without colour"

    run(story())


@pytest.mark.parametrize(("told", "is_dark"), [("15;0", True), ("0;15", False), ("", True)])
def test_light_and_dark_follow_the_terminal_and_a_key(
    seeded: Seeded,
    told: str,
    is_dark: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    async def story() -> None:
        async with looking(seeded, environ={"COLORFGBG": told}) as reader:
            assert reader.app.is_dark is is_dark
            await reader.press("l")
            assert reader.app.is_dark is not is_dark

    run(story())


def test_a_session_whose_project_is_gone_can_still_be_named(seeded: Seeded, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    with rewake.open_session(gone, home=seeded.home, durability="process") as session:
        session.user("Where am I?")
    gone.rmdir()
    (info,) = rewake.sessions(seeded.project, home=seeded.home, everywhere=True)
    acts.rename(seeded.at, info, "Lost")
    (info,) = rewake.sessions(seeded.project, home=seeded.home, everywhere=True)
    assert info.title == "Lost"
