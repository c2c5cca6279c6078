"""The tick and the settle rule: whatever a crash left is found and finished."""

from contextlib import suppress

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from support.faults import Faults
from support.lambda_server import FunctionError
from support.play import Play


def test_a_job_that_could_not_be_started_is_started_by_the_tick(play: Play, faults: Faults) -> None:
    play.define({"stepName": "a"})
    fault = faults.fail("stepfunctions", "StartExecution", how="before")
    play.submit()
    assert fault.hits
    assert play.job()["state"] == "INIT"
    assert play.tick(minutes=0)["looked"] == 0
    assert play.tick(minutes=2)["looked"] == 1
    assert play.run()["state"] == "SUCCESS"


def test_the_tick_leaves_ended_jobs_alone(play: Play) -> None:
    play.define({"stepName": "a"})
    play.submit()
    play.run()
    play.cloud.tell_dependency()
    assert play.tick(minutes=10)["looked"] == 0


def test_the_tick_tells_the_heirs_of_a_job_if_nobody_else_did(play: Play) -> None:
    play.define({"stepName": "a"})
    play.submit()
    play.run()
    assert play.tick(minutes=1)["looked"] == 0
    assert [play.tick(minutes=10)["looked"] for _ in range(2)] == [1, 0]


def test_lost_messages_are_sent_again(play: Play) -> None:
    play.define({"stepName": "a", "sharding": 30, "maxTaskCount": 8})
    play.submit()
    play.cloud.run_until(lambda: play.job()["state"] == "QUEUED" and play.row(0).token)
    group = play.mill.groups.get("default")
    assert group is not None
    play.hands.report(play.take(5))
    for queue in group.queues:
        play.cloud.clients.sqs.purge_queue(QueueUrl=queue)
    assert play.hands.take() == []
    play.tick(minutes=3)
    job = play.run()
    assert job["state"] == "SUCCESS"
    assert job["steps"][0]["counts"] == {"SUCCESS": 30}
    assert play.row(0).gen == 2


def test_a_token_that_was_not_returned_is_returned_by_the_tick(play: Play, faults: Faults) -> None:
    play.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"})
    play.submit()
    held = play.take(1)
    play.cloud.run_until(lambda: play.row(0).token)
    faults.fail("stepfunctions", "SendTaskSuccess", how="before", times=1)
    with pytest.raises(EndpointConnectionError):
        play.hands.report(held)
    assert play.task("a", 0)["state"] == "SUCCESS"
    assert play.states()["a"] == "RUNNING"
    play.tick(minutes=3)
    assert play.run()["state"] == "SUCCESS"


def test_an_execution_that_was_aborted_fails_its_step_truthfully(play: Play) -> None:
    play.define({"stepName": "a"}, {"stepName": "b", "dependentStep": "a"}, {"stepName": "c", "phase": 1})
    play.submit()
    play.cloud.run_until(lambda: play.job()["steps"] and play.row(0).token)
    [step] = play.cloud.executions("step")
    play.cloud.clients.stepfunctions.stop_execution(executionArn=step["executionArn"])
    assert play.cloud.settle() == [step["executionArn"]]
    job = play.run()
    assert job["state"] == "FAILED"
    assert play.states() == {"a": "FAILED", "b": "SKIPPED", "c": "SUCCESS"}
    assert "ABORTED" in job["notes"]


def test_the_tick_also_finds_an_execution_that_ended_unheard(play: Play) -> None:
    play.define({"stepName": "a"})
    play.submit()
    play.cloud.run_until(lambda: play.job()["steps"] and play.row(0).token)
    [step] = play.cloud.executions("step")
    play.cloud.clients.stepfunctions.stop_execution(executionArn=step["executionArn"])
    play.tick(minutes=3)
    assert play.job()["state"] == "FAILED"


def test_a_job_that_cannot_be_planned_says_so(play: Play) -> None:
    play.define({"stepName": "a"})
    version = play.mill.definitions.version("play", 1)
    assert version is not None
    play.cloud.clients.dynamodb.delete_item(
        TableName=play.cloud.table, Key={"pk": {"S": "DEF#play"}, "sk": {"S": "v00000001"}}
    )
    play.submit()
    job = play.run(timeout=60)
    assert job["state"] == "FAILED"
    assert "could not be planned" in job["notes"]


def test_the_end_of_a_job_is_announced_even_if_the_bus_was_away(play: Play, faults: Faults) -> None:
    play.define({"stepName": "a"})
    play.submit()
    faults.fail("events", "PutEvents", how="before", times=30)
    play.cloud.run_until(lambda: play.job()["state"] == "SUCCESS", 30, meanwhile=play.work)
    faults.relent()
    play.tick(minutes=2)
    details = [event["detail"]["state"] for event in play.cloud.published() if event["source"] == "shardmill"]
    assert details == ["SUCCESS"]
    play.tick(minutes=4)
    assert play.cloud.published() == []


def test_a_dead_worker_in_a_stopping_step_does_not_hold_it_up(play: Play) -> None:
    play.define({"stepName": "f", "sharding": 20, "failFast": True, "maxTaskCount": 5})
    play.submit()
    held = play.take(5)
    play.cloud.run_until(lambda: play.row(0).token)
    play.hands.report(held[:1], "failed-permanent")
    play.cloud.run_until(lambda: play.row(0).swept)
    play.tick(minutes=5)
    play.cloud.run_until(lambda: play.job()["state"] == "FAILED")
    assert play.job()["steps"][0]["counts"] == {"FAILED": 1, "KILLED": 19}


def test_two_ticks_at_once_look_at_a_job_once(play: Play, faults: Faults) -> None:
    play.define({"stepName": "a"})
    faults.fail("stepfunctions", "StartExecution", how="before")
    play.submit()
    [(job_id, seen)] = play.mill.jobs.due(play.hands.clock() + 120_000, limit=10)
    assert play.mill.jobs.look_again(job_id, seen=seen, due=seen + 1)
    assert not play.mill.jobs.look_again(job_id, seen=seen, due=seen + 2)


def test_throttling_everywhere_delays_but_loses_nothing(play: Play, faults: Faults) -> None:
    play.quick_group()
    play.define(
        {"stepName": "a", "sharding": 25}, {"stepName": "b", "dependentStep": "a"}, workerGroup="quick"
    )
    play.submit()
    faults.sometimes(0.05, "throttle", service="dynamodb")

    def work() -> None:
        for act in (play.work, lambda: play.tick(minutes=3)):
            with suppress(ClientError, FunctionError):
                act()

    play.cloud.run_until(lambda: play.job()["state"] in ("SUCCESS", "FAILED"), 50, meanwhile=work)
    faults.relent()
    assert play.job()["state"] == "SUCCESS"
    assert [step["counts"] for step in play.job()["steps"]] == [{"SUCCESS": 25}, {"SUCCESS": 1}]
