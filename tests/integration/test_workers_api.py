"""Workers and groups over HTTP."""

from __future__ import annotations

import json

import pytest

from shardmill.engine.tasks.retry import TIMEOUT_GRACE_MS
from shardmill.engine.tasks.work_item import Receipt
from shardmill.engine.workers import registry
from shardmill.model.worker import HeldTask, Lease, TaskProgress
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_worker import ManualWorker
from support.scenarios.worker_api import heartbeat, lease, read_worker, register, report, start_tasks


def test_worker_counts_are_consistent_after_each_call(runner: JobRunner) -> None:
    start_tasks(runner)
    me = register(runner, proxy=True, subclients=5, domain="rack-7", apps=["*"])
    tasks = lease(runner, me)
    now = read_worker(runner, me)
    assert (now["activity"], now["remainTasks"], now["totalCheckout"]) == ("busy", 3, 3)
    assert now["currentWork"] == sorted(task["taskId"] for task in tasks)
    assert (now["proxy"], now["subclients"], now["domain"]) == (True, 5, "rack-7")
    assert report(runner, me, tasks[:2]).status == 200
    assert report(runner, me, tasks[2:], outcome="failed-permanent").status == 200
    now = read_worker(runner, me)
    assert (now["activity"], now["currentWork"]) == ("idle", [])
    assert (now["totalCheckout"], now["totalCompleted"], now["totalFailed"]) == (3, 2, 1)
    assert now["skipWork"] == [tasks[2]["taskId"]]
    again = register(runner)
    assert (again["id"], again["session"], again["totalCompleted"]) == (me["id"], me["session"] + 1, 2)
    assert again["createTime"] == me["createTime"]


