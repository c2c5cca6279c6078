"""schedule backfill, backfills and stop."""

import json
from typing import Any

import pytest

from shardmill.cli.commands.backfill import exit_code
from shardmill.model.time.backfill import Backfill
from support.fakes.api import FakeApi, Reply, Run, backfill, output_of, page, problem, schedule

PATH = "/v1/schedules/report/nightly"

COMMAND = ["schedule", "backfill", "report", "nightly"]

RANGE = ["--from", "2026-01-01T00:00:00Z", "--to", "2026-02-01T00:00:00Z"]


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi()
    api.on("GET", PATH, schedule())
    api.on("POST", f"{PATH}:backfill", Reply(backfill(running=1, waiting=4), 202))
    return api


def set_states(api: FakeApi, *states: dict[str, Any]) -> None:
    api.on("GET", f"{PATH}/backfills/2", *states)


def a_backfill(state: str = "RUNNING", total: int = 5, **more: Any) -> Backfill:
    return Backfill.model_validate(backfill(state, total, **more))


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        (
            ["--from", "2026-01-01", "--to", "2026-07-01"],
            {"from": "2025-12-31T23:00:00.000Z", "to": "2026-06-30T22:00:00.000Z"},
        ),
        (
            ["--from", "2026-01-01T06:00:00+01:00", "--to", "20260102"],
            {"from": "2026-01-01T05:00:00.000Z", "to": "2026-01-01T23:00:00.000Z"},
        ),
        (
            ["--time", "2026-01-01", "--time", "2026-01-05T03:30:00Z", "--parallel", "4"],
            {"times": ["2026-01-01", "2026-01-05T03:30:00Z"], "parallel": 4},
        ),
        (["--time", "20260101", "--order", "desc"], {"times": ["20260101"], "order": "desc"}),
        (["--time", "20260101", "--force"], {"times": ["20260101"], "force": True}),
    ],
)
def test_options_become_the_backfill_request(
    api: FakeApi, run: Run, options: list[str], sent: dict[str, Any]
) -> None:
    expected = "backfill 2 of report nightly RUNNING: 0 done, 0 failed, 0 skipped, 1 running of 5\n"
    assert output_of(run(*COMMAND, *options)) == expected
    assert api.requests[-1].document == {"parallel": 1, "order": "asc", "force": False, **sent}
    assert json.loads(output_of(run(*COMMAND, *options, "--json")))["number"] == 2


def test_schedule_is_read_for_its_timezone_only_if_needed(api: FakeApi, run: Run) -> None:
    output_of(run(*COMMAND, *RANGE))
    output_of(run(*COMMAND, "--time", "2026-01-01"))
    assert api.request_lines == [f"POST {PATH}:backfill"] * 2
    output_of(run(*COMMAND, "--from", "2026-01-01", "--to", "2026-01-02"))
    assert api.request_lines[2:] == [f"GET {PATH}", f"POST {PATH}:backfill"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "both --from and --to, or --time"),
        (["--from", "2026-01-01"], "both --from and --to, or --time"),
        (["--to", "2026-01-01"], "both --from and --to, or --time"),
        ([*RANGE, "--time", "2026-01-01"], "both --from and --to, or --time"),
        (["--time", "2026-01-01", "--to", "2026-01-01"], "both --from and --to, or --time"),
        (["--from", "2026-01-02", "--to", "2026-01-02"], "--to: must be after --from"),
        (["--from", "2026-01-01T01:00:00Z", "--to", "2026-01-01T01:30:00+01:00"], "must be after --from"),
        (["--from", "yesterday", "--to", "2026-01-02"], "'yesterday' must be a date"),
        (["--time", "noon"], "'noon' must be a date"),
        ([*RANGE, "--parallel", "0"], "--parallel"),
        ([*RANGE, "--parallel", "101"], "--parallel"),
        ([*RANGE, "--order", "random"], "'random'"),
        ([*RANGE, "--timeout", "3"], "requires --wait"),
    ],
)
def test_invalid_usage_exits_2_without_a_request(
    api: FakeApi, run: Run, options: list[str], message: str
) -> None:
    refused = run(*COMMAND, *options)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert message in " ".join(refused.stderr.split())
    assert api.requests == []


def test_date_out_of_range_exits_2(run: Run) -> None:
    refused = run(*COMMAND, "--from", "0001-01-01", "--to", "2026-01-02")
    assert refused.exit_code == 2
    assert "0001-01-01 is out of range" in refused.stderr


def test_refusal_shows_the_faults(api: FakeApi, run: Run) -> None:
    fault = {"pointer": "/times/0", "code": "bad-time", "message": "the schedule has no time on '2026-01-01'"}
    api.on("POST", f"{PATH}:backfill", problem(422, "bad-time", "the backfill is not valid", faults=[fault]))
    refused = run(*COMMAND, "--time", "2026-01-01", "--wait")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.splitlines()[1] == "shardmill:   /times/0: the schedule has no time on '2026-01-01'"


