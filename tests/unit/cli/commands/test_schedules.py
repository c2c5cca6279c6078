"""schedule list, show, next, on, off, delete and fire."""

import json

import pytest

from support.fakes.api import (
    NOW,
    FakeApi,
    Reply,
    Run,
    firing,
    job,
    output_of,
    page,
    problem,
    schedule,
    step,
    when,
)

PATH = "/v1/schedules/report/nightly"

NEXT = (
    when("2026-11-17T03:30:00.000Z", "2026-11-17T04:30:00+01:00"),
    when("2026-11-18T03:30:00.000Z", "2026-11-18T04:30:00+01:00"),
)


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    api.on("GET", PATH, schedule())
    api.on("PUT", PATH, schedule())
    api.on("GET", f"{PATH}/next", page(*NEXT))
    return api


def test_schedule_without_next_times_shows_never(api: FakeApi, run: Run) -> None:
    once = schedule(cron=None, at="2020-01-01T00:00:00.000Z", timezone="UTC")
    api.on("GET", PATH, once)
    api.on("GET", f"{PATH}/next", page(), page(when(NOW, "2026-11-16T02:17:19+00:00")))
    shown = output_of(run("schedule", "show", "report", "nightly"))
    assert "  expression at 2020-01-01T00:00:00Z\n" in shown
    assert shown.endswith("  next       never\n")
    assert output_of(run("schedule", "show", "report", "nightly")).endswith(
        "  next       2026-11-16T02:17:19Z\n"
    )


@pytest.mark.parametrize(
    ("awaited", "status", "shown"),
    [("4f1c", 1, "after the end of the running job"), ("4f1c", 0, "never"), (None, 1, "never")],
)
def test_a_schedule_with_a_delay_shows_whether_it_waits_for_a_job(
    api: FakeApi, run: Run, awaited: str | None, status: int, shown: str
) -> None:
    document = schedule(cron=None, delaySeconds=300, nextTime=None, awaitedJob=awaited, status=status)
    api.on("GET", PATH, document)
    api.on("GET", f"{PATH}/next", page())
    assert output_of(run("schedule", "show", "report", "nightly")).endswith(f"  next       {shown}\n")


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"everyMonths": 1, "startDate": "2026-01-31"}, "every month"),
        ({"everyMonths": 3, "startDate": "2026-01-31"}, "every 3 months"),
        ({"times": [NOW]}, "1 listed time"),
    ],
)
def test_times_other_than_cron_expressions_are_shown(
    api: FakeApi, run: Run, fields: dict[str, object], shown: str
) -> None:
    api.on("GET", PATH, schedule(cron=None, **fields))
    assert f"  expression {shown}\n" in output_of(run("schedule", "show", "report", "nightly"))


def test_schedules_are_listed(api: FakeApi, run: Run) -> None:
    off = schedule(scheduleId="often", cron=None, everySeconds=900, timezone="UTC", status=0, nextTime=None)
    api.on("GET", "/v1/schedules", page(schedule(history=[firing()]), off))
    api.on("GET", "/v1/schedules/report", page(off))
    lines = [line.split() for line in output_of(run("schedule", "list")).splitlines()]
    assert lines[0] == ["JOB", "SCHEDULE", "STATUS", "EXPRESSION", "TIMEZONE", "NEXT", "LAST"]
    cron = ["cron", "30", "4", "*", "*", "*", "Europe/Berlin"]
    last = ["2026-11-17T03:30:00Z", "started", "2026-11-16T02:17:19Z"]
    assert lines[1] == ["report", "nightly", "ON", *cron, *last]
    assert lines[2] == ["report", "often", "OFF", "every", "15m", "UTC", "-", "-"]
    found = json.loads(output_of(run("schedule", "list", "report", "--json")))
    assert [each["scheduleId"] for each in found] == ["often"]


