"""The conversation: read, unfolded, forked and rewound at a message; and the tree of branches."""

from __future__ import annotations

import pytest
from tests.browse.looking import LARGE, SMALL, Reader, looking, run
from tests.browse.seed import AFTER, BEFORE, Seeded

import rewake
from rewake.browse.app import Choice
from rewake.browse.talk_screen import Block, TalkScreen
from rewake.model.content import plain_text
from rewake.resume.listing import SessionInfo

BOTH = pytest.mark.parametrize("size", [SMALL, LARGE])


def texts(seeded: Seeded, session_id: str) -> list[str]:
    """What the active conversation says."""
    state = rewake.resume(session_id, project=seeded.project, home=seeded.home)
    return [plain_text(entry.message.content) for entry in state.messages]


def newest(seeded: Seeded) -> list[SessionInfo]:
    return rewake.sessions(seeded.project, home=seeded.home)


async def opened(reader: Reader) -> TalkScreen:
    """Look into the selected session."""
    await reader.sees("Open")
    await reader.until(lambda: "sessions" in reader.screen or "1 session" in reader.screen)
    await reader.press("enter")
    await reader.sees("items")
    screen = reader.app.screen
    assert isinstance(screen, TalkScreen)
    await reader.until(lambda: screen.selected is not None)
    return screen


async def select(reader: Reader, kind: str, words: str) -> None:
    """Move up to the item with these words."""
    screen = reader.app.screen
    assert isinstance(screen, TalkScreen)

    def is_there() -> bool:
        item = screen.selected.item if screen.selected is not None else None
        about = f"{item.text} {item.call.name if item.call else ''}" if item else ""
        return item is not None and item.kind == kind and words in about

    for _ in range(100):
        if is_there():
            return
        await reader.press("up")
        await reader.pilot.pause()
    pytest.fail(f"there is no {kind} with {words!r}")


@BOTH
def test_an_edit_unfolds_to_its_diff_and_a_command_to_its_output(
    seeded: Seeded, size: tuple[int, int]
) -> None:
    seeded.rich()

    async def story() -> None:
        async with looking(seeded, size) as reader:
            await opened(reader)
            await select(reader, "call", "Bash")
            screen = reader.screen
            assert "✗ Bash  failed" in screen
            assert "AssertionError" not in screen
            await reader.press("enter")
            await reader.sees("AssertionError: 3 != 2")
            await reader.press("enter")
            await select(reader, "call", "Edit")
            await reader.press("enter")
            screen = await reader.sees("+    delay = 0.1")
            assert "-    delay = 0" in screen
            await reader.press("enter")
            await reader.until(lambda: "+    delay = 0.1" not in reader.screen)

    run(story())


def test_markdown_is_drawn_and_html_and_links_stay_text(seeded: Seeded) -> None:
    seeded.rich()

    async def story() -> None:
        async with looking(seeded, LARGE) as reader:
            await opened(reader)
            await reader.press("home")
            screen = await reader.sees("What I found")
            assert "## What I found" not in screen
            assert "**never**" not in screen
            assert "<b>this</b>" in screen
            assert "(https://example.org/retry)" in screen

    run(story())


def test_an_interrupted_call_shows_its_verdict(seeded: Seeded) -> None:
    with seeded.open() as session:
        session.user("Write it")
        session.assistant([rewake.ToolCall("c", "Write", {"file_path": "a.txt"})], model="m:m")
        change = rewake.FileChange(seeded.project / "a.txt", None, "text\n")
        with (
            pytest.raises(KeyboardInterrupt),
            session.action("Write", "c", change, message_id=None),
        ):
            raise KeyboardInterrupt
    with seeded.open(resume="newest"):
        pass

    async def story() -> None:
        async with looking(seeded, LARGE) as reader:
            await opened(reader)
            await reader.sees("interrupted: not applied")

    run(story())


def test_a_fork_at_a_message_is_a_new_session_and_leaves_the_original_alone(
    seeded: Seeded,
) -> None:
    origin = seeded.branched()
    before = seeded.paths(origin).transcript.read_bytes()

    async def story() -> None:
        async with looking(seeded, LARGE) as reader:
            await opened(reader)
            await select(reader, "answer", "Red, green")
            await reader.press("f")
            await reader.sees("Forked as")
            await reader.press("escape")
            await reader.sees("2 sessions")

    run(story())
    fork = next(info for info in newest(seeded) if info.session_id != origin)
    assert texts(seeded, fork.session_id) == ["Name three colours", "Red, green, blue."]
    assert fork.state == "done"
    assert seeded.paths(origin).transcript.read_bytes() == before


