"""The list of jobs: search, filters, and actions on the selected jobs."""

import json
from typing import Any

from playwright.sync_api import expect

from web.conftest import Pages
from web.site import Site


def test_jobs_are_searched_and_filtered_in_the_address(pages: Pages, site: Site) -> None:
    site.wait_for("nightly-load", "n1", "FAILED")
    with pages.open("#/jobs") as page:
        expect(page.get_by_role("link", name="balance-report").first).to_be_visible()
        page.get_by_label("Search in jobs").fill("nightly")
        expect(page.get_by_role("link", name="balance-report")).to_have_count(0)
        expect(page).to_have_url(f"{site.url}/#/jobs?q=nightly")
        page.get_by_role("button", name="Failed").click()
        expect(page.get_by_role("listitem")).to_have_count(1)
        expect(page.get_by_role("listitem")).to_contain_text("Failed")
        expect(page).to_have_url(f"{site.url}/#/jobs?q=nightly&state=FAILED")
        page.go_back()
        expect(page.get_by_role("button", name="Failed")).to_have_attribute("aria-pressed", "false")


def test_a_job_that_no_longer_passes_a_filter_leaves_the_list(pages: Pages, site: Site) -> None:
    site.submit("wait-for-me", "leaves")
    site.wait_for("wait-for-me", "leaves", "RUNNING")
    with pages.open("#/jobs?state=RUNNING&q=leaves") as page:
        expect(page.get_by_role("listitem")).to_have_count(1)
        site.call("POST", "/v1/jobs/wait-for-me/leaves:kill")
        expect(page.get_by_text("No job matches these filters.")).to_be_visible(timeout=40_000)
        page.get_by_role("link", name="Clear the filters").click()
        expect(page).to_have_url(f"{site.url}/#/jobs")
        expect(page.get_by_role("listitem").filter(has_text="leaves")).to_contain_text("Killed")


def test_selected_jobs_are_killed_after_a_preview(pages: Pages, site: Site) -> None:
    for trigger in ("bulk-1", "bulk-2"):
        site.submit("wait-for-me", trigger)
    with pages.open("#/jobs?q=bulk-") as page:
        expect(page.get_by_role("listitem")).to_have_count(2)
        page.get_by_role("checkbox", name="Select 2 jobs").check()
        page.get_by_role("button", name="Kill", exact=True).click()
        dialog = page.get_by_role("dialog", name="Kill")
        expect(dialog).to_contain_text("wait-for-me/bulk-1 ends as KILLED.")
        dialog.get_by_label("Reason").fill("not needed")
        dialog.get_by_role("button", name="Kill 2 jobs").click()
        expect(page.get_by_text("2 jobs are killed.")).to_be_visible()
        expect(page.get_by_role("listitem").filter(has_text="Killed")).to_have_count(2)
    assert site.state("wait-for-me", "bulk-1") == "KILLED"


def test_ten_thousand_jobs_are_scrolled_with_few_rows_in_the_document(pages: Pages) -> None:
    with pages.open("#/none") as page:
        page.route("**/v1/jobs?**", _ten_thousand)
        page.goto(page.url.split("#")[0] + "#/jobs")
        rows = page.get_by_role("list", name="Jobs")
        expect(rows).to_be_visible()
        for _ in range(600):
            rows.evaluate("list => list.scrollTop = list.scrollHeight")
            page.wait_for_timeout(50)
            if page.get_by_text("10,000 jobs").count():
                break
        expect(page.get_by_text("10,000 jobs")).to_be_visible()
        for share, trigger in ((0, "t10000"), (0.5, "t5000"), (1, "t1")):
            rows.evaluate("(list, share) => list.scrollTop = share * list.scrollHeight", share)
            expect(page.get_by_text(trigger, exact=True)).to_be_visible()
            assert page.get_by_role("listitem").count() < 100


def _ten_thousand(route: Any) -> None:
    query = route.request.url.partition("cursor=")[2]
    newest = int(query or 10_000)
    limit = 500 if query else 200
    jobs = [
        {
            "id": str(jid), "jid": jid, "jobName": "big", "trigger": f"t{jid}", "run": 1, "state": "SUCCESS",
            "submitUser": "ann", "createTime": "2026-11-18T00:00:00Z", "updateTime": "2026-11-18T00:00:01Z",
            "notes": "", "priority": 1, "definitionVersion": 1,
        }
        for jid in range(newest, max(newest - limit, 0), -1)
    ]  # fmt: skip
    cursor = str(newest - limit) if newest > limit else None
    route.fulfill(body=json.dumps({"items": jobs, "cursor": cursor}), content_type="application/json")
