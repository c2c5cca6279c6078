"""schedule save."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from shardmill.cli.commands.schedule_save import CatchUp, Overlap
from shardmill.model.time.schedule import Schedule, check_schedule
from support.fakes.api import (
    FakeApi,
    Reply,
    Run,
    firing,
    output_of,
    page,
    problem,
    schedule,
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


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        (CRON, {"cron": "30 4 * * *"}),
        (["--every", "90"], {"everySeconds": 90}),
        (["--delay", "15m"], {"delaySeconds": 900}),
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
            [
                "--every-months",
                "3",
                "--start",
                "2026-01-31T06:00:00Z",
                "--max-times",
                "4",
                "--priority",
                "-5",
            ],
            {"everyMonths": 3, "startDate": "2026-01-31T06:00:00Z", "maxTimes": 4, "priority": -5},
        ),
        (
            ["--time", "2026-01-01", "--time", "2026-01-02T04:00Z", "--timezone", "Asia/Tokyo"],
            {"times": ["2025-12-31T15:00:00+00:00", "2026-01-02T04:00:00+00:00"], "timezone": "Asia/Tokyo"},
        ),
        (
            [*CRON, "--param", "a=1", "--param", "b=", "--trigger-format", "%Y%m%d"],
            {"cron": "30 4 * * *", "params": {"a": "1", "b": ""}, "triggerFormat": "%Y%m%d"},
        ),
    ],
)
def test_only_given_options_are_sent(
    api: FakeApi, run: Run, options: list[str], sent: dict[str, Any]
) -> None:
    output_of(run("schedule", "save", "report", "nightly", *options))
    assert api.requests[0].document == sent
    assert check_schedule(sent, "report", "nightly")[1] == []


def test_saved_schedule_is_shown_with_its_next_times(api: FakeApi, run: Run) -> None:
    more = {"startDate": "2026-01-01", "maxLatenessSeconds": 7200, "params": {"region": "e\nu"}}
    api.on("PUT", PATH, Reply(schedule(**more, triggerFormat="%Y%m%d"), 201))
    assert output_of(run("schedule", "save", "report", "nightly", *CRON)).splitlines() == [
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
    assert api.requests[-1].query == {"count": "3"}


def test_json_prints_the_response(api: FakeApi, run: Run) -> None:
    found = json.loads(output_of(run("schedule", "save", "report", "nightly", *CRON, "--json")))
    assert (found["version"], found["nextTime"]) == (3, "2026-11-17T03:30:00.000Z")
    assert api.request_lines == [f"PUT {PATH}"]


def test_file_is_sent_unchanged(api: FakeApi, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "nightly.yaml"
    file.write_text("cron: '@daily'\nstartDate: 2026-01-01\nsomeFutureField: 1\n")
    output_of(run("schedule", "save", "report", "nightly", "--file", str(file)))
    assert api.requests[0].document == {"cron": "@daily", "startDate": "2026-01-01", "someFutureField": 1}
    output_of(run("schedule", "save", "report", "nightly", "--file", "-", input='{"everySeconds": 5}'))
    assert api.requests[-2].document == {"everySeconds": 5}


def test_output_of_show_can_be_saved(api: FakeApi, run: Run, tmp_path: Path) -> None:
    api.on("GET", PATH, schedule(params={"a": [None]}, history=[firing()]))
    file = tmp_path / "nightly.json"
    file.write_text(output_of(run("schedule", "show", "report", "nightly", "--json")))
    output_of(run("schedule", "save", "report", "nightly", "--file", str(file)))
    sent = next(each.document for each in api.requests if each.method == "PUT")
    saved, faults = check_schedule(sent, "report", "nightly")
    assert (saved and saved.params, faults) == ({"a": [None]}, [])


def test_invalid_file_exits_1_with_its_faults(api: FakeApi, run: Run, tmp_path: Path) -> None:
    fault = {"pointer": "/cron", "code": "bad-cron", "message": "is not understood"}
    api.on("PUT", PATH, problem(422, "bad-cron", "the schedule is not valid", faults=[fault]))
    (tmp_path / "x.json").write_text('{"cron": "x"}')
    refused = run("schedule", "save", "report", "nightly", "--file", str(tmp_path / "x.json"))
    assert refused.exit_code == 1
    expected = "shardmill: the schedule is not valid\nshardmill:   /cron: is not understood\n"
    assert (refused.stdout, refused.stderr) == ("", expected)
    assert run("schedule", "save", "report", "nightly", "--file", "/nonexistent.yaml").exit_code == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give one of --cron, --every, --every-months, --delay, --at, --time and --file"),
        (
            [*CRON, "--every", "5"],
            "give one of --cron, --every, --every-months, --delay, --at, --time and --file",
        ),
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
        ([*CRON, "--trigger-format", "%Y/%m"], "--trigger-format results in triggers such as"),
        ([*CRON, "--overlap", "maybe"], "'maybe'"),
        ([*CRON, "--catch-up", "some"], "'some'"),
        ([*CRON, "--max-lateness", "-1"], "'-1'"),
        ([*CRON, "--param", "x"], "must have the form NAME=VALUE"),
        ([*CRON, "--file", "x.yaml", "--off"], "cannot be combined with --cron, --off"),
    ],
)
def test_invalid_usage_exits_2_without_a_request(
    api: FakeApi, run: Run, options: list[str], message: str
) -> None:
    refused = run("schedule", "save", "report", "nightly", *options)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert message in " ".join(refused.stderr.split())
    assert api.requests == []


def test_all_faults_are_reported_at_once(run: Run) -> None:
    refused = run("schedule", "save", "1", "nightly", "--cron", "x", "--timezone", "y", "--start", "z")
    assert refused.exit_code == 2
    for word in ("JOB must", "--cron must", "--timezone must", "--start must"):
        assert word in refused.stderr


def test_option_values_are_those_of_the_model() -> None:
    for option, field in ((Overlap, "overlap"), (CatchUp, "catch_up")):
        spelled, _ = get_args(get_args(option)[0])
        assert get_args(spelled) == get_args(Schedule.model_fields[field].annotation)
