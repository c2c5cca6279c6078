"""The overview, definitions, the form to submit, schedules, the job graph, workers, and first use."""

import re

from playwright.sync_api import expect

from support.waits import run_until
from web.conftest import Pages
from web.site import Site

GREETING = (
    "test {{ params.greeting }}-{{ shard.index }} != hello-2 || { echo say good morning >&2; exit 3; }; "
    "echo {{ params.greeting }}"
)
"""Fails in task 2 with the parameter of the example."""


def test_a_newcomer_submits_finds_why_it_failed_fixes_the_parameter_and_reruns_the_failed_shards(
    pages: Pages, site: Site
) -> None:
    """Uses only what the screen shows: the address of the page and visible names."""
    with pages.open("") as page:
        page.get_by_role("link", name="Definitions").click()
        page.get_by_role("link", name="New definition").click()
        document = page.get_by_label("Definition in JSON")
        example = document.input_value()
        document.fill(example.replace('"sharding"', '"shards"'))
        expect(page.get_by_role("region", name="Check")).to_contain_text("did you mean 'sharding'?")
        expect(page.get_by_role("button", name="Save")).to_be_disabled()
        document.fill(example.replace("echo {{ params.greeting }}", GREETING))
        expect(page.get_by_role("region", name="Check")).to_contain_text("Valid: 2 steps")
        page.get_by_role("button", name="Save").click()
        page.get_by_role("link", name="Submit a job").click()
        page.get_by_role("button", name="Submit", exact=True).click()
        expect(page.get_by_text("Failed", exact=True).first).to_be_visible(timeout=60_000)
        why = page.get_by_role("region", name="Why")
        expect(why).to_contain_text("The first task that failed is task 2 of step greet")
        expect(why).to_contain_text("say good morning")
        page.get_by_role("button", name="Rerun with other parameters").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("3 tasks that succeeded will keep their result")
        dialog.get_by_label("greeting").fill("good morning")
        expect(dialog).to_contain_text("greeting gets a new value")
        dialog.get_by_role("button", name="Rerun with other parameters").click()
        expect(page.get_by_text("Run 2")).to_be_attached()
        expect(page.get_by_text("Success", exact=True).first).to_be_visible(timeout=60_000)
        page.get_by_role("link", name="Tasks", exact=True).click()
        page.get_by_label("Step", exact=True).select_option("greet (SUCCESS, 4)")
        page.get_by_text("As a list").click()
        expect(page.get_by_role("link", name="Task 2")).to_be_visible()
        page.get_by_role("link", name="my-first-job", exact=True).click()
        expect(page.get_by_text("not scheduled")).to_be_visible()
        page.get_by_role("navigation", name="Parts of the definition").get_by_text("Schedules").click()
        page.get_by_role("button", name="Add a schedule").click()
        page.get_by_label("Times").select_option("other times, by cron")
        page.get_by_label("Cron expression").fill("0 5 * * *")
        page.get_by_role("dialog").get_by_role("button", name="Save").click()
        expect(page.get_by_role("heading", name="Coming times")).to_be_visible()
        page.get_by_role("link", name="my-first-job", exact=True).click()
        expect(page.get_by_text(re.compile(r"05:00 \(in \d+ [hms]\)"))).to_be_visible()
    [job] = site.call("GET", "/v1/jobs?jobName=my-first-job")["items"]
    assert (job["run"], job["params"]) == (2, {"greeting": "good morning"})
    grid = site.call("GET", f"/v1/jobs/my-first-job/{job['trigger']}/steps/greet/tasks:grid")
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


