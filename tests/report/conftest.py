"""A real browser, and pages that tell on themselves."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright
from tests.report.seed import ReportSeed

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def _chromium() -> str | None:
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    path = _chromium()
    if path is None:
        pytest.skip("no Chromium here; on Debian, `apt-get install chromium` enables this test")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    launched = playwright.chromium.launch(executable_path=path, args=arguments)
    yield launched
    launched.close()


@dataclass
class Watched:
    """A page, and everything it did that a report must not do."""

    page: Page
    own: str = "file:"
    said: list[str] = field(default_factory=list)

    def watch(self) -> None:
        page = self.page
        page.on("console", lambda message: self.said.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self.said.append(f"dialog: {dialog.message}"))
        page.on("popup", lambda popup: self.said.append(f"popup: {popup.url}"))
        page.on("request", lambda request: self._requested(request.url))

    def _requested(self, url: str) -> None:
        if not url.startswith((self.own, "data:", "blob:")):
            self.said.append(f"request: {url}")

    def opened(self, path: Path) -> Page:
        self.page.goto(path.as_uri())
        return self.ready()

    def ready(self) -> Page:
        self.page.wait_for_selector('body[data-ready="1"]')
        return self.page


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 900})
    yield made
    made.close()


@pytest.fixture
def new_page(context: BrowserContext) -> Callable[[], Watched]:
    def make() -> Watched:
        watched = Watched(context.new_page())
        watched.watch()
        return watched

    return make


@pytest.fixture
def watched(new_page: Callable[[], Watched]) -> Iterator[Watched]:
    """A page that must have said nothing by the end of the test."""
    page = new_page()
    yield page
    assert page.said == []


@pytest.fixture
def seed(tmp_path: Path) -> ReportSeed:
    return ReportSeed(tmp_path)
