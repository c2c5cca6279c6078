"""Now, definitions, the form to submit, schedules, the job graph and workers; and the way of a newcomer."""

import re

from playwright.sync_api import expect

from web.conftest import Pages
from web.site import Site


def test_a_newcomer_submits_finds_why_it_failed_fixes_the_parameter_and_reruns_the_failed_shards(
    pages: Pages, site: Site
) -> None:
    """By what is visible only: no address but that of the page, and no name but those on the screen."""
    site.call("PUT", "/v1/schedules/nightly-load/main", {"cron": "0 5 * * *"})
    with pages.open("") as page:
        page.get_by_role("link", name="Definitions").click()
        page.get_by_role("link", name="Submit nightly-load").click()
        page.get_by_role("button", name="Submit", exact=True).click()
        expect(page.get_by_text("Failed", exact=True).first).to_be_visible(timeout=60_000)
        why = page.get_by_role("region", name="Why")
        expect(why).to_contain_text("The first task that failed is task 2 of step load")
        expect(why).to_contain_text("the parameter broken must be no")
        page.get_by_role("button", name="Rerun with other parameters").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("tasks that succeeded keep their results")
        dialog.get_by_label("broken").fill("no")
        dialog.get_by_role("button", name="Rerun with other parameters").click()
        expect(page.get_by_text("Run 2")).to_be_attached()
        expect(page.get_by_text("Success", exact=True).first).to_be_visible(timeout=60_000)
        page.get_by_role("link", name="Tasks", exact=True).click()
        page.get_by_label("Step").select_option("load (SUCCESS, 4)")
        page.get_by_text("As a list").click()
        expect(page.get_by_role("link", name="Task 2")).to_be_visible()
        page.get_by_role("link", name="nightly-load", exact=True).click()
        expect(page.get_by_text("Next run")).to_be_visible()
        expect(page.get_by_text(re.compile(r"05:00 \(in \d+ [hm]\)"))).to_be_visible()
    [job] = [
        each
        for each in site.call("GET", "/v1/jobs?jobName=nightly-load")["items"]
        if each["run"] == 2 and each["params"]["broken"] == "no"
    ]
    grid = site.call("GET", f"/v1/jobs/nightly-load/{job['trigger']}/steps/load/tasks:grid")
    assert (grid["states"], grid["attempts"]) == ("SSSS", [1, 1, 2, 1])


def test_the_form_shows_faults(pages: Pages, site: Site) -> None:
    site.call("PUT", "/v1/definitions/typed", {"jobName": "typed", "type": "noop", "params": {"count": 3}})
    with pages.open("#/definitions/typed/submit") as page:
        page.get_by_label("count").fill("many")
        page.get_by_role("button", name="Submit", exact=True).click()
        expect(page.get_by_role("alert")).to_have_text("Enter a number, as JSON.")
        page.get_by_label("count").fill("4")
        page.get_by_text("More settings").click()
        page.get_by_label("Trigger").fill("a b")
        page.get_by_role("button", name="Submit", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("/trigger")
    pages.errors[:] = [text for text in pages.errors if "422" not in text]


def test_a_definition_shows_runs_graph_and_the_difference_of_versions(pages: Pages, site: Site) -> None:
    site.wait_for("balance-report", "d1", "SUCCESS")
    document = site.call("GET", "/v1/definitions/balance-report")
    site.call("PUT", "/v1/definitions/balance-report", {**document, "description": "changed"})
    with pages.open("#/definitions/balance-report") as page:
        expect(page.get_by_role("link", name="merge_files of d1: SUCCESS")).to_be_visible()
        page.get_by_role("link", name="Graph", exact=True).click()
        expect(page.get_by_role("link", name="generate_files, shell")).to_be_visible()
        page.get_by_role("link", name="Versions").click()
        expect(page.locator(".diff .added")).to_contain_text('"description": "changed"')
        expect(page.locator(".diff .removed")).to_contain_text("balance of all accounts")


def test_a_schedule_shows_coming_times_clock_changes_and_the_times_of_a_backfill(
    pages: Pages, site: Site
) -> None:
    site.call("PUT", "/v1/schedules/balance-report/daily", {"cron": "0 6 * * *", "timezone": "Europe/Berlin"})
    with pages.open("#/schedules") as page:
        page.get_by_role("link", name="daily").click()
        expect(page.locator(".day.coming").first).to_be_visible()
        expect(page.locator(".times li").first).to_contain_text("06:00:00")
        page.get_by_role("button", name="Backfill").click()
        dialog = page.get_by_role("dialog", name="Backfill")
        expect(dialog).to_contain_text("7 times run, one Job of balance-report each")
        dialog.get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Fire now").click()
        page.get_by_role("dialog").get_by_role("button", name="Fire now").click()
        expect(page).to_have_url(re.compile("#/jobs/balance-report/"))


def test_now_the_job_graph_and_workers(pages: Pages, site: Site) -> None:
    site.wait_for("nightly-load", "n1", "FAILED")
    child = {"jobName": "child", "type": "noop", "dependencies": [{"jobName": "balance-report"}]}
    site.call("PUT", "/v1/definitions/child", child)
    with pages.open() as page:
        expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()
        expect(page.get_by_role("link", name=re.compile("nightly-load n1"))).to_be_visible()
        expect(page.get_by_text(re.compile("1 worker, .* slots in use"))).to_be_visible()
        page.get_by_role("link", name="Job graph").click()
        expect(page.get_by_role("link", name=re.compile("^balance-report: last job"))).to_be_visible()
        page.get_by_role("link", name="Workers").first.click()
        page.get_by_role("button", name=re.compile("^Suspend worker")).click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("leases no more until it is resumed")
        dialog.get_by_role("button", name="Suspend").click()
        page.get_by_role("button", name=re.compile("^Resume worker")).click()
        page.get_by_role("dialog").get_by_role("button", name="Resume").click()
        expect(page.get_by_role("button", name=re.compile("^Suspend worker"))).to_be_visible()
