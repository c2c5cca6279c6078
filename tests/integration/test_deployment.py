"""Creating, updating and deleting a stack: what functions/setup does beside CloudFormation."""

from __future__ import annotations

import dataclasses

import pytest

from shardmill.aws.files import ObjectsKept
from shardmill.engine.groups import deployment
from shardmill.engine.mill import Mill
from support.scenarios.job_runner import JobRunner

PLENTY = 900_000


def deleting(mill: Mill) -> Mill:
    """The deployment of a stack that does not retain its data."""
    return dataclasses.replace(mill, settings=mill.settings._replace(empty_bucket=True))


def objects(mill: Mill) -> int:
    return mill.files._client.list_objects_v2(Bucket=mill.settings.bucket)["KeyCount"]


def running(runner: JobRunner) -> int:
    return runner.mill.machines.stop_running(1_000)


@pytest.fixture
def busy(runner: JobRunner) -> JobRunner:
    """A deployment with a Job under way and files in the bucket."""
    runner.define({"stepName": "a", "sharding": 3})
    runner.submit("one")
    runner.cloud.run_until(lambda: runner.job("one")["state"] == "QUEUED")
    for number in range(3):
        runner.mill.files.write(f"files/{number}", b"x")
    return runner


def test_deleting_a_stack_stops_executions_and_deletes_the_queues_of_groups(busy: JobRunner) -> None:
    mill = busy.mill
    deployment.tear_down(mill, lambda: PLENTY)
    assert list(mill.queues.of_groups(mill.settings.queue_prefix)) == []
    assert running(busy) == 0
    assert objects(mill) == 3  # the bucket is retained


def test_the_bucket_is_emptied_if_it_is_deleted_with_the_stack(busy: JobRunner) -> None:
    deployment.tear_down(deleting(busy.mill), lambda: PLENTY)
    assert objects(busy.mill) == 0


def test_a_bucket_that_takes_too_long_is_reported_in_time_and_the_next_try_continues(
    busy: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment, "_BATCH", 1)
    with pytest.raises(deployment.NotRemoved, match=r"executions are running .* delete the stack again"):
        deployment.tear_down(deleting(busy.mill), lambda: 1)
    deployment.tear_down(busy.mill, lambda: PLENTY)
    with pytest.raises(deployment.NotRemoved, match=r"objects are in the bucket .* delete the stack again"):
        deployment.tear_down(deleting(busy.mill), lambda: 1)
    deployment.tear_down(deleting(busy.mill), lambda: 1)
    assert objects(busy.mill) == 0


def test_objects_that_s3_does_not_delete_are_an_error(
    busy: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"Errors": [{"Key": "files/0", "Code": "AccessDenied", "Message": "Access Denied"}]}
    monkeypatch.setattr(busy.mill.files._client, "delete_objects", lambda **request: kept)
    with pytest.raises(ObjectsKept, match="files/0: AccessDenied"):
        deployment.tear_down(deleting(busy.mill), lambda: PLENTY)


def test_an_update_of_the_stack_gives_lambda_groups_its_new_queues(runner: JobRunner) -> None:
    mill = runner.mill
    runner.cloud.http("PUT", "/v1/groups/l2", {"kind": "lambda"})
    renamed = mill.settings._replace(lambda_queues=("high", "normal", "low"))
    deployment.set_up(dataclasses.replace(mill, settings=renamed), 1)
    for name in ("lambda", "l2"):
        group = mill.groups.get(name)
        assert group
        assert list(group.queues) == ["high", "normal", "low"]
    default = mill.groups.get("default")
    assert default
    assert default.queues[0].rsplit("/", 1)[1].startswith(mill.settings.queue_prefix)