def test_a_rewind_asks_first_and_can_be_undone(seeded: Seeded) -> None:
    session_id = seeded.branched()
    now = ["Name three colours", "Red, green, blue.", "Now three rivers", "Elbe, Oder, Rhine."]

    async def story() -> None:
        async with looking(seeded, LARGE) as reader:
            await opened(reader)
            await select(reader, "answer", "Red, green")
            await reader.press("w")
            await reader.sees("Rewind to the selected message?")
            await reader.press("escape")
            await reader.pilot.pause()
            assert texts(seeded, session_id) == now
            await reader.press("w")
            await reader.sees("Rewind to the selected message?")
            await reader.press("y")
            await reader.sees("2 items")
            assert texts(seeded, session_id) == now[:2]
            await reader.press("u")
            await reader.sees("4 items")

    run(story())
    assert texts(seeded, session_id) == now


def test_files_go_back_with_the_conversation_after_a_true_preview_and_come_again(
    seeded: Seeded,
) -> None:
    session_id = seeded.rich()
    file = seeded.project / "retry.py"

    async def story() -> None:
        async with looking(seeded, LARGE) as reader:
            await opened(reader)
            await select(reader, "prompt", "Why does the retry test fail")
            await reader.press("W")
            screen = await reader.sees("take the files back?")
            assert "1 path to be taken back" in screen
            assert "retry.py (+1 -1)" in screen
            await reader.press("escape")
            await reader.pilot.pause()
            assert file.read_text() == AFTER
            await reader.press("W")
            await reader.sees("take the files back?")
            await reader.press("y")
            await reader.sees("1 path taken back.")
            assert file.read_text() == BEFORE
            await reader.press("u")
            await reader.sees("Undo the newest rewind, with its files?")
            await reader.press("y")
            await reader.sees("Rewind undone.")
            assert file.read_text() == AFTER

    run(story())
    assert texts(seeded, session_id)[-1] == "One test still fails; I look at it next."


@BOTH
def test_the_tree_shows_the_branch_that_was_left_and_leads_into_it(
    seeded: Seeded, size: tuple[int, int]
) -> None:
    session_id = seeded.branched()

    async def story() -> None:
        async with looking(seeded, size) as reader:
            await reader.sees("1 session")
            await reader.press("t")
            screen = await reader.sees("1 left branch")
            assert "● here  Elbe, Oder, Rhine." in screen
            assert "⎇ left  Cat, dog, owl." in screen
            await reader.pilot.pause()
            await reader.press("home", "down", "enter")
            await reader.sees("a branch that was left")
            await reader.sees("Cat, dog, owl.")
            await reader.press("r")
            await reader.sees("Take up this branch again?")
            await reader.press("enter")
            await reader.until(lambda: reader.app.return_value is not None)
            assert reader.app.return_value == Choice(session_id)

    run(story())
    assert texts(seeded, session_id)[-1] == "Cat, dog, owl."


def test_a_prompt_before_a_compaction_is_reached_by_the_tree_and_by_the_whole_history(
    seeded: Seeded,
) -> None:
    with seeded.open() as session:
        session.metadata(title="Counting")
        session.user("Say ONE")
        session.assistant("ONE", model="m:m")
        session.user("Say TWO")
        session.checkpoint("They said one.")
        session.assistant("TWO", model="m:m")

    async def story() -> None:
        async with looking(seeded, LARGE) as reader:
            await opened(reader)
            screen = await reader.sees("compacted: a summary of what came before")
            assert "Say ONE" not in screen
            await reader.press("h")
            await reader.sees("Say ONE")
            await reader.press("escape", "t")
            await reader.sees("● here")
            await reader.pilot.pause()
            await reader.press("home", "enter")
            await reader.sees("1 items")
            await reader.sees("Say ONE")

    run(story())


def test_of_a_long_conversation_only_what_is_near_is_drawn(seeded: Seeded) -> None:
    with seeded.open() as session:
        for number in range(150):
            session.user(f"Question {number}.")
            session.assistant(f"Answer {number}.", model="m:m")

    async def story() -> None:
        async with looking(seeded) as reader:
            screen = await opened(reader)
            await reader.sees("Answer 149.")
            assert len(screen.query(Block)) <= 40
            await reader.press("home")
            await reader.sees("Question 0.")
            assert len(screen.query(Block)) <= 40
            for _ in range(40):
                await reader.press("down")
            await reader.sees("Question 20.")
            await reader.press("end", "pageup", "pageup")
            await reader.sees("Answer 14")

    run(story())
