"""Matching of tasks to workers: bounces, skip lists, consecutive failures, unmatched tasks, bound types."""

from __future__ import annotations

from typing import Any

import pytest

from shardmill.engine.groups import matching
from shardmill.engine.tasks import bounce, messages
from shardmill.engine.workers import registry
from shardmill.model.actor import Actor
from shardmill.model.worker import Registration
from shardmill.store.rows import WorkerRow
from support.aws_rules.faults import Faults
from support.scenarios.job_runner import JobRunner
from support.scenarios.manual_worker import ManualWorker

OPERATOR = Actor("operator")
COMMAND = {"stepName": "a", "command": {"name": "/opt/bin/blast", "args": "x"}}


def wait_until_open(runner: JobRunner) -> None:
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)


def row_of(runner: JobRunner, worker: ManualWorker) -> WorkerRow:
    return registry.read(runner.mill, worker.row.id)


@pytest.mark.parametrize(
    ("apps", "program", "expected"),
    [
        (["*"], "anything", True),
        (["blast"], "blast", True),
        (["blast"], "/opt/bin/blast", True),
        (["/opt/bin/blast"], "/opt/bin/blast", True),
        (["blast"], "blaster", False),
        (["shell"], "python", False),
        ([], "noop", True),
    ],
)
def test_a_worker_runs_programs_that_match_its_apps(apps: list[str], program: str, expected: bool) -> None:
    assert matching.can_run(apps, program) is expected


def test_the_bounce_delay_grows_up_to_one_minute() -> None:
    assert [bounce.delay(n) for n in (1, 2, 3, 6, 7, 500)] == [1, 2, 4, 32, 60, 60]


def test_a_worker_that_cannot_run_a_task_returns_it_without_an_attempt(runner: JobRunner) -> None:
    runner.define(COMMAND)
    runner.submit()
    wait_until_open(runner)
    wrong = ManualWorker(runner.mill, "wrong", apps=["fasta"])
    assert wrong.take() == []
    runner.cloud.run_until(
        lambda: runner.leased, meanwhile=lambda: runner.leased.extend(runner.worker.take())
    )
    [held] = runner.leased
    assert held.attempt == 1
    runner.worker.report([held])
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS")
    assert [attempt["attempt"] for attempt in runner.task("a", 0)["attempts"]] == [1]


def test_a_task_without_a_capable_worker_is_reported_and_runs_when_one_registers(runner: JobRunner) -> None:
    registry.suspend(runner.mill, runner.worker.row.id, OPERATOR, "")
    wrong = ManualWorker(runner.mill, "wrong", apps=["fasta"])
    runner.define(COMMAND)
    runner.submit()
    wait_until_open(runner)
    runner.mill.forget_workers(["default"])
    assert wrong.take() == []
    [sentence] = runner.job()["waitingFor"]
    assert "no live worker of group default runs '/opt/bin/blast'" in sentence
    able = ManualWorker(runner.mill, "able", apps=["blast"])
    runner.cloud.run_until(lambda: runner.job()["waitingFor"] == [])
    [held] = able.take()  # the bounced message is still hidden; registration sent a new one
    able.report([held])
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS")


def test_a_resumed_worker_gets_waiting_tasks_at_once(runner: JobRunner) -> None:
    runner.define(COMMAND)
    runner.submit()
    wait_until_open(runner)
    registry.suspend(runner.mill, runner.worker.row.id, OPERATOR, "lunch")
    wrong = ManualWorker(runner.mill, "wrong", apps=["fasta"])
    assert wrong.take() == []
    registry.resume(runner.mill, runner.worker.row.id, runner.worker.clock())
    assert len(runner.worker.take()) == 1


