"""Whole workers on moto, directly on AWS and over HTTP."""

import threading
from typing import Any

import pytest

from shardmill.aws.settings import Settings
from shardmill.engine.groups.totals import FAILURES_IN_A_ROW
from shardmill.engine.workers.registry import worker_id
from shardmill.model.worker import Lease, Registration
from shardmill.worker.run import run_worker
from shardmill.worker.transport.base import WORKER_SUSPENDED, Refused, Transport
from shardmill.worker.transport.direct import DirectTransport
from support.aws_rules.call import Call
from support.aws_rules.faults import Faults, How
from support.fakes.leases import failed_result
from support.moto.cloud import Cloud
from support.scenarios.job_runner import JobRunner
from support.scenarios.worker_threads import connect, wait_for_end, worker_thread


@pytest.fixture(params=["direct", "http", "sqs"])
def transport(cloud: Cloud, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Transport:
    """Directly on AWS; over HTTP, where the API waits or the worker at SQS."""
    if request.param == "sqs":
        monkeypatch.setattr("shardmill.worker.transport.http.WAIT_SECONDS", 1)
    return connect(cloud, "direct" if request.param == "direct" else "http")


def test_a_job_with_every_step_type_succeeds(runner: JobRunner, transport: Transport) -> None:
    runner.define(
        {"stepName": "nothing", "sharding": 15, "type": "noop"},
        {
            "stepName": "say",
            "sharding": 2,
            "type": "shell",
            "content": "echo shard {{ shard.index }} of $SHARDMILL_SHARD_TOTAL",
            "dependentSteps": ["nothing"],
        },
        {"stepName": "print", "command": {"name": "printf", "args": "'%s' 'a b'"}},
        {"stepName": "call", "type": "python", "content": "platform:python_version"},
    )
    runner.submit()
    with worker_thread(transport):
        job = wait_for_end(runner)
    assert job["state"] == "SUCCESS", job
    assert [runner.task("say", n)["stdout"] for n in range(2)] == ["shard 0 of 2\n", "shard 1 of 2\n"]
    assert runner.task("print", 0)["stdout"] == "a b"


@pytest.mark.parametrize("group", ["default", "lambda"])
def test_workers_may_invoke_functions_with_the_prefix_for_tasks(runner: JobRunner, group: str) -> None:
    name = f"{runner.cloud.stack.name}-task-add"
    handlers: dict[str, Any] = {name: lambda event, context: event["payload"]["a"] + event["attempt"]}
    runner.cloud.functions.handlers = {**runner.cloud.functions.handlers, **handlers}
    content = {"function": name, "payload": {"a": 40}}
    runner.define({"stepName": "a", "type": "lambda", "content": content}, workerGroup=group)
    runner.submit()
    if group == "lambda":
        runner.cloud.run_until(runner.cloud.serve_lambda_queue)
        assert wait_for_end(runner)["state"] == "SUCCESS"
    else:
        with worker_thread(connect(runner.cloud, "direct")):
            assert wait_for_end(runner)["state"] == "SUCCESS"
    assert runner.task("a", 0)["stdout"] == "41"


def test_failures_are_retried_and_recorded(runner: JobRunner, transport: Transport) -> None:
    content = 'echo try $SHARDMILL_ATTEMPT; [ "$SHARDMILL_ATTEMPT" -ge 2 ] || exit 7'
    runner.define({"stepName": "a", "content": content, "failedRetries": 2, "failedInterval": 0})
    runner.submit()
    # otherwise the retry waits for this worker, which has not failed the task
    runner.mill.workers.delete(runner.worker.row)
    with worker_thread(transport):
        assert wait_for_end(runner)["state"] == "SUCCESS"
    task = runner.task("a", 0)
    assert (task["attempt"], task["failed"], task["stdout"]) == (2, 1, "try 2\n")
    attempts = [(each["exitCode"], each["reason"], each["message"]) for each in task["attempts"]]
    assert attempts == [(7, "failed", "exit code 7"), (0, None, None)]


def test_a_type_whose_program_is_missing_is_rejected_with_its_reason(
    runner: JobRunner, transport: Transport
) -> None:
    runner.define({"stepName": "a", "type": "hive", "content": "select 1", "rejectRetries": 0})
    runner.submit()
    with worker_thread(transport):
        assert wait_for_end(runner)["state"] == "FAILED"
    assert runner.task("a", 0)["attempts"][-1]["message"].startswith("this worker has no hive: ")


def test_long_output_is_stored_in_chunks_and_can_be_read(runner: JobRunner, transport: Transport) -> None:
    content = "head -c 2500000 /dev/zero | tr '\\0' a; echo end"
    runner.define({"stepName": "a", "content": content})
    runner.submit()
    with worker_thread(transport):
        assert wait_for_end(runner)["state"] == "SUCCESS"
    assert runner.task("a", 0)["stdout"].endswith("aaa" + "end\n")
    listed = runner.cloud.clients.s3.list_objects_v2(Bucket=runner.cloud.bucket, Prefix="logs/")["Contents"]
    row = runner.row(0)
    prefix = f"logs/{row.job_id}/1/0/0/1/stdout/"
    assert [(one["Key"], one["Size"]) for one in listed] == [
        (f"{prefix}000000", 1_000_000),
        (f"{prefix}000001", 1_000_000),
        (f"{prefix}000002", 500_004),
    ]
    page = runner.cloud.http(
        "GET", "/v1/jobs/orders/t1/steps/a/tasks/0/logs?stream=stdout&offset=2499999"
    ).json
    assert page["text"] == "aend\n"


def test_a_stopped_worker_returns_its_tasks_at_once(runner: JobRunner, transport: Transport) -> None:
    content = "[ $SHARDMILL_ATTEMPT -ge 2 ] || sleep 60"
    runner.define({"stepName": "a", "content": content, "sharding": 2})
    runner.submit()
    with worker_thread(transport, grace_seconds=0.0):
        runner.cloud.run_until(lambda: runner.step("a").get("counts", {}).get("RUNNING") == 2, 10)
    assert runner.step("a")["counts"] == {"READY": 2}
    with worker_thread(DirectTransport(Settings.from_environment(runner.cloud.environment)), "next"):
        assert wait_for_end(runner)["state"] == "SUCCESS"
    assert [(runner.task("a", n)["attempt"], runner.task("a", n)["failed"]) for n in range(2)] == [(2, 0)] * 2
    statuses = {one["name"]: one["status"] for one in runner.cloud.http("GET", "/v1/workers").json["items"]}
    assert statuses["w"] == 0


def test_a_timeout_ends_the_attempt(runner: JobRunner, transport: Transport) -> None:
    runner.define({"stepName": "a", "content": "sleep 60", "timeoutSeconds": 1, "failedRetries": 0})
    runner.submit()
    with worker_thread(transport):
        assert wait_for_end(runner)["state"] == "FAILED"
    assert runner.task("a", 0)["reason"] == "timed-out"


@pytest.mark.parametrize("form", ["direct", "http"])
def test_a_missing_group_is_reported(cloud: Cloud, form: str) -> None:
    assert run_worker(["nowhere"], 1, connect(cloud, form), name="w") == 3


@pytest.mark.parametrize("form", ["direct", "http"])
def test_a_second_worker_with_the_same_name_stops_the_first(runner: JobRunner, form: str) -> None:
    first = connect(runner.cloud, form)
    codes: list[int] = []
    thread = threading.Thread(
        target=lambda: codes.append(
            run_worker(["default"], 1, first, name="w", grace_seconds=1.0, wait_seconds=1)
        )
    )
    runner.cloud.http("PUT", "/v1/groups/default", {"kind": "pull", "leaseSeconds": 10})
    runner.mill.recent_groups.discard("default")
    thread.start()
    runner.cloud.run_until(lambda: runner.cloud.http("GET", "/v1/workers").json["items"][1:])
    with worker_thread(connect(runner.cloud, "direct")):
        thread.join(10)
    assert codes == [1]


def test_a_lease_before_registration_is_rejected(cloud: Cloud) -> None:
    with pytest.raises(Refused):
        connect(cloud, "direct").lease(1, 0)


def test_a_worker_suspended_by_failures_gets_no_tasks_before_its_next_heartbeat(
    runner: JobRunner, transport: Transport
) -> None:
    alone = runner.cloud.http("PUT", "/v1/groups/alone", {})  # with no other worker to compare with
    assert alone.status == 201
    runner.define(
        *({"stepName": f"bad{number}", "content": "exit 1"} for number in range(FAILURES_IN_A_ROW)),
        failedRetries=0,
        workerGroup="alone",
    )
    runner.submit()
    transport.register(Registration(name="w", groups=["alone"]))
    leases: list[Lease] = []
    while len(leases) < FAILURES_IN_A_ROW:
        leases += transport.lease(FAILURES_IN_A_ROW - len(leases), 1)
    transport.report([failed_result(lease, "it does not work") for lease in leases])
    runner.submit("t2")  # a worker that waits at SQS is refused when it brings what it received
    runner.cloud.run_until(lambda: runner.job("t2")["steps"] and runner.row(0, "t2").token)
    with pytest.raises(Refused) as caught:
        transport.lease(1, 1)
    assert caught.value.code == WORKER_SUSPENDED
    assert f"suspended after {FAILURES_IN_A_ROW} failures in a row" in str(caught.value)
    assert transport.heartbeat([]).suspended
    runner.cloud.http("POST", f"/v1/workers/{worker_id('w')}:resume", {})
    assert not transport.heartbeat([]).suspended
    runner.submit("t2")
    runner.cloud.run_until(lambda: transport.lease(1, 1))


def test_an_output_of_the_maximum_size_is_accepted_in_any_encoding(
    runner: JobRunner, transport: Transport
) -> None:
    text = "\\u00e9" * 32_000
    content = f"""printf '"%s"' '{text}' > "$SHARDMILL_OUTPUT\""""
    runner.define({"stepName": "a", "content": content})
    runner.submit()
    with worker_thread(transport):
        assert wait_for_end(runner)["state"] == "SUCCESS"
    assert runner.task("a", 0)["output"] == "é" * 32_000


def test_a_job_succeeds_despite_unreliable_queues_and_failing_calls(
    runner: JobRunner, faults: Faults
) -> None:
    faults.unreliable_queues(seed=7)
    for operation in ("ReceiveMessage", "DeleteMessageBatch"):
        faults.fail("sqs", operation, nth=3, how="after", times=2)
        faults.fail("sqs", operation, nth=8, how="throttle", times=2)
    failures: list[tuple[int, How]] = [(4, "before"), (9, "after"), (14, "throttle")]
    for nth, how in failures:
        faults.fail("dynamodb", "UpdateItem", nth=nth, how=how, when=_updates_block)
    runner.define({"stepName": "a", "sharding": 60, "maxTaskCount": 25})
    runner.cloud.http("PUT", "/v1/groups/default", {"kind": "pull", "leaseSeconds": 10})
    runner.submit()
    with worker_thread(DirectTransport(Settings.from_environment(runner.cloud.environment))):
        job = wait_for_end(runner, timeout=45)
    assert job["state"] == "SUCCESS", job
    assert runner.step("a")["counts"] == {"SUCCESS": 60}


def _updates_block(call: Call) -> bool:
    return str(call.params["Key"]["sk"]["S"]).startswith("b")
