"""A laptop cloud, a browser and pages for the tests of the dashboard; one of each for the folder.

The browser is closed before tests of other folders run: Playwright keeps an event loop while it is open.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from support.browser import CHROMIUM_ARGUMENTS, ERRORS_OF_LOST_CONNECTIONS, WHY_NOT
from support.laptop import Laptop, start_laptop
from web.site import Site

PATIENCE_MS = 20_000
ARTIFACTS = Path(__file__).parents[2] / ".artifacts" / "web"


@pytest.fixture(scope="package")
def chromium() -> str:
    found = shutil.which("chromium")
    if found is None and os.environ.get("BROWSER_TESTS") == "required":
        pytest.fail(WHY_NOT)
    if found is None:
        pytest.skip(WHY_NOT)
    return found


@pytest.fixture(scope="package")
def browser(chromium: str) -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="package")
def site(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with start_laptop(tmp_path_factory.mktemp("web"), workers=1) as laptop:
        yield seeded(laptop)


def seeded(laptop: Laptop) -> Site:
    site = Site(laptop)
    site.seed()
    return site


class Pages:
    """Opens pages of the dashboard and collects their errors."""

    def __init__(self, browser: Browser, site: Site) -> None:
        self.browser, self.site = browser, site
        self.errors: list[str] = []

    @contextmanager
    def open(self, address: str = "#/", *, width: int = 1440, theme: Any = "light") -> Iterator[Page]:
        context = self.browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.goto(f"{self.site.url}/{address}")
        page.wait_for_selector("#content")
        try:
            yield page
        finally:
            context.close()

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not any(text in message.text for text in ERRORS_OF_LOST_CONNECTIONS):
            self.errors.append(message.text)


@pytest.fixture
def pages(browser: Browser, site: Site) -> Iterator[Pages]:
    """Opens pages; the test fails if a page had an error."""
    found = Pages(browser, site)
    yield found
    assert found.errors == []


@pytest.fixture
def page(pages: Pages) -> Iterator[Page]:
    with pages.open() as opened:
        yield opened


@pytest.fixture
def picture() -> Callable[[Page, str], None]:
    """Keeps a screenshot as an artifact."""
    ARTIFACTS.mkdir(parents=True, exist_ok=True)

    def take(page: Page, name: str) -> None:
        page.screenshot(path=ARTIFACTS / f"{name}.png")

    return take
