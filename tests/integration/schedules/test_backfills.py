"""Backfills: one Job for each past time, with limited parallelism."""

from typing import Any

import pytest

from shardmill.engine.schedules import backfill
from support.scenarios.job_runner import JobRunner, fail_shards
from support.scenarios.schedule_clock import ScheduleClock, ms

RANGE = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-06T00:00:00Z"}


@pytest.fixture
def schedules(runner: JobRunner) -> ScheduleClock:
    runner.define({"stepName": "a"})
    schedules = ScheduleClock(runner)
    schedules.save("2026-02-01 00:00", cron="0 3 * * *", params={"x": 1})
    return schedules


def start_backfill(schedules: ScheduleClock, **request: Any) -> dict[str, Any]:
    response = schedules.runner.cloud.http("POST", "/v1/schedules/orders/s:backfill", {**RANGE, **request})
    assert response.status == 202, response
    assert response.headers["location"] == f"/v1/schedules/orders/s/backfills/{response.json['number']}"
    started: dict[str, Any] = response.json
    return started


def read_backfill(schedules: ScheduleClock, number: int = 1) -> dict[str, Any]:
    shown: dict[str, Any] = schedules.runner.cloud.http(
        "GET", f"/v1/schedules/orders/s/backfills/{number}"
    ).json
    return shown


def run_backfill(
    schedules: ScheduleClock, number: int = 1, outcome_of: Any = fail_shards()
) -> dict[str, Any]:
    limit = read_backfill(schedules, number)["parallel"]

    def work() -> None:
        assert read_backfill(schedules, number)["running"] <= limit
        schedules.runner.work(outcome_of)
        schedules.runner.cloud.deliver_job_ends()

    schedules.runner.cloud.run_until(
        lambda: read_backfill(schedules, number)["state"] == "DONE", 60, meanwhile=work
    )
    return read_backfill(schedules, number)


def counts(shown: dict[str, Any]) -> tuple[int, ...]:
    return tuple(shown[name] for name in ("total", "waiting", "running", "success", "failed", "skipped"))


def test_each_time_of_a_range_gets_one_job(schedules: ScheduleClock) -> None:
    started = start_backfill(schedules, parallel=2)
    assert (started["state"], counts(started)) == ("RUNNING", (5, 3, 2, 0, 0, 0))
    assert counts(run_backfill(schedules)) == (5, 0, 0, 5, 0, 0)
    assert schedules.jobs() == [f"2026-01-0{day} 03:00" for day in range(1, 6)]
    job = schedules.runner.job("20260101T030000Z-s")
    assert (job["params"], job["scheduleId"]) == ({"x": 1}, "s")
    assert schedules.next() == "2026-02-01 03:00"


def test_a_descending_backfill_starts_with_the_newest_time_and_skips_succeeded_times(
    schedules: ScheduleClock,
) -> None:
    schedules.runner.submit("20260103T030000Z-s", dataTime="2026-01-03T03:00:00Z")
    schedules.runner.run(trigger="20260103T030000Z-s")
    start_backfill(schedules, order="desc")
    assert schedules.state("2026-01-05 03:00") in ("INIT", "QUEUED")
    assert counts(run_backfill(schedules)) == (5, 0, 0, 4, 0, 1)


def test_a_forced_backfill_repeats_succeeded_times_with_a_new_trigger(schedules: ScheduleClock) -> None:
    start_backfill(schedules)
    run_backfill(schedules)
    start_backfill(schedules, force=True, to="2026-01-03T00:00:00Z")
    assert counts(run_backfill(schedules, 2)) == (2, 0, 0, 2, 0, 0)
    assert schedules.runner.job("20260101T030000Z-s-b2")["state"] == "SUCCESS"


def test_a_second_backfill_repeats_failed_times(schedules: ScheduleClock) -> None:
    start_backfill(schedules, to="2026-01-03T00:00:00Z")
    shown = run_backfill(schedules, outcome_of=fail_shards(0))
    assert counts(shown) == (2, 0, 0, 0, 2, 0)
    assert shown["notes"] == "last failure: 20260102T030000Z-s (FAILED)"
    start_backfill(schedules, to="2026-01-03T00:00:00Z")
    assert counts(run_backfill(schedules, 2)) == (2, 0, 0, 2, 0, 0)


def test_a_backfill_can_be_stopped(schedules: ScheduleClock) -> None:
    start_backfill(schedules)
    stopped = schedules.runner.cloud.http("POST", "/v1/schedules/orders/s/backfills/1:stop").json
    assert (stopped["state"], stopped["notes"], stopped["waiting"]) == ("STOPPED", "stopped by admin", 0)
    schedules.end("2026-01-01 03:00")
    schedules.runner.cloud.deliver_job_ends()
    assert counts(read_backfill(schedules)) == (5, 0, 0, 1, 0, 0)
    assert schedules.jobs() == ["2026-01-01 03:00"]


def test_a_backfill_accepts_a_list_of_dates_and_times(schedules: ScheduleClock) -> None:
    body = {"times": ["2026-01-01", "20260103", "2026-01-05T03:00:00Z"], "parallel": 3}
    response = schedules.runner.cloud.http("POST", "/v1/schedules/orders/s:backfill", body)
    assert response.json["total"] == 3
    run_backfill(schedules)
    assert schedules.jobs() == ["2026-01-01 03:00", "2026-01-03 03:00", "2026-01-05 03:00"]


