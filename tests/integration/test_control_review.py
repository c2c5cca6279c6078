"""What a hostile look at control and values found, each by its name."""

from __future__ import annotations

from typing import Any

import pytest

from integration.test_values import contents, run, shell
from shardmill.engine.running import changes
from support.scenarios.job_runner import JobRunner, fail_shards
from support.scenarios.manual_worker import ManualWorker
from support.scenarios.schedule_clock import ScheduleClock
from support.scenarios.worker_api import register


def test_a_rerun_reaches_tasks_beyond_the_window_without_the_tick(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 10, "maxTaskCount": 2})
    runner.submit()
    assert runner.run(fail_shards(7))["state"] == "FAILED"
    runner.post("/v1/jobs/play/t1:rerun")
    assert runner.run()["state"] == "SUCCESS"
    assert [task["attempt"] for task in runner.step_tasks("a")] == [1] * 7 + [2, 1, 1]


def test_a_larger_window_is_exact_though_tasks_ended_out_of_line(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 40, "maxTaskCount": 2})
    runner.submit()
    first, long = sorted(runner.take(2), key=lambda lease: lease.sharding.index)
    runner.worker.report([first])
    for _ in range(10):
        runner.worker.report(runner.take(1))
    runner.post("/v1/jobs/play/t1:change", {"maxTaskCount": 3})
    runner.later(6)
    held = [lease for _ in range(10) for lease in runner.worker.take()]
    assert len(held) == 2
    runner.worker.report([long, *held])
    assert runner.run()["state"] == "SUCCESS"


def test_what_runs_beyond_a_smaller_window_is_not_replaced(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 20, "maxTaskCount": 6})
    runner.submit()
    held = sorted(runner.take(6), key=lambda lease: lease.sharding.index)
    runner.post("/v1/jobs/play/t1:change", {"maxTaskCount": 2})
    runner.later(6)
    runner.worker.report(held[2:])
    assert [lease for _ in range(10) for lease in runner.worker.take()] == []
    runner.worker.report(held[:2])
    assert len(runner.take(2)) == 2
    assert [lease for _ in range(10) for lease in runner.worker.take()] == []


def test_a_waiting_task_that_is_killed_brings_no_other_out_of_turn(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 10, "maxTaskCount": 2, "toleratedFailures": 10})
    runner.submit()
    held = runner.take(2)
    for index in (4, 5, 6):
        runner.post("/v1/jobs/play/t1:kill", {"stepName": "a", "index": index})
    assert [lease for _ in range(10) for lease in runner.worker.take()] == []
    runner.worker.report(held)
    runner.run()
    assert runner.step("a")["counts"] == {"SUCCESS": 7, "KILLED": 3}


def test_a_command_that_cannot_be_named_fails_its_task_and_breaks_no_worker(runner: JobRunner) -> None:
    runner.define(
        shell("a", "x"),
        {"stepName": "b", "dependentStep": "a", "command": {"name": "{{ steps.a.output.program }}"}},
    )
    runner.submit()
    runner.worker = ManualWorker(runner.mill, "limited", ["default"], ["shell"])
    faults = []

    def work() -> None:
        for lease in runner.worker.take():
            faults.append(lease.fault)
            runner.worker.report([lease], "failed-permanent" if lease.fault else "success", output={})

    runner.cloud.run_until(runner.ended, 30, meanwhile=work)
    assert faults[0] is None
    assert "has no 'program'" in faults[1]
    assert runner.states() == {"a": "SUCCESS", "b": "FAILED"}


def test_a_recomputed_value_is_read_again_by_a_later_phase(runner: JobRunner) -> None:
    runner.define(shell("a", "a"), shell("b", "b", phase=1), shell("c", "c {{ steps.a.output }}", phase=1))
    runner.submit()
    run(runner, {"a": "one"})
    runner.post("/v1/jobs/play/t1:recompute", {"stepName": "a"})
    runner.leased = []
    assert run(runner, {"a": "two"})["state"] == "SUCCESS"
    assert (contents(runner, "b"), contents(runner, "c")) == ([], ["c two"])


def test_a_condition_on_what_failed_is_told_anew_by_a_rerun(runner: JobRunner) -> None:
    runner.define(shell("a", "a"), shell("b", "b", phase=1, when="{{ steps.a.output == 'good' }}"))
    runner.submit()
    assert runner.run(fail_shards(0, step="a"))["state"] == "FAILED"
    assert runner.states()["b"] == "SKIPPED"
    runner.post("/v1/jobs/play/t1:rerun")
    assert run(runner, {"a": "good"})["state"] == "SUCCESS"
    assert runner.states()["b"] == "SUCCESS"


def test_items_are_kept_once(runner: JobRunner) -> None:
    runner.define(
        shell("list", "ls", sharding=4),
        shell("each", "work {{ item | length }}", "list", items="{{ steps.list.output }}"),
    )
    runner.submit()
    assert run(runner, {"list": "x" * 40_000})["state"] == "SUCCESS"
    assert contents(runner, "each") == ["work 40000"] * 4
    assert "steps" not in runner.row(1).context


def test_values_that_do_not_fit_beside_a_large_step_are_said(runner: JobRunner) -> None:
    content = f"true # {'y' * 250_000} {{{{ steps.list.output }}}}"
    runner.define(shell("list", "ls", sharding=3), shell("large", content, "list"))
    runner.submit()
    assert run(runner, {"list": "x" * 60_000})["state"] == "FAILED"
    assert "larger data belongs into files" in runner.job()["steps"][1]["notes"]


