"""Dead letters and tokens, and what a page with a token of few scopes shows."""

import json
import re

from playwright.sync_api import Page, expect

from web.conftest import Pages
from web.site import HOSTILE, Site


def sign_in_with(page: Page, token: str) -> None:
    page.route("**/_shardmill/sign-in", lambda route: route.fulfill(status=403, body="{}"))
    page.reload()
    page.get_by_label("Token", exact=True).fill(token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("navigation", name="Sections")).to_be_visible()


def test_a_token_is_created_shown_once_rotated_and_revoked(pages: Pages, site: Site) -> None:
    with pages.open("#/tokens") as page:
        page.get_by_role("button", name="Create a token").click()
        form = page.get_by_role("dialog", name="Create a token")
        form.get_by_label("Name").fill("page-test")
        form.get_by_label("submit").check()
        expect(form).to_contain_text("the scopes read, submit")
        form.get_by_role("button", name="Create").click()
        shown = page.get_by_role("dialog", name="The token")
        secret = shown.get_by_label("Secret").inner_text()
        assert site.laptop.client.get(
            f"{site.url}/v1/tokens/self", headers={"authorization": f"Bearer {secret}"}
        ).json()["scopes"] == ["read", "submit"]
        shown.get_by_role("button", name="Done").click()
        expect(page.get_by_role("row", name=re.compile("page-test"))).to_contain_text("submit")
        assert secret not in page.content()
        page.get_by_role("button", name="Rotate token page-test").click()
        page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
        expect(page.get_by_role("dialog", name="The token").get_by_label("Secret")).not_to_have_text(secret)
        page.get_by_role("dialog", name="The token").get_by_role("button", name="Done").click()
        page.get_by_role("button", name="Revoke token page-test").click()
        expect(page.get_by_role("dialog")).to_contain_text("rejected within a minute")
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        expect(page.get_by_role("row", name=re.compile("page-test"))).to_have_count(0)


def test_buttons_are_shown_only_if_the_token_allows_them(pages: Pages, site: Site) -> None:
    site.wait_for("nightly-load", "n1", "FAILED")
    limited = {"scope": "operate", "definitions": ["balance-*"]}
    made = site.call("POST", "/v1/tokens", {"name": "viewer", "scopes": ["read", limited]})
    with pages.open() as page:
        sign_in_with(page, made["token"])
        expect(page.get_by_role("link", name="Workers", exact=True)).to_be_visible()
        expect(page.get_by_role("link", name="Tokens")).to_have_count(0)
        expect(page.get_by_role("link", name="Dead letters")).to_have_count(0)
        page.goto(f"{site.url}/#/jobs/nightly-load/n1")
        expect(page.get_by_role("link", name="Compare")).to_be_visible()
        expect(page.get_by_role("button", name="Rerun failed")).to_have_count(0)
        page.goto(f"{site.url}/#/jobs/balance-report/d1")
        expect(page.get_by_text("More", exact=True)).to_be_visible()
        page.get_by_text("More", exact=True).click()
        expect(page.get_by_role("button", name="Rerun everything")).to_be_visible()
        expect(page.get_by_role("button", name="Submit another job like this")).to_have_count(0)
        page.goto(f"{site.url}/#/definitions")
        expect(page.get_by_role("link", name="nightly-load")).to_be_visible()
        expect(page.get_by_role("link", name="Submit nightly-load")).to_have_count(0)
    pages.errors[:] = [text for text in pages.errors if "403" not in text]


def test_dead_letters_are_shown_redriven_and_deleted(pages: Pages, site: Site) -> None:
    site.send_dead_letter("notify-dead", json.dumps({"note": HOSTILE}))
    site.send_dead_letter("dead", HOSTILE)
    with pages.open() as page:
        page.get_by_role("link", name=re.compile("dead letter")).first.click()
        expect(page.get_by_role("heading", name="Dead letters")).to_be_visible()
        task = page.get_by_role("row", name=re.compile("Message of a task queue"))
        task.get_by_role("button", name=re.compile("^Show")).click()
        expect(page.get_by_role("dialog").get_by_label("Payload")).to_have_text(HOSTILE)
        page.keyboard.press("Escape")
        expect(task.get_by_role("button", name="Redrive")).to_have_count(0)
        task.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(task).to_have_count(0)
        notification = page.get_by_role("row", name=re.compile("Notification"))
        notification.get_by_role("button", name="Redrive").click()
        expect(page.get_by_role("dialog")).to_contain_text("sent to its receivers again")
        page.get_by_role("dialog").get_by_role("button", name="Redrive").click()
        expect(page.get_by_text("The dead letter was sent again.")).to_be_visible()
        expect(notification).to_have_count(0)
