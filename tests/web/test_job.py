"""A job and its tasks: graph, timeline, grid, durations, files, history, log and control."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from web.conftest import Pages
from web.site import HOSTILE, Site

COUNT_DRAWINGS = """() => {
  window.drawings = 0;
  const draw = CanvasRenderingContext2D.prototype.fillRect;
  CanvasRenderingContext2D.prototype.fillRect = function (...given) {
    window.drawings += 1;
    return draw.apply(this, given);
  };
}"""
COUNT_NODES = """() => {
  window.changes = new MutationObserver(() => {});
  window.changes.observe(document.querySelector('.graph > svg'), {childList: true, subtree: true});
}"""
FAILED = "#/jobs/nightly-load/n1"


def test_the_graph_shows_each_step_with_its_state(pages: Pages, site: Site) -> None:
    site.wait_for("nightly-load", "n1", "FAILED")
    with pages.open(FAILED) as page:
        graph = page.get_by_role("group", name="Graph of the steps")
        expect(graph.get_by_role("link", name="extract: SUCCESS, 100 / 100 tasks")).to_be_visible()
        expect(graph.get_by_role("link", name=re.compile("^load: FAILED"))).to_be_visible()
        expect(graph.get_by_role("link", name=re.compile("^publish: SKIPPED"))).to_contain_text("0 / 1 task")
        page.get_by_role("button", name="Zoom in").click()
        expect(page.locator(".graph-content")).to_have_attribute("transform", re.compile(r"scale\(1\.25\)"))
        page.get_by_role("button", name="Show all").click()
        graph.get_by_role("link", name=re.compile("^load: FAILED")).click()
        expect(page).to_have_url(re.compile("tab=tasks&step=load"))


def test_why_and_parameters_are_text(pages: Pages, site: Site) -> None:
    site.wait_for("nightly-load", "n1", "FAILED")
    with pages.open(FAILED) as page:
        page.on("dialog", lambda dialog: pages.errors.append(f"the page ran {dialog.message}"))
        why = page.get_by_role("region", name="Why")
        expect(why).to_contain_text("The first task that failed is task 2 of step load")
        expect(why.get_by_role("link", name="task 2 of step load")).to_have_attribute(
            "href", "#/jobs/nightly-load/n1/steps/load/2"
        )
        expect(why).to_contain_text(HOSTILE)
        expect(why.locator(".ansi-red")).to_have_text("red")
        page.get_by_role("link", name="Parameters").click()
        expect(page.get_by_text(HOSTILE).last).to_be_visible()
        assert page.locator("main img").count() == 0


def test_the_timeline_shows_steps_and_their_tasks(pages: Pages, site: Site) -> None:
    site.wait_for("nightly-load", "n1", "FAILED")
    with pages.open(f"{FAILED}?tab=timeline") as page:
        page.get_by_role("button", name="load").click()
        expect(page.get_by_role("link", name="Task 2", exact=True)).to_be_visible()
        expect(page.locator(".gantt .span.tone-failed").first).to_be_visible()


def test_the_timeline_of_a_suspended_job_ends_with_its_last_step(pages: Pages, site: Site) -> None:
    stops = {"jobName": "stops", "type": "shell", "content": "exit 1", "onFailure": "suspend"}
    site.call("PUT", "/v1/definitions/stops", stops)
    site.submit("stops", "s1")
    site.wait_for("stops", "s1", "SUSPENDED")
    with pages.open() as page:
        page.clock.set_fixed_time(datetime.now(UTC) + timedelta(days=1))
        page.goto(f"{site.url}/#/jobs/stops/s1?tab=timeline")
        expect(page.locator(".gantt .span.tone-failed")).to_be_visible()
        expect(page.locator(".gantt-axis")).not_to_contain_text("24 h")
    site.call("POST", "/v1/jobs/stops/s1:kill")


def test_the_timeline_shows_earlier_attempts_and_the_values_tab_what_tasks_returned(
    pages: Pages, site: Site
) -> None:
    site.wait_for("try-twice", "r1", "SUCCESS")
    with pages.open("#/jobs/try-twice/r1?tab=timeline&step=main") as page:
        row = page.locator(".gantt-row").filter(has_text="Task 0")
        expect(row.locator(".span.tone-failed")).to_have_count(1)
        expect(row.locator(".span.tone-success")).to_have_count(1)
        page.get_by_role("link", name="Values").click()
        expect(page.get_by_text('"rows": 12')).to_be_visible()


def test_ten_thousand_cells_are_filtered_and_stay_as_drawn_when_pointed_at(pages: Pages, site: Site) -> None:
    site.wait_for("nightly-load", "n1", "FAILED")
    with pages.open("#/none") as page:
        page.route("**/tasks:grid*", _ten_thousand_tasks)
        page.goto(f"{site.url}/{FAILED}?tab=tasks&step=extract")
        grid = page.get_by_role("img", name=re.compile("^10,000 tasks of extract"))
        expect(grid).to_be_visible()
        page.get_by_label("Worker").select_option("worker-1")
        expect(page.get_by_text("5,000 of 10,000", exact=True)).to_be_visible()
        page.get_by_role("button", name="Failed 100").click()
        expect(page.get_by_text("100 of 10,000", exact=True)).to_be_visible()
        longer = page.get_by_label("Longer than")
        longer.fill("9.5")
        page.evaluate(
            "window.dispatchEvent(new Event('hashchange'))"
        )  # draws the view again, as an update does
        page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        expect(longer).to_have_value("9.5")
        longer.press("Enter")
        expect(page.get_by_text("5 of 10,000", exact=True)).to_be_visible()
        page.get_by_label("Worker").select_option("worker-0")
        expect(page.get_by_text("0 of 10,000", exact=True)).to_be_visible()
        page.get_by_label("Worker").select_option("Any worker")
        expect(page.get_by_text("5 of 10,000", exact=True)).to_be_visible()
        page.evaluate(COUNT_DRAWINGS)
        grid.hover(position={"x": 20, "y": 20})
        expect(page.locator("#cell-here")).to_contain_text("Task ")
        grid.hover(position={"x": 200, "y": 40})
        expect(page.locator(".cell-cursor")).to_be_visible()
        assert page.evaluate("window.drawings") == 0


def _ten_thousand_tasks(route: Any) -> None:
    """Tasks that take 0 to 9,999 ms; one in a hundred failed, each second ran on worker-1."""
    count = 10_000
    columns = {
        "total": count,
        "start": 0,
        "firstIndex": 0,
        "states": "".join("F" if at % 100 == 1 else "S" for at in range(count)),
        "attempts": [1] * count,
        "failures": [0] * count,
        "starts": [1_763_000_000_000] * count,
        "spans": list(range(count)),
        "workerOf": [at % 2 for at in range(count)],
        "workers": [{"id": "a", "name": "worker-0"}, {"id": "b", "name": "worker-1"}],
    }
    route.fulfill(body=json.dumps(columns), content_type="application/json")


def test_the_grid_is_filtered_and_opens_a_task_by_keyboard(pages: Pages, site: Site) -> None:
    site.wait_for("nightly-load", "n1", "FAILED")
    with pages.open(f"{FAILED}?tab=tasks&step=load") as page:
        page.get_by_role("button", name="Failed 1").click()
        expect(page.get_by_text("1 of 4", exact=True)).to_be_visible()
        grid = page.get_by_role("img", name=re.compile("^4 tasks of load"))
        grid.focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        expect(page.locator("#cell-here")).to_contain_text("Task 2: FAILED")
        expect(page.locator("#cell-here")).to_be_in_viewport()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Task 2 of 4")).to_be_visible()


def test_a_task_shows_attempts_and_its_log_with_colours_and_search(pages: Pages, site: Site) -> None:
    site.wait_for("nightly-load", "n1", "FAILED")
    with pages.open(f"{FAILED}/steps/load/2?stream=stderr") as page:
        log = page.get_by_role("log")
        expect(log).to_contain_text(HOSTILE)
        expect(log.locator(".ansi-red")).to_have_text("red")
        assert page.locator(".log img").count() == 0
        page.get_by_label("Search in the log").fill("onerror")
        expect(log.locator("mark")).to_have_text("onerror")
        expect(page.get_by_role("row").filter(has_text="exit code 3")).to_have_count(1)


def test_a_log_is_followed_while_the_task_runs(pages: Pages, site: Site) -> None:
    site.submit("wait-for-me", "live")
    site.wait_for("wait-for-me", "live", "RUNNING")
    with pages.open("#/jobs/wait-for-me/live/steps/wait/0") as page:
        log = page.get_by_role("log")
        expect(log).to_contain_text("line 2", timeout=60_000)
        last = max(map(int, re.findall(r"line (\d+)", log.inner_text())))
        expect(log).to_contain_text(f"line {last + 4}", timeout=60_000)
        page.get_by_role("button", name="Kill").click()
        page.get_by_role("dialog").get_by_role("button", name="Kill the task").click()
        expect(page.locator(".title .badge")).to_have_text("Killed", timeout=40_000)


def test_a_job_shows_durations_files_history_and_a_comparison(pages: Pages, site: Site) -> None:
    site.wait_for("balance-report", "d1", "SUCCESS")
    site.submit("balance-report", "d2")
    site.wait_for("balance-report", "d2", "SUCCESS")
    with pages.open("#/jobs/balance-report/d2?tab=durations") as page:
        expect(page.get_by_role("img", name=re.compile("^Distribution of the durations"))).to_be_visible()
        expect(page.get_by_role("heading", name="Slowest tasks")).to_be_visible()
        page.get_by_role("link", name="Files").click()
        with page.expect_download() as download:
            page.get_by_role("row").filter(has_text="balance.csv").get_by_role("link").click()
        assert "row 11" in download.value.path().read_text()
        page.get_by_role("link", name="History").click()
        expect(page.get_by_role("row").filter(has_text="job").first).to_contain_text("Success")
        page.get_by_role("link", name="Compare").click()
        expect(page.get_by_text("No step failed here that did not fail in d1")).to_be_visible()


def test_a_comparison_names_the_steps_and_tasks_that_failed_here_only(pages: Pages, site: Site) -> None:
    site.submit("nightly-load", "fine", params={"broken": "no"})
    site.wait_for("nightly-load", "n1", "FAILED")
    site.wait_for("nightly-load", "fine", "SUCCESS")
    with pages.open("#/jobs/nightly-load/n1/compare?with=fine") as page:
        expect(page.get_by_text("Failed here and not in fine: load.")).to_be_visible()
        expect(page.get_by_text("Tasks of load that failed here and not in fine: 2.")).to_be_visible()
        page.get_by_role("link", name="2", exact=True).click()
        expect(page.get_by_role("heading", name="Task 2 of 4")).to_be_visible()


def test_two_thousand_steps_stay_usable(pages: Pages, site: Site) -> None:
    steps = [
        {"stepName": f"s{at}", "type": "noop", "dependentSteps": [f"s{at // 3}"] if at else []}
        for at in range(2_000)
    ]
    site.call("PUT", "/v1/definitions/wide", {"jobName": "wide", "steps": steps})
    with pages.open("#/definitions/wide?tab=graph") as page:
        expect(page.get_by_role("link", name="s1999, noop")).to_be_attached()
        page.get_by_label("Find in the graph").fill("s1999")
        expect(page.get_by_role("link", name="s1999, noop")).to_be_in_viewport()
        before = page.locator(".graph-content").get_attribute("transform")
        page.locator(".graph-map").click(position={"x": 2, "y": 2})
        expect(page.locator(".graph-content")).not_to_have_attribute("transform", str(before))
        page.evaluate(COUNT_NODES)
        page.get_by_role("button", name="Show all").click()
        expect(page.locator(".graph-content.farther")).to_be_attached()
        assert page.evaluate("window.changes.takeRecords().length") == 0, "only the transformation changes"


def test_many_steps_are_shown_in_pages_and_found_by_name(pages: Pages, site: Site) -> None:
    steps = [{"stepName": f"s{at}", "type": "noop"} for at in range(150)]
    site.call("PUT", "/v1/definitions/long", {"jobName": "long", "steps": steps})
    site.submit("long", "l1", after="2099-01-01T00:00:00Z")
    site.wait_for("long", "l1", "WAITING")
    with pages.open("#/jobs/long/l1?tab=steps") as page:
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(100)
        expect(page.get_by_text("Steps 1 to 100 of 150")).to_be_visible()
        page.get_by_role("button", name="Next").click()
        expect(rows).to_have_count(50)
        expect(rows.last).to_contain_text("s149")
        page.get_by_label("Find steps").fill("s77")
        expect(rows).to_have_count(1)
        expect(rows).to_contain_text("s77")
    with pages.open("#/jobs/long/l1?tab=timeline&step=s120") as page:
        expect(page.get_by_role("button", name="s120")).to_have_attribute("aria-expanded", "true")
        expect(page.get_by_role("button", name="s12", exact=True)).to_have_count(0)
    site.call("POST", "/v1/jobs/long/l1:kill")


@pytest.mark.parametrize("width", [390, 1440])
def test_the_grid_of_runs_starts_with_the_newest_job(pages: Pages, site: Site, width: int) -> None:
    answer = site.call("GET", "/v1/definitions/nightly-load/runs?limit=1")
    [run] = answer["runs"]
    answer["runs"] = [
        {**run, "job": {**run["job"], "id": str(at), "trigger": f"run-{at}"}} for at in range(25, 0, -1)
    ]
    with pages.open(width=width) as page:
        page.route("**/v1/definitions/nightly-load/runs?*", lambda route: route.fulfill(json=answer))
        page.goto(f"{site.url}/#/definitions/nightly-load")
        expect(page.get_by_role("link", name="load of run-25")).to_be_in_viewport()


def test_the_runs_of_a_definition_with_many_steps_are_shown_in_pages(pages: Pages, site: Site) -> None:
    answer = site.call("GET", "/v1/definitions/nightly-load/runs?limit=1")
    answer["steps"] = [f"s{at}" for at in range(150)]
    answer["runs"][0]["states"] = ["SUCCESS"] * 149 + ["FAILED"]
    with pages.open() as page:
        page.route("**/v1/definitions/nightly-load/runs?*", lambda route: route.fulfill(json=answer))
        page.goto(f"{site.url}/#/definitions/nightly-load")
        expect(page.locator("tbody tr")).to_have_count(100)
        page.get_by_label("Find steps").fill("failed")
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.get_by_text("1 of 150")).to_be_visible()
