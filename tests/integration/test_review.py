"""Interleavings that a reviewer found: each once broke something, none may again."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from shardmill.engine.groups.matching import Taker
from shardmill.engine.jobs import plan
from shardmill.engine.running import release
from shardmill.engine.tasks import completion
from shardmill.engine.tasks.interruption import hand_back
from shardmill.engine.tasks.lease import lease as lease_messages
from shardmill.model.states import JobState
from shardmill.model.worker import HandedBack
from support.aws_rules.faults import Faults
from support.fakes.lambda_server import FunctionError
from support.scenarios.job_runner import JobRunner, fail_shards
from support.scenarios.manual_worker import ManualWorker


def test_releasing_twice_costs_no_more_than_once(runner: JobRunner, faults: Faults) -> None:
    """Layers of four steps, each depending on all of the layer before: a repeat must not go every path."""
    layers: list[dict[str, Any]] = [{"stepName": "root"}]
    before = ["root"]
    for depth in range(4):
        names = [f"s{depth}_{n}" for n in range(4)]
        layers += [{"stepName": name, "dependentSteps": before} for name in names]
        before = names
    runner.define(*layers)
    runner.submit()
    job = runner.run(fail_shards(0))
    assert job["state"] == "FAILED"
    row = runner.mill.jobs.find("play", "t1")
    assert row is not None
    faults.meter.reset()
    running = row.evolve(state=JobState.RUNNING)
    release.release_dependents(runner.mill, running, runner.row(0), runner.worker.clock())
    assert faults.meter.total_calls < 100


def test_a_slow_twin_of_plan_does_not_wake_an_ended_job(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    job = runner.run()
    moved = runner.mill.jobs.move(
        job["id"], 1, JobState.QUEUED, sources=(JobState.INIT, JobState.WAITING), now=1, due=None
    )
    assert moved is None
    assert plan.plan(runner.mill, job["id"], 1, runner.worker.clock()) is False
    assert runner.job()["state"] == "SUCCESS"


def test_a_failed_job_does_not_become_a_success(runner: JobRunner) -> None:
    from shardmill.engine.running.finish import end_job

    runner.define({"stepName": "a"})
    runner.submit()
    runner.run(fail_shards(0))
    row = runner.mill.jobs.find("play", "t1")
    assert row is not None
    runner.mill.jobs.move_step(runner.row(0), runner.row(0).state, now=1)
    end_job(runner.mill, row, runner.worker.clock())
    assert runner.job()["state"] == "FAILED"


def test_a_step_whose_execution_died_before_it_opened_fails(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "phase": 1})
    faults.fail("lambda", "Invoke", when=lambda call: b'"open"' in _payload(call.params), times=10**6)
    runner.submit()
    runner.cloud.run_until(lambda: runner.cloud.executions("step", "RUNNING"))
    [step] = runner.cloud.executions("step", "RUNNING")
    runner.cloud.clients.stepfunctions.stop_execution(executionArn=step["executionArn"])
    faults.relent()
    runner.tick(minutes=3)
    job = runner.run()
    assert (job["state"], runner.states()) == ("FAILED", {"a": "FAILED", "b": "SUCCESS"})


def _payload(params: dict[str, Any]) -> bytes:
    payload = params.get("Payload", b"")
    return payload if isinstance(payload, bytes) else str(payload).encode()


def test_deleting_a_stack_leaves_the_queues_of_its_namesakes(runner: JobRunner) -> None:
    stack = runner.mill.settings.stack
    other = runner.mill.queues.make_lanes(f"{stack}-prod", "default", 1, 60)
    mine = set(runner.mill.queues.of_stack(stack))
    assert len(mine) == 3
    assert not mine & set(other)


@pytest.mark.parametrize("prog", ["", " ", "ok"])
def test_a_task_that_cannot_be_made_never_becomes_a_job(runner: JobRunner, prog: str) -> None:
    runner.define({"stepName": "a", "command": {"name": "{{ params.prog }}"}}, params={"prog": "x"})
    answer = runner.cloud.http(
        "POST", "/v1/jobs", {"jobName": "play", "trigger": "t", "params": {"prog": prog}}
    )
    assert answer.status == (422 if prog == "" else 202), answer.json


def test_a_resend_that_broke_off_is_finished_though_the_lane_is_busy(
    runner: JobRunner, faults: Faults
) -> None:
    runner.define({"stepName": "a", "sharding": 3})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    group = runner.mill.groups.get("default")
    assert group is not None
    for queue in group.queues:
        runner.cloud.clients.sqs.purge_queue(QueueUrl=queue)
    fault = faults.fail("sqs", "SendMessageBatch", how="before")
    runner.tick(minutes=3)
    assert fault.hits == 1
    strange = '["00000000-0000-4000-8000-000000000000",1,0,1,0]'
    runner.cloud.clients.sqs.send_message(QueueUrl=group.queues[1], MessageBody=strange, DelaySeconds=600)
    runner.tick(minutes=5)
    assert runner.run()["state"] == "SUCCESS"


def test_a_finished_block_whose_message_was_lost_is_closed_by_the_tick(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    held = runner.take(1)
    runner.cloud.run_until(lambda: runner.row(0).token)
    with monkeypatch.context() as patch:
        patch.setattr(completion, "after_end", _die)
        with pytest.raises(InterruptedError):
            runner.worker.report(held)
    for queue in runner.mill.queues.of_stack(runner.mill.settings.stack):
        runner.cloud.clients.sqs.purge_queue(QueueUrl=queue)
    runner.tick(minutes=3)
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS")


def _die(*_: object) -> None:
    raise InterruptedError


def test_a_lambda_group_keeps_a_lease_as_long_as_a_function_runs(runner: JobRunner) -> None:
    http = runner.cloud.http
    assert http("PUT", "/v1/groups/l2", {"kind": "lambda"}).json["leaseSeconds"] == 900
    assert http("PUT", "/v1/groups/lambda", {}).json["leaseSeconds"] == 900
    assert http("PUT", "/v1/groups/l2", {"leaseSeconds": 60}).status == 422
    http("PUT", "/v1/groups/p", {"leaseSeconds": 600, "types": ["hive"]})
    kept = http("PUT", "/v1/groups/p", {}).json
    assert (kept["leaseSeconds"], kept["types"]) == (600, ["hive"])


def test_a_lease_that_the_sdk_wrote_twice_is_ours(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a", "sharding": 3})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    messages = runner.worker.receive()
    faults.fail("dynamodb", "UpdateItem", how="repeat")
    leases = lease_messages(runner.mill, Taker.of(runner.worker.row), messages, runner.worker.clock())
    assert [lease.attempt for lease in leases] == [1, 1, 1]
    runner.worker.report(leases)
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS")


def test_leases_survive_a_throttled_delete(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a", "sharding": 3})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    group = runner.mill.groups.get("default")
    assert group is not None
    strange = '["00000000-0000-4000-8000-000000000000",1,0,1,0]'
    runner.cloud.clients.sqs.send_message(QueueUrl=group.queues[1], MessageBody=strange)
    fault = faults.fail("sqs", "DeleteMessageBatch", how="throttle")
    leases = runner.worker.take()
    assert (fault.hits, len(leases)) == (1, 3)


def test_a_root_that_does_not_start_at_once_is_started_by_the_tick(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b"})
    faults.fail("stepfunctions", "StartExecution", nth=3, how="throttle")
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    runner.tick(minutes=2)
    assert runner.run()["state"] == "SUCCESS"


@pytest.mark.parametrize(
    "entry", ["", "Z1", "Rx", "R1|1", "R1||w.1|-1", "R1||w.1|zz|-5", 7, None, ["R1"], "R-1||w.1|1"]
)
def test_forged_receipts_change_nothing(runner: JobRunner, entry: Any) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    [held] = runner.take(1)
    receipt = json.dumps([1, "q", "h", entry])
    result = {"taskId": held.task_id, "attempt": 9, "outcome": "success", "receipt": receipt}
    for path, body in (
        ("/v1/work:report", {"workerId": runner.worker.row.id, "results": [result]}),
        (
            "/v1/work:release",
            {
                "workerId": runner.worker.row.id,
                "tasks": [{k: result[k] for k in ("taskId", "attempt", "receipt")}],
            },
        ),
    ):
        answer = runner.cloud.http("POST", path, body)
        assert answer.status in (200, 409), answer.json
    assert runner.task("a", 0)["state"] == "RUNNING"


def test_the_same_result_twice_in_one_report_counts_once(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    held = runner.take(1)
    reported = runner.worker.report([*held, *held], "failed-permanent", stderr="boom")
    assert {item.status for item in reported} <= {"ok", "already"}
    assert runner.task("a", 0)["failed"] == 1


def test_a_step_whose_group_was_deleted_fails_instead_of_hanging(runner: JobRunner) -> None:
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


def test_a_step_that_is_cut_off_counts_its_tasks_truthfully(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 12})
    runner.submit()
    runner.worker.report(runner.take(5))
    runner.cloud.run_until(lambda: runner.row(0).token)
    [step] = runner.cloud.executions("step")
    runner.cloud.clients.stepfunctions.stop_execution(executionArn=step["executionArn"])
    runner.cloud.settle()
    assert runner.run()["steps"][0]["counts"] == {"SUCCESS": 5, "KILLED": 7}


def test_a_job_with_many_open_steps_is_read_in_a_few_calls(runner: JobRunner, faults: Faults) -> None:
    runner.define(*[{"stepName": f"s{n}"} for n in range(20)])
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and all(runner.row(n).token for n in range(20)), 30)
    faults.meter.reset()
    runner.job()
    assert faults.meter.total_calls <= 5


@pytest.mark.parametrize("where", ["content", "params"])
def test_what_does_not_fit_into_a_row_never_becomes_a_job(runner: JobRunner, where: str) -> None:
    big = "x" * 400_000
    step = {"stepName": "a", "type": "shell", "content": big if where == "content" else "true"}
    runner.define(step)
    params = {"p": big} if where == "params" else {}
    answer = runner.cloud.http("POST", "/v1/jobs", {"jobName": "play", "trigger": "t", "params": params})
    assert answer.status == 422
    assert {fault["code"] for fault in answer.json["faults"]} <= {"step-too-large", "job-too-large"}


def test_throttled_writes_are_errors_that_say_so(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    faults.fail("dynamodb", "UpdateItem", how="throttle")
    with pytest.raises(ClientError, match="throughput"):
        runner.worker.take()


def test_a_task_handed_back_to_a_stopping_step_ends_at_once(runner: JobRunner) -> None:
    runner.define({"stepName": "f", "sharding": 3, "failFast": True})
    runner.submit()
    held = runner.take(3)
    runner.cloud.run_until(lambda: runner.row(0).token)
    runner.worker.report(held[:1], "failed-permanent")
    runner.cloud.run_until(lambda: runner.row(0).swept)
    given = [HandedBack(task_id=h.task_id, attempt=h.attempt, receipt=h.receipt) for h in held[1:]]
    hand_back(runner.mill, runner.worker.row.id, given, runner.worker.clock())
    runner.cloud.run_until(lambda: runner.job()["state"] == "FAILED")
    assert runner.job()["steps"][0]["counts"] == {"FAILED": 1, "KILLED": 2}


@pytest.mark.parametrize("kind", ["APPLICATION/JSON", "application/json; charset=utf-8"])
def test_media_types_have_no_case(runner: JobRunner, kind: str) -> None:
    body = json.dumps({"steps": [{"stepName": "a"}]}).encode()
    assert runner.cloud.http("PUT", "/v1/definitions/x", body, headers={"Content-Type": kind}).status == 201


@pytest.mark.parametrize("path", ["/v1/definitions/", "/v1/jobs/x/", "/v1/groups/", "/v1/workers/"])
def test_endless_names_are_not_found(runner: JobRunner, path: str) -> None:
    answer = runner.cloud.http("GET", path + "x" * 4000)
    assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.parametrize("event", [5, None, [], {}, "x"])
def test_the_submit_function_says_what_is_wrong(runner: JobRunner, event: Any) -> None:
    with pytest.raises(FunctionError, match="not valid: /"):
        runner.cloud.invoke("submit", event)
