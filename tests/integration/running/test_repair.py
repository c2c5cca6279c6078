"""Recovery by the tick and the failed-execution rule after crashes and lost events."""

from contextlib import suppress
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from shardmill.engine.repair import end_failed_execution
from shardmill.engine.tasks import completion
from support.aws_rules.call import ProcessKilled
from support.aws_rules.faults import Faults
from support.fakes.lambda_server import FunctionError
from support.scenarios.job_runner import JobRunner


def test_the_tick_starts_a_job_whose_start_failed(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a"})
    fault = faults.fail("stepfunctions", "StartExecution", how="before")
    runner.submit()
    assert fault.hits
    assert runner.job()["state"] == "INIT"
    assert runner.tick(minutes=0)["looked"] == 0
    assert runner.tick(minutes=2)["looked"] == 1
    assert runner.run()["state"] == "SUCCESS"


def test_the_tick_does_not_check_ended_jobs(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    runner.run()
    runner.cloud.deliver_job_ends()
    assert runner.tick(minutes=10)["looked"] == 0


def test_the_tick_notifies_dependents_that_were_not_notified(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.define({"stepName": "a"}, name="child", dependencies=["orders"])
    runner.submit()
    runner.run()
    assert runner.tick(minutes=1)["looked"] == 0
    assert runner.tick(minutes=10)["looked"] == 1
    assert not runner.mill.jobs.find("orders", "t1").heirs_pending  # type: ignore[union-attr]
    assert len(runner.cloud.http("GET", "/v1/jobs?jobName=child").json["items"]) == 1


def test_the_tick_resends_lost_messages(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 30, "maxTaskCount": 8})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["state"] == "QUEUED" and runner.row(0).token)
    group = runner.mill.groups.get("default")
    assert group is not None
    runner.worker.report(runner.take(5))
    for queue in group.queues:
        runner.cloud.clients.sqs.purge_queue(QueueUrl=queue)
    assert runner.worker.take() == []
    runner.later(180)
    runner.worker.beat([])
    runner.tick(minutes=3)
    job = runner.run()
    assert job["state"] == "SUCCESS"
    assert job["steps"][0]["counts"] == {"SUCCESS": 30}
    assert runner.row(0).gen == 2


def test_the_tick_repeats_a_failed_send_task_success(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    runner.submit()
    held = runner.take(1)
    runner.cloud.run_until(lambda: runner.row(0).token)
    faults.fail("stepfunctions", "SendTaskSuccess", how="before", times=1)
    with pytest.raises(EndpointConnectionError):
        runner.worker.report(held)
    assert runner.task("a", 0)["state"] == "SUCCESS"
    assert runner.states()["a"] == "RUNNING"
    runner.tick(minutes=3)
    assert runner.run()["state"] == "SUCCESS"


def test_an_aborted_execution_fails_its_step_with_correct_counts(runner: JobRunner) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"}, {"stepName": "c", "phase": 1})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    [step] = runner.cloud.executions("step")
    runner.cloud.clients.stepfunctions.stop_execution(executionArn=step["executionArn"])
    assert runner.cloud.settle() == [step["executionArn"]]
    job = runner.run()
    assert job["state"] == "FAILED"
    assert runner.states() == {"a": "FAILED", "b": "SKIPPED", "c": "SUCCESS"}
    assert "ABORTED" in job["notes"]


def test_the_tick_finds_an_execution_whose_end_event_was_lost(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    [step] = runner.cloud.executions("step")
    runner.cloud.clients.stepfunctions.stop_execution(executionArn=step["executionArn"])
    runner.tick(minutes=11)
    assert runner.job()["state"] == "FAILED"


def test_a_job_that_cannot_be_planned_fails_with_a_note(runner: JobRunner) -> None:
    runner.define({"stepName": "a"})
    version = runner.mill.definitions.version("orders", 1)
    assert version is not None
    runner.cloud.clients.dynamodb.delete_item(
        TableName=runner.cloud.table, Key={"pk": {"S": "DEF#orders"}, "sk": {"S": "v00000001"}}
    )
    runner.submit()
    job = runner.run(timeout=60)
    assert job["state"] == "FAILED"
    assert "could not be planned" in job["notes"]


@pytest.mark.parametrize("end", ["caught", "timed out"])
def test_a_job_whose_steps_have_started_does_not_fail_with_its_plan(runner: JobRunner, end: str) -> None:
    runner.define({"stepName": "a", "sharding": 2})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["state"] == "QUEUED")
    job = runner.mill.jobs.find("orders", "t1")
    assert job is not None
    error = {"Error": "States.Timeout", "Cause": "the function ended after it had started the steps"}
    if end == "caught":
        runner.cloud.invoke("orchestrate", {"action": "fail", "jobId": job.id, "run": 1, "error": error})
    else:
        end_failed_execution(runner.mill, f"{job.id}-r1", "TIMED_OUT", runner.worker.clock())
    assert runner.job()["state"] == "QUEUED"
    assert runner.run()["state"] == "SUCCESS"


def test_the_tick_publishes_the_end_of_a_job_after_an_event_bus_outage(
    runner: JobRunner, faults: Faults
) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    faults.fail("events", "PutEvents", how="before", times=30)
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS", 30, meanwhile=runner.work)
    faults.clear_faults()
    runner.tick(minutes=2)
    details = [
        event["detail"]["state"] for event in runner.cloud.published() if event["source"] == "shardmill"
    ]
    assert details == ["SUCCESS"]
    runner.tick(minutes=4)
    assert runner.cloud.published() == []


def test_a_stopping_step_ends_if_a_worker_is_lost(runner: JobRunner) -> None:
    runner.define({"stepName": "f", "sharding": 20, "failFast": True, "maxTaskCount": 5})
    runner.submit()
    held = runner.take(5)
    runner.cloud.run_until(lambda: runner.row(0).token)
    runner.worker.report(held[:1], "failed-permanent")
    runner.cloud.run_until(lambda: runner.row(0).swept)
    runner.tick(minutes=5)
    runner.cloud.run_until(lambda: runner.job()["state"] == "FAILED")
    assert runner.job()["steps"][0]["counts"] == {"FAILED": 1, "KILLED": 19}


def test_concurrent_ticks_repair_a_job_once(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a"})
    faults.fail("stepfunctions", "StartExecution", how="before")
    runner.submit()
    [due] = runner.mill.watches.due(runner.worker.clock() + 120_000, limit=10)
    assert runner.mill.watches.postpone_job(due.job_id, seen=due.seen, due=due.seen + 1)
    assert not runner.mill.watches.postpone_job(due.job_id, seen=due.seen, due=due.seen + 2)


def test_a_job_succeeds_despite_random_throttling(runner: JobRunner, faults: Faults) -> None:
    runner.quick_group()
    runner.define(
        {"stepName": "a", "sharding": 25}, {"stepName": "b", "dependentStep": "a"}, workerGroup="quick"
    )
    runner.submit()
    faults.sometimes(0.05, "throttle", service="dynamodb")

    def work() -> None:
        for action in (runner.work, lambda: runner.tick(minutes=3)):
            with suppress(ClientError, FunctionError):
                action()

    runner.cloud.run_until(lambda: runner.job()["state"] in ("SUCCESS", "FAILED"), 50, meanwhile=work)
    faults.clear_faults()
    assert runner.job()["state"] == "SUCCESS"
    assert [step["counts"] for step in runner.job()["steps"]] == [{"SUCCESS": 25}, {"SUCCESS": 1}]


def _payload(params: dict[str, Any]) -> bytes:
    payload = params.get("Payload", b"")
    return payload if isinstance(payload, bytes) else str(payload).encode()


def test_a_step_fails_if_its_execution_is_stopped_before_it_opens(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b", "phase": 1})
    faults.fail("lambda", "Invoke", when=lambda call: b'"open"' in _payload(call.params), times=10**6)
    runner.submit()
    runner.cloud.run_until(lambda: runner.cloud.executions("step", "RUNNING"))
    [step] = runner.cloud.executions("step", "RUNNING")
    runner.cloud.clients.stepfunctions.stop_execution(executionArn=step["executionArn"])
    faults.clear_faults()
    for minutes in (3, 15):  # executions are looked up only after a long silence
        runner.tick(minutes)
    job = runner.run()
    assert (job["state"], runner.states()) == ("FAILED", {"a": "FAILED", "b": "SUCCESS"})


def test_an_interrupted_resend_is_completed_while_the_queue_is_busy(
    runner: JobRunner, faults: Faults
) -> None:
    runner.define({"stepName": "a", "sharding": 3})
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    group = runner.mill.groups.get("default")
    assert group is not None
    for queue in group.queues:
        runner.cloud.clients.sqs.purge_queue(QueueUrl=queue)
    runner.later(180)
    runner.worker.beat([])
    runner.tick(minutes=3)
    faults.fail("sqs", "SendMessageBatch", how="before")
    with pytest.raises(EndpointConnectionError):
        runner.worker.take()
    foreign = '["00000000-0000-4000-8000-000000000000",1,0,1,0]'
    runner.cloud.clients.sqs.send_message(QueueUrl=group.queues[1], MessageBody=foreign, DelaySeconds=600)
    runner.tick(minutes=5)
    assert runner.run()["state"] == "SUCCESS"


def _interrupt(*_: object) -> None:
    raise InterruptedError


def test_the_tick_closes_a_finished_block_whose_message_was_lost(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.define({"stepName": "a"})
    runner.submit()
    held = runner.take(1)
    runner.cloud.run_until(lambda: runner.row(0).token)
    with monkeypatch.context() as patch:
        patch.setattr(completion, "after_end", _interrupt)
        with pytest.raises(InterruptedError):
            runner.worker.report(held)
    for queue in runner.mill.queues.of_groups(runner.mill.settings.queue_prefix):
        runner.cloud.clients.sqs.purge_queue(QueueUrl=queue)
    runner.tick(minutes=3)
    runner.cloud.run_until(lambda: runner.job()["state"] == "SUCCESS")


def test_the_tick_starts_a_root_step_whose_start_failed(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a"}, {"stepName": "b"})
    faults.fail("stepfunctions", "StartExecution", nth=3, how="throttle")
    runner.submit()
    runner.cloud.run_until(lambda: runner.job()["steps"] and runner.row(0).token)
    runner.tick(minutes=2)
    assert runner.run()["state"] == "SUCCESS"


def test_a_step_whose_execution_is_stopped_counts_its_tasks_correctly(runner: JobRunner) -> None:
    runner.define({"stepName": "a", "sharding": 12})
    runner.submit()
    runner.worker.report(runner.take(5))
    runner.cloud.run_until(lambda: runner.row(0).token)
    [step] = runner.cloud.executions("step")
    runner.cloud.clients.stepfunctions.stop_execution(executionArn=step["executionArn"])
    runner.cloud.settle()
    assert runner.run()["steps"][0]["counts"] == {"SUCCESS": 5, "KILLED": 7}


def test_the_tick_closes_a_finished_block_of_a_stopping_step(runner: JobRunner, faults: Faults) -> None:
    runner.define({"stepName": "a", "sharding": 2})
    runner.submit()
    held = runner.take(1)
    runner.cloud.run_until(lambda: runner.row(0).token)
    runner.post("/v1/jobs/orders/t1:kill", {"stepName": "a"})
    runner.cloud.run_until(lambda: runner.row(0).swept)
    faults.fail("dynamodb", "UpdateItem", how="crash")
    with pytest.raises(ProcessKilled):
        runner.worker.report(held)
    assert runner.mill.jobs.raise_generation(runner.row(0))  # the message that would repeat it is void
    runner.tick(minutes=3)
    assert runner.row(0).open == set()
    assert runner.run()["state"] == "FAILED"
    assert runner.job()["steps"][0]["counts"] == {"SUCCESS": 1, "KILLED": 1}