def test_wait_prints_progress_lines_without_a_terminal(api: FakeApi, run: Run) -> None:
    half = backfill(success=2, skipped=1, running=1, waiting=1)
    set_states(api, backfill(running=1, waiting=4), half, half, backfill("DONE", success=4, skipped=1))
    result = run(*COMMAND, *RANGE, "--wait")
    assert result.exit_code == 0
    end = "backfill 2 of report nightly DONE: 4 done, 0 failed, 1 skipped, 0 running of 5"
    assert result.stdout == f"{end}\n"
    assert result.stderr.splitlines() == [
        "shardmill: backfill 2 of report nightly RUNNING: 0 done, 0 failed, 0 skipped, 1 running of 5",
        "shardmill: backfill 2 of report nightly RUNNING: 2 done, 0 failed, 1 skipped, 1 running of 5",
        f"shardmill: {end}",
    ]


def test_wait_json_prints_one_document(api: FakeApi, run: Run) -> None:
    set_states(api, backfill("DONE", success=5))
    result = run(*COMMAND, *RANGE, "--wait", "--json")
    assert (result.exit_code, json.loads(result.stdout)["state"]) == (0, "DONE")


def test_failure_exits_4_with_the_reason(api: FakeApi, run: Run) -> None:
    notes = "last failure: t1 (FAILED)"
    set_states(api, backfill("DONE", success=4, failed=1, notes=notes))
    result = run(*COMMAND, *RANGE, "--wait")
    assert result.exit_code == 4
    assert result.stdout.startswith("backfill 2 of report nightly DONE: 4 done, 1 failed")
    assert result.stderr.splitlines()[-2:] == [
        "shardmill: 1 failed of 5 times: last failure: t1 (FAILED)",
        "shardmill: to list the jobs, run: shardmill jobs --job report",
    ]
    assert run(*COMMAND, *RANGE, "--wait", "--json").exit_code == 4


def test_wait_continues_while_jobs_of_a_stopped_backfill_run(api: FakeApi, run: Run) -> None:
    stopped = {"notes": "stopped by bob"}
    set_states(
        api, backfill("STOPPED", success=1, running=1, **stopped), backfill("STOPPED", success=2, **stopped)
    )
    result = run(*COMMAND, *RANGE, "--wait")
    assert result.exit_code == 4
    assert "2 done" in result.stdout
    assert "3 not run of 5 times: stopped by bob" in result.stderr


def test_timeout_while_waiting_exits_5(api: FakeApi, run: Run) -> None:
    set_states(api, backfill(running=1, waiting=4))
    result = run(*COMMAND, *RANGE, "--wait", "--timeout", "0.2")
    assert (result.exit_code, result.stdout) == (5, "")
    assert "backfill 2 of report/nightly is still RUNNING after 0 s" in result.stderr
    result = run(*COMMAND, *RANGE, "--wait", "--timeout", "0", "--json")
    assert (result.exit_code, json.loads(result.stdout)["waiting"]) == (5, 4)


def test_backfills_are_listed(api: FakeApi, run: Run) -> None:
    notes = "t1 was refused: its step needs a worker group 'g'; make it with PUT /v1/groups/g"
    api.on("GET", f"{PATH}/backfills", page(backfill(failed=1, notes=notes), backfill("DONE", number=1)))
    lines = output_of(run("schedule", "backfills", "report", "nightly")).splitlines()
    heading = "NUMBER STATE TOTAL DONE FAILED SKIPPED RUNNING WAITING STARTED USER NOTES"
    assert " ".join(lines[0].split()) == heading
    assert lines[1].split()[:8] == ["2", "RUNNING", "5", "0", "1", "0", "0", "0"]
    assert lines[1].endswith("make it with `shardmill groups add g`")
    found = json.loads(output_of(run("schedule", "backfills", "report", "nightly", "--json")))
    assert [(each["number"], each["notes"]) for each in found] == [(2, notes), (1, "")]


def test_backfill_is_stopped(api: FakeApi, run: Run) -> None:
    api.on("POST", f"{PATH}/backfills/2:stop", backfill("STOPPED", success=1, running=1))
    expected = "backfill 2 of report nightly STOPPED: 1 done, 0 failed, 0 skipped, 1 running of 5\n"
    assert output_of(run("schedule", "stop", "report", "nightly", "2")) == expected
    assert (
        json.loads(output_of(run("schedule", "stop", "report", "nightly", "2", "--json")))["state"]
        == "STOPPED"
    )


@pytest.mark.parametrize(
    ("end", "code", "message"),
    [
        ({"success": 5}, 0, ""),
        ({"success": 3, "skipped": 2}, 0, ""),
        ({"success": 4, "failed": 1}, 4, "1 failed of 5 times"),
        ({"success": 1, "failed": 1}, 4, "1 failed and 3 not run of 5 times"),
        ({"notes": "the schedule was deleted"}, 4, "5 not run of 5 times: the schedule was deleted"),
    ],
)
def test_exit_code_of_an_ended_backfill(
    end: dict[str, Any], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(a_backfill("DONE", **end)) == code
    assert capsys.readouterr().err.startswith(f"shardmill: {message}" if message else "")
