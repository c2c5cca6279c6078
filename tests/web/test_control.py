"""Control actions from the page: jobs, steps, schedules and groups, each after its confirmation."""

from playwright.sync_api import Page, expect

from support.waits import run_until
from web.conftest import Pages
from web.site import Site


def confirm(page: Page, *texts: str, button: str) -> None:
    dialog = page.get_by_role("dialog")
    for text in texts:
        expect(dialog).to_contain_text(text)
    dialog.get_by_role("button", name=button, exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def choose(page: Page, label: str) -> None:
    """Choose an action in the menu of the job."""
    page.locator(".title .menu summary").click()
    page.get_by_role("button", name=label, exact=True).click()


def test_a_job_is_suspended_resumed_changed_and_ended_by_its_steps(pages: Pages, site: Site) -> None:
    site.submit("wait-for-me", "control")
    site.wait_for("wait-for-me", "control", "RUNNING")
    with pages.open("#/jobs/wait-for-me/control") as page:
        state, facts = page.locator(".title .badge"), page.locator(".facts")
        page.get_by_role("button", name="Suspend").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("1 running task will be stopped")
        dialog.get_by_label("Let running tasks finish").check()
        expect(dialog).to_contain_text("1 running task will finish")
        dialog.get_by_label("Let running tasks finish").uncheck()
        confirm(page, "1 running task will be stopped", button="Suspend")
        expect(state).to_have_text("Suspended")
        page.get_by_role("button", name="Resume").click()
        confirm(page, "where it was suspended", button="Resume")
        expect(state).not_to_have_text("Suspended")
        choose(page, "Change the priority")
        expect(page.get_by_role("dialog")).to_contain_text("Enter another value.")
        page.get_by_role("dialog").get_by_label("Priority").fill("7")
        confirm(page, "Changes priority to 7", "move to the queue for them", button="Change the priority")
        expect(facts).to_contain_text("Priority7")
        choose(page, "Change retries and limits")
        page.get_by_role("dialog").get_by_label("Retries of a failed task").fill("4")
        confirm(page, "Changes failedRetries to 4", button="Change retries and limits")
        choose(page, "Change the worker groups")
        groups = page.get_by_role("dialog").get_by_label("Worker groups")
        groups.fill("nobody")
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("no worker group 'nobody'")
        groups.fill("default, lambda")
        confirm(page, "Changes workerGroups to default, lambda", button="Change the worker groups")
        expect(facts).to_contain_text("default, lambda")
        page.get_by_role("link", name="Steps").click()
        row = page.get_by_role("row").filter(has_text="wait").first
        row.get_by_text("Step", exact=True).click()
        row.get_by_role("button", name="Force success").click()
        confirm(page, "Step wait of wait-for-me/control ends as SUCCESS.", button="Force success")
        expect(state).to_have_text("Success", timeout=60_000)
        page.get_by_role("link", name="History").click()
        changes = page.get_by_role("row").filter(has_text="job").filter(has_text="Suspended")
        expect(changes.first).to_contain_text("admin")
    pages.errors[:] = [text for text in pages.errors if "422" not in text]


def test_a_job_a_step_and_a_task_are_killed_and_a_waiting_job_is_started(pages: Pages, site: Site) -> None:
    site.submit("wait-for-me", "kills")
    child = {"jobName": "needs-report", "type": "noop", "dependencies": [{"jobName": "balance-report"}]}
    site.call("PUT", "/v1/definitions/needs-report", child)
    site.submit("needs-report", "w1", dataTime="2020-01-01T00:00:00Z")
    site.wait_for("needs-report", "w1", "WAITING")
    site.wait_for("wait-for-me", "kills", "RUNNING")
    with pages.open("#/jobs/wait-for-me/kills/steps/wait/0") as page:
        expect(page.get_by_role("button", name="Force success")).to_be_visible()
        page.get_by_role("button", name="Kill", exact=True).click()
        confirm(page, "Task 0 of step wait ends as KILLED.", "stops it", button="Kill the task")
        site.wait_for("wait-for-me", "kills", "FAILED")
        page.goto(f"{site.url}/#/jobs/needs-report/w1")
        expect(page.get_by_role("heading", name="needs-report")).to_be_visible()
        page.get_by_role("button", name="Start without dependencies").click()
        confirm(page, "starts now, without the jobs that it waits for", button="Start without dependencies")
        expect(page.locator(".title .badge")).to_have_text("Success", timeout=60_000)
        site.submit("wait-for-me", "kills-2")
        site.wait_for("wait-for-me", "kills-2", "RUNNING")
        page.goto(f"{site.url}/#/jobs/wait-for-me/kills-2?tab=steps")
        row = page.get_by_role("row").filter(has_text="after")
        row.get_by_text("Step", exact=True).click()
        row.get_by_role("button", name="Kill the step").click()
        confirm(page, "Step after of wait-for-me/kills-2 ends as KILLED.", button="Kill the step")
        page.get_by_role("button", name="Kill", exact=True).click()
        confirm(page, "wait-for-me/kills-2 ends as KILLED.", "1 running task will be stopped", button="Kill")
        expect(page.locator(".title .badge")).to_have_text("Killed")


def test_a_failed_job_is_rerun_in_every_way_forced_and_deleted(pages: Pages, site: Site) -> None:
    fails = {"stepName": "fails", "type": "shell", "sharding": 2, "content": "test {{ shard.index }} != 1"}
    steps = [{"stepName": "first", "type": "noop"}, {**fails, "dependentSteps": ["first"]}]
    site.call("PUT", "/v1/definitions/again", {"jobName": "again", "steps": steps, "params": {"a": "b"}})
    site.submit("again", "r1", dataTime="2020-01-01T00:00:00Z")

    def failed(run: int) -> None:
        """Wait until this run has failed, and the page of the job shows it."""
        run_until(lambda: _ended_run(site) == (run, "FAILED"), timeout=60.0, interval=0.1)
        if "/steps/" not in page.url:
            if run > 1:
                expect(page.get_by_label("Run", exact=True)).to_have_value(str(run))
            expect(page.locator(".title .badge")).to_have_text("Failed")

    with pages.open("#/jobs/again/r1?tab=steps") as page:
        failed(1)
        page.get_by_role("button", name="Rerun failed").click()
        confirm(page, "1 task will run, in 1 step: fails.", "2 tasks that succeeded", button="Rerun failed")
        failed(2)
        choose(page, "Rerun everything")
        confirm(page, "3 tasks will run, in 2 steps: first, fails.", button="Rerun everything")
        failed(3)
        choose(page, "Rerun from a step")
        page.get_by_role("dialog").get_by_label("Step").select_option("fails")
        confirm(page, "2 tasks will run, in 1 step: fails.", button="Rerun from a step")
        failed(4)
        choose(page, "Rerun with dependent jobs")
        confirm(page, "No job of the same data time depends on it.", button="Rerun with dependent jobs")
        failed(5)
        row = page.get_by_role("row").filter(has_text="fails")
        row.get_by_text("Step", exact=True).click()
        row.get_by_role("button", name="Rerun from this step").click()
        confirm(page, "Run 6 of again/r1 starts", button="Rerun from this step")
        failed(6)
        page.goto(f"{site.url}/#/jobs/again/r1?tab=tasks&step=fails")
        page.get_by_role("button", name="Rerun 1 failed task").click()
        confirm(page, "1 task will run, in 1 step: fails.", "Tasks: 1", button="Rerun 1 task")
        failed(7)
        page.goto(f"{site.url}/#/jobs/again/r1/steps/fails/1")
        page.get_by_role("button", name="Rerun", exact=True).click()
        confirm(page, "Run 8 of again/r1 starts", button="Rerun the task")
        failed(8)
        page.goto(f"{site.url}/#/jobs/again/r1")
        choose(page, "Force success")
        confirm(page, "ends as SUCCESS instead of FAILED", button="Force success")
        expect(page.locator(".title .badge")).to_have_text("Success")
        choose(page, "Force failure")
        confirm(page, "ends as FAILED instead of SUCCESS", button="Force failure")
        expect(page.locator(".title .badge")).to_have_text("Failed")
        choose(page, "Delete")
        page.get_by_role("dialog").get_by_label("Also delete its rows, files and logs").check()
        confirm(page, "cannot be restored", "Its name and trigger can be used again", button="Delete")
        run_until(lambda: site.laptop.request("GET", "/v1/jobs/again/r1").status_code == 404)
        page.goto(f"{site.url}/#/definitions/again")
        page.get_by_role("button", name="Delete").click()
        confirm(page, "no new job of it can be submitted", button="Delete")
        expect(page.get_by_role("heading", name="Definitions")).to_be_visible()
    pages.errors[:] = [text for text in pages.errors if "404" not in text]


def _ended_run(site: Site) -> tuple[int, str]:
    job = site.call("GET", "/v1/jobs/again/r1")
    return job["run"], job["state"]


def test_a_backfill_is_started_and_stopped(pages: Pages, site: Site) -> None:
    site.call("PUT", "/v1/schedules/wait-for-me/past", {"cron": "0 6 * * *", "status": 0})
    with pages.open("#/schedules/wait-for-me/past") as page:
        page.get_by_role("button", name="Backfill").click()
        dialog = page.get_by_role("dialog", name="Backfill")
        dialog.get_by_label("From").fill("2020-01-01")
        dialog.get_by_label("To, not included").fill("2019-01-01")
        dialog.get_by_label("To, not included").blur()
        expect(dialog).to_contain_text("to must be after from")
        expect(dialog.get_by_role("button", name="Start the backfill")).to_be_disabled()
        dialog.get_by_label("To, not included").fill("2020-01-04")
        dialog.get_by_label("To, not included").blur()
        confirm(page, "3 times run", "From 2020-01-01 06:00:00 to", button="Start the backfill")
        page.get_by_role("button", name="Stop").click()
        confirm(page, "2 jobs will not start", button="Stop")
        expect(page.get_by_role("row").filter(has_text="stopped")).to_be_visible()
    [job] = [each for each in site.call("GET", "/v1/jobs?jobName=wait-for-me")["items"] if each["scheduleId"]]
    site.call("POST", f"/v1/jobs/wait-for-me/{job['trigger']}:kill", {})
    pages.errors[:] = [text for text in pages.errors if "422" not in text]


def test_a_group_is_suspended_and_a_worker_is_drained_and_forgotten(pages: Pages, site: Site) -> None:
    site.call("PUT", "/v1/groups/spare", {})
    made = site.call("POST", "/v1/workers", {"name": "spare-1", "groups": ["spare"]})
    with pages.open("#/workers") as page:
        page.get_by_role("button", name="Suspend group spare").click()
        confirm(page, button="Suspend")
        page.get_by_role("button", name="Resume group spare").click()
        confirm(page, "takes tasks again", button="Resume")
        page.get_by_role("button", name="Drain worker spare-1").click()
        confirm(page, "finishes its 0 tasks, leases no more, and exits", button="Drain")
        beat = {"session": made["session"], "offline": True}
        assert site.call("POST", f"/v1/workers/{made['id']}:heartbeat", beat)["drain"] is True
        page.get_by_role("button", name="Forget worker spare-1").click()
        confirm(page, "removed from the list", button="Forget")
        expect(page.get_by_role("button", name="Forget worker spare-1")).to_have_count(0)
    site.call("DELETE", "/v1/groups/spare")


def test_a_schedule_is_turned_off_and_on_and_deleted(pages: Pages, site: Site) -> None:
    path = "/v1/schedules/try-twice/weekly"
    site.call("PUT", path, {"cron": "0 6 * * 1", "timezone": "Europe/Berlin", "params": {"a": "b"}})
    with pages.open("#/schedules/try-twice/weekly") as page:
        page.get_by_role("button", name="Turn off").click()
        confirm(page, "does not fire until it is turned on", button="Turn off")
        expect(page.locator(".title .badge")).to_have_text("off")
        saved = site.call("GET", path)
        assert (saved["status"], saved["cron"], saved["timezone"]) == (0, "0 6 * * 1", "Europe/Berlin")
        assert saved["params"] == {"a": "b"}
        page.get_by_role("button", name="Turn on").click()
        confirm(page, "fires again", button="Turn on")
        expect(page.locator(".title .badge")).to_have_text("on")
        page.get_by_role("button", name="Delete").click()
        confirm(page, "fires no more", button="Delete")
        expect(page.get_by_role("heading", name="Schedules")).to_be_visible()
    assert site.laptop.request("GET", path).status_code == 404


def test_all_groups_are_suspended_and_resumed_and_a_definition_too(pages: Pages, site: Site) -> None:
    with pages.open("#/workers") as page:
        page.get_by_role("button", name="Suspend all groups").click()
        confirm(page, "No task is leased", button="Suspend all")
        page.get_by_role("button", name="Resume all groups").click()
        confirm(page, "lease tasks again", button="Resume all")
        expect(page.get_by_role("button", name="Suspend all groups")).to_be_visible()
        page.goto(f"{site.url}/#/definitions/try-twice")
        expect(page.get_by_role("heading", name="try-twice")).to_be_visible()
        page.get_by_role("button", name="Suspend", exact=True).click()
        confirm(page, "No new job of try-twice starts", button="Suspend")
        page.get_by_role("button", name="Resume", exact=True).click()
        confirm(page, "New jobs of try-twice start again", button="Resume")
        expect(page.get_by_role("button", name="Suspend", exact=True)).to_be_visible()