def test_a_definition_is_edited_and_shows_runs_graph_and_differences(pages: Pages, site: Site) -> None:
    site.wait_for("balance-report", "d1", "SUCCESS")
    with pages.open("#/definitions/balance-report") as page:
        expect(page.get_by_role("link", name="merge_files of d1: SUCCESS")).to_be_visible()
        page.get_by_role("link", name="Graph", exact=True).click()
        expect(page.get_by_role("link", name="generate_files, shell")).to_contain_text("12 tasks")
        page.get_by_role("link", name="Edit").click()
        document = page.get_by_label("Definition in JSON")
        expect(document).not_to_have_value(re.compile("null"))
        document.fill(document.input_value().replace("of all accounts", "of every account"))
        expect(page.locator(".diff .added")).to_contain_text("of every account")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("balance-report is saved as version 2.")).to_be_visible()
        page.get_by_role("link", name="Versions").click()
        expect(page.locator(".diff .added")).to_contain_text("of every account")
        expect(page.locator(".diff .removed")).to_contain_text("of all accounts")
        page.get_by_role("link", name="Edit").click()
        document.fill(document.input_value().replace("of every account", "of each account"))
        saved = site.call("GET", "/v1/definitions/balance-report")
        site.call("PUT", "/v1/definitions/balance-report", saved)
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert")).to_contain_text("saved by somebody else meanwhile")
    pages.errors[:] = [text for text in pages.errors if "412" not in text]


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


def test_a_schedule_with_a_delay_says_that_it_waits_for_its_job(pages: Pages, site: Site) -> None:
    path = "/v1/schedules/wait-for-me/again"
    site.call("PUT", path, {"delaySeconds": 60})
    run_until(lambda: site.call("GET", path)["awaitedJob"] is not None, timeout=40.0, interval=0.1)
    trigger = site.call("GET", path)["history"][0]["trigger"]
    with pages.open("#/schedules") as page:
        expect(page.get_by_role("row").filter(has_text="again")).to_contain_text("after the running job")
        page.get_by_role("link", name="again", exact=True).click()
        expect(page.get_by_text("60 s after the end", exact=True)).to_be_visible()
        expect(page.get_by_text("after the running job")).to_be_visible()
    site.call("DELETE", path)
    site.call("POST", f"/v1/jobs/wait-for-me/{trigger}:kill")


def test_the_last_hour_does_not_count_suspended_jobs_as_running(pages: Pages, site: Site) -> None:
    answer = site.call("GET", "/v1/now")
    job = site.call("GET", "/v1/jobs/try-twice/r1")
    suspended = {**job, "state": "SUSPENDED", "startedTime": job["createTime"], "completedTime": None}
    answer["live"] = {state: {"items": [], "more": False} for state in answer["live"]}
    answer["live"]["SUSPENDED"]["items"] = [suspended]
    with pages.open("#/none") as page:
        page.route("**/v1/now", lambda route: route.fulfill(json=answer))
        page.goto(f"{site.url}/#/")
        expect(page.get_by_text("0 running")).to_be_visible()
        expect(page.get_by_text("0 waiting to start")).to_be_visible()


def test_the_overview_the_job_graph_and_the_workers_are_shown(pages: Pages, site: Site) -> None:
    site.wait_for("nightly-load", "n1", "FAILED")
    child = {"jobName": "child", "type": "noop", "dependencies": [{"jobName": "balance-report"}]}
    site.call("PUT", "/v1/definitions/child", child)
    with pages.open() as page:
        expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()
        expect(page.get_by_role("link", name=re.compile("nightly-load n1"))).to_be_visible()
        expect(page.get_by_text(re.compile("1 worker, .* slots in use"))).to_be_visible()
        page.get_by_role("link", name="Job graph").click()
        expect(page.get_by_role("link", name=re.compile("^balance-report: last job"))).to_be_visible()
        page.route("**/v1/jobs?limit=500", lambda route: route.fulfill(json={"items": [], "cursor": "more"}))
        page.reload()
        expect(page.get_by_role("link", name=re.compile("^balance-report: last job"))).to_be_visible()
        page.get_by_role("link", name="Workers").first.click()
        page.get_by_role("button", name=re.compile("^Suspend worker")).click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("leases no more until it is resumed")
        dialog.get_by_role("button", name="Suspend").click()
        page.get_by_role("button", name=re.compile("^Resume worker")).click()
        page.get_by_role("dialog").get_by_role("button", name="Resume").click()
        expect(page.get_by_role("button", name=re.compile("^Suspend worker"))).to_be_visible()