def test_of_two_changes_at_once_the_later_word_counts(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 3})
    runner.submit()
    runner.cloud.run_until(lambda: runner.states() == {"a": "READY"}, 10)
    job = runner.mill.jobs.find("play", "t1")
    assert job
    wish = {"": {"failed_retries": 1}}
    told: dict[str, Any] = {"priority": 1, "groups": job.groups, "now": 1, "actor": "me", "reason": ""}
    slow = runner.mill.jobs.change(job, changes=wish, **told)
    assert slow
    runner.post("/v1/jobs/play/t1:change", {"failedRetries": 2})
    changes.apply_changes(runner.mill, slow, runner.worker.clock())
    assert runner.row(0).spec["failedRetries"] == 2


def test_a_retry_after_a_change_does_not_wait_for_the_lease(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "failedRetries": 1, "failedInterval": 0})
    runner.submit()
    held = runner.take(1)
    runner.post("/v1/jobs/play/t1:change", {"priority": 20})
    runner.later(3)
    assert runner.worker.take() == []  # its new message is hidden for as long as the lease holds
    runner.worker.report(held, "failed")
    [again] = runner.take(1)
    assert again.attempt == 2


def test_a_giant_that_moves_is_known_where_it_is(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/other", {})
    runner.define({"stepName": "a", "sharding": 200, "maxTaskCount": 3})
    runner.submit()
    runner.cloud.run_until(lambda: runner.states() == {"a": "READY"}, 10)
    assert _giants(runner, "default") == 0
    runner.post("/v1/jobs/play/t1:change", {"maxTaskCount": 150})
    assert _giants(runner, "default") == 1
    runner.post("/v1/jobs/play/t1:suspend")
    runner.post("/v1/jobs/play/t1:group", {"workerGroups": ["other"]})
    assert (_giants(runner, "default"), _giants(runner, "other")) == (0, 1)
    runner.post("/v1/jobs/play/t1:kill")
    assert _giants(runner, "other") == 0


def _giants(runner: JobRunner, name: str) -> int:
    group = runner.mill.groups.get(name)
    assert group
    return len(group.giants)


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


def test_a_change_of_a_step_without_a_name_is_refused(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    refused = runner.post("/v1/jobs/play/t1:change", {"stepName": "", "priority": 3}, status=422)
    assert refused["faults"][0]["pointer"] == "/stepName"


def test_a_backfill_says_that_it_waits_only_while_it_does(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    schedules = ScheduleClock(runner)
    schedules.save("2026-01-01 00:00", cron="0 * * * *")
    runner.post("/v1/definitions/play:suspend")
    span = {"from": "2025-12-01T00:00:00Z", "to": "2025-12-01T02:00:00Z"}
    begun = runner.post("/v1/schedules/play/s:backfill", span, status=202)
    assert (begun["state"], begun["notes"]) == ("RUNNING", "waits until its definition is resumed")
    runner.post("/v1/definitions/play:resume")
    runner.tick(2)
    [going] = runner.cloud.http("GET", "/v1/schedules/play/s/backfills").json["items"]
    assert (going["running"], going["notes"]) == (1, "")


def test_an_older_version_is_as_suspended_as_its_definition(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.define({"stepName": "b"})
    runner.post("/v1/definitions/play:suspend", {"reason": "bad"})
    assert runner.cloud.http("GET", "/v1/definitions/play?version=1").json["suspended"].endswith(": bad")


def test_a_suspended_group_beside_one_without_workers_is_told_truly(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/empty", {})
    runner.define({"stepName": "a", "workerGroups": ["default", "empty"]})
    runner.post("/v1/groups/default:suspend", {"reason": "maintenance"})
    runner.submit()
    runner.cloud.run_until(lambda: runner.states() == {"a": "READY"}, 10)
    [reason] = runner.job()["waitingFor"]
    assert reason.startswith("step a: group empty has no live worker; group default was suspended by")
    assert "silent" not in reason


def test_a_worker_hears_which_group_keeps_it_waiting(runner: JobRunner) -> None:
    worker = register(runner)
    beat = {"session": worker["session"]}
    runner.post("/v1/groups/default:suspend", {"reason": "maintenance"})
    told = runner.post(f"/v1/workers/{worker['id']}:heartbeat", beat)
    assert "group default was suspended by" in told["notes"]
    assert "workers resume" not in told["notes"]
    runner.post("/v1/groups/default:resume")
    assert runner.post(f"/v1/workers/{worker['id']}:heartbeat", beat)["notes"] is None


@pytest.mark.parametrize("end", [":kill", ":force"])
def test_a_suspended_job_that_was_ended_can_run_again(runner: JobRunner, end: str) -> None:
    runner.define({"stepName": "a", "sharding": 2})
    runner.submit()
    held = runner.take(1)
    runner.post("/v1/jobs/play/t1:suspend", {"letFinish": True})
    runner.post(f"/v1/jobs/play/t1{end}", {"state": "FAILED"} if end == ":force" else None)
    runner.worker.report(held)
    runner.post("/v1/jobs/play/t1:rerun")
    assert runner.run()["state"] == "SUCCESS"
    assert runner.job()["run"] == 2


def test_everything_is_no_group_by_a_name(runner: JobRunner) -> None:
    runner.post("/v1/groups:suspend", status=204)
    for action in (":suspend", ":resume"):
        assert runner.post(f"/v1/groups/*{action}", status=404)["code"] == "group-not-found"
    assert runner.cloud.http("GET", "/v1/groups/*").status == 404
    assert runner.cloud.http("DELETE", "/v1/groups/*?force=true").status == 404
