"""Sessions of which only a part is in the page at any moment."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.report.conftest import Watched
from tests.report.seed import ReportSeed

import rewake
from rewake.compose import viewing
from rewake.compose.viewing import LiveView
from rewake.model.content import Text, ToolCall
from rewake.model.events import Outcome, ToolLifecycle

STEPS = 500
# More than five rows, each beginning where the one before ends.
STANDS = """() => {
  const boxes = [...document.querySelectorAll(".feed > .row")]
    .map((row) => [Number(row.getAttribute("aria-posinset")), row.getBoundingClientRect()])
    .sort((one, other) => one[0] - other[0])
    .map(([, box]) => box);
  return boxes.length > 5
    && boxes.every((box, at) => at === 0 || Math.abs(box.top - boxes[at - 1].bottom) < 2);
}"""


def long_session(seed: ReportSeed) -> str:
    with seed.open() as session:
        for number in range(STEPS):
            session.user(f"Question {number}: " + "words and more words " * (number % 9))
            call = ToolCall("c", "Read", {"file_path": f"file{number}.txt"})
            message_id = session.assistant([Text(f"Answer **{number}**."), call])
            result = rewake.Result((Text(f"needle-{number} in the hay\n" * 30),))
            session.record(
                ToolLifecycle("Read", "completed", "", message_id, outcome=Outcome(), result=result)
            )
        return session.session_id


def opened(seed: ReportSeed, watched: Watched) -> Page:
    return watched.opened(Path(seed.report(long_session(seed)).path))


def rows_shown(page: Page) -> int:
    return page.locator(".feed > .row").count()


def test_few_rows_exist_and_scrolling_brings_the_others(seed: ReportSeed, watched: Watched) -> None:
    page = opened(seed, watched)
    expect(page.locator(".row.prompt").first).to_contain_text("Question 0:")
    assert rows_shown(page) < 150
    page.keyboard.press("G")
    expect(page.locator(".row.at")).to_contain_text(f"file{STEPS - 1}.txt")
    expect(page.locator(".row.at")).to_be_in_viewport()
    assert rows_shown(page) < 150
    page.keyboard.press("g")
    expect(page.locator(".row.at")).to_contain_text("Begun")
    expect(page.locator(".row.at")).to_be_in_viewport()


def test_the_search_finds_what_is_not_there_yet(seed: ReportSeed, watched: Watched) -> None:
    page = opened(seed, watched)
    page.locator("#search").fill("needle-432 ")
    expect(page.locator(".hit-count")).to_have_text("1 of 1")
    found = page.locator(".row.at .output")
    expect(found).to_contain_text("needle-432 in the hay")
    expect(found).to_be_in_viewport()


def test_what_is_looked_at_stays_in_its_place_when_rows_above_turn_out_larger(
    seed: ReportSeed, watched: Watched
) -> None:
    page = opened(seed, watched)
    page.locator(".prompts button", has_text="Question 499:").click()
    row = page.locator(".row.at")
    expect(row).to_contain_text("Question 499:")
    expect(row).to_be_in_viewport()
    for _ in range(60):
        page.keyboard.press("k")
    expect(row).to_be_in_viewport()
    expect(row).to_be_focused()


def test_every_row_stands_below_the_one_before(seed: ReportSeed, watched: Watched) -> None:
    page = opened(seed, watched)
    page.get_by_role("button", name="Unfold all").click()
    for part in (0.1, 0.5, 0.9):
        page.evaluate(f"scrollTo(0, document.documentElement.scrollHeight * {part})")
        expect(page.locator(".row.waiting")).to_have_count(0)
        # Rows are measured when they have been drawn, and then put where they belong.
        page.wait_for_function(STANDS)


def test_a_session_of_some_length_prints_as_a_whole(seed: ReportSeed, watched: Watched) -> None:
    page = opened(seed, watched)
    page.evaluate(
        "window.print = () => { window.printed = document.querySelectorAll('.feed > .row').length }"
    )
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert rows_shown(page) == 3 * STEPS + 1
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert rows_shown(page) < 150


def test_the_live_view_reads_a_long_session_part_by_part(
    seed: ReportSeed, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewing, "_READ_BYTES_MAX", 100_000)
    session_id = long_session(seed)
    with LiveView(seed.project, home=seed.home) as view:
        watched.own = view.address.partition("#")[0]
        watched.page.goto(f"{view.address}&s={session_id}")
        page = watched.ready()
        expect(page.locator(".prompts button").last).to_contain_text("Question 499:")
        expect(page.locator(".panel.conversation > .notice")).to_be_hidden()
