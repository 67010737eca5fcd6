"""The page of a file, in a real browser."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Page, expect
from tests.report.conftest import Watched
from tests.report.seed import ReportSeed


def opened(seed: ReportSeed, watched: Watched) -> Page:
    return watched.opened(Path(seed.report(seed.everything()).path))


def test_it_opens_and_tells_the_outcome_the_cost_and_the_conversation(
    seed: ReportSeed, watched: Watched
) -> None:
    page = opened(seed, watched)
    expect(page).to_have_title("Fix the retry loop · Rewake")
    expect(page.locator("h1")).to_have_text("Fix the retry loop")
    expect(page.locator(".outcome")).to_have_text("Done")
    figures = page.locator(".figures")
    expect(figures).to_contain_text("$0.43")
    expect(figures).to_contain_text("80 % from cache")
    expect(figures).to_contain_text("1 failed")
    expect(page.locator(".row.prompt").first).to_contain_text("Why does the retry test fail?")
    expect(page.locator(".row.answer strong").first).to_have_text("never")
    expect(page.locator(".chart canvas")).to_have_count(2)


def test_a_call_is_folded_and_shows_its_difference_when_it_is_unfolded(
    seed: ReportSeed, watched: Watched
) -> None:
    page = opened(seed, watched)
    fold = page.locator(".row.call button.fold", has_text="Edit")
    expect(fold).to_have_attribute("aria-expanded", "false")
    fold.click()
    row = page.locator(".row.call", has_text="edited retry.py")
    expect(row.locator("button.fold")).to_have_attribute("aria-expanded", "true")
    expect(row.locator(".line.add").first).to_contain_text('"""Retries a call."""')
    expect(row.locator(".line.del").first).to_contain_text("def retry(call):")
    expect(row.locator(".c-k").nth(3)).to_be_attached()
    row.locator("button.fold").click()
    expect(page.locator(".line.add")).to_have_count(0)


def test_the_search_counts_the_rows_with_the_words_unfolds_them_and_goes_from_one_to_the_next(
    seed: ReportSeed, watched: Watched
) -> None:
    page = opened(seed, watched)
    page.keyboard.press("/")
    page.keyboard.type("assertionerror")
    expect(page.locator(".hit-count")).to_have_text("1 of 1")
    expect(page.locator(".row.at .output")).to_contain_text("AssertionError: 3 != 2")
    page.locator("#search").fill("retry.py")
    expect(page.locator(".hit-count")).to_have_text("1 of 4")
    page.locator("#search").press("Enter")
    expect(page.locator(".hit-count")).to_have_text("2 of 4")
    page.locator("#search").fill("no such words")
    expect(page.locator(".hit-count")).to_have_text("nothing found")


def test_another_branch_is_shown_in_place_of_the_active_one(
    seed: ReportSeed, watched: Watched
) -> None:
    page = opened(seed, watched)
    feed = page.locator(".feed")
    expect(feed).not_to_contain_text("Write the documentation")
    page.locator(".branches button", has_text="Write the documentation").click()
    expect(feed).to_contain_text("Voilà")
    expect(feed).not_to_contain_text("Thanks. Show me the chart.")
    expect(page.locator(".branches [aria-current=true]")).to_contain_text("Write the docum")
    page.locator(".branches button", has_text="Now let a sub-agent").click()
    expect(feed).to_contain_text("Thanks. Show me the chart.")
    expect(feed).not_to_contain_text("Voilà")


def test_a_sub_agents_conversation_unfolds_below_its_call(
    seed: ReportSeed, watched: Watched
) -> None:
    page = opened(seed, watched)
    page.locator("#tab-agents").click()
    expect(page.locator(".panel.agents")).to_contain_text("Find other retry loops")
    page.get_by_role("button", name="Show its conversation").first.click()
    expect(page.locator(".row.nested.answer").first).to_contain_text("fetch.py first")
    page.locator(".row.call:not(.nested) button.fold", has_text="Task").click()
    page.get_by_role("button", name="Fold its conversation").click()
    expect(page.locator(".row.nested")).to_have_count(0)


def test_a_sub_agent_of_a_sub_agent_unfolds_below_the_call_that_it_worked_for(
    seed: ReportSeed, watched: Watched
) -> None:
    page = opened(seed, watched)
    page.locator("#tab-agents").click()
    below = page.locator(".panel.agents li", has_text="Read upload.py")
    below.get_by_role("button", name="Show its conversation").click()
    expect(page.locator(".row.nested.depth-2.answer")).to_contain_text("It has one, too.")
    texts = page.locator(".row").all_inner_texts()
    inner = next(at for at, text in enumerate(texts) if "It has one, too" in text)
    assert "Task" in "".join(texts[inner - 3 : inner])
    assert "Two more: in fetch.py" in texts[inner + 1]


def test_interrupted_actions_have_their_verdict_and_evidence(
    seed: ReportSeed, watched: Watched
) -> None:
    page = opened(seed, watched)
    page.get_by_role("button", name="Look at the evidence").click()
    panel = page.locator(".panel.interrupted")
    expect(panel).to_contain_text("Deploy")
    expect(panel).to_contain_text("nobody can tell")
    expect(panel).to_contain_text("uploading 3 of 7")
    panel.locator("button.link").click()
    expect(page.locator(".row.at")).to_contain_text("Deploy")


def test_changed_files_stand_by_turn_with_their_differences(
    seed: ReportSeed, watched: Watched
) -> None:
    page = opened(seed, watched)
    page.locator("#tab-files").click()
    panel = page.locator(".panel.files")
    expect(panel.locator(".turn")).to_have_count(1)
    expect(panel).to_contain_text("Why does the retry test fail?")
    panel.locator("details.file summary").click()
    expect(panel.locator(".line.add").first).to_contain_text("Retries a call")


def test_runs_models_and_health_have_their_place(seed: ReportSeed, watched: Watched) -> None:
    page = opened(seed, watched)
    page.locator("#tab-runs").click()
    expect(page.locator(".panel.runs")).to_contain_text("test:model-small")
    page.locator("#tab-health").click()
    expect(page.locator(".panel.health")).to_contain_text("No damage was found")


def test_damage_is_told_at_the_top_in_its_place_and_in_full(
    seed: ReportSeed, watched: Watched
) -> None:
    session_id = seed.say("Hello", "Here I am.")
    seed.break_(session_id)
    page = watched.opened(Path(seed.report(session_id).path))
    expect(page.locator(".top .notice")).to_contain_text("1 line of the transcript can't be read")
    expect(page.locator(".row.damage")).to_have_count(1)
    page.get_by_role("button", name="See what is known").click()
    expect(page.locator(".panel.health .finding").first).to_contain_text("line 3")


def test_the_keyboard_reaches_rows_folds_tabs_and_help(seed: ReportSeed, watched: Watched) -> None:
    page = opened(seed, watched)
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator(".row.at")).to_contain_text("Why does the retry test fail?")
    page.keyboard.press("j")
    expect(page.locator(".row.at")).to_be_focused()
    page.keyboard.press("o")
    expect(page.locator(".row.at button.fold")).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("k")
    expect(page.locator(".row.at")).to_contain_text("Why does the retry test fail?")
    page.keyboard.press("G")
    expect(page.locator(".row.at")).to_contain_text("Run ended")
    page.keyboard.press("2")
    expect(page.locator("#tab-files")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("?")
    expect(page.locator("dialog.help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog.help")).to_be_hidden()


def test_the_arrow_keys_go_from_step_to_step_in_the_timeline(
    seed: ReportSeed, watched: Watched
) -> None:
    page = opened(seed, watched)
    page.locator(".charts").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".chart-words")).to_contain_text("Step 1 at")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".chart-words")).to_contain_text("Step 2 at")
    expect(page.locator(".chart-words")).to_contain_text("80 % cached")
    page.keyboard.press("Enter")
    expect(page.locator(".row.at")).to_contain_text("Edit")


def test_a_legend_is_printed_with_all_its_colours(seed: ReportSeed, watched: Watched) -> None:
    page = opened(seed, watched)
    swatches = page.locator(".swatch")
    expect(swatches).not_to_have_count(0)
    page.emulate_media(media="print")
    for swatch in swatches.all():
        expect(swatch).to_be_visible()
        expect(swatch).to_have_css("print-color-adjust", "exact")


def test_the_theme_follows_the_system_until_it_is_chosen(
    seed: ReportSeed, watched: Watched
) -> None:
    page = watched.page
    page.emulate_media(color_scheme="dark")
    opened(seed, watched)
    html = page.locator("html")
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.keyboard.press("t")
    expect(html).not_to_have_css("background-color", dark)
    page.keyboard.press("t")
    expect(html).to_have_css("background-color", dark)


def test_nothing_is_wider_than_a_phone(seed: ReportSeed, watched: Watched) -> None:
    page = watched.page
    page.set_viewport_size({"width": 390, "height": 800})
    opened(seed, watched)
    page.get_by_role("button", name="Unfold all").click()
    expect(page.locator(".line.add").first).to_be_attached()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
