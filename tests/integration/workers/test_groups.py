"""Worker groups: their queues, leases and deletion."""

from __future__ import annotations

from shardmill.model.groups.lanes import MAX_LANES
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_worker import ManualWorker


def test_queues_of_a_stack_exclude_those_of_a_stack_with_the_same_prefix(runner: JobRunner) -> None:
    prefix = runner.mill.settings.queue_prefix
    other = runner.mill.queues.make_lanes(f"{prefix}-prod", "default", 1, 60)
    mine = set(runner.mill.queues.of_groups(prefix))
    assert len(mine) == 2 * MAX_LANES  # of the groups default and lambda
    assert not mine & set(other)


def test_a_lambda_group_has_leases_as_long_as_the_function_timeout(runner: JobRunner) -> None:
    http = runner.cloud.http
    assert http("PUT", "/v1/groups/l2", {"kind": "lambda"}).json["leaseSeconds"] == 900
    assert http("PUT", "/v1/groups/lambda", {}).json["leaseSeconds"] == 900
    assert http("PUT", "/v1/groups/l2", {"leaseSeconds": 60}).status == 422
    http("PUT", "/v1/groups/p", {"leaseSeconds": 600, "types": [1]})
    updated = http("PUT", "/v1/groups/p", {}).json
    assert (updated["leaseSeconds"], updated["types"]) == (600, ["hive"])


def test_a_step_whose_group_was_deleted_fails(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/extra", {})
    runner.worker = ManualWorker(runner.mill, "extra", ["extra"])
    runner.define({"stepName": "a", "sharding": 3}, workerGroup="extra")
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    rejected = runner.cloud.http("DELETE", "/v1/groups/extra")
    assert (rejected.status, rejected.json["code"]) == (409, "group-in-use")
    assert runner.cloud.http("DELETE", "/v1/groups/extra?force=true").status == 204
    runner.tick(minutes=3)
    runner.cloud.run_until(lambda: runner.job()["state"] == "FAILED")
    assert "extra" in runner.job()["notes"]


def test_reports_of_tasks_of_a_deleted_group_are_accepted(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/extra", {})
    runner.worker = ManualWorker(runner.mill, "extra", ["extra"])
    runner.define({"stepName": "a", "sharding": 5, "maxTaskCount": 1}, workerGroup="extra")
    runner.submit()
    held = runner.take(1)
    runner.mill.groups.delete("extra")  # keep its queues: moto fails for messages of a deleted queue
    runner.mill.recent_groups.discard("extra")
    assert [each.status for each in runner.worker.report(held)] == ["ok"]
    runner.tick(minutes=3)
    assert [each.status for each in runner.worker.report(held)] == ["already"]
    assert runner.job()["state"] == "FAILED"


def wait_until_open(runner: JobRunner, name: str = "orders", trigger: str = "t1") -> None:
    runner.cloud.run_until(lambda: runner.job(trigger, name)["steps"] and runner.row(0, trigger, name).token)


def test_messages_left_in_a_group_without_workers_are_moved(runner: JobRunner) -> None:
    for name in ("ga", "gb"):
        runner.cloud.http("PUT", f"/v1/groups/{name}", {})
    ga = ManualWorker(runner.mill, "ga", ["ga"])
    clock = ga.clock
    runner.define({"stepName": "a", "sharding": 12, "maxTaskCount": 4}, workerGroups=["ga", "gb"])
    runner.submit()
    wait_until_open(runner)
    minutes = 3

    def advance(worker: ManualWorker) -> None:
        nonlocal minutes
        ahead = minutes * 60_000
        worker.clock = lambda: clock() + ahead
        worker.beat([])
        runner.tick(minutes=minutes)
        minutes += 3

    advance(ga)
    gb = ManualWorker(runner.mill, "gb", ["gb"])
    gb.beat([])
    ga.report(ga.take(2))
    gb.beat([], offline=True)

    def work() -> None:
        advance(ga)
        ga.report(ga.take())

    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS", 40, meanwhile=work)


def test_a_group_that_all_steps_have_left_can_be_deleted(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/old", {})
    runner.define({"stepName": "a", "sharding": 2, "workerGroup": "old", "failedRetries": 1})
    runner.submit()
    worker, runner.worker = runner.worker, ManualWorker(runner.mill, "old", ["old"])
    held = runner.take(1)
    runner.post("/v1/jobs/orders/t1:group", {"workerGroups": ["default"]})
    assert runner.cloud.http("DELETE", "/v1/groups/old").status == 204
    assert [one.status for one in runner.worker.report(held, "failed")] == ["ok"]
    runner.worker = worker
    runner.later(5)
    assert runner.run()["state"] == "SUCCESS"
