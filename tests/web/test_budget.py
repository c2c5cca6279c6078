"""The requests of an open page: a documented number a minute, visible and hidden."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from web.conftest import Pages
from web.site import Site

VISIBLE, HIDDEN = 30, 2
"""The budgets of docs/dashboard.md."""

HIDE = """() => {
  Object.defineProperty(document, 'hidden', {get: () => true});
  document.dispatchEvent(new Event('visibilitychange'));
}"""


@pytest.mark.parametrize(
    "address",
    ["#/", "#/jobs", "#/jobs/wait-for-me/budget?tab=tasks", "#/jobs/wait-for-me/budget/steps/wait/0"],
)
def test_an_open_page_stays_within_its_budget(pages: Pages, site: Site, address: str) -> None:
    if site.laptop.request("GET", "/v1/jobs/wait-for-me/budget").status_code == 404:
        site.submit("wait-for-me", "budget")
    with pages.open("#/none") as page:
        page.clock.install()
        page.goto(f"{site.url}/{address}")
        page.reload()
        expect(page.locator("#content h1")).to_be_visible()
        traffic = Traffic(page)
        traffic.pass_a_minute()
        assert 0 < traffic.requests <= VISIBLE
        page.evaluate(HIDE)
        traffic.pass_a_minute()
        traffic.requests = 0
        traffic.pass_a_minute()
        assert traffic.requests <= HIDDEN


class Traffic:
    """Counts requests while the page's clock runs; the clock waits for their answers."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests = self.open = 0
        page.on("request", lambda _: self._count(1))
        page.on("requestfinished", lambda _: self._count(-1))
        page.on("requestfailed", lambda _: self._count(-1))

    def _count(self, change: int) -> None:
        self.requests += max(change, 0)
        self.open = max(self.open + change, 0)

    def pass_a_minute(self) -> None:
        for _ in range(60):
            self.page.clock.run_for(1_000)
            self.page.wait_for_timeout(5)
            while self.open:
                self.page.wait_for_timeout(5)


def test_a_page_that_has_the_current_data_gets_304(pages: Pages, site: Site) -> None:
    site.wait_for("balance-report", "d1", "SUCCESS")
    answers: list[Any] = []
    with pages.open("#/jobs/balance-report/d1") as page:
        expect(page.get_by_role("group", name="Graph of the steps")).to_be_visible()
        expect(page.locator(".spinner")).to_have_count(0)
        page.on("response", lambda response: answers.append(response.status))
        page.keyboard.press("r")
        page.wait_for_timeout(3_000)
    assert set(answers) == {304}
