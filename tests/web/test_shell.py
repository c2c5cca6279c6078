"""The frame of the dashboard: sign-in, keys, the palette, themes, addresses, and a lost connection."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from web.conftest import Pages
from web.site import Site


def test_the_page_of_dev_is_signed_in_and_sets_no_cookies(page: Page, site: Site) -> None:
    expect(page.get_by_role("navigation", name="Sections")).to_be_visible()
    assert page.context.cookies() == []
    assert page.evaluate("[localStorage.length, sessionStorage.length]") == [0, 0]


def test_a_page_that_is_not_on_the_laptop_asks_for_the_token(pages: Pages, site: Site) -> None:
    with pages.open() as page:
        page.route("**/_shardmill/sign-in", lambda route: route.fulfill(status=403, body="{}"))
        page.reload()
        page.get_by_label("Token", exact=True).fill("wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_have_text("This token is not valid.")
        page.get_by_label("Token", exact=True).fill(site.laptop.token)
        page.get_by_label("Keep the token in this tab until it is closed").check()
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("navigation", name="Sections")).to_be_visible()
        page.reload()
        expect(page.get_by_role("navigation", name="Sections")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_label("Token", exact=True)).to_be_visible()
        assert page.evaluate("sessionStorage.length") == 0
    pages.errors[:] = [text for text in pages.errors if "403" not in text and "401" not in text]


def test_keys_and_the_palette_lead_to_views(page: Page, site: Site) -> None:
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Go to Jobs")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page).to_have_url(f"{site.url}/#/jobs")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search and commands").fill("nightly n1")
    expect(page.get_by_role("listbox", name="Found").get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{site.url}/#/jobs/nightly-load/n1")
    page.go_back()
    expect(page).to_have_url(f"{site.url}/#/jobs")


def test_a_phone_shows_every_section_and_every_tab(pages: Pages) -> None:
    with pages.open("#/jobs/nightly-load/n1?tab=cost", width=390) as page:
        for name, last in {"Sections": "Tokens", "Parts of the job": "Cost"}.items():
            links = page.get_by_role("navigation", name=name).get_by_role("link")
            expect(links.last).to_have_text(last)
            boxes = [link.bounding_box() for link in links.all() if link.is_visible()]
            assert len(boxes) >= 8
            assert all(box and box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes), boxes
            cut = links.evaluate_all(
                "all => all.filter(each => each.scrollWidth > each.clientWidth).map(each => each.textContent)"
            )
            assert cut == []
        page.get_by_text("More", exact=True).click()
        for button in page.locator(".menu-items button").all():
            box = button.bounding_box()
            assert box is not None
            assert 0 <= box["x"] <= 390 - box["width"]


def test_a_new_view_has_the_focus_and_the_tools_of_a_graph_come_before_its_nodes(pages: Pages) -> None:
    with pages.open("#/jobs") as page:
        page.get_by_role("list", name="Jobs").get_by_role("link", name="nightly-load").first.press("Enter")
        expect(page.get_by_role("group", name="Graph of the steps")).to_be_visible()
        expect(page.locator("#content")).to_be_focused()
        page.keyboard.press("Tab")
        expect(page.get_by_role("main").get_by_role("link", name="Jobs")).to_be_focused()
        page.get_by_role("button", name="Show all").focus()
        page.keyboard.press("Tab")
        expect(page.locator(".node").first).to_be_focused()


def test_nothing_moves_if_reduced_motion_is_preferred(pages: Pages) -> None:
    with pages.open() as page:
        page.emulate_media(reduced_motion="reduce")
        moving = """() => [...document.querySelectorAll('*')].map(each => getComputedStyle(each))
            .filter(style => style.animationName !== 'none' || style.transitionDuration !== '0s').length"""
        assert page.evaluate(moving) == 0
        page.emulate_media(reduced_motion="no-preference")
        assert page.evaluate(moving) > 0, "buttons change their colour in steps"


def test_the_theme_follows_the_system_and_can_be_switched(pages: Pages) -> None:
    with pages.open(theme="dark") as page:
        html = page.locator("html")
        expect(html).to_have_attribute("data-theme", "dark")
        page.get_by_role("button", name="Use light colours").click()
        expect(html).to_have_attribute("data-theme", "light")
        page.reload()
        expect(html).to_have_attribute("data-theme", "light")


def test_an_unknown_address_shows_a_message(pages: Pages) -> None:
    with pages.open("#/nothing/here") as page:
        expect(page.get_by_role("alert")).to_contain_text("There is no view at this address.")


def test_a_job_that_does_not_exist_says_where_to_look(pages: Pages, site: Site) -> None:
    with pages.open("#/jobs/nobody/none") as page:
        expect(page.get_by_role("alert")).to_contain_text("It may have been deleted")
        page.get_by_role("link", name="Search in all jobs").click()
        expect(page).to_have_url(f"{site.url}/#/jobs")
    pages.errors[:] = [text for text in pages.errors if "404" not in text]


def test_the_page_reports_that_the_api_is_unreachable_and_continues_when_it_is_back(pages: Pages) -> None:
    lost = {"is": False}

    def answer(route: Any) -> None:
        route.abort() if lost["is"] else route.continue_()

    with pages.open("#/jobs") as page:
        expect(page.get_by_role("listitem").first).to_be_visible()
        page.route("**/v1/**", answer)
        lost["is"] = True
        expect(page.get_by_role("alert")).to_contain_text("Shardmill does not answer")
        expect(page.locator(".age")).to_have_text(re.compile("^as of "))
        expect(page.get_by_role("listitem").first).to_be_visible()
        lost["is"] = False
        page.get_by_role("button", name="Try now").click()
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.locator(".age")).to_have_text("live")


def test_a_read_without_an_answer_times_out(pages: Pages, site: Site) -> None:
    with pages.open("#/none") as page:
        page.clock.install()
        page.goto(f"{site.url}/#/jobs")
        page.reload()
        expect(page.get_by_role("listitem").first).to_be_visible()
        page.route("**/v1/**", lambda _: None)
        with page.expect_request("**/v1/jobs**"):
            page.clock.run_for(10_000)
        page.clock.run_for(40_000)
        expect(page.get_by_role("alert")).to_contain_text("Shardmill does not answer")


@pytest.mark.parametrize("word", ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("])
def test_no_file_turns_text_into_html_or_code(word: str) -> None:
    from shardmill.web.assets import STATIC

    files = [file.name for file in STATIC.rglob("*.js") if word in file.read_text()]
    assert files == []
