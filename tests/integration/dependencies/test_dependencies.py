"""Dependencies between Jobs: each child starts exactly once, by its parents or its schedule."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from shardmill.aws.clock import new_id
from shardmill.engine import definitions, downstream
from shardmill.engine.errors import DefinitionInvalid
from shardmill.engine.jobs.dependencies import met, runs
from shardmill.engine.schedules import fire
from shardmill.model.actor import Actor
from shardmill.model.states import JobState
from shardmill.store.jobs import Jobs
from shardmill.store.rows import JobRow
from support.aws_rules.faults import Faults
from support.scenarios.job_chain import A, define, finish, listed, row, waits_for
from support.scenarios.job_runner import fail_shards
from support.scenarios.schedule_clock import ScheduleClock, at, ms

DAY = "2026-01-05T00:00:00Z"


def test_a_parent_starts_its_child_of_the_same_data_time(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    define(schedules, "child", "parent")
    finish(schedules, "parent", dataTime=DAY)
    [child] = listed(schedules, "child")
    assert (child["dataTime"], child["trigger"]) == ("2026-01-05T00:00:00.000Z", "20260105T000000Z")
    assert schedules.runner.run(trigger=child["trigger"], name="child")["state"] == "SUCCESS"
    assert waits_for(schedules, "child", child["trigger"]) == [("parent", "t1", 1)]


def test_a_chain_follows_a_manually_submitted_job(schedules: ScheduleClock) -> None:
    define(schedules, "one")
    define(schedules, "two", "one")
    define(schedules, "three", "two")
    finish(schedules, "one")
    for name in ("two", "three"):
        [job] = listed(schedules, name)
        schedules.runner.run(trigger=job["trigger"], name=name)
        schedules.runner.cloud.deliver_job_ends()
    assert len({job["dataTime"] for name in ("two", "three") for job in listed(schedules, name)}) == 1


def test_a_waiting_job_says_what_it_waits_for_from_its_submission_on(schedules: ScheduleClock) -> None:
    for parent in ("left", "right"):
        define(schedules, parent)
    define(schedules, "child", "left", "right")
    accepted = schedules.runner.submit("t1", "child", dataTime=DAY)
    assert (accepted["state"], accepted["waitingFor"]) == ("WAITING", ["waits for left, right"])
    [in_list] = listed(schedules, "child")
    first_note = f"waits for left of {DAY}, right of {DAY}"
    assert (in_list["waitingFor"], in_list["notes"]) == ([first_note], first_note)
    assert (in_list["workerGroups"], in_list["remainTasks"], in_list["steps"]) == (["default"], None, [])
    schedules.runner.post("/v1/jobs/child/t1:start")
    job = schedules.runner.job("t1", "child")
    assert job["remainTasks"] == 1
    assert job["waitingFor"] == (["waits for its start"] if job["state"] == "WAITING" else [])


def test_the_last_of_two_parents_starts_the_child(schedules: ScheduleClock) -> None:
    define(schedules, "left")
    define(schedules, "right")
    define(schedules, "child", "left", {"jobName": "right"})
    schedules.runner.submit("t1", "right", dataTime=DAY)
    [of_right] = schedules.runner.take(1)
    finish(schedules, "left", dataTime=DAY)
    [child] = listed(schedules, "child")
    assert child["state"] == "WAITING"
    assert waits_for(schedules, "child", child["trigger"]) == [("left", "t1", 1), ("right", "t1", 0)]
    shown = schedules.runner.job(child["trigger"], "child")
    assert shown["waitingFor"] == ["waits for right/t1 (RUNNING)"]
    schedules.runner.worker.report([of_right])
    schedules.runner.run(trigger="t1", name="right")
    schedules.runner.cloud.deliver_job_ends()
    assert schedules.runner.run(trigger=child["trigger"], name="child")["state"] == "SUCCESS"
    assert len(listed(schedules, "child")) == 1


def test_concurrent_ends_of_two_parents_start_one_child(schedules: ScheduleClock) -> None:
    names = [f"p{number}" for number in range(4)]
    for name in names:
        define(schedules, name)
    define(schedules, "child", *names)
    for name in names:
        schedules.runner.submit("t1", name, dataTime=DAY)
        schedules.runner.run(trigger="t1", name=name)
    ended = [schedules.job("2026-01-05 00:00", name) for name in names]
    with ThreadPoolExecutor(8) as pool:
        now = schedules.runner.worker.clock()
        list(pool.map(lambda job: downstream.notify_dependents(schedules.mill, job, now, new_id), ended * 2))
    [child] = listed(schedules, "child")
    assert schedules.runner.run(trigger=child["trigger"], name="child")["state"] == "SUCCESS"
    assert len([e for e in schedules.runner.cloud.executions("job") if child["id"] in e["name"]]) == 1


def test_a_repeated_event_of_a_parent_starts_no_second_child(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    define(schedules, "child", "parent")
    finish(schedules, "parent", dataTime=DAY)
    parent = schedules.job("2026-01-05 00:00", "parent")
    downstream.notify_dependents(schedules.mill, parent, schedules.runner.worker.clock(), new_id)
    assert len(listed(schedules, "child")) == 1


def test_a_rerun_of_a_parent_starts_no_second_child(
    schedules: ScheduleClock,
) -> None:
    define(schedules, "parent")
    define(schedules, "child", "parent")
    http = schedules.runner.cloud.http
    finish(schedules, "parent", dataTime=DAY, outcome_of=fail_shards(0))
    assert listed(schedules, "child") == []
    for scope in ("failed", "all"):
        assert http("POST", "/v1/jobs/parent/t1:rerun", {"scope": scope}).status == 200
        schedules.runner.run(trigger="t1", name="parent")
        schedules.runner.cloud.deliver_job_ends()
        [child] = listed(schedules, "child")
        assert schedules.runner.run(trigger=child["trigger"], name="child")["run"] == 1


def test_a_failed_parent_keeps_its_child_waiting_and_is_named_in_its_notes(schedules: ScheduleClock) -> None:
    define(schedules, "left")
    define(schedules, "right")
    define(schedules, "child", "left", "right")
    finish(schedules, "right", dataTime=DAY, outcome_of=fail_shards(0))
    assert listed(schedules, "child") == []
    finish(schedules, "left", dataTime=DAY)
    [child] = listed(schedules, "child")
    assert (child["state"], child["notes"]) == ("WAITING", "waits for right/t1 (FAILED)")


def test_a_scheduled_child_waits_for_its_schedule_and_its_parents(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    define(schedules, "child", "parent")
    schedules.save("2026-01-04 12:00", "child", cron="0 0 * * *")
    finish(schedules, "parent", dataTime="2026-01-04T00:00:00Z")
    assert listed(schedules, "child") == []
    schedules.tick("2026-01-05 00:00")
    assert schedules.state("2026-01-05 00:00", "child") == "WAITING"
    finish(schedules, "parent", "t2", dataTime=DAY)
    assert schedules.end("2026-01-05 00:00", "child")["state"] == "SUCCESS"


def test_a_daily_job_waits_for_every_hour_of_its_parent(schedules: ScheduleClock) -> None:
    define(schedules, "hourly")
    define(schedules, "daily", {"jobName": "hourly", "window": {"unit": "day", "from": -1, "to": -1}})
    schedules.save("2026-01-03 23:00", "hourly", cron="0 */6 * * *", catchUp="all")
    schedules.save("2026-01-04 12:00", "daily", cron="0 1 * * *")
    schedules.tick("2026-01-04 12:00")
    schedules.tick("2026-01-05 01:00")
    hours = ["00:00", "06:00", "12:00", "18:00"]
    daily = schedules.job("2026-01-05 01:00", "daily")
    assert [status for *_, status in waits_for(schedules, "daily", daily.trigger)] == [0, 0, 0, 0]
    held = {lease.trigger: lease for lease in schedules.runner.take(5)}
    for hour in hours:
        assert schedules.state("2026-01-05 01:00", "daily") == "WAITING"
        schedules.runner.worker.report([held[schedules.job(f"2026-01-04 {hour}", "hourly").trigger]])
        parent = schedules.runner.cloud.run_until(
            lambda hour=hour: _succeeded(schedules, f"2026-01-04 {hour}")
        )  # type: ignore[misc]
        downstream.notify_dependents(schedules.mill, parent, ms("2026-01-05 01:30"), new_id)
    assert schedules.end("2026-01-05 01:00", "daily")["state"] == "SUCCESS"
    assert [status for *_, status in waits_for(schedules, "daily", daily.trigger)] == [1, 1, 1, 1]


def _succeeded(schedules: ScheduleClock, time: str) -> JobRow | None:
    job = schedules.job(time, "hourly")
    return job if job.state is JobState.SUCCESS else None


def test_skipped_firings_are_not_expected(schedules: ScheduleClock) -> None:
    define(schedules, "hourly")
    define(schedules, "daily", {"jobName": "hourly", "window": {"unit": "day", "from": 0, "to": 0}})
    schedules.save("2026-01-04 00:00", "hourly", cron="0 1-3 * * *", overlap="skip")
    for hour in (1, 2):
        schedules.tick(f"2026-01-04 0{hour}:00")
    schedules.end("2026-01-04 01:00", "hourly")
    schedules.tick("2026-01-04 03:00")
    schedules.runner.submit("t1", "daily", dataTime="2026-01-04T00:00:00Z")
    expected = waits_for(schedules, "daily", "t1")
    assert [(name, status) for name, _, status in expected] == [("hourly", 1), ("hourly", 0)]


@pytest.mark.parametrize(
    ("strategy", "ends", "is_met"),
    [
        ("all", "SSS", True),
        ("all", "SFS", False),
        ("any", "FSF", True),
        ("any", "FFF", False),
        ("last:2", "FSS", True),
        ("last:2", "SSF", False),
    ],
)
def test_each_strategy_decides_whether_a_dependency_is_met(
    schedules: ScheduleClock, strategy: str, ends: str, is_met: bool
) -> None:
    define(schedules, "parent")
    window = {"unit": "day", "from": 0, "to": 0}
    define(
        schedules, "child", {"jobName": "parent", "window": window, "strategy": strategy}, expiredSeconds=60
    )
    schedules.save("2026-01-05 00:00", "child", cron="0 0 1 1 *")
    for number, end in enumerate(ends):
        outcome_of = fail_shards(0) if end == "F" else fail_shards()
        finish(
            schedules, "parent", f"t{number}", outcome_of=outcome_of, dataTime=f"2026-01-05T0{number}:00:00Z"
        )
    schedules.runner.submit("c", "child", dataTime="2026-01-05T10:00:00Z")
    child = schedules.mill.jobs.find("child", "c")
    assert child is not None
    assert all(met(each) for each in runs(schedules.mill, child)) == is_met
    assert (child.state is JobState.WAITING and child.unmet) != is_met


def test_a_window_without_any_run_is_not_met(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    define(schedules, "child", {"jobName": "parent", "window": {"unit": "month", "from": 0, "to": 0}})
    schedules.runner.submit("c", "child", dataTime=DAY)
    assert waits_for(schedules, "child", "c") == [("parent", None, 0)]
    finish(schedules, "parent", dataTime="2026-01-31T23:59:59Z")
    assert schedules.runner.run(trigger="c", name="child")["state"] == "SUCCESS"


def test_a_waiting_job_fails_after_expired_seconds(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    define(schedules, "child", "parent", expiredSeconds=600)
    schedules.runner.submit("c", "child", dataTime=DAY)
    schedules.runner.tick(minutes=9)
    assert schedules.runner.job("c", "child")["state"] == "WAITING"
    schedules.runner.tick(minutes=11)
    job = schedules.runner.job("c", "child")
    assert (job["state"], job["notes"]) == ("FAILED", "expired: waits for parent of 2026-01-05T00:00:00Z")
    finish(schedules, "parent", dataTime=DAY)
    assert schedules.runner.job("c", "child")["state"] == "FAILED"


def test_the_tick_recovers_a_lost_event(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    define(schedules, "child", "parent")
    schedules.runner.submit("t1", "parent", dataTime=DAY)
    schedules.runner.run(trigger="t1", name="parent")
    schedules.runner.cloud.published()  # discard the event
    assert listed(schedules, "child") == []
    schedules.runner.cloud.tick(at("2100-01-01 00:00"))
    assert [job["trigger"] for job in listed(schedules, "child")] == ["20260105T000000Z"]


def test_the_tick_starts_a_child_whose_start_failed(schedules: ScheduleClock, faults: Faults) -> None:
    define(schedules, "parent")
    define(schedules, "child", "parent")
    schedules.runner.submit("t1", "parent", dataTime=DAY)
    schedules.runner.run(trigger="t1", name="parent")
    faults.fail("stepfunctions", "StartExecution", how="before")
    schedules.runner.cloud.deliver_job_ends()
    [child] = listed(schedules, "child")
    schedules.runner.tick(minutes=3)
    assert schedules.runner.run(trigger=child["trigger"], name="child")["state"] == "SUCCESS"


def test_a_cycle_is_rejected_with_the_names_of_its_jobs(schedules: ScheduleClock) -> None:
    define(schedules, "a", "c")
    define(schedules, "b", "a")
    rejected = schedules.runner.cloud.http(
        "PUT", "/v1/definitions/c", {"steps": [A], "dependencies": ["x", "b"]}
    )
    assert rejected.status == 422
    [fault] = rejected.json["faults"]
    assert (fault["code"], fault["pointer"]) == ("cyclic-jobs", "/dependencies/1/jobName")
    assert fault["message"] == "the dependencies form a cycle: c -> b -> a -> c"
    itself = schedules.runner.cloud.http("PUT", "/v1/definitions/d", {"steps": [A], "dependencies": ["d"]})
    assert itself.json["faults"][0]["message"] == "the dependencies form a cycle: d -> d"
    yesterday = {"jobName": "d", "window": {"unit": "day", "from": -1, "to": -1}}
    assert (
        schedules.runner.cloud.http(
            "PUT", "/v1/definitions/d", {"steps": [A], "dependencies": [yesterday]}
        ).status
        == 201
    )


def test_concurrent_saves_cannot_create_a_cycle(schedules: ScheduleClock) -> None:
    """Not through the API's handler: a Lambda process serves one request at a time."""
    names = ["a", "b", "c"]

    def save(at: int) -> int:
        document = {"steps": [A], "dependencies": [names[at - 1]]}
        try:
            definitions.save(schedules.runner.mill, names[at], document, Actor("me"), now=1)
        except DefinitionInvalid:
            return 422
        return 201

    with ThreadPoolExecutor(3) as pool:
        statuses = list(pool.map(save, range(3)))
    assert sorted(statuses) == [201, 201, 422]