def test_the_tick_continues_a_stalled_backfill(schedules: ScheduleClock) -> None:
    start_backfill(schedules, to="2026-01-03T00:00:00Z")
    schedules.end("2026-01-01 03:00")
    schedules.runner.cloud.published()  # discard the event
    schedules.runner.tick(minutes=2)
    assert counts(read_backfill(schedules)) == (2, 0, 1, 1, 0, 0)


def test_concurrent_continuations_start_each_job_once(schedules: ScheduleClock) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from shardmill.aws.clock import new_id

    start_backfill(schedules, parallel=2)
    for day in (1, 2):
        schedules.end(f"2026-01-0{day} 03:00")
    now = schedules.runner.worker.clock()
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: backfill.advance(schedules.mill, ("orders", "s", 1), now, new_id), range(6)))
    assert counts(read_backfill(schedules)) == (5, 1, 2, 2, 0, 0)
    assert schedules.jobs() == [f"2026-01-0{day} 03:00" for day in range(1, 5)]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"from": "2026-01-01T00:00:00Z"}, "open-range"),
        ({}, "range-or-times"),
        ({**RANGE, "times": ["2026-01-01"]}, "range-or-times"),
        ({"from": RANGE["to"], "to": RANGE["from"]}, "end-before-start"),
        ({"from": "2126-01-01", "to": "2126-01-02"}, "future-time"),
        ({"from": "then", "to": "now"}, "bad-time"),
        ({"from": "1990-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}, "too-many-times"),
        ({"from": "2026-01-01T04:00:00Z", "to": "2026-01-01T05:00:00Z"}, "no-times"),
        ({"times": ["2026-01-01T04:00:00Z"]}, "no-times"),
        ({"times": ["yesterday"]}, "bad-time"),
        ({**RANGE, "parallel": 0}, "out-of-range"),
        ({**RANGE, "order": "random"}, "bad-value"),
    ],
    ids=str,
)
def test_invalid_backfills_are_rejected(
    schedules: ScheduleClock, request_: dict[str, Any], code: str
) -> None:
    response = schedules.runner.cloud.http("POST", "/v1/schedules/orders/s:backfill", request_)
    assert (response.status, {each["code"] for each in response.json["faults"]}) == (422, {code})
    assert schedules.runner.cloud.http("GET", "/v1/schedules/orders/s/backfills").json["items"] == []


def test_an_unknown_backfill_is_not_found(schedules: ScheduleClock) -> None:
    assert (
        schedules.runner.cloud.http("GET", "/v1/schedules/orders/s/backfills/7").json["code"]
        == "backfill-not-found"
    )


A = {"stepName": "a"}


def define(schedules: ScheduleClock, name: str, *parents: Any, **job: Any) -> None:
    schedules.runner.define(A, name=name, dependencies=list(parents), **job)


def test_a_backfill_of_times_that_share_a_trigger_ends(schedules: ScheduleClock) -> None:
    define(schedules, "orders")
    schedules.save("2026-02-01 00:00", cron="0 * * * *", triggerFormat="%Y%m%d")
    body = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T03:00:00Z", "parallel": 3}
    assert schedules.runner.cloud.http("POST", "/v1/schedules/orders/s:backfill", body).status == 202
    path = "/v1/schedules/orders/s/backfills/1"

    def work() -> None:
        schedules.runner.work()
        schedules.runner.cloud.deliver_job_ends()

    schedules.runner.cloud.run_until(
        lambda: schedules.runner.cloud.http("GET", path).json["state"] == "DONE", 30, meanwhile=work
    )
    shown = schedules.runner.cloud.http("GET", path).json
    assert shown["success"] + shown["skipped"] == 3


def test_dates_of_a_backfill_are_in_the_schedules_time_zone(schedules: ScheduleClock) -> None:
    define(schedules, "orders")
    schedules.save("2026-02-01 00:00", cron="30 0 * * *", timezone="Europe/Berlin")
    for number, body in enumerate(({"from": "2026-01-01", "to": "2026-01-02"}, {"times": ["2026-01-01"]}), 1):
        response = schedules.runner.cloud.http("POST", "/v1/schedules/orders/s:backfill", body)
        assert response.json["total"] == 1, response
        stored = schedules.mill.schedules.backfill("orders", "s", number)
        assert stored is not None
        assert stored.times == [ms("2025-12-31 23:30")]


def test_the_note_of_a_waiting_backfill_is_cleared_when_it_continues(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    schedules = ScheduleClock(runner)
    schedules.save("2026-01-01 00:00", cron="0 * * * *")
    runner.post("/v1/definitions/orders:suspend")
    span = {"from": "2025-12-01T00:00:00Z", "to": "2025-12-01T02:00:00Z"}
    started = runner.post("/v1/schedules/orders/s:backfill", span, status=202)
    assert (started["state"], started["notes"]) == ("RUNNING", "waits until its definition is resumed")
    runner.post("/v1/definitions/orders:resume")
    runner.tick(2)
    [listed] = runner.cloud.http("GET", "/v1/schedules/orders/s/backfills").json["items"]
    assert (listed["running"], listed["notes"]) == (1, "")