def test_lists_take_filters(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/extra", {})
    start_tasks(runner, 1)
    busy = register(runner, "busy")
    register(runner, "blaster", apps=["blast"], groups=["extra"])
    lease(runner, busy)
    gone = register(runner, "gone")
    assert heartbeat(runner, gone, [], offline=True).json["status"] == 0

    def names(query: str) -> list[str]:
        items = runner.cloud.http("GET", f"/v1/workers?{query}").json["items"]
        return sorted(item["name"] for item in items)

    assert names("") == ["blaster", "busy", "gone", "manual"]
    assert names("group=extra") == ["blaster"]
    assert names("status=0") == ["gone"]
    assert names("busy=true") == ["busy"]
    assert names("busy=false&status=3") == ["blaster", "manual"]
    assert names("app=fasta&group=extra") == []
    assert names("app=blast&group=extra") == ["blaster"]
    wrong = runner.cloud.http("GET", "/v1/workers?status=9")
    assert (wrong.status, wrong.json["faults"][0]["pointer"]) == (422, "/status")


def test_suspend_drain_resume_and_forget(runner: JobRunner) -> None:
    start_tasks(runner)
    me = register(runner)
    path = f"/v1/workers/{me['id']}"
    answer = runner.cloud.http("POST", f"{path}:suspend", {"reason": "new disk"})
    assert (answer.json["activity"], answer.json["status"]) == ("suspended", 3)
    assert answer.json["notes"] == "suspended by admin: new disk"
    assert heartbeat(runner, me, []).json["suspended"] is True
    assert (
        runner.cloud.http("POST", "/v1/work:lease", {"workerId": me["id"]}).json["code"] == "worker-suspended"
    )
    assert runner.cloud.http("POST", f"{path}:resume").json["notes"] == ""
    [task] = lease(runner, me, 1)
    drained = runner.cloud.http("POST", f"{path}:drain", {}).json
    assert (drained["status"], drained["notes"]) == (1, "drained by admin")
    told = heartbeat(runner, me, [task]).json
    assert (told["drain"], told["drop"]) == (True, [])
    assert report(runner, me, [task]).status == 200
    alive = runner.cloud.http("DELETE", path)
    assert (alive.status, alive.json["code"]) == (409, "worker-alive")
    assert heartbeat(runner, me, [], offline=True).json["status"] == 0
    assert runner.cloud.http("DELETE", path).status == 204
    assert runner.cloud.http("GET", path).json["code"] == "worker-not-found"


@pytest.mark.parametrize("action", [":drain", ":suspend", ":resume", ":heartbeat", ""])
def test_unknown_workers_have_their_code(runner: JobRunner, action: str) -> None:
    method = "POST" if action else "DELETE"
    body = {"session": 1} if action == ":heartbeat" else None
    answer = runner.cloud.http(method, f"/v1/workers/nobody{action}", body)
    assert (answer.status, answer.json["code"]) == (404, "worker-not-found")


def test_results_that_are_none_of_a_workers_business(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/extra", {})
    start_tasks(runner, 2)
    me, thief = register(runner), register(runner, "thief")
    stranger = register(runner, "stranger", groups=["extra"])
    tasks = lease(runner, me)
    before = [runner.task("a", index) for index in (0, 1)]
    for worker, code in ((thief, "foreign-attempt"), (stranger, "wrong-group")):
        answer = report(runner, worker, tasks)
        assert (answer.status, answer.json["code"]) == (409, code)
        foreign = heartbeat(runner, worker, tasks)
        assert (foreign.status, foreign.json["code"]) == (409, "foreign-task")
        assert read_worker(runner, worker)["currentWork"] == []
    late = report(runner, me, [{**tasks[0], "attempt": 9}])
    assert (late.status, late.json["code"]) == (409, "stale-attempt")
    large = report(runner, me, tasks, output="x" * 70_000)
    assert (large.status, large.json["code"]) == (413, "output-too-large")
    assert large.json["faults"][0]["pointer"] == "/results/0/output"
    unknown = report(runner, {"id": "nobody"}, tasks)
    assert (unknown.status, unknown.json["code"]) == (404, "worker-not-found")
    missing = report(runner, me, [{"taskId": "00000000-0000-4000-8000-000000000000_0_0", "attempt": 1}])
    assert (missing.status, missing.json["code"]) == (404, "task-not-found")
    assert [runner.task("a", index) for index in (0, 1)] == before
    assert (read_worker(runner, me)["totalFailed"], read_worker(runner, me)["totalCompleted"]) == (0, 0)


def test_progress_and_output(runner: JobRunner) -> None:
    start_tasks(runner, 2)
    me = register(runner)
    first, second = lease(runner, me)
    work = [
        {"taskId": first["taskId"], "attempt": 1, "progress": {"percent": 40, "message": "reading"}},
        {"taskId": second["taskId"], "attempt": 1},
    ]
    path = f"/v1/workers/{me['id']}:heartbeat"
    assert runner.cloud.http("POST", path, {"session": me["session"], "work": work}).status == 200
    index = first["sharding"]["index"]
    assert runner.task("a", index)["progress"] == {"percent": 40.0, "message": "reading"}
    listed = runner.cloud.http("GET", "/v1/jobs/play/t1/steps/a/tasks").json["items"]
    assert [task["progress"] is not None for task in listed] == [at == index for at in (0, 1)]
    bad = {"taskId": first["taskId"], "attempt": 1, "progress": {"percent": 101}}
    refused = runner.cloud.http("POST", path, {"session": me["session"], "work": [bad]})
    assert refused.json["faults"][0]["pointer"] == "/work/0/progress/percent"
    assert report(runner, me, [first, second], output={"rows": [1, 2]}).status == 200
    assert [runner.task("a", at)["output"] for at in (0, 1)] == [{"rows": [1, 2]}] * 2
    assert runner.task("a", index)["progress"] is None


def test_a_followed_log_is_announced_in_the_next_heartbeat(runner: JobRunner) -> None:
    start_tasks(runner, 2)
    me = register(runner)
    first, second = lease(runner, me)
    assert heartbeat(runner, me, [first, second]).json["followed"] == []
    index = first["sharding"]["index"]
    assert runner.cloud.http("GET", f"/v1/jobs/play/t1/steps/a/tasks/{index}/logs").status == 200
    assert heartbeat(runner, me, [first, second]).json["followed"] == [first["taskId"]]
    report(runner, me, [first])
    assert heartbeat(runner, me, [second]).json["followed"] == []


# timeouts, ended by the server


def outlived(runner: JobRunner, worker: ManualWorker, seconds: float) -> None:
    clock = worker.clock
    ahead = int(seconds * 1000) + TIMEOUT_GRACE_MS + 1
    worker.clock = lambda: clock() + ahead


def test_the_heartbeat_ends_an_attempt_that_outlived_its_time(runner: JobRunner) -> None:
    start_tasks(runner, 1, timeoutSeconds=30, failedRetries=1, failedInterval=0)
    [held] = runner.take(1)
    outlived(runner, runner.worker, 30)
    assert runner.worker.beat([held]) == [held.task_id]
    task = runner.task("a", 0)
    assert (task["state"], task["failed"]) == ("READY", 1)
    assert [attempt["reason"] for attempt in task["attempts"]] == ["timed-out"]
    assert [each.status for each in runner.worker.report([held])] == ["stale-attempt"]
    assert [again.attempt for again in runner.take(1)] == [2]
    assert runner.worker.row.failed == 1


def show_again(runner: JobRunner, *leases: Lease) -> None:
    receipts = [Receipt.decode(each.receipt) for each in leases]
    runner.mill.queues.hide([(receipt.message, 0) for receipt in receipts if receipt])


def test_a_worker_that_vanished_is_lost_even_after_the_task_s_time(runner: JobRunner) -> None:
    start_tasks(runner, 2, timeoutSeconds=5, failedRetries=0)
    gone, held = runner.take(2)
    other = ManualWorker(runner.mill, "other")
    other.clock = runner.worker.clock
    outlived(runner, other, 40)
    show_again(runner, gone, held)
    assert [each.attempt for each in other.take()] == []  # its lease is young
    outlived(runner, other, 60)
    show_again(runner, gone, held)
    again = other.take()
    assert {each.attempt for each in again} == {2}
    task = runner.task("a", 0)
    assert (task["failed"], [attempt["reason"] for attempt in task["attempts"]]) == (0, ["lost", None])
    assert runner.mill.workers.by_id([runner.worker.row.id])[runner.worker.row.id].failed == 0


def test_a_task_within_its_time_limit_is_not_interrupted(runner: JobRunner) -> None:
    start_tasks(runner, 1, timeoutSeconds=30)
    [held] = runner.take(1)
    clock = runner.worker.clock
    runner.worker.clock = lambda: clock() + 29_000
    assert runner.worker.beat([held]) == []
    assert runner.task("a", 0)["state"] == "RUNNING"


def test_a_workers_row_stays_small_with_large_progress_texts(runner: JobRunner) -> None:
    start_tasks(runner, 60)
    held = [each for _ in range(6) for each in runner.worker.take()]
    words = TaskProgress(percent=1, message="\u6f22" * 200)
    work = [
        HeldTask(task_id=each.task_id, attempt=each.attempt, run=each.run, progress=words) for each in held
    ]
    worker = runner.worker.row
    beat_ = registry.heartbeat(
        runner.mill, worker.id, worker.session, work, offline=False, now=runner.worker.clock()
    )
    assert len(beat_.worker.work) == 60
    assert len(json.dumps(beat_.worker.progress)) <= registry.MAX_PROGRESS_BYTES


def test_a_heartbeat_clears_followed_tasks_that_are_no_longer_held(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    me = register(runner)
    tasks = lease(runner, me)
    runner.cloud.http("GET", "/v1/jobs/play/t1/steps/a/tasks/0/logs")
    assert heartbeat(runner, me, tasks).json["followed"] == [tasks[0]["taskId"]]
    heartbeat(runner, me, [])
    row = runner.mill.workers.get(me["id"])
    assert row is not None
    assert row.followed == set()


def test_a_worker_does_not_hold_tasks_that_another_worker_took_over(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    me = register(runner)
    [task] = lease(runner, me)
    other = ManualWorker(runner.mill, "other")
    clock = other.clock
    other.clock = lambda: clock() + 61_000
    receipt = Receipt.decode(task["receipt"])
    assert receipt is not None
    runner.mill.queues.hide([(receipt.message, 0)])
    assert [each.attempt for each in other.take()] == [2]
    row = runner.mill.workers.get(me["id"])
    assert row is not None
    assert row.work == set()