def test_schedule_is_shown_with_its_firings(api: FakeApi, run: Run) -> None:
    text = "the JobRequest is not valid: /jobName needs a worker group 'g'; make it with PUT /v1/groups/g"
    history = [
        firing(),
        firing(
            "skipped", "2026-11-15T03:30:00Z", trigger="t0", reason="the previous Job t1 is still RUNNING"
        ),
        firing("missed", "2026-11-10T03:30:00Z", until="2026-11-14T03:30:00Z", reason="no tick\ncame"),
        firing("refused", "2026-11-09T03:30:00Z", reason=text),
    ]
    api.on("GET", PATH, schedule(history=history))
    lines = output_of(run("schedule", "show", "report", "nightly")).splitlines()
    at = lines.index("")
    table = [[cell for cell in line.split("  ") if cell] for line in lines[at + 1 :]]
    table = [[cell.strip() for cell in row] for row in table]
    assert lines[0] == "report nightly ON"
    assert table == [
        ["TIME", "OUTCOME", "JOB", "REASON"],
        ["2026-11-16T02:17:19Z", "started", "report/t1", "-"],
        ["2026-11-15T03:30:00Z", "skipped", "-", "the previous Job t1 is still RUNNING"],
        ["2026-11-10T03:30:00Z to 2026-11-14T03:30:00Z", "missed", "-", "no tick came"],
        ["2026-11-09T03:30:00Z", "refused", "-", table[4][3]],
    ]
    assert table[4][3].endswith("needs a worker group 'g'; make it with `shardmill groups add g`")
    found = json.loads(output_of(run("schedule", "show", "report", "nightly", "--json")))
    assert [each["outcome"] for each in found["history"]] == ["started", "skipped", "missed", "refused"]


def test_long_list_of_firings_is_cut(api: FakeApi, run: Run) -> None:
    api.on("GET", PATH, schedule(history=[firing()] * 100))
    lines = output_of(run("schedule", "show", "report", "nightly")).splitlines()
    assert sum("started" in line for line in lines) == 20
    assert lines[-1] == "… and 80 more; use --json to list all"


def test_next_shows_the_meaning_in_words(api: FakeApi, run: Run) -> None:
    api.on("GET", f"{PATH}/next", page(*NEXT) | {"meaning": "at 04:30 every day, Europe/Berlin time"})
    lines = output_of(run("schedule", "next", "report", "nightly")).splitlines()
    assert lines[:2] == ["at 04:30 every day, Europe/Berlin time", "UTC                   LOCAL"]


def test_next_times_are_shown_in_utc_and_local_time(api: FakeApi, run: Run) -> None:
    assert output_of(run("schedule", "next", "report", "nightly")).splitlines() == [
        "UTC                   LOCAL",
        "2026-11-17T03:30:00Z  2026-11-17T04:30:00+01:00",
        "2026-11-18T03:30:00Z  2026-11-18T04:30:00+01:00",
    ]
    assert api.requests[-1].query == {"count": "10"}
    found = json.loads(output_of(run("schedule", "next", "report", "nightly", "--count", "2", "--json")))
    assert [each["local"] for each in found] == [each["local"] for each in NEXT]
    assert api.requests[-1].query == {"count": "2"}


@pytest.mark.parametrize(
    ("text", "sent", "requests"),
    [
        ("2026-03-29", "2026-03-28T23:00:00.000Z", 2),
        ("20260701", "2026-06-30T22:00:00.000Z", 2),
        ("2026-03-29T00:00:00+05:00", "2026-03-28T19:00:00.000Z", 1),
        ("2026-03-29T00:00", "2026-03-29T00:00:00.000Z", 1),
    ],
)
def test_date_means_midnight_in_the_timezone_of_the_schedule(
    api: FakeApi, run: Run, text: str, sent: str, requests: int
) -> None:
    output_of(run("schedule", "next", "report", "nightly", "--from", text))
    assert api.requests[-1].query["from"] == sent
    assert len(api.requests) == requests


def test_schedule_is_switched_on_and_off(api: FakeApi, run: Run) -> None:
    api.on("PUT", PATH, schedule(status=0, version=4, nextTime=None))
    assert output_of(run("schedule", "off", "report", "nightly")) == "report nightly OFF\n"
    assert (api.requests[-1].document["status"], api.requests[-1].headers["if-match"]) == (0, '"v3"')
    assert json.loads(output_of(run("schedule", "off", "report", "nightly", "--json")))["status"] == 0
    before = len(api.requests)
    expected = "report nightly ON, next 2026-11-17T03:30:00Z\n"
    assert output_of(run("schedule", "on", "report", "nightly")) == expected
    assert api.request_lines[before:] == [f"GET {PATH}"]