def test_a_job_waiting_for_a_group_without_workers_names_the_group(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/empty", {})
    runner.define({"stepName": "a"}, workerGroup="empty")
    runner.submit()
    wait_until_open(runner)
    assert runner.job()["waitingFor"] == ["step a: group empty has no live worker"]


def test_a_failed_task_is_retried_by_another_worker(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, failedRetries=2, failedInterval=0)
    runner.submit()
    other = ManualWorker(runner.mill, "other")
    runner.worker.report(runner.take(1), "failed")
    assert row_of(runner, runner.worker).skip == {runner.leased[0].task_id}
    assert runner.worker.take() == []  # it bounces while another worker is live
    retried: list[Any] = []
    runner.cloud.run_until(lambda: retried, meanwhile=lambda: retried.extend(other.take()))
    assert retried[0].attempt == 2


def test_a_failed_task_is_retried_by_the_same_worker_if_there_is_no_other(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, failedRetries=1, failedInterval=0)
    runner.submit()
    runner.worker.report(runner.take(1), "failed")
    assert [held.attempt for held in runner.take(1)] == [2]


def test_five_consecutive_failures_of_five_steps_suspend_a_worker_with_a_note(runner: JobRunner) -> None:
    bad = [{"stepName": f"bad{number}"} for number in range(9)]
    runner.define(*bad, {"stepName": "good"}, failedRetries=0)
    runner.submit()
    held = sorted(runner.take(10), key=lambda lease: lease.step_name)
    runner.worker.report(held[:4], "failed")
    runner.worker.report(held[9:], "success")
    runner.worker.report(held[4:8], "failed")
    assert row_of(runner, runner.worker).takes_tasks
    runner.worker.report(held[8:9], "failed")
    worker = runner.cloud.http("GET", f"/v1/workers/{runner.worker.row.id}").json
    assert worker["activity"] == "suspended"
    assert "5 failures in a row" in worker["notes"]
    assert (worker["totalCompleted"], worker["totalFailed"], len(worker["skipWork"])) == (1, 9, 9)
    runner.define({"stepName": "a"}, name="later")
    runner.submit(name="later")
    runner.cloud.run_until(lambda: runner.job(name="later")["waitingFor"])
    assert "manual" in runner.job(name="later")["waitingFor"][0]
    lease_request = {"workerId": runner.worker.row.id, "max": 1}
    rejected = runner.cloud.http("POST", "/v1/work:lease", lease_request)
    assert (rejected.status, rejected.json["code"]) == (409, "worker-suspended")
    response = runner.cloud.http("POST", f"/v1/workers/{runner.worker.row.id}:resume")
    assert (response.status, response.json["activity"], response.json["notes"]) == (200, "idle", "")
    assert len(runner.cloud.http("POST", "/v1/work:lease", lease_request).json["items"]) == 1


def test_rejected_tasks_do_not_count_as_failures_of_the_worker(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 8}, rejectInterval=0)
    runner.submit()
    runner.worker.report(runner.take(8), "rejected")
    assert row_of(runner, runner.worker).failures == 0
    assert row_of(runner, runner.worker).takes_tasks


def test_a_restart_clears_a_suspension_by_failures_but_not_one_by_an_operator(runner: JobRunner) -> None:
    runner.mill.workers.change(runner.worker.row.id, tired="too many failures", failures=5, failing={"x"})
    assert not row_of(runner, runner.worker).takes_tasks
    restarted = ManualWorker(runner.mill, "manual").row
    assert (restarted.takes_tasks, restarted.failures, restarted.failing) == (True, 0, set())
    registry.suspend(runner.mill, runner.worker.row.id, OPERATOR, "broken disk")
    restarted = ManualWorker(runner.mill, "manual").row
    assert not restarted.takes_tasks
    assert restarted.notes == "suspended by operator: broken disk"


def test_a_rejected_task_fails_with_the_reasons_after_its_retries(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, rejectRetries=1, rejectInterval=0)
    runner.submit()
    for _ in range(2):
        runner.worker.report(runner.take(1), "rejected", reason="load 9 is above --max-load 4")
    runner.cloud.run_until(lambda: runner.job()["state"] == "FAILED")
    attempts = runner.task("a", 0)["attempts"]
    assert [(each["reason"], each["message"]) for each in attempts] == [
        ("rejected", "load 9 is above --max-load 4")
    ] * 2
    assert "load 9 is above" in runner.job()["notes"]


