"""The list: found, filtered, previewed, whatever the sessions are called and however many there are."""

from __future__ import annotations

import time

import pytest
from tests.browse.looking import LARGE, SMALL, looking, run
from tests.browse.seed import Seeded

import rewake
from rewake.browse.session_list import SessionList

BOTH = pytest.mark.parametrize("size", [SMALL, LARGE])


@BOTH
def test_the_newest_session_is_selected_and_previewed(
    seeded: Seeded, size: tuple[int, int]
) -> None:
    seeded.say("Water the plants", "All are **watered**.")
    seeded.rich()

    async def story() -> None:
        async with looking(seeded, size) as reader:
            await reader.sees("2 sessions")
            screen = await reader.sees("Why does the retry test fail?")
            assert "Fix the retry loop" in screen
            assert "#bug #retry" in screen
            await reader.press("down")
            screen = await reader.sees("All are watered.")
            assert "✓ done" in screen

    run(story())


def test_a_fork_counts_the_messages_that_it_shares_with_its_origin(seeded: Seeded) -> None:
    origin = seeded.say("Water the plants", "All are watered.")
    with seeded.open(resume=origin, fork=True) as fork:
        fork.terminal("done")

    async def story() -> None:
        async with looking(seeded, LARGE) as reader:
            await reader.sees("Water the plants (fork)")
            assert "2 messages" in await reader.sees("All are watered.")

    run(story())


def test_typing_filters_by_all_words_and_escape_shows_everything_again(seeded: Seeded) -> None:
    for name in ("Buy milk", "Buy bread", "Sell milk"):
        seeded.say(name)

    async def story() -> None:
        async with looking(seeded) as reader:
            await reader.sees("3 sessions")
            await reader.press("slash", *"MILK buy")
            screen = await reader.sees("1 of 3")
            assert "Buy milk" in screen
            assert "Sell milk" not in screen
            await reader.press("escape")
            await reader.sees("3 sessions")
            await reader.press("slash", *"nothing like it")
            await reader.sees("No session has all of these words.")

    run(story())


def test_a_filter_finds_tags_and_ids(seeded: Seeded) -> None:
    tagged = seeded.say("One", tags=["urgent"])
    seeded.say("Two")

    async def story() -> None:
        for words in ("urgent", tagged):
            async with looking(seeded) as reader:
                await reader.sees("2 sessions")
                await reader.press("slash", *words)
                await reader.sees("1 of 2")

    run(story())


@BOTH
def test_an_empty_home_says_what_to_do(seeded: Seeded, size: tuple[int, int]) -> None:
    async def story() -> None:
        async with looking(seeded, size) as reader:
            await reader.sees("No sessions in this project yet.")
            await reader.press("enter", "r", "f", "n", "g", "t", "y", "down", "end")
            await reader.press("a")
            await reader.sees("No sessions yet.")

    run(story())


def test_all_projects_are_one_key_away(seeded: Seeded) -> None:
    seeded.say("Here")
    (seeded.root / "second").mkdir()
    with rewake.open_session(
        seeded.root / "second", home=seeded.home, durability="process"
    ) as session:
        session.user("Elsewhere")

    async def story() -> None:
        async with looking(seeded, LARGE) as reader:
            screen = await reader.sees("1 session")
            assert "Elsewhere" not in screen
            await reader.press("a")
            screen = await reader.sees("2 sessions")
            assert "Elsewhere" in screen

    run(story())


def test_a_broken_session_is_a_row_and_its_damage_is_told(seeded: Seeded) -> None:
    broken = seeded.say("Will break")
    seeded.break_(broken)
    unreadable = seeded.say("Not a file any more")
    path = seeded.paths(unreadable).transcript
    path.unlink()
    path.mkdir()
    seeded.say("Whole")

    async def story() -> None:
        async with looking(seeded, LARGE) as reader:
            await reader.sees("Whole")
            await reader.press("down")
            await reader.sees("corrupt line at byte")

    run(story())


@BOTH
def test_hostile_texts_are_shown_as_text(seeded: Seeded, size: tuple[int, int]) -> None:
    evil = "\x1b[2J[bold red]x[/] \u202egnp [@click=app.leave]go[/] \x9b31m\ud800 :smile: [/nope]"
    seeded.say(evil, evil + "\n\n[a](javascript:alert) <script>x</script>\n\n" + "[" * 500)

    async def story() -> None:
        async with looking(seeded, size) as reader:
            screen = await reader.sees("[bold red]x[/]")
            assert ":smile:" in screen
            screen = await reader.sees("test:model")
            assert not set("\x1b\x9b\u202e\ud800") & set(reader.screen)
            await reader.press("enter")
            await reader.sees("2 items")
            await reader.sees("<script>")
            await reader.press("escape", "n")
            await reader.sees("Title of this session")

    run(story())


def test_two_thousand_sessions_are_walked_and_filtered_at_once(seeded: Seeded) -> None:
    seeded.many(2000)

    async def story() -> None:
        async with looking(seeded) as reader:
            await reader.sees("2,000 sessions")
            listed = reader.app.screen.query_one(SessionList)
            began = time.process_time()
            await reader.press("end")
            assert listed.cursor == 1999
            await reader.press("pageup", "home")
            assert listed.cursor == 0
            await reader.press("slash", *"number 001234")
            await reader.sees("1 of 2,000")
            # Generous: a widget for each row would take many times as long.
            assert time.process_time() - began < 5

    run(story())


@pytest.mark.parametrize("size", [(40, 10), (20, 5), (10, 3), (200, 60)])
def test_any_size_of_terminal_will_do(seeded: Seeded, size: tuple[int, int]) -> None:
    seeded.rich()

    async def story() -> None:
        async with looking(seeded, size) as reader:
            listed = reader.app.screen.query_one(SessionList)
            await reader.until(lambda: listed.selected is not None)
            await reader.press("enter", "up", "up", "enter", "question_mark", "escape", "t")
            await reader.press("escape", "escape", "n", "escape")
            await reader.pilot.resize_terminal(80, 24)
            await reader.sees("Fix the retry loop")

    run(story())


def test_the_mouse_selects_and_a_double_click_opens(seeded: Seeded) -> None:
    seeded.say("First")
    seeded.say("Second")

    async def story() -> None:
        async with looking(seeded) as reader:
            await reader.sees("2 sessions")
            await reader.pilot.click(SessionList, offset=(5, 1))
            await reader.until(lambda: reader.app.screen.query_one(SessionList).cursor == 1)
            await reader.pilot.click(SessionList, offset=(5, 1), times=2)
            await reader.sees("2 items")

    run(story())