def test_concurrently_changed_schedule_is_not_switched(api: FakeApi, run: Run) -> None:
    message = "schedule 'nightly' of 'report' is at version 4: not what was expected; read it and repeat"
    api.on("PUT", PATH, problem(412, "precondition-failed", message))
    refused = run("schedule", "off", "report", "nightly")
    assert (refused.exit_code, refused.stdout, refused.stderr) == (1, "", f"shardmill: {message}\n")


def test_schedule_is_deleted(api: FakeApi, run: Run) -> None:
    api.on("DELETE", PATH, Reply(None, 204))
    assert output_of(run("schedule", "delete", "report", "nightly")) == "schedule nightly of report deleted\n"
    printed = json.loads(output_of(run("schedule", "delete", "report", "nightly", "--json")))
    assert printed == {"jobName": "report", "scheduleId": "nightly", "deleted": True}


def test_schedule_is_fired(api: FakeApi, run: Run) -> None:
    api.on("POST", f"{PATH}:fire", Reply(job("INIT"), 202))
    assert output_of(run("schedule", "fire", "report", "nightly")) == "report t1 INIT\n"
    assert api.requests[-1].document == {}
    options = ["--data-time", "2026-01-05", "--param", "x=1"]
    assert (
        json.loads(output_of(run("schedule", "fire", "report", "nightly", *options, "--json")))["trigger"]
        == "t1"
    )
    assert api.requests[-1].document == {"dataTime": "2026-01-04T23:00:00.000Z", "params": {"x": "1"}}


def test_firing_the_same_time_again_returns_the_same_job(api: FakeApi, run: Run) -> None:
    api.on("POST", f"{PATH}:fire", Reply(job("SUCCESS"), 200))
    result = run("schedule", "fire", "report", "nightly")
    assert (result.exit_code, result.stdout) == (0, "report t1 SUCCESS\n")
    assert "report/t1 already exists" in result.stderr


@pytest.mark.parametrize(("state", "code"), [("SUCCESS", 0), ("FAILED", 4), ("KILLED", 4)])
def test_fire_wait_exits_with_the_code_of_the_job(api: FakeApi, run: Run, state: str, code: int) -> None:
    api.on("POST", f"{PATH}:fire", Reply(job("INIT"), 202))
    api.on("GET", "/v1/jobs/report/t1", job("RUNNING", step()), job(state, step(state=state)))
    result = run("schedule", "fire", "report", "nightly", "--wait")
    assert result.exit_code == code
    assert result.stdout.startswith(f"report t1 {state}\n")
    assert "submitted report/t1\nshardmill: step main RUNNING (0 of 4 tasks)\n" in result.stderr
    document = run("schedule", "fire", "report", "nightly", "--wait", "--json")
    assert (document.exit_code, json.loads(document.stdout)["state"]) == (code, state)


def test_fire_timeout_exits_5(api: FakeApi, run: Run) -> None:
    api.on("POST", f"{PATH}:fire", Reply(job("INIT"), 202))
    api.on("GET", "/v1/jobs/report/t1", job("RUNNING"))
    result = run("schedule", "fire", "report", "nightly", "--wait", "--timeout", "0", "--json")
    assert (result.exit_code, json.loads(result.stdout)["state"]) == (5, "RUNNING")


def test_refused_firing_shows_the_reason(api: FakeApi, run: Run) -> None:
    message = "the previous Job report/t0 is still RUNNING, and the schedule says to skip then; wait for it"
    api.on("POST", f"{PATH}:fire", problem(409, "overlap", message))
    refused = run("schedule", "fire", "report", "nightly", "--wait")
    assert (refused.exit_code, refused.stdout, refused.stderr) == (1, "", f"shardmill: {message}\n")


def test_options_are_accepted_before_the_subcommand(run: Run) -> None:
    assert json.loads(output_of(run("schedule", "--json", "show", "report", "nightly")))["version"] == 3


def test_no_subcommand_shows_the_help(run: Run) -> None:
    shown = run("schedule")
    assert shown.exit_code == 2
    assert "backfills" in shown.output