def test_a_definition_that_others_depend_on_is_not_deleted(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    define(schedules, "b-child", "parent")
    define(schedules, "a-child", "parent")
    http = schedules.runner.cloud.http
    rejected = http("DELETE", "/v1/definitions/parent")
    assert (rejected.status, rejected.json["code"]) == (409, "definition-in-use")
    assert "a-child, b-child" in rejected.json["detail"]
    define(schedules, "a-child")
    assert http("DELETE", "/v1/definitions/b-child").status == 204
    assert http("DELETE", "/v1/definitions/parent").status == 204


def test_the_dependency_graph_lists_jobs_and_edges(schedules: ScheduleClock) -> None:
    define(schedules, "child", "parent", "unknown")
    define(schedules, "parent")
    schedules.save("2026-01-01 00:00", "parent", cron="@daily")
    graph = schedules.runner.cloud.http("GET", "/v1/definitions:graph").json
    assert [(node["jobName"], node["defined"], node["schedules"]) for node in graph["nodes"]] == [
        ("child", True, []),
        ("parent", True, ["s"]),
        ("unknown", False, []),
    ]
    assert graph["edges"] == [
        {"parent": "parent", "child": "child"},
        {"parent": "unknown", "child": "child"},
    ]


@pytest.mark.parametrize(
    ("dependency", "code"),
    [
        ({"jobName": "p", "window": {"unit": "day", "from": -1}}, "open-window"),
        ({"jobName": "p", "window": {"unit": "day", "to": 0}}, "open-window"),
        ({"jobName": "p", "window": {"unit": "day", "from": 1, "to": 0}}, "bad-value"),
        ({"jobName": "p", "window": {"unit": "fortnight", "from": 0, "to": 0}}, "bad-value"),
        ({"jobName": "p", "strategy": "last:0"}, "bad-value"),
        ({"jobName": "p", "job": "q"}, "unknown-field"),
        (7, "bad-type"),
    ],
    ids=str,
)
def test_invalid_dependencies_are_rejected(schedules: ScheduleClock, dependency: Any, code: str) -> None:
    response = schedules.runner.cloud.http(
        "PUT", "/v1/definitions/c", {"steps": [A], "dependencies": [dependency]}
    )
    assert (response.status, [each["code"] for each in response.json["faults"]]) == (422, [code])


def test_a_job_with_a_dependency_on_its_data_time_requires_a_data_time(schedules: ScheduleClock) -> None:
    define(schedules, "child", "parent")
    response = schedules.runner.cloud.http("POST", "/v1/jobs", {"jobName": "child", "trigger": "t"})
    assert (response.status, response.json["faults"][0]["pointer"]) == (422, "/dataTime")


def test_a_window_that_expects_too_many_runs_is_rejected(schedules: ScheduleClock) -> None:
    define(schedules, "often")
    define(schedules, "child", {"jobName": "often", "window": {"unit": "month", "from": 0, "to": 0}})
    schedules.save("2026-01-01 00:00", "often", everySeconds=60)
    request = {"jobName": "child", "trigger": "t", "dataTime": DAY}
    response = schedules.runner.cloud.http("POST", "/v1/jobs", request)
    assert (response.status, response.json["faults"][0]["code"]) == (422, "window-too-wide")


def test_wait_entries_are_deleted_when_the_child_starts(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    define(schedules, "child", "parent")
    finish(schedules, "parent", dataTime=DAY)
    assert list(schedules.mill.runs.waiting_for("parent", ms("2026-01-05 00:00"))) == []


def expected(schedules: ScheduleClock, name: str, trigger: str) -> list[int]:
    return [run.time or 0 for each in runs(schedules.mill, row(schedules, name, trigger)) for run in each]


def test_times_missed_by_one_schedule_do_not_affect_another_schedule(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    define(schedules, "child", "parent")
    define(schedules, "daily", {"jobName": "parent", "window": {"unit": "day", "from": 0, "to": 0}})
    schedules.save("2026-01-01 00:00", "parent", "a", cron="0 * * * *", catchUp="none")
    schedules.tick("2026-01-01 12:10")
    schedules.save("2026-01-01 12:10", "parent", "b", cron="30 12 * * *")
    schedules.runner.submit("c", "child", dataTime="2026-01-01T06:17:00Z")
    assert row(schedules, "child", "c").unmet
    schedules.runner.submit("d", "daily", dataTime="2026-01-01T00:00:00Z")
    assert ms("2026-01-01 12:30") in expected(schedules, "daily", "d")
    assert ms("2026-01-01 06:00") not in expected(schedules, "daily", "d")


def test_skipped_times_are_kept_after_the_history_is_truncated(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    define(schedules, "child", {"jobName": "parent", "window": {"unit": "hour", "from": 0, "to": 0}})
    schedules.save("2026-01-01 00:00", "parent", everySeconds=20, overlap="skip", catchUp="all")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fire, "MAX_HISTORY", 3)
        for _ in range(3):
            schedules.tick("2026-01-01 00:15")
    assert len(schedules.history("parent")) == 3
    schedules.runner.submit("c", "child", dataTime="2026-01-01T00:00:00Z")
    early = [time for time in expected(schedules, "child", "c") if time <= ms("2026-01-01 00:15")]
    assert early == [ms("2026-01-01 00:00"), ms("2026-01-01 00:00:20")]


def test_two_schedules_at_one_time_are_two_expected_runs(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    define(schedules, "child", {"jobName": "parent", "window": {"unit": "day", "from": 0, "to": 0}})
    for name in ("eu", "us"):
        schedules.save("2026-01-01 00:00", "parent", name, cron="0 3 * * *")
    schedules.tick("2026-01-01 03:00")
    schedules.runner.submit("c", "child", dataTime="2026-01-01T00:00:00Z")
    assert expected(schedules, "child", "c") == [ms("2026-01-01 03:00")] * 2


def test_a_failure_to_start_one_child_does_not_affect_the_others(
    schedules: ScheduleClock, monkeypatch: Any
) -> None:
    define(schedules, "parent")
    for name in ("a-child", "b-child"):
        define(schedules, name, "parent")
    schedules.runner.submit("t1", "parent", dataTime="2026-01-05T00:00:00Z")
    schedules.runner.run(trigger="t1", name="parent")
    real = Jobs.create
    with monkeypatch.context() as patch:
        patch.setattr(
            Jobs, "create", lambda self, job, **o: job.job_name != "a-child" and real(self, job, **o)
        )
        schedules.runner.cloud.deliver_job_ends()
    children = [schedules.mill.jobs.find(name, "20260105T000000Z") for name in ("a-child", "b-child")]
    assert [child is not None for child in children] == [False, True]
    assert row(schedules, "parent", "t1").heirs_pending
    schedules.runner.tick(minutes=5)
    assert schedules.mill.jobs.find("a-child", "20260105T000000Z") is not None


def test_an_event_reports_a_child_that_cannot_run(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    define(schedules, "child", "parent", workerGroup="nowhere")
    finish(schedules, "parent", dataTime="2026-01-05T00:00:00Z")
    [event] = [
        event for event in schedules.runner.cloud.published() if event["detail-type"] == "Child Refused"
    ]
    assert (event["detail"]["jobName"], "nowhere" in event["detail"]["reason"]) == ("child", True)


def test_children_differ_by_millisecond_and_trigger(schedules: ScheduleClock) -> None:
    define(schedules, "parent")
    define(schedules, "child", "parent")
    for number, time in enumerate(("00:00:00Z", "00:00:00.250Z")):
        finish(schedules, "parent", f"t{number}", dataTime=f"2026-01-05T{time}")
    assert row(schedules, "child", "20260105T000000Z-250").moment % 1000 == 250
    schedules.runner.submit("20260106T000000Z", "child", dataTime="2026-01-01T00:00:00Z")
    finish(schedules, "parent", "t9", dataTime="2026-01-06T00:00:00Z")
    assert (
        len(list(schedules.mill.runs.between("child", ms("2026-01-06 00:00"), ms("2026-01-06 00:01")))) == 1
    )


def test_a_job_that_depends_on_its_own_earlier_run_is_not_started_by_others(schedules: ScheduleClock) -> None:
    define(
        schedules,
        "roll",
        {"jobName": "roll", "window": {"unit": "day", "from": -1, "to": -1}},
        expiredSeconds=1,
    )
    define(schedules, "other")
    finish(schedules, "other", dataTime="2026-01-05T00:00:00Z")
    schedules.runner.submit("t1", "roll", dataTime="2026-01-05T00:00:00Z")
    downstream.notify_dependents(
        schedules.mill, row(schedules, "other", "t1"), schedules.runner.worker.clock(), new_id
    )
    assert len(schedules.runner.cloud.http("GET", "/v1/jobs?jobName=roll").json["items"]) == 1
