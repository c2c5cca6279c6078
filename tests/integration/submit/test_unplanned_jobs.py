"""A Job shows its steps from the answer of its submission on, before its run is planned."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shardmill.aws.machines import Machines
from shardmill.engine.jobs.plan import plan
from shardmill.engine.jobs.run_nodes import run_nodes
from shardmill.store.rows import JobRow
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner, fail_shards

DAY = "2026-01-05T00:00:00Z"
STEPS: tuple[dict[str, Any], ...] = (
    {"stepName": "split", "sharding": 3, "type": "shell", "content": "true", "params": {"a": "own", "c": 3}},
    {"stepName": "count", "dependentStep": "split", "items": "{{ steps.split.output }}", "priority": 12},
    {
        "stepName": "sum",
        "dependentStep": "count",
        "stepType": "PACK",
        "packConf": {"size": 10, "start": 1, "end": 95},
    },
    {"stepName": "clean", "phase": 1, "canFail": True},
)
REQUEST = {
    "params": {"a": "job", "b": 2},
    "steps": [{"stepName": "split", "params": {"c": 4}}],
    "priority": 5,
}


def job_row(runner: JobRunner, trigger: str = "t1") -> JobRow:
    job = runner.mill.jobs.find("orders", trigger)
    assert job is not None
    return job


def submit_waiting(runner: JobRunner, trigger: str = "t1", **request: Any) -> dict[str, Any]:
    """Submit a Job that waits for another Job, so that it is not planned."""
    runner.define(*STEPS, dependencies=["other"], params={"d": 1})
    return runner.submit(trigger, dataTime=DAY, **request)


def without_times(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: step[key] for key in step if key not in ("createTime", "updateTime")} for step in steps]


def meet_dependency(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, name="other")
    runner.submit("day", "other", dataTime=DAY)
    runner.run(trigger="day", name="other")
    runner.cloud.deliver_job_ends()


def test_the_steps_are_the_same_in_the_answer_before_planning_and_after(runner: JobRunner) -> None:
    runner.define(*STEPS, concurrency=1)
    runner.submit("first")
    runner.cloud.run_until(lambda: job_row(runner, "first").state == "QUEUED")
    runner.define(*STEPS, concurrency=1, dependencies=["other"], params={"d": 1})
    answer = runner.submit("t1", dataTime=DAY, **REQUEST)
    before = runner.job()
    assert not runner.mill.jobs.steps(job_row(runner).id, 1)
    single = {each["stepName"]: runner.step(each["stepName"]) for each in STEPS}
    meet_dependency(runner)
    runner.cloud.run_until(lambda: runner.job()["notes"].startswith("waits for a free slot"))
    after = runner.job()
    for view in (answer, before):
        assert without_times(view["steps"]) == without_times(after["steps"])
        assert {key: view[key] for key in ("remainTasks", "workerGroups")} == {
            key: after[key] for key in ("remainTasks", "workerGroups")
        }
    for name, step in single.items():
        assert without_times([step]) == without_times([runner.step(name)])
    split = after["steps"][0]
    assert split["params"] == {"a": "own", "b": 2, "c": 4, "d": 1}
    assert (split["state"], split["totalWork"], split["counts"]) == ("WAITING", 3, {"WAITING": 3})
    assert single["split"]["taskStates"] == dict.fromkeys("012", "WAITING")
    assert [step["tasksKnown"] for step in after["steps"]] == [True, False, True, True]
    assert [step["totalWork"] for step in after["steps"]] == [3, 0, 10, 1]


def test_a_job_that_could_not_be_started_yet_shows_its_steps(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a", "sharding": 2})
    faults.fail("stepfunctions", "StartExecution")
    assert [step["state"] for step in runner.submit()["steps"]] == ["WAITING"]
    assert runner.states() == {"a": "WAITING"}
    assert runner.step("a")["totalWork"] == 2


def test_the_tasks_of_a_job_are_waiting_from_its_submission_on(runner: JobRunner) -> None:
    submit_waiting(runner)
    steps = "/v1/jobs/orders/t1/steps"
    tasks = runner.step_tasks("split")
    assert [(task["state"], task["status"], task["attempt"]) for task in tasks] == [("WAITING", 1, 0)] * 3
    task = runner.task("split", 2)
    assert task == tasks[2]
    assert (task["sharding"], task["attempts"], task["worker"]) == ({"total": 3, "index": 2}, [], None)
    assert runner.task("sum", 9)["pack"] == {"start": 91, "end": 95}
    assert len(runner.cloud.http("GET", f"{steps}/sum/tasks?state=WAITING&limit=4").json["items"]) == 4
    assert runner.cloud.http("GET", f"{steps}/sum/tasks?state=READY").json["items"] == []
    beyond = runner.cloud.http("GET", f"{steps}/split/tasks/3")
    assert (beyond.status, beyond.json["code"]) == (404, "task-not-found")


def test_a_number_of_tasks_that_depends_on_parameters_is_known_from_the_submission_on(
    runner: JobRunner,
) -> None:
    runner.define(
        {"stepName": "shards", "sharding": "{{ params.n }}", "startShardId": 1},
        {"stepName": "items", "items": "{{ params.names }}"},
        {"stepName": "packs", "packConf": {"size": 10, "start": 0, "end": "{{ params.last }}"}},
        {"stepName": "later", "sharding": "{{ steps.items.counts.SUCCESS }}", "dependentStep": "items"},
        params={"n": 4, "names": ["x", "y"], "last": "25"},
    )
    submitted = runner.submit(after="2100-01-01T00:00:00Z")
    for job in (submitted, runner.job()):
        steps = job["steps"]
        assert [step["tasksKnown"] for step in steps] == [True, True, True, False]
        assert [step["totalWork"] for step in steps] == [3, 2, 3, 0]
        assert [step["counts"] for step in steps[:3]] == [{"WAITING": 3}, {"WAITING": 2}, {"WAITING": 3}]
    assert runner.step("shards")["taskStates"] == dict.fromkeys("123", "WAITING")
    assert [task["pack"] for task in runner.step_tasks("packs")][2] == {"start": 20, "end": 25}
    assert runner.task("packs", 2)["pack"] == {"start": 20, "end": 25}


def test_a_number_of_tasks_that_is_not_known_yet_is_reported(runner: JobRunner) -> None:
    submit_waiting(runner)
    step = runner.step("count")
    assert (step["tasksKnown"], step["totalWork"], step["taskStates"], step["counts"]) == (False, 0, {}, {})
    assert runner.step_tasks("count") == []
    task = runner.cloud.http("GET", "/v1/jobs/orders/t1/steps/count/tasks/0")
    assert (task.status, task.json["code"]) == (404, "task-not-found")
    assert "its number of tasks is not known yet" in task.json["detail"]


def test_the_tasks_of_steps_that_were_never_reached_stay_waiting(runner: JobRunner) -> None:
    runner.define(
        {"stepName": "a"},
        {"stepName": "b", "dependentStep": "a", "sharding": 2},
        {"stepName": "c", "dependentStep": "b"},
        {"stepName": "off", "when": "{{ false }}"},
    )
    runner.submit()
    assert runner.job()["remainTasks"] == 4
    job = runner.run(fail_shards(0, step="a"))
    assert job["state"] == "FAILED"
    assert job["remainTasks"] == 3, "the step that failed and those that it skipped"
    assert job["steps"][1]["counts"] == {"WAITING": 2}
    assert job["steps"][1]["remainWork"] == 2
    assert runner.step("b")["taskStates"] == {"0": "WAITING", "1": "WAITING"}
    assert runner.task("b", 1)["status"] == 1
    assert runner.task("off", 0)["state"] == "WAITING"
    log = runner.cloud.http("GET", "/v1/jobs/orders/t1/steps/b/tasks/1/logs")
    assert (log.status, log.json["complete"]) == (200, True)
    runner.post("/v1/jobs/orders/t1:rerun", {})
    assert runner.run()["remainTasks"] == 0
    assert runner.task("b", 1)["state"] == "SUCCESS"


def test_a_suspended_job_counts_what_is_not_done(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"}, onFailure="suspend")
    runner.submit()
    job = runner.run(fail_shards(0, step="a"))
    assert (job["state"], job["remainTasks"]) == ("SUSPENDED", 2)
    runner.submit("t2")
    runner.cloud.run_until(lambda: runner.states("t2")["a"] == "READY")
    runner.post("/v1/jobs/orders/t2:suspend", {})
    job = runner.job("t2")
    assert (job["state"], job["remainTasks"]) == ("SUSPENDED", 2)
    assert [step["counts"] for step in job["steps"]] == [{"SUSPENDED": 1}, {"WAITING": 1}]


def test_the_tasks_of_a_rerun_that_waits_show_their_earlier_attempts(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    runner.run(fail_shards(0, step="b"))
    runner.post("/v1/jobs/orders/t1:recompute", {"stepName": "a"})
    runner.cloud.run_until(lambda: runner.states()["a"] == "READY")
    task = runner.task("b", 0)
    assert (task["state"], [each["outcome"] for each in task["attempts"]]) == (
        "WAITING",
        ["failed-permanent"],
    )


def test_an_unknown_step_has_no_tasks(runner: JobRunner) -> None:
    submit_waiting(runner)
    steps = "/v1/jobs/orders/t1/steps"
    unknown = runner.cloud.http("GET", f"{steps}/nope")
    assert (unknown.status, unknown.json["code"]) == (404, "step-not-found")


def test_a_step_can_be_killed_as_soon_as_its_job_is_accepted(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    faults.fail("stepfunctions", "StartExecution")
    runner.submit()
    runner.post("/v1/jobs/orders/t1:kill", {"stepName": "b"})
    assert runner.run()["state"] == "FAILED"
    assert runner.states() == {"a": "SUCCESS", "b": "KILLED"}


def test_the_steps_of_a_job_that_waits_for_others_cannot_be_changed_yet(runner: JobRunner) -> None:
    submit_waiting(runner)
    kill = "/v1/jobs/orders/t1:kill"
    assert (
        "planned, and can be changed, when it starts"
        in runner.post(kill, {"stepName": "split"}, status=409)["detail"]
    )
    assert runner.post(kill, {"stepName": "nope"}, status=404)["code"] == "step-not-found"
    runner.post(kill)
    assert runner.post(kill, {"stepName": "split"}, status=409)["code"] == "job-ended"


def test_the_steps_of_a_job_that_ended_unplanned_are_killed(runner: JobRunner) -> None:
    submit_waiting(runner)
    killed = runner.post("/v1/jobs/orders/t1:kill")
    for job in (killed, runner.job()):
        assert {step["state"] for step in job["steps"]} == {"KILLED"}
        assert {step["notes"] for step in job["steps"]} == {"the Job ended before it was planned"}
        assert job["remainTasks"] == 4
    runner.post("/v1/jobs/orders/t1:rerun", {"scope": "all"})
    assert set(runner.states().values()) == {"WAITING"}
    first = runner.cloud.http("GET", "/v1/jobs/orders/t1?run=1").json
    assert {step["state"] for step in first["steps"]} == {"KILLED"}


def test_the_rows_of_a_graph_that_is_written_in_part_are_completed(runner: JobRunner) -> None:
    submit_waiting(runner)
    expected = without_times(runner.job()["steps"])
    job = job_row(runner)
    runner.mill.jobs.add_steps(job, run_nodes(runner.mill, job)[:2])
    assert without_times(runner.job()["steps"]) == expected


def test_a_job_of_which_only_some_steps_are_planned_is_planned_when_it_is_resumed(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"}, {"stepName": "c"})
    with monkeypatch.context() as patch:
        patch.setattr(Machines, "start_job", lambda *_: None)
        runner.submit()
    job = job_row(runner)
    runner.mill.jobs.add_steps(job, run_nodes(runner.mill, job)[:1])  # then the planning crashed
    runner.post("/v1/jobs/orders/t1:suspend")
    runner.post("/v1/jobs/orders/t1:resume")
    assert runner.run()["state"] == "SUCCESS"
    assert runner.states() == {"a": "SUCCESS", "b": "SUCCESS", "c": "SUCCESS"}


def test_a_job_of_which_only_some_steps_are_planned_is_not_started_by_the_tick(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit_waiting(runner)
    with monkeypatch.context() as patch:
        patch.setattr(Machines, "start_job", lambda *_: None)
        job = job_row(runner)
        assert runner.mill.jobs.dependencies_met(job, now=job.update_time, due=job.update_time)
        runner.mill.jobs.add_steps(job, run_nodes(runner.mill, job)[:2])
        runner.tick(minutes=2)
        assert job_row(runner).state == "WAITING"
    runner.tick(minutes=4)
    runner.cloud.run_until(lambda: job_row(runner).state == "QUEUED")
    assert runner.mill.jobs.is_planned(job.id, job.run)


def test_a_rerun_shows_what_it_keeps_before_it_is_planned(runner: JobRunner, faults: Faults) -> None:
    runner.define(
        {"stepName": "a", "sharding": 2},
        {"stepName": "b", "sharding": 2, "dependentStep": "a"},
        {"stepName": "c", "dependentStep": "b"},
    )
    runner.submit()
    runner.run(fail_shards(1, step="b"))
    faults.fail("stepfunctions", "StartExecution")
    answer = runner.post("/v1/jobs/orders/t1:rerun")
    for job in (answer, runner.job()):
        states = {step["stepName"]: step["state"] for step in job["steps"]}
        assert states == {"a": "SUCCESS", "b": "WAITING", "c": "WAITING"}
        assert job["steps"][0]["counts"] == {"SUCCESS": 2}
    assert [task["state"] for task in runner.step_tasks("a")] == ["SUCCESS", "SUCCESS"]
    runner.tick(minutes=2)
    assert runner.run()["state"] == "SUCCESS"


def test_the_definition_is_read_only_if_steps_are_missing(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    runner.run()
    runner.cloud.wait_for_executions()
    faults.meter.reset()
    runner.job()
    assert faults.meter.calls == {"dynamodb.GetItem": 2, "dynamodb.Query": 1}


def test_the_answer_of_a_very_large_job_fits_into_a_response(runner: JobRunner) -> None:
    params = {"quotes": '"' * 600}
    runner.define(*({"stepName": f"s{n}"} for n in range(2000)), dependencies=["other"], params=params)
    answer = runner.submit(dataTime=DAY)
    for job in (answer, runner.job(), runner.post("/v1/jobs/orders/t1:kill")):
        assert len(job["steps"]) == 2000
        assert len(json.dumps(json.dumps(job))) < 6_000_000
    assert runner.step("s1")["params"] == params


def test_a_job_that_starts_at_once_is_planned_with_the_bindings_of_its_submission(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its submission checked them; reading them again would cost two calls in every Job."""
    runner.define({"stepName": "a"}, {"stepName": "b", "type": "shell", "content": "true"})
    with monkeypatch.context() as patch:
        patch.setattr(Machines, "start_job", lambda *_, **__: None)
        runner.submit()
    runner.cloud.http("PUT", "/v1/groups/shells", {"types": ["shell"]})
    assert job_row(runner).bound == {}
    plan(runner.mill, job_row(runner).id, 1, runner.worker.clock())
    assert [runner.row(index).groups for index in range(2)] == [["default"], ["default"]]
    runner.submit("t2")
    runner.cloud.run_until(lambda: runner.mill.jobs.steps(job_row(runner, "t2").id, 1))
    assert job_row(runner, "t2").bound == {"shell": ["shells"]}
    assert [runner.row(index, "t2").groups for index in range(2)] == [["default"], ["shells"]]


def test_a_job_that_waited_is_planned_with_the_bindings_of_its_start(runner: JobRunner) -> None:
    submit_waiting(runner)
    runner.cloud.http("PUT", "/v1/groups/shells", {"types": ["shell"]})
    meet_dependency(runner)
    runner.cloud.run_until(lambda: runner.mill.jobs.steps(job_row(runner).id, 1))
    assert runner.row(0).groups == ["shells"]


def test_planning_a_second_job_of_a_definition_does_not_read_the_definition_again(
    runner: JobRunner, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.define({"stepName": "a"})
    with monkeypatch.context() as patch:
        patch.setattr(Machines, "start_job", lambda *_, **__: None)
        for trigger in ("t1", "t2"):
            runner.submit(trigger)
    reads = []
    for trigger in ("t1", "t2"):
        job = job_row(runner, trigger)
        faults.meter.reset()
        assert plan(runner.mill, job.id, 1, runner.worker.clock())
        reads.append(faults.meter.calls["dynamodb.GetItem"])
        assert faults.meter.calls["dynamodb.BatchGetItem"] == 0
    assert reads[1] < reads[0]