def test_a_type_is_bound_to_a_group(runner: JobRunner) -> None:
    runner.cloud.http("PUT", "/v1/groups/pythons", {"types": ["python"]})
    runner.cloud.http("PUT", "/v1/groups/own", {})
    runner.define(
        {"stepName": "bound", "type": "python", "content": "m:f"},
        {"stepName": "named", "type": "python", "content": "m:f", "workerGroup": "own"},
        {"stepName": "other", "type": "shell", "content": "true"},
        workerGroup="own",
    )
    runner.submit()
    groups = {step["stepName"]: step["workerGroups"] for step in runner.job()["steps"]}
    assert groups == {"bound": ["pythons"], "named": ["own"], "other": ["own"]}


def test_tasks_of_a_step_with_several_groups_run_in_the_group_with_live_workers(runner: JobRunner) -> None:
    for name in ("dead", "alive"):
        runner.cloud.http("PUT", f"/v1/groups/{name}", {})
    alive = ManualWorker(runner.mill, "alive", ["alive"])
    runner.define({"stepName": "a", "sharding": 6}, workerGroups=["dead", "alive"])
    runner.submit()
    wait_until_open(runner)
    taken: list[Any] = []
    runner.cloud.run_until(lambda: len(taken) == 6, meanwhile=lambda: taken.extend(alive.take()))


def test_tasks_queued_in_a_group_without_live_workers_move_to_another_group(runner: JobRunner) -> None:
    for name in ("one", "two"):
        runner.cloud.http("PUT", f"/v1/groups/{name}", {})
    one, two = (ManualWorker(runner.mill, name, [name]) for name in ("one", "two"))
    runner.define({"stepName": "a", "sharding": 6}, workerGroups=["one", "two"])
    runner.submit()
    wait_until_open(runner)
    two.report(two.take())
    one.beat([], offline=True)
    clock = two.clock
    two.clock = lambda: clock() + 180_000
    two.beat([])
    runner.tick(minutes=3)
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS", meanwhile=lambda: two.work())


@pytest.mark.parametrize("after_note", [False, True])
def test_a_worker_that_registers_while_a_task_is_marked_unmatched_gets_the_task(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch, after_note: bool
) -> None:
    """The new worker registers just before or just after the task is marked unmatched."""
    registry.suspend(runner.mill, runner.worker.row.id, OPERATOR, "")
    wrong = ManualWorker(runner.mill, "wrong", apps=["fasta"])
    runner.define(COMMAND)
    runner.submit()
    wait_until_open(runner)
    registered: list[ManualWorker] = []
    note = runner.mill.groups.note_unmatched

    def register_and_note(*given: Any, **named: Any) -> None:
        if after_note:
            note(*given, **named)
        registered.append(ManualWorker(runner.mill, "able", apps=["blast"]))
        if not after_note:
            note(*given, **named)

    monkeypatch.setattr(runner.mill.groups, "note_unmatched", register_and_note)
    assert wrong.take() == []
    [able] = registered
    held: list[Any] = []
    runner.cloud.run_until(lambda: held, meanwhile=lambda: held.extend(able.take()))
    assert list(runner.mill.groups.unmatched("default")) == []


def test_a_worker_has_one_membership_per_group_until_it_goes_offline(runner: JobRunner) -> None:
    registration = Registration(name="twice", groups=["default", "default"])
    for _ in range(2):
        row = registry.register(runner.mill, registration, runner.worker.clock())
    members = [worker.name for worker in runner.mill.workers.members("default")[0]]
    assert sorted(members) == ["manual", "twice"]
    registry.heartbeat(runner.mill, row.id, row.session, [], offline=True, now=runner.worker.clock())
    assert [worker.name for worker in runner.mill.workers.members("default")[0]] == ["manual"]


