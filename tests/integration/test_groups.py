"""Worker groups: their queues, leases and deletion."""

from __future__ import annotations

from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_worker import ManualWorker


def test_queues_of_a_stack_exclude_those_of_a_stack_with_the_same_prefix(runner: JobRunner) -> None:
    stack = runner.mill.settings.stack
    other = runner.mill.queues.make_lanes(f"{stack}-prod", "default", 1, 60)
    mine = set(runner.mill.queues.of_stack(stack))
    assert len(mine) == 3
    assert not mine & set(other)


def test_a_lambda_group_has_leases_as_long_as_the_function_timeout(runner: JobRunner) -> None:
    http = runner.cloud.http
    assert http("PUT", "/v1/groups/l2", {"kind": "lambda"}).json["leaseSeconds"] == 900
    assert http("PUT", "/v1/groups/lambda", {}).json["leaseSeconds"] == 900
    assert http("PUT", "/v1/groups/l2", {"leaseSeconds": 60}).status == 422
    http("PUT", "/v1/groups/p", {"leaseSeconds": 600, "types": ["hive"]})
    kept = http("PUT", "/v1/groups/p", {}).json
    assert (kept["leaseSeconds"], kept["types"]) == (600, ["hive"])


def test_a_step_whose_group_was_deleted_fails(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/gone", {})
    runner.worker = ManualWorker(runner.mill, "gone", ["gone"])
    runner.define({"stepName": "a", "sharding": 3}, workerGroup="gone")
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    refused = runner.cloud.http("DELETE", "/v1/groups/gone")
    assert (refused.status, refused.json["code"]) == (409, "group-in-use")
    assert runner.cloud.http("DELETE", "/v1/groups/gone?force=true").status == 204
    runner.tick(minutes=3)
    runner.cloud.run_until(lambda: runner.job()["state"] == "FAILED")
    assert "gone" in runner.job()["notes"]


def test_reports_of_tasks_of_a_deleted_group_are_accepted(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/gone", {})
    runner.worker = ManualWorker(runner.mill, "gone", ["gone"])
    runner.define({"stepName": "a", "sharding": 5, "maxTaskCount": 1}, workerGroup="gone")
    runner.submit()
    held = runner.take(1)
    runner.mill.groups.delete("gone")  # and not its queues: moto cannot bear messages of a queue that is gone
    runner.mill.recent_groups.discard("gone")
    assert [each.status for each in runner.worker.report(held)] == ["ok"]
    runner.tick(minutes=3)
    assert [each.status for each in runner.worker.report(held)] == ["already"]
    assert runner.job()["state"] == "FAILED"


def opened(runner: JobRunner, name: str = "play", trigger: str = "t1") -> None:
    runner.cloud.run_until(lambda: runner.job(trigger, name)["steps"] and runner.row(0, trigger, name).token)


def test_messages_left_in_a_group_without_workers_are_moved(runner: JobRunner) -> None:
    for name in ("ga", "gb"):
        runner.cloud.http("PUT", f"/v1/groups/{name}", {})
    ga = ManualWorker(runner.mill, "ga", ["ga"])
    clock = ga.clock
    runner.define({"stepName": "a", "sharding": 12, "maxTaskCount": 4}, workerGroups=["ga", "gb"])
    runner.submit()
    opened(runner)
    minutes = 3

    def pass_time(worker: ManualWorker) -> None:
        nonlocal minutes
        ahead = minutes * 60_000
        worker.clock = lambda: clock() + ahead
        worker.beat([])
        runner.tick(minutes=minutes)
        minutes += 3

    pass_time(ga)
    gb = ManualWorker(runner.mill, "gb", ["gb"])
    gb.beat([])
    ga.report(ga.take(2))
    gb.beat([], offline=True)

    def work() -> None:
        pass_time(ga)
        ga.report(ga.take())

    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS", 40, meanwhile=work)


def test_a_group_that_all_steps_have_left_can_be_deleted(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/old", {})
    runner.define({"stepName": "a", "sharding": 2, "workerGroup": "old", "failedRetries": 1})
    runner.submit()
    worker, runner.worker = runner.worker, ManualWorker(runner.mill, "old", ["old"])
    held = runner.take(1)
    runner.post("/v1/jobs/play/t1:group", {"workerGroups": ["default"]})
    assert runner.cloud.http("DELETE", "/v1/groups/old").status == 204
    assert [one.status for one in runner.worker.report(held, "failed")] == ["ok"]
    runner.worker = worker
    runner.later(5)
    assert runner.run()["state"] == "SUCCESS"
