"""Waiting Jobs that start before their parents succeed: on request, or because a parent was removed."""

from functools import partial
from typing import Any

import pytest

from shardmill.engine.control.start_waiting import start_without_dependencies
from shardmill.engine.errors import JobEnded
from shardmill.engine.jobs.dependencies import check_dependencies, runs
from shardmill.engine.running import kill
from shardmill.engine.running.finish import expire
from shardmill.model.actor import Actor
from support.aws_rules.faults import Faults
from support.scenarios.job_chain import define, finish, row
from support.scenarios.job_runner import fail_shards
from support.scenarios.races.interrupter import Interrupter, Interruption
from support.scenarios.schedule_clock import ScheduleClock, ms

DAY = "2026-01-05T00:00:00Z"
START = "/v1/jobs/child/c:start"


@pytest.fixture
def waiting(schedules: ScheduleClock) -> ScheduleClock:
    """A Job `child/c` that waits for a Job of `parent`."""
    define(schedules, "parent")
    define(schedules, "child", "parent")
    schedules.runner.submit("c", "child", dataTime=DAY)
    assert row(schedules, "child", "c").unmet
    return schedules


def why(schedules: ScheduleClock) -> str:
    return " ".join(schedules.runner.cloud.http("GET", "/v1/jobs/child/c:explain").json["sentences"])


def test_a_waiting_job_starts_on_request_with_the_reason_in_its_history(waiting: ScheduleClock) -> None:
    waiting.runner.post(START, {"reason": "rates are not needed"})
    assert waiting.runner.run(trigger="c", name="child")["state"] == "SUCCESS"
    items = waiting.runner.cloud.http("GET", "/v1/jobs/child/c/history").json["items"]
    reasons = [each["reason"] for each in items]
    assert "started without its dependencies: rates are not needed" in reasons
    first = [(each["state"], each["actor"], each["reason"]) for each in items[:2]]
    assert first == [("INIT", "admin", "submitted"), ("WAITING", "shardmill", "waits for other jobs")]
    assert list(waiting.mill.runs.all_waiting_for("parent")) == []


def test_starting_is_idempotent_until_the_job_has_ended(waiting: ScheduleClock) -> None:
    for _ in range(2):
        waiting.runner.post(START)
    history = row(waiting, "child", "c").history
    assert sum("without its dependencies" in entry for entry in history) == 1
    waiting.runner.run(trigger="c", name="child")
    assert waiting.runner.post(START, status=409)["code"] == "job-ended"


def test_a_suspended_job_is_not_started(waiting: ScheduleClock) -> None:
    waiting.runner.post("/v1/jobs/child/c:suspend")
    assert "resume it first" in waiting.runner.post(START, status=409)["detail"]


def test_the_tick_starts_a_job_whose_start_failed(waiting: ScheduleClock, faults: Faults) -> None:
    faults.fail("stepfunctions", "StartExecution", how="before")
    waiting.runner.post(START)
    waiting.runner.tick(minutes=3)
    assert waiting.runner.run(trigger="c", name="child")["state"] == "SUCCESS"