@pytest.mark.parametrize("need", ["common", "/usr/bin/rare", "noop"])
def test_finding_a_capable_worker_costs_the_same_however_many_workers_a_group_has(
    runner: JobRunner, faults: Faults, need: str
) -> None:
    now, costs = runner.worker.clock(), []
    group = runner.mill.groups.get("default")
    assert group is not None
    runner.mill.workers.delete(runner.worker.row)
    registry.register(runner.mill, Registration(name="rare", groups=["default"], apps=["rare"]), now)
    for many in (3, 40):
        for number in range(many):
            registration = Registration(name=f"{many}-{number}", groups=["default"], apps=["common"])
            registry.register(runner.mill, registration, now)
        faults.meter.reset()
        assert matching.has_capable_worker(runner.mill, group, need, now)
        costs.append(faults.meter.total_calls)
    assert costs[0] == costs[1]
    assert not matching.has_capable_worker(runner.mill, group, "unknown", now)


def test_all_workers_of_a_large_group_are_found(runner: JobRunner) -> None:
    now = runner.worker.clock()
    names = {f"w{number}" for number in range(60)}
    for name in names:
        registry.register(runner.mill, Registration(name=name, groups=["default"]), now)
    found = [worker.name for worker in matching.live_workers(runner.mill, ["default"], now)]
    assert sorted(found) == sorted({*names, "manual"})


def test_a_worker_that_registers_with_other_programs_leaves_the_workers_of_the_earlier_ones(
    runner: JobRunner,
) -> None:
    for apps in (["one"], ["two"]):
        registration = Registration(name="w", groups=["default"], apps=apps)
        registry.register(runner.mill, registration, runner.worker.clock())
    found = [runner.mill.workers.members("default", app)[0] for app in ("one", "two")]
    assert [[worker.name for worker in workers] for workers in found] == [[], ["w"]]


def two_groups(runner: JobRunner) -> tuple[ManualWorker, ManualWorker]:
    for name in ("one", "two"):
        runner.cloud.http("PUT", f"/v1/groups/{name}", {})
    return ManualWorker(runner.mill, "one", ["one"]), ManualWorker(runner.mill, "two", ["two"], apps=["*"])


def test_a_task_that_failed_in_one_group_moves_to_the_other(runner: JobRunner) -> None:
    one, two = two_groups(runner)
    runner.define({"stepName": "a"}, workerGroups=["one", "two"], failedRetries=3, failedInterval=0)
    runner.submit()
    wait_until_open(runner)
    first: list[Any] = []
    runner.cloud.run_until(lambda: first, meanwhile=lambda: first.extend(one.take() or two.take()))
    holder = one if runner.task("a", 0)["worker"] == one.row.id else two
    other = two if holder is one else one
    holder.report(first, "failed")
    retried: list[Any] = []

    def work() -> None:
        assert holder.take() == []
        retried.extend(other.take())

    runner.cloud.run_until(lambda: retried, meanwhile=work)
    assert retried[0].attempt == 2


def test_a_task_that_one_group_cannot_run_moves_to_the_other(runner: JobRunner) -> None:
    one, two = two_groups(runner)
    one = ManualWorker(runner.mill, "one", ["one"], apps=["fasta"])
    runner.define(COMMAND, workerGroups=["one", "two"])
    runner.submit()
    wait_until_open(runner)
    step = runner.row(0)
    group = runner.mill.groups.get("one")
    assert group is not None
    messages.send_to(runner.mill, [messages.Route(group.queues[1])], (step.job_id, 1, 0), step.gen, [0])
    assert one.take() == []
    assert len(two.take()) == 1


def test_a_rejected_task_goes_to_another_worker(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, rejectInterval=0)
    runner.submit()
    other = ManualWorker(runner.mill, "other")
    runner.worker.report(runner.take(1), "rejected")
    assert runner.worker.take() == []
    retried: list[Any] = []
    runner.cloud.run_until(lambda: retried, meanwhile=lambda: retried.extend(other.take()))
