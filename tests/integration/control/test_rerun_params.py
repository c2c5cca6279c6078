"""A rerun with other parameters: failed tasks run with them, kept results stay, and later runs keep them."""

from support.scenarios.access import Callers
from support.scenarios.job_runner import JobRunner, fail_shards

RERUN = "/v1/jobs/orders/t1:rerun"
STEP = {"stepName": "load", "sharding": 3, "type": "shell", "content": "load {{ params.table }}"}


def failed_job(runner: JobRunner) -> None:
    runner.define(STEP, params={"table": "wrong", "day": "monday"})
    runner.submit()
    assert runner.run(fail_shards(1))["state"] == "FAILED"


def test_failed_tasks_run_with_the_new_value_and_other_results_are_kept(runner: JobRunner) -> None:
    failed_job(runner)
    runner.leased.clear()
    started = runner.post(RERUN, {"params": {"table": "ledger"}})
    assert (started["run"], started["params"]) == (2, {"table": "ledger", "day": "monday"})
    assert runner.run()["state"] == "SUCCESS"
    assert [(lease.sharding.index, lease.content) for lease in runner.leased] == [(1, "load ledger")]
    assert runner.job()["params"]["table"] == "ledger"
    history = runner.cloud.http("GET", "/v1/jobs/orders/t1/history").json["items"]
    assert "rerun of what failed with other values of table" in [each["reason"] for each in history]


def test_later_runs_keep_the_new_value(runner: JobRunner) -> None:
    failed_job(runner)
    runner.post(RERUN, {"params": {"table": "ledger"}})
    runner.run()
    runner.leased.clear()
    runner.post(RERUN, {"scope": "all"})
    runner.run()
    assert {lease.content for lease in runner.leased} == {"load ledger"}


def test_the_same_request_still_finds_the_job(runner: JobRunner) -> None:
    failed_job(runner)
    job = runner.job()
    runner.post(RERUN, {"params": {"table": "ledger"}})
    assert runner.submit()["id"] == job["id"]


def test_a_value_that_a_template_cannot_use_changes_nothing(runner: JobRunner) -> None:
    runner.define({**STEP, "content": "load {{ params.table.name }}"}, params={"table": {"name": "a"}})
    runner.submit()
    runner.run(fail_shards(1))
    answer = runner.cloud.http("POST", RERUN, {"params": {"table": "text"}})
    assert (answer.status, answer.json["faults"][0]["pointer"]) == (422, "/params")
    job = runner.job()
    assert (job["run"], job["state"], job["params"]) == (1, "FAILED", {"table": {"name": "a"}})


def test_a_name_that_cannot_be_a_variable_is_rejected(runner: JobRunner) -> None:
    failed_job(runner)
    answer = runner.cloud.http("POST", RERUN, {"params": {"a=b": 1}})
    assert answer.status == 422
    assert runner.job()["run"] == 1


def test_a_rerun_with_parameters_also_needs_the_scope_submit(runner: JobRunner) -> None:
    failed_job(runner)
    operator = Callers(runner.cloud).with_scopes("read", "operate")
    answer = operator("POST", RERUN, {"params": {"table": "ledger"}})
    assert (answer.status, runner.job()["run"]) == (403, 1)
    assert operator("POST", RERUN, {}).status == 200
