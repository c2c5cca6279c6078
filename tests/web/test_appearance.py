"""Every view in both themes: accessibility by axe, no horizontal overflow on a phone, and a picture."""

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from web.conftest import Pages
from web.site import Site

LONG = "a_name_as_long_as_a_name_may_be_".ljust(64, "x")
VIEWS = {
    "now": "#/",
    "jobs": "#/jobs",
    "job": "#/jobs/nightly-load/n1",
    "steps": "#/jobs/nightly-load/n1?tab=steps",
    "long-names": f"#/jobs/{LONG}/{LONG}",
    "long-names-of-a-task": f"#/jobs/{LONG}/{LONG}/steps/{LONG}/0",
    "timeline": "#/jobs/nightly-load/n1?tab=timeline&step=load",
    "tasks": "#/jobs/nightly-load/n1?tab=tasks&step=extract",
    "durations": "#/jobs/nightly-load/n1?tab=durations&step=load",
    "values": "#/jobs/try-twice/r1?tab=values",
    "parameters": "#/jobs/nightly-load/n1?tab=parameters",
    "files": "#/jobs/balance-report/d1?tab=files",
    "history": "#/jobs/nightly-load/n1?tab=history",
    "cost": "#/jobs/nightly-load/n1?tab=cost",
    "task": "#/jobs/nightly-load/n1/steps/load/2?stream=stderr",
    "compare": "#/jobs/nightly-load/n1/compare",
    "definitions": "#/definitions",
    "definition": "#/definitions/balance-report",
    "versions": "#/definitions/balance-report?tab=versions",
    "submit": "#/definitions/nightly-load/submit",
    "schedules": "#/schedules",
    "schedule": "#/schedules/nightly-load/main",
    "dependencies": "#/dependencies",
    "workers": "#/workers",
    "dead-letters": "#/dead-letters",
    "tokens": "#/tokens",
    "attempts": "#/jobs/try-twice/r1?tab=timeline&step=main",
    "definition-graph": "#/definitions/balance-report?tab=graph",
    "document": "#/definitions/balance-report?tab=document",
    "edit": "#/definitions/balance-report/edit",
    "define": "#/new-definition",
}
PART = 10
"""The number of views of one test."""
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}


@pytest.fixture(scope="module", autouse=True)
def _data(site: Site) -> None:
    site.call("PUT", "/v1/schedules/nightly-load/main", {"cron": "0 5 * * *"})
    site.wait_for("nightly-load", "n1", "FAILED")
    site.wait_for("balance-report", "d1", "SUCCESS")
    site.call(
        "PUT", f"/v1/definitions/{LONG}", {"jobName": LONG, "steps": [{"stepName": LONG, "type": "noop"}]}
    )
    site.submit(LONG, LONG)
    site.wait_for(LONG, LONG, "SUCCESS")


@pytest.mark.parametrize("first", range(0, len(VIEWS), PART))
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_is_accessible_and_fits(
    pages: Pages, site: Site, theme: Any, first: int, picture: Callable[[Page, str], None]
) -> None:
    found: list[str] = []
    with pages.open(theme=theme) as page:
        for name, address in list(VIEWS.items())[first : first + PART]:
            for width in (1440, 390):
                page.set_viewport_size({"width": width, "height": 900})
                page.goto(f"{site.url}/{address}")
                page.wait_for_load_state("networkidle")
                expect(page.locator(".spinner")).to_have_count(0)
                picture(page, f"{name}-{theme}-{width}")
                if page.evaluate("document.documentElement.scrollWidth") > width:
                    found.append(f"{name} is wider than {width} pixels")
            violations = Axe().run(page, options=RULES).response["violations"]
            found += [f"{name}: {each['id']} {each['nodes'][0]['html'][:160]}" for each in violations]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_dialogs_and_menus_are_accessible(
    pages: Pages, site: Site, theme: Any, picture: Callable[[Page, str], None]
) -> None:
    found: list[str] = []

    def check(page: Page, name: str) -> None:
        picture(page, f"dialog-{name}-{theme}")
        violations = Axe().run(page, options=RULES).response["violations"]
        found.extend(f"{name}: {each['id']} {each['nodes'][0]['html'][:160]}" for each in violations)

    with pages.open("#/jobs/nightly-load/n1", theme=theme) as page:
        page.get_by_text("More", exact=True).click()
        check(page, "menu")
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Rerun with other parameters").click()
        check(page, "parameters")
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        check(page, "keys")
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        expect(page.get_by_role("option").first).to_be_visible()
        check(page, "palette")
        page.keyboard.press("Escape")
        page.goto(f"{site.url}/#/tokens")
        page.get_by_role("button", name="Create a token").click()
        check(page, "token")
    assert not found, "\n".join(found)
