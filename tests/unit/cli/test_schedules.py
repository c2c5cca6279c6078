"""schedule save, list, show, next, on, off, delete, fire against an API on loopback."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from shardmill.cli.commands.schedule_save import CatchUp, Overlap
from shardmill.model.time.schedule import Schedule, check_schedule
from support.fakes.api import (
    NOW,
    FakeApi,
    Reply,
    Run,
    command_line,
    fine,
    firing,
    job,
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
CRON = ["--cron", "30 4 * * *"]


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    api.on("GET", PATH, schedule())
    api.on("PUT", PATH, schedule())
    api.on("GET", f"{PATH}/next", page(*NEXT))
    return api


@pytest.fixture
def run(api: FakeApi) -> Iterator[Run]:
    with command_line(api) as found:
        yield found


# save


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        (CRON, {"cron": "30 4 * * *"}),
        (["--every", "90"], {"everySeconds": 90}),
        (["--every", "15m"], {"everySeconds": 900}),
        (["--every", "2h", "--max-lateness", "0"], {"everySeconds": 7200, "maxLatenessSeconds": 0}),
        (["--every", "1d", "--off"], {"everySeconds": 86_400, "status": 0}),
        (["--at", "2026-01-01T04:00:00+01:00"], {"at": "2026-01-01T03:00:00+00:00"}),
        (["--at", "2026-01-01T04:00"], {"at": "2026-01-01T04:00:00+00:00"}),
        (
            ["--at", "2026-01-01", "--timezone", "Asia/Tokyo"],
            {"at": "2025-12-31T15:00:00+00:00", "timezone": "Asia/Tokyo"},
        ),
        (
            [*CRON, "--start", "2026-01-01", "--end", "20261231", "--overlap", "skip", "--catch-up", "all"],
            {
                "cron": "30 4 * * *",
                "startDate": "2026-01-01",
                "endDate": "20261231",
                "overlap": "skip",
                "catchUp": "all",
            },
        ),
        (
            [*CRON, "--param", "a=1", "--param", "b=", "--trigger-format", "%Y%m%d"],
            {"cron": "30 4 * * *", "params": {"a": "1", "b": ""}, "triggerFormat": "%Y%m%d"},
        ),
    ],
)
def test_only_what_is_given_is_sent(api: FakeApi, run: Run, options: list[str], sent: dict[str, Any]) -> None:
    fine(run("schedule", "save", "report", "nightly", *options))
    assert api.seen[0].document == sent
    assert check_schedule(sent, "report", "nightly")[1] == []


def test_a_saved_schedule_is_shown_with_its_next_times(api: FakeApi, run: Run) -> None:
    more = {"startDate": "2026-01-01", "maxLatenessSeconds": 7200, "params": {"region": "e\nu"}}
    api.on("PUT", PATH, Reply(schedule(**more, triggerFormat="%Y%m%d"), 201))
    assert fine(run("schedule", "save", "report", "nightly", *CRON)).splitlines() == [
        "report nightly ON",
        "  expression cron 30 4 * * *",
        "  timezone   Europe/Berlin",
        "  days       from 2026-01-01",
        "  overlap    allow",
        "  catch-up   latest, at most 2h late",
        "  params     region=e u",
        "  trigger    %Y%m%d",
        "  version    3, saved 2026-11-16T02:17:19Z by admin",
        "  next       2026-11-17T03:30:00Z (local 2026-11-17T04:30:00+01:00)",
        "  next       2026-11-18T03:30:00Z (local 2026-11-18T04:30:00+01:00)",
    ]
    assert api.seen[-1].query == {"count": "3"}


def test_a_saved_schedule_in_json_is_what_the_api_answered(api: FakeApi, run: Run) -> None:
    found = json.loads(fine(run("schedule", "save", "report", "nightly", *CRON, "--json")))
    assert (found["version"], found["nextTime"]) == (3, "2026-11-17T03:30:00.000Z")
    assert api.asked == [f"PUT {PATH}"]


def test_one_that_never_fires_again_says_so(api: FakeApi, run: Run) -> None:
    once = schedule(cron=None, at="2020-01-01T00:00:00.000Z", timezone="UTC")
    api.on("GET", PATH, once)
    api.on("GET", f"{PATH}/next", page(), page(when(NOW, "2026-11-16T02:17:19+00:00")))
    shown = fine(run("schedule", "show", "report", "nightly"))
    assert "  expression at 2020-01-01T00:00:00Z\n" in shown
    assert shown.endswith("  next       never\n")
    assert fine(run("schedule", "show", "report", "nightly")).endswith("  next       2026-11-16T02:17:19Z\n")


def test_a_file_is_sent_as_it_is(api: FakeApi, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "nightly.yaml"
    file.write_text("cron: '@daily'\nstartDate: 2026-01-01\nsomethingOfTomorrow: 1\n")
    fine(run("schedule", "save", "report", "nightly", "--file", str(file)))
    assert api.seen[0].document == {"cron": "@daily", "startDate": "2026-01-01", "somethingOfTomorrow": 1}
    fine(run("schedule", "save", "report", "nightly", "--file", "-", input='{"everySeconds": 5}'))
    assert api.seen[-2].document == {"everySeconds": 5}


def test_what_show_prints_can_be_saved_again(api: FakeApi, run: Run, tmp_path: Path) -> None:
    api.on("GET", PATH, schedule(params={"a": [None]}, history=[firing()]))
    file = tmp_path / "nightly.json"
    file.write_text(fine(run("schedule", "show", "report", "nightly", "--json")))
    fine(run("schedule", "save", "report", "nightly", "--file", str(file)))
    sent = next(each.document for each in api.seen if each.method == "PUT")
    again, faults = check_schedule(sent, "report", "nightly")
    assert (again and again.params, faults) == ({"a": [None]}, [])


def test_a_file_that_is_no_schedule_is_1_with_its_faults(api: FakeApi, run: Run, tmp_path: Path) -> None:
    fault = {"pointer": "/cron", "code": "bad-cron", "message": "is not understood"}
    api.on("PUT", PATH, problem(422, "bad-cron", "the schedule is not valid", faults=[fault]))
    (tmp_path / "x.json").write_text('{"cron": "x"}')
    refused = run("schedule", "save", "report", "nightly", "--file", str(tmp_path / "x.json"))
    assert refused.exit_code == 1
    told = "shardmill: the schedule is not valid\nshardmill:   /cron: is not understood\n"
    assert (refused.stdout, refused.stderr) == ("", told)
    assert run("schedule", "save", "report", "nightly", "--file", "/nonexistent.yaml").exit_code == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "exactly one of --cron, --every, --at and --file"),
        ([*CRON, "--every", "5"], "exactly one of --cron, --every, --at and --file"),
        (["--cron", "* * * *"], "--cron must be a cron expression of 5 fields"),
        (["--cron", ""], "--cron must be a cron expression of 5 fields"),
        (["--cron", "0 0 31 2 *"], "--cron can never fire"),
        (["--every", "0"], "--every must be greater than or equal to 1"),
        (["--every", "5x"], "'5x' must be a number of seconds such as 900, or 15m, 2h or 1d"),
        (["--every", "99999d"], "'99999d' is longer than ten years"),
        (["--at", "yesterday"], "'yesterday' must be a date"),
        (["--at", "2026-01-01", "--timezone", "Mars/Olympus"], "unknown time zone 'Mars/Olympus'"),
        ([*CRON, "--timezone", "Mars/Olympus"], "--timezone must be an IANA time zone"),
        ([*CRON, "--start", "20260231"], "--start must be a date"),
        ([*CRON, "--start", "2026-02-01", "--end", "2026-01-01"], "endDate must not be before startDate"),
        ([*CRON, "--trigger-format", "%Y/%m"], "--trigger-format gives triggers such as"),
        ([*CRON, "--overlap", "maybe"], "'maybe'"),
        ([*CRON, "--catch-up", "some"], "'some'"),
        ([*CRON, "--max-lateness", "-1"], "'-1'"),
        ([*CRON, "--param", "x"], "must have the form NAME=VALUE"),
        ([*CRON, "--file", "x.yaml", "--off"], "cannot be combined with --cron, --off"),
    ],
)
def test_nonsense_is_2_and_asks_nobody(api: FakeApi, run: Run, options: list[str], words: str) -> None:
    refused = run("schedule", "save", "report", "nightly", *options)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert words in " ".join(refused.stderr.split())
    assert api.seen == []


def test_every_fault_is_said_at_once(run: Run) -> None:
    refused = run("schedule", "save", "1", "nightly", "--cron", "x", "--timezone", "y", "--start", "z")
    assert refused.exit_code == 2
    for word in ("JOB must", "--cron must", "--timezone must", "--start must"):
        assert word in refused.stderr


def test_the_words_of_the_options_are_those_of_the_model() -> None:
    for option, field in ((Overlap, "overlap"), (CatchUp, "catch_up")):
        spelled, _ = get_args(get_args(option)[0])
        assert get_args(spelled) == get_args(Schedule.model_fields[field].annotation)


# list, show, next


def test_schedules_are_listed(api: FakeApi, run: Run) -> None:
    off = schedule(scheduleId="often", cron=None, everySeconds=900, timezone="UTC", status=0, nextTime=None)
    api.on("GET", "/v1/schedules", page(schedule(history=[firing()]), off))
    api.on("GET", "/v1/schedules/report", page(off))
    lines = [line.split() for line in fine(run("schedule", "list")).splitlines()]
    assert lines[0] == ["JOB", "SCHEDULE", "STATUS", "EXPRESSION", "TIMEZONE", "NEXT", "LAST"]
    cron = ["cron", "30", "4", "*", "*", "*", "Europe/Berlin"]
    last = ["2026-11-17T03:30:00Z", "started", "2026-11-16T02:17:19Z"]
    assert lines[1] == ["report", "nightly", "ON", *cron, *last]
    assert lines[2] == ["report", "often", "OFF", "every", "15m", "UTC", "-", "-"]
    found = json.loads(fine(run("schedule", "list", "report", "--json")))
    assert [each["scheduleId"] for each in found] == ["often"]


def test_a_schedule_is_shown_with_its_history(api: FakeApi, run: Run) -> None:
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
    lines = fine(run("schedule", "show", "report", "nightly")).splitlines()
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
    found = json.loads(fine(run("schedule", "show", "report", "nightly", "--json")))
    assert [each["outcome"] for each in found["history"]] == ["started", "skipped", "missed", "refused"]


def test_a_long_history_is_cut(api: FakeApi, run: Run) -> None:
    api.on("GET", PATH, schedule(history=[firing()] * 100))
    lines = fine(run("schedule", "show", "report", "nightly")).splitlines()
    assert sum("started" in line for line in lines) == 20
    assert lines[-1] == "… and 80 more; use --json to list all"


def test_the_next_times_in_utc_and_local(api: FakeApi, run: Run) -> None:
    assert fine(run("schedule", "next", "report", "nightly")).splitlines() == [
        "UTC                   LOCAL",
        "2026-11-17T03:30:00Z  2026-11-17T04:30:00+01:00",
        "2026-11-18T03:30:00Z  2026-11-18T04:30:00+01:00",
    ]
    assert api.seen[-1].query == {"count": "10"}
    found = json.loads(fine(run("schedule", "next", "report", "nightly", "--count", "2", "--json")))
    assert [each["local"] for each in found] == [each["local"] for each in NEXT]
    assert api.seen[-1].query == {"count": "2"}


@pytest.mark.parametrize(
    ("text", "sent", "asked"),
    [
        ("2026-03-29", "2026-03-28T23:00:00.000Z", 2),
        ("20260701", "2026-06-30T22:00:00.000Z", 2),
        ("2026-03-29T00:00:00+05:00", "2026-03-28T19:00:00.000Z", 1),
        ("2026-03-29T00:00", "2026-03-29T00:00:00.000Z", 1),
    ],
)
def test_a_date_is_its_midnight_in_the_zone_of_the_schedule(
    api: FakeApi, run: Run, text: str, sent: str, asked: int
) -> None:
    fine(run("schedule", "next", "report", "nightly", "--from", text))
    assert api.seen[-1].query["from"] == sent
    assert len(api.seen) == asked


# on, off, delete


def test_a_schedule_is_switched(api: FakeApi, run: Run) -> None:
    api.on("PUT", PATH, schedule(status=0, version=4, nextTime=None))
    assert fine(run("schedule", "off", "report", "nightly")) == "report nightly OFF\n"
    assert (api.seen[-1].document["status"], api.seen[-1].headers["if-match"]) == (0, '"v3"')
    assert json.loads(fine(run("schedule", "off", "report", "nightly", "--json")))["status"] == 0
    asked = len(api.seen)
    told = "report nightly ON, next 2026-11-17T03:30:00Z\n"
    assert fine(run("schedule", "on", "report", "nightly")) == told
    assert api.asked[asked:] == [f"GET {PATH}"]


def test_a_schedule_that_somebody_else_changes_is_not_switched(api: FakeApi, run: Run) -> None:
    words = "schedule 'nightly' of 'report' is at version 4: not what was expected; read it and repeat"
    api.on("PUT", PATH, problem(412, "precondition-failed", words))
    refused = run("schedule", "off", "report", "nightly")
    assert (refused.exit_code, refused.stdout, refused.stderr) == (1, "", f"shardmill: {words}\n")


def test_a_schedule_is_deleted(api: FakeApi, run: Run) -> None:
    api.on("DELETE", PATH, Reply(None, 204))
    assert fine(run("schedule", "delete", "report", "nightly")) == "schedule nightly of report deleted\n"
    told = json.loads(fine(run("schedule", "delete", "report", "nightly", "--json")))
    assert told == {"jobName": "report", "scheduleId": "nightly", "deleted": True}


# fire


def test_a_schedule_is_fired(api: FakeApi, run: Run) -> None:
    api.on("POST", f"{PATH}:fire", Reply(job("INIT"), 202))
    assert fine(run("schedule", "fire", "report", "nightly")) == "report t1 INIT\n"
    assert api.seen[-1].document == {}
    options = ["--data-time", "2026-01-05", "--param", "x=1"]
    assert (
        json.loads(fine(run("schedule", "fire", "report", "nightly", *options, "--json")))["trigger"] == "t1"
    )
    assert api.seen[-1].document == {"dataTime": "2026-01-04T23:00:00.000Z", "params": {"x": "1"}}


def test_the_same_time_again_is_the_same_job(api: FakeApi, run: Run) -> None:
    api.on("POST", f"{PATH}:fire", Reply(job("SUCCESS"), 200))
    result = run("schedule", "fire", "report", "nightly")
    assert (result.exit_code, result.stdout) == (0, "report t1 SUCCESS\n")
    assert "report/t1 already exists" in result.stderr


@pytest.mark.parametrize(("state", "code"), [("SUCCESS", 0), ("FAILED", 4), ("KILLED", 4)])
def test_firing_and_waiting_ends_as_the_job_does(api: FakeApi, run: Run, state: str, code: int) -> None:
    api.on("POST", f"{PATH}:fire", Reply(job("INIT"), 202))
    api.on("GET", "/v1/jobs/report/t1", job("RUNNING", step()), job(state, step(state=state)))
    result = run("schedule", "fire", "report", "nightly", "--wait")
    assert result.exit_code == code
    assert result.stdout.startswith(f"report t1 {state}\n")
    assert "submitted report/t1\nshardmill: step main RUNNING (0 of 4 tasks)\n" in result.stderr
    document = run("schedule", "fire", "report", "nightly", "--wait", "--json")
    assert (document.exit_code, json.loads(document.stdout)["state"]) == (code, state)


def test_firing_and_waiting_too_long_is_5(api: FakeApi, run: Run) -> None:
    api.on("POST", f"{PATH}:fire", Reply(job("INIT"), 202))
    api.on("GET", "/v1/jobs/report/t1", job("RUNNING"))
    result = run("schedule", "fire", "report", "nightly", "--wait", "--timeout", "0", "--json")
    assert (result.exit_code, json.loads(result.stdout)["state"]) == (5, "RUNNING")


def test_a_refusal_is_in_the_words_of_the_api(api: FakeApi, run: Run) -> None:
    words = "the previous Job report/t0 is still RUNNING, and the schedule says to skip then; wait for it"
    api.on("POST", f"{PATH}:fire", problem(409, "overlap", words))
    refused = run("schedule", "fire", "report", "nightly", "--wait")
    assert (refused.exit_code, refused.stdout, refused.stderr) == (1, "", f"shardmill: {words}\n")


def test_options_may_stand_before_the_subcommand(run: Run) -> None:
    assert json.loads(fine(run("schedule", "--json", "show", "report", "nightly")))["version"] == 3


def test_without_a_subcommand_there_is_help(run: Run) -> None:
    shown = run("schedule")
    assert shown.exit_code == 2
    assert "backfills" in shown.output