@pytest.mark.parametrize("rival", ["parent", "kill", "expire"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_only_one_of_a_start_and_a_concurrent_action_succeeds(
    waiting: ScheduleClock, faults: Faults, rival: str, moment: Any
) -> None:
    """The other action happens before or after the write that ends the wait; the Job runs or ends once."""
    if rival == "parent":
        finish(waiting, "parent", dataTime=DAY, outcome_of=fail_shards(0))
        waiting.runner.post("/v1/jobs/parent/t1:force", {"state": "SUCCESS"})
    job, now = row(waiting, "child", "c"), waiting.runner.worker.clock()
    rivals = {
        "parent": partial(check_dependencies, waiting.mill, job, now),
        "kill": partial(kill.kill, waiting.mill, job, "me", "", now),
        "expire": partial(expire, waiting.mill, job, "expired", now),
    }
    interrupter = Interrupter()
    faults.add_rule(interrupter.around)
    start = partial(start_without_dependencies, waiting.mill, job, Actor("me"), "", now)
    refused = False
    try:
        interrupter.act(start, Interruption(moment, 1, rivals[rival]))
    except JobEnded:
        refused = True
    ends = {"parent": "SUCCESS", "kill": "KILLED", "expire": "FAILED" if moment == "before" else "SUCCESS"}
    assert waiting.runner.run(trigger="c", name="child")["state"] == ends[rival]
    assert refused == (moment == "before" and rival != "parent")
    assert len([e for e in waiting.runner.cloud.executions("job") if job.id in e["name"]]) <= 1


def test_a_removed_dependency_is_no_longer_waited_for(waiting: ScheduleClock) -> None:
    define(waiting, "other")
    define(waiting, "child", "parent", "other")
    waiting.runner.submit("d", "child", dataTime=DAY)
    define(waiting, "child", "other")
    assert waiting.runner.run(trigger="c", name="child")["state"] == "SUCCESS"
    assert row(waiting, "child", "d").unmet
    assert waiting.runner.job("d", "child")["notes"] == "waits for other of 2026-01-05T00:00:00Z"
    assert row(waiting, "child", "d").version == 2
    define(waiting, "child")
    assert waiting.runner.run(trigger="d", name="child")["state"] == "SUCCESS"


def test_the_tick_releases_jobs_after_a_failed_check(waiting: ScheduleClock, faults: Faults) -> None:
    fault = faults.fail("dynamodb", "Query", when=lambda call: "EDGE#" in str(call.params))
    define(waiting, "child")
    assert fault.hits == 1
    assert row(waiting, "child", "c").unmet
    waiting.runner.tick(minutes=70)
    assert waiting.runner.run(trigger="c", name="child")["state"] == "SUCCESS"


@pytest.mark.parametrize("change", ["off", "deleted"])
def test_runs_of_a_schedule_that_is_switched_off_are_not_waited_for(
    schedules: ScheduleClock, change: str
) -> None:
    define(schedules, "parent")
    define(schedules, "child", {"jobName": "parent", "window": {"unit": "day", "from": 0, "to": 0}})
    schedules.save("2026-01-04 00:00", "parent", cron="0 3,5 * * *")
    schedules.runner.submit("c", "child", dataTime=DAY)
    finish(schedules, "parent", dataTime="2026-01-05T03:00:00Z", outcome_of=fail_shards(0))
    if change == "off":
        body = {"cron": "0 3,5 * * *", "status": 0}
        assert schedules.runner.cloud.http("PUT", "/v1/schedules/parent/s", body).status == 200
    else:
        assert schedules.runner.cloud.http("DELETE", "/v1/schedules/parent/s").status == 204
    assert schedules.runner.job("c", "child")["notes"] == "waits for parent/t1 (FAILED)"
    schedules.runner.post("/v1/jobs/parent/t1:rerun")
    schedules.runner.run(trigger="t1", name="parent")
    schedules.runner.cloud.deliver_job_ends()
    assert schedules.runner.run(trigger="c", name="child")["state"] == "SUCCESS"


def test_the_run_of_the_same_time_is_not_waited_for_if_its_schedule_is_off(waiting: ScheduleClock) -> None:
    waiting.save("2026-01-04 12:00", "parent", cron="0 1 * * *", status=0)
    assert row(waiting, "child", "c").unmet  # the schedule has no time at this dataTime
    waiting.save("2026-01-04 12:00", "parent", cron="0 0 * * *", status=0)
    assert waiting.runner.run(trigger="c", name="child")["state"] == "SUCCESS"


def test_why_names_parents_that_no_schedule_runs(waiting: ScheduleClock) -> None:
    assert "parent has no schedule that is on: submit its job" in why(waiting)
    assert "`shardmill start child c --without-dependencies`" in why(waiting)
    waiting.runner.post("/v1/definitions/parent:suspend", {"reason": "broken"})
    assert "The definition parent is suspended" in why(waiting)
    assert row(waiting, "child", "c").unmet


def test_a_window_of_a_month_of_hours_is_checked_from_its_first_gap_on(
    schedules: ScheduleClock, faults: Faults
) -> None:
    """Two hourly parents have 1,488 runs in January; a check reads a page of them, not all."""
    month = {"unit": "month", "from": 0, "to": 0}
    for name in ("a", "b"):
        define(schedules, name)
        schedules.save("2026-01-01 00:00", name, cron="0 * * * *")
    define(schedules, "child", *({"jobName": name, "window": month} for name in ("a", "b")))
    schedules.runner.submit("c", "child", dataTime=DAY)
    child = row(schedules, "child", "c")
    assert child.stored_bytes < 4_000
    assert child.notes.startswith("waits for a of 2026-01-01T00:00:00Z and may wait for later runs, b of")
    assert sum(map(len, runs(schedules.mill, child))) == 1_488
    finish(schedules, "a", dataTime="2026-01-01T00:00:00Z")
    assert row(schedules, "child", "c").first_missing["0"] == ms("2026-01-01 01:00")
    before = dict(faults.meter.calls)
    check_dependencies(schedules.mill, row(schedules, "child", "c"), schedules.runner.worker.clock())
    made = {
        name: n - before.get(name, 0) for name, n in faults.meter.calls.items() if n > before.get(name, 0)
    }
    assert sum(made.values()) <= 10, made
