"""What axe-core finds in the page: nothing."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.report.conftest import Watched
from tests.report.seed import ReportSeed

from rewake.compose.viewing import LiveView

AXE = files("axe_playwright_python").joinpath("axe.min.js")


def violations(page: Page) -> list[str]:
    # As an evaluated script, since the page's own policy lets none be added to it.
    page.evaluate(AXE.read_text("utf-8") + ";0")
    found = page.evaluate("async () => (await axe.run({resultTypes: ['violations']})).violations")
    return [
        f"{item['id']}: {node['target']} {node['failureSummary']}"
        for item in found
        for node in item["nodes"][:3]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_every_part_of_a_report_passes(
    seed: ReportSeed, watched: Watched, scheme: str, width: int
) -> None:
    page = watched.page
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of its words
    page.set_viewport_size({"width": width, "height": 900})
    watched.opened(Path(seed.report(seed.everything()).path))
    assert violations(page) == []
    page.get_by_role("button", name="Unfold all").click()
    expect(page.locator(".line.add").first).to_be_attached()
    assert violations(page) == []
    for name in ("files", "interrupted", "agents", "runs", "health"):
        page.locator(f"#tab-{name}").click()
        expect(page.locator(f"#panel-{name} > *").first).to_be_attached()
        if name == "files":
            page.locator("details.file summary").click()
            expect(page.locator(".line.add").last).to_be_visible()
        assert violations(page) == [], name
    page.locator("#tab-conversation").focus()
    page.keyboard.press("?")
    assert violations(page) == []


def test_the_list_of_the_live_view_passes(seed: ReportSeed, watched: Watched) -> None:
    seed.say("Paint the fence", tags=["garden"])
    with LiveView(seed.project, home=seed.home) as view:
        watched.own = view.address.partition("#")[0]
        watched.page.goto(view.address)
        page = watched.ready()
        expect(page.locator(".session-list li")).to_have_count(1)
        assert violations(page) == []
