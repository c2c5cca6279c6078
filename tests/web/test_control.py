"""Control actions from the page: jobs, steps, schedules and groups, each after its confirmation."""

from playwright.sync_api import Page, expect

from web.conftest import Pages
from web.site import Site


def confirm(page: Page, *texts: str, button: str) -> None:
    dialog = page.get_by_role("dialog")
    for text in texts:
        expect(dialog).to_contain_text(text)
    dialog.get_by_role("button", name=button, exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_job_is_suspended_resumed_changed_and_ended_by_its_steps(pages: Pages, site: Site) -> None:
    site.submit("wait-for-me", "control")
    site.wait_for("wait-for-me", "control", "RUNNING")
    with pages.open("#/jobs/wait-for-me/control") as page:
        state = page.locator(".title .badge")
        page.get_by_role("button", name="Suspend").click()
        confirm(page, "No further task of wait-for-me/control starts.", button="Suspend")
        expect(state).to_have_text("Suspended")
        page.get_by_role("button", name="Resume").click()
        confirm(page, "continues where it was suspended", button="Resume")
        expect(state).not_to_have_text("Suspended")
        page.get_by_text("More", exact=True).click()
        page.get_by_role("button", name="Change the priority").click()
        page.get_by_role("dialog").get_by_label("Priority").fill("7")
        confirm(page, "move to the queue of the new priority", button="Change the priority")
        expect(page.locator(".facts")).to_contain_text("Priority7")
        page.get_by_role("link", name="Steps").click()
        row = page.get_by_role("row").filter(has_text="wait").first
        row.get_by_text("Step", exact=True).click()
        row.get_by_role("button", name="Force success").click()
        confirm(page, "Step wait ends as SUCCESS without running what is left.", button="Force success")
        expect(state).to_have_text("Success", timeout=60_000)
        page.get_by_role("link", name="History").click()
        changes = page.get_by_role("row").filter(has_text="job").filter(has_text="Suspended")
        expect(changes.first).to_contain_text("admin")


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
        page.get_by_role("button", name="Suspend").click()
        confirm(page, "No new job of try-twice starts", button="Suspend")
        page.get_by_role("button", name="Resume").click()
        confirm(page, "New jobs of try-twice start again", button="Resume")
        expect(page.get_by_role("button", name="Suspend")).to_be_visible()
