"""Workers and groups over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shardmill.engine.access.receipts import verified
from shardmill.engine.tasks.retry import TIMEOUT_GRACE_MS
from shardmill.engine.tasks.work_item import Receipt
from shardmill.engine.views.workers import worker_view
from shardmill.engine.workers import registry
from shardmill.model.worker import HeldTask, Lease, TaskProgress, Worker
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_worker import ManualWorker
from support.scenarios.worker_api import heartbeat, lease, read_worker, register, report, start_tasks


def test_worker_counts_are_consistent_after_each_call(runner: JobRunner) -> None:
    start_tasks(runner)
    me = register(runner, proxy=True, subclients=5, domain="rack-7", apps=["*"], slots=3)
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
    restarted = register(runner)
    assert (restarted["id"], restarted["session"], restarted["totalCompleted"]) == (
        me["id"],
        me["session"] + 1,
        2,
    )
    assert restarted["createTime"] == me["createTime"]


def test_the_duration_of_a_task_is_what_its_worker_measured(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    me = register(runner)
    tasks = lease(runner, me)
    leased = runner.task("a", 0)["checkoutTime"]
    assert report(runner, me, tasks, startTime=leased, endTime=leased).status == 200
    task = runner.task("a", 0)
    assert (task["checkoutTime"], task["completedTime"], task["computeTime"]) == (leased, leased, 0)
    assert read_worker(runner, me)["computeTime"] == 0


def test_a_disconnected_worker_is_idle_without_current_work(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    held = runner.take(1)
    runner.worker.beat(held)

    def view(seconds: int) -> Worker:
        row = registry.read(runner.mill, runner.worker.row.id)
        return worker_view(runner.mill, row, row.seen + seconds * 1000)

    busy, gone = view(60), view(61)
    assert (busy.status, busy.activity, busy.current_work) == (3, "busy", [held[0].task_id])
    assert (gone.status, gone.activity, gone.current_work, gone.remain_tasks) == (2, "idle", [], 0)
    assert (busy.idle_time, gone.idle_time) == (0, 61)
    runner.worker.beat(held)  # it was only disconnected
    assert view(0).activity == "busy"


def test_workers_are_filtered_by_group_status_activity_and_app(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/extra", {})
    start_tasks(runner, 1)
    busy = register(runner, "busy")
    register(runner, "blaster", apps=["blast"], groups=["extra"])
    lease(runner, busy)
    offline = register(runner, "offline")
    assert heartbeat(runner, offline, [], offline=True).json["status"] == 0

    def names(query: str) -> list[str]:
        items = runner.cloud.http("GET", f"/v1/workers?{query}").json["items"]
        return sorted(item["name"] for item in items)

    assert names("") == ["blaster", "busy", "manual", "offline"]
    assert names("group=extra") == ["blaster"]
    assert names("status=0") == ["offline"]
    assert names("busy=true") == ["busy"]
    assert names("busy=false&status=3") == ["blaster", "manual"]
    assert names("app=fasta&group=extra") == []
    assert names("app=blast&group=extra") == ["blaster"]
    wrong = runner.cloud.http("GET", "/v1/workers?status=9")
    assert (wrong.status, wrong.json["faults"][0]["pointer"]) == (422, "/status")


def test_a_worker_is_suspended_resumed_drained_and_deleted(runner: JobRunner) -> None:
    start_tasks(runner)
    me = register(runner)
    path = f"/v1/workers/{me['id']}"
    response = runner.cloud.http("POST", f"{path}:suspend", {"reason": "new disk"})
    assert (response.json["activity"], response.json["status"]) == ("suspended", 3)
    assert response.json["notes"] == "suspended by admin: new disk"
    assert heartbeat(runner, me, []).json["suspended"] is True
    assert (
        runner.cloud.http("POST", "/v1/work:lease", {"workerId": me["id"]}).json["code"] == "worker-suspended"
    )
    assert runner.cloud.http("POST", f"{path}:resume").json["notes"] == ""
    [task] = lease(runner, me, 1)
    drained = runner.cloud.http("POST", f"{path}:drain", {}).json
    assert (drained["status"], drained["notes"]) == (1, "drained by admin")
    beat = heartbeat(runner, me, [task]).json
    assert (beat["drain"], beat["drop"]) == (True, [])
    assert report(runner, me, [task]).status == 200
    alive = runner.cloud.http("DELETE", path)
    assert (alive.status, alive.json["code"]) == (409, "worker-alive")
    assert heartbeat(runner, me, [], offline=True).json["status"] == 0
    assert runner.cloud.http("DELETE", path).status == 204
    assert runner.cloud.http("GET", path).json["code"] == "worker-not-found"


@pytest.mark.parametrize("action", [":drain", ":suspend", ":resume", ":heartbeat", ""])
def test_actions_on_unknown_workers_are_not_found(runner: JobRunner, action: str) -> None:
    method = "POST" if action else "DELETE"
    body = {"session": 1} if action == ":heartbeat" else None
    response = runner.cloud.http(method, f"/v1/workers/nobody{action}", body)
    assert (response.status, response.json["code"]) == (404, "worker-not-found")


def test_results_of_tasks_that_a_worker_does_not_hold_are_rejected(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/extra", {})
    start_tasks(runner, 2)
    me, other = register(runner), register(runner, "other")
    outsider = register(runner, "outsider", groups=["extra"])
    tasks = lease(runner, me)
    before = [runner.task("a", index) for index in (0, 1)]
    for worker, code in ((other, "foreign-attempt"), (outsider, "wrong-group")):
        response = report(runner, worker, tasks)
        assert (response.status, response.json["code"]) == (409, code)
        foreign = heartbeat(runner, worker, tasks)
        assert (foreign.status, foreign.json["code"]) == (409, "foreign-task")
        assert read_worker(runner, worker)["currentWork"] == []
    stale = report(runner, me, [{**tasks[0], "attempt": 9}])
    assert (stale.status, stale.json["code"]) == (409, "stale-attempt")
    large = report(runner, me, tasks, output="x" * 70_000)
    assert (large.status, large.json["code"]) == (413, "output-too-large")
    assert large.json["faults"][0]["pointer"] == "/results/0/output"
    unknown = report(runner, {"id": "nobody"}, tasks)
    assert (unknown.status, unknown.json["code"]) == (404, "worker-not-found")
    missing = report(runner, me, [{"taskId": "00000000-0000-4000-8000-000000000000_0_0", "attempt": 1}])
    assert (missing.status, missing.json["code"]) == (404, "task-not-found")
    assert [runner.task("a", index) for index in (0, 1)] == before
    assert (read_worker(runner, me)["totalFailed"], read_worker(runner, me)["totalCompleted"]) == (0, 0)


def test_progress_and_output_of_a_task_are_shown(runner: JobRunner) -> None:
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
    listed = runner.cloud.http("GET", "/v1/jobs/orders/t1/steps/a/tasks").json["items"]
    assert [task["progress"] is not None for task in listed] == [at == index for at in (0, 1)]
    bad = {"taskId": first["taskId"], "attempt": 1, "progress": {"percent": 101}}
    rejected = runner.cloud.http("POST", path, {"session": me["session"], "work": [bad]})
    assert rejected.json["faults"][0]["pointer"] == "/work/0/progress/percent"
    assert report(runner, me, [first, second], output={"rows": [1, 2]}).status == 200
    assert [runner.task("a", at)["output"] for at in (0, 1)] == [{"rows": [1, 2]}] * 2
    assert runner.task("a", index)["progress"] is None


def test_a_followed_log_is_announced_in_the_next_heartbeat(runner: JobRunner) -> None:
    start_tasks(runner, 2)
    me = register(runner)
    first, second = lease(runner, me)
    assert heartbeat(runner, me, [first, second]).json["followed"] == []
    index = first["sharding"]["index"]
    assert runner.cloud.http("GET", f"/v1/jobs/orders/t1/steps/a/tasks/{index}/logs").status == 200
    assert heartbeat(runner, me, [first, second]).json["followed"] == [first["taskId"]]
    report(runner, me, [first])
    assert heartbeat(runner, me, [second]).json["followed"] == []


# timeouts enforced by the server


def advance_past_limit(runner: JobRunner, worker: ManualWorker, seconds: float) -> None:
    clock = worker.clock
    ahead = int(seconds * 1000) + TIMEOUT_GRACE_MS + 1
    worker.clock = lambda: clock() + ahead


def test_a_heartbeat_ends_an_attempt_that_exceeded_its_time_limit(runner: JobRunner) -> None:
    start_tasks(runner, 1, timeoutSeconds=30, failedRetries=1, failedInterval=0)
    [held] = runner.take(1)
    advance_past_limit(runner, runner.worker, 30)
    assert runner.worker.beat([held]) == [held.task_id]
    task = runner.task("a", 0)
    assert (task["state"], task["failed"]) == ("READY", 1)
    assert [attempt["reason"] for attempt in task["attempts"]] == ["timed-out"]
    assert [each.status for each in runner.worker.report([held])] == ["stale-attempt"]
    assert [retried.attempt for retried in runner.take(1)] == [2]
    assert runner.worker.row.failed == 1


def make_visible(runner: JobRunner, *leases: Lease) -> None:
    receipts = [Receipt.decode(each.receipt) for each in leases]
    runner.mill.queues.hide([(receipt.message, 0) for receipt in receipts if receipt])


def test_a_task_of_a_lost_worker_counts_as_lost_even_after_its_time_limit(runner: JobRunner) -> None:
    start_tasks(runner, 2, timeoutSeconds=5, failedRetries=0)
    first, second = runner.take(2)
    other = ManualWorker(runner.mill, "other")
    other.clock = runner.worker.clock
    advance_past_limit(runner, other, 40)
    make_visible(runner, first, second)
    assert [each.attempt for each in other.take()] == []  # the lease has not expired
    advance_past_limit(runner, other, 60)
    make_visible(runner, first, second)
    retried = other.take()
    assert {each.attempt for each in retried} == {2}
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
    progress = TaskProgress(percent=1, message="\u6f22" * 200)
    work = [
        HeldTask(task_id=each.task_id, attempt=each.attempt, run=each.run, progress=progress) for each in held
    ]
    worker = runner.worker.row
    result = registry.heartbeat(
        runner.mill, worker.id, worker.session, work, offline=False, now=runner.worker.clock()
    )
    assert len(result.worker.work) == 60
    assert len(json.dumps(result.worker.progress)) <= registry.MAX_PROGRESS_BYTES


def test_a_heartbeat_clears_followed_tasks_that_are_no_longer_held(runner: JobRunner) -> None:
    start_tasks(runner, 1)
    me = register(runner)
    tasks = lease(runner, me)
    runner.cloud.http("GET", "/v1/jobs/orders/t1/steps/a/tasks/0/logs")
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
    signed = task["receipt"]
    given = verified(signed, task["taskId"], me["id"], runner.mill.settings.token_key)
    receipt = Receipt.decode(given or "")
    assert receipt is not None
    runner.mill.queues.hide([(receipt.message, 0)])
    assert [each.attempt for each in other.take()] == [2]
    row = runner.mill.workers.get(me["id"])
    assert row is not None
    assert row.work == set()


def test_a_worker_runs_no_more_tasks_than_it_has_slots(runner: JobRunner) -> None:
    """A worker leases short tasks ahead; those wait for a slot and are not its current work."""
    start_tasks(runner, 5)
    me = register(runner, slots=2)
    held = lease(runner, me, 3)
    ids = [task["taskId"] for task in held]
    assert len(read_worker(runner, me)["currentWork"]) == 2
    work = [{"taskId": task["taskId"], "attempt": 1, "waiting": task is held[0]} for task in held]
    beat = {"session": me["session"], "work": work}
    assert runner.cloud.http("POST", f"/v1/workers/{me['id']}:heartbeat", beat).status == 200
    lease(runner, me)
    now = read_worker(runner, me)
    assert now["currentWork"] == sorted(ids[1:])
    assert now["remainTasks"] == 5
    report(runner, me, held[1:])
    assert len(read_worker(runner, me)["currentWork"]) == 2


def test_a_worker_shows_its_registered_address_and_its_source_address(runner: JobRunner) -> None:
    given = register(runner, "given", ip="10.1.2.3", port=8001, host="h")
    assert (given["ip"], given["sourceIp"], given["port"], given["host"]) == (
        "10.1.2.3",
        "127.0.0.1",
        8001,
        "h",
    )
    silent = register(runner, "silent")
    assert (silent["ip"], silent["sourceIp"], silent["port"]) == ("127.0.0.1", "127.0.0.1", 0)
    refused = runner.cloud.http("POST", "/v1/workers", {"name": "w", "groups": ["default"], "ip": "10.1"})
    assert (refused.status, refused.json["faults"][0]["pointer"]) == (422, "/ip")


def test_the_address_of_a_worker_is_that_of_its_last_request(runner: JobRunner) -> None:
    me = register(runner)
    held: list[HeldTask] = []
    registry.heartbeat(
        runner.mill,
        me["id"],
        me["session"],
        held,
        offline=False,
        now=runner.worker.clock(),
        source_ip="203.0.113.9",
    )
    assert read_worker(runner, me)["sourceIp"] == "203.0.113.9"


def test_the_serve_time_of_a_worker_grows_until_it_leaves(runner: JobRunner) -> None:
    me = register(runner)
    row = registry.read(runner.mill, me["id"])
    later = row.create_time + 50_000
    assert worker_view(runner.mill, row, later).serve_time == 50
    left = row.evolve(offline=True, seen=row.create_time + 7_000)
    assert worker_view(runner.mill, left, later).serve_time == 7
    lost = row.evolve(seen=row.create_time + 9_000)
    assert worker_view(runner.mill, lost, row.create_time + 900_000).serve_time == 9


def test_a_binding_has_the_time_at_which_the_worker_joined_the_group(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/reports", {})
    first = register(runner)["bindings"]
    second = register(runner, groups=["reports", "default"])["bindings"]
    assert [each["group"] for each in first] == ["default"]
    times = {each["group"]: each for each in second}
    assert times["default"]["createTime"] == first[0]["createTime"] < times["default"]["updateTime"]
    assert times["reports"]["createTime"] == times["reports"]["updateTime"] > first[0]["createTime"]
    third = register(runner, groups=["reports"])["bindings"]
    assert [(each["group"], each["createTime"]) for each in third] == [
        ("reports", times["reports"]["createTime"])
    ]


def test_a_binding_of_a_type_has_the_time_at_which_it_was_bound(runner: JobRunner) -> None:
    def save(*types: str) -> dict[str, Any]:
        answer = runner.cloud.http("PUT", "/v1/groups/reports", {"types": list(types)})
        assert answer.status in (200, 201)
        return {each["type"]: (each["createTime"], each["updateTime"]) for each in answer.json["bindings"]}

    first, second = save("hive"), save("java", "hive")
    assert second["hive"][0] == first["hive"][0] < second["hive"][1]
    assert second["java"][0] == second["java"][1] > first["hive"][0]
    group = runner.cloud.http("GET", "/v1/groups/reports").json
    assert runner.cloud.http("PUT", "/v1/groups/reports", group).status == 200
    assert set(save()) == set()
