"""Creating, updating and deleting a stack: what functions/setup does beside CloudFormation."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from shardmill.aws.data_keys import KeyParameter
from shardmill.aws.files import ObjectsKept
from shardmill.engine.groups import deployment
from shardmill.engine.mill import Mill
from shardmill.model.groups.lanes import MAX_LANES
from support.aws_rules.call import running_as
from support.scenarios.job_runner import JobRunner


class Time:
    """The time of functions/setup: what is left of it, and what happens while the function waits."""

    def __init__(self, left: int = 900_000, meanwhile: Callable[[int], object] = lambda waited: None) -> None:
        self.left = left
        self.waited = 0
        self._meanwhile = meanwhile

    def remaining(self) -> int:
        return self.left

    def wait(self, seconds: float) -> None:
        self.left -= int(seconds * 1000)
        self.waited += int(seconds * 1000)
        with running_as(None):
            self._meanwhile(self.waited)


def tear_down(mill: Mill, time: Time | None = None) -> None:
    time = time or Time()
    with running_as("setup"):
        deployment.tear_down(mill, time.remaining, time.wait)


def set_up(mill: Mill, time: Time | None = None) -> None:
    time = time or Time()
    with running_as("setup"):
        deployment.set_up(mill, 1, time.wait)


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
    tear_down(mill)
    assert list(mill.queues.of_groups(mill.settings.queue_prefix)) == []
    assert running(busy) == 0
    assert objects(mill) == 3  # the bucket is retained


def test_the_bucket_is_emptied_if_it_is_deleted_with_the_stack(busy: JobRunner) -> None:
    tear_down(deleting(busy.mill))
    assert objects(busy.mill) == 0


def test_a_bucket_that_takes_too_long_is_reported_in_time_and_the_next_try_continues(
    busy: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment, "_OBJECTS", 1)
    with pytest.raises(deployment.NotRemoved, match=r"executions are running .* delete the stack again"):
        tear_down(deleting(busy.mill), Time(1))
    tear_down(busy.mill)
    with pytest.raises(deployment.NotRemoved, match=r"objects are in the bucket .* delete the stack again"):
        tear_down(deleting(busy.mill), Time(1))
    assert objects(busy.mill) < 3
    tear_down(deleting(busy.mill))
    assert objects(busy.mill) == 0


def test_queues_that_take_too_long_are_reported_in_time_and_the_next_try_continues(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    mill, time = runner.mill, Time(deployment.RESERVE_MS + 2)
    queues = list(mill.queues.of_groups(mill.settings.queue_prefix))
    removed: list[str] = []

    def remove(urls: list[str]) -> None:
        time.left -= 1
        removed.extend(urls)

    monkeypatch.setattr(deployment, "_CALLS", 4)
    monkeypatch.setattr(mill.queues, "remove", remove)
    with pytest.raises(deployment.NotRemoved, match=rf"{len(queues) - 12} queues are left .* again"):
        tear_down(mill, time)
    assert removed == queues[:12]
    monkeypatch.undo()
    tear_down(mill)
    assert list(mill.queues.of_groups(mill.settings.queue_prefix)) == []


def test_objects_that_s3_does_not_delete_are_an_error(
    busy: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"Errors": [{"Key": "files/0", "Code": "AccessDenied", "Message": "Access Denied"}]}
    monkeypatch.setattr(busy.mill.files._client, "delete_objects", lambda **request: kept)
    with pytest.raises(ObjectsKept, match="files/0: AccessDenied"):
        tear_down(deleting(busy.mill))


class Invocation:
    """An invocation that goes on after its function was deleted, or a worker with a presigned URL."""

    def __init__(self, runner: JobRunner) -> None:
        self._runner = runner
        self.refused = 0

    def write_file(self, waited: int) -> None:
        """Moto applies bucket policies."""
        try:
            self._runner.mill.files.write(f"files/late-{waited}", b"x")
        except ClientError as error:
            if error.response["Error"]["Code"] not in ("403", "AccessDenied"):
                raise
            self.refused += 1

    def write_file_earlier(self, waited: int) -> None:
        """Write a file in a request that S3 authorized before it applied the policy."""
        client, bucket = self._runner.mill.files._client, self._runner.mill.settings.bucket
        policy = client.get_bucket_policy(Bucket=bucket)["Policy"]
        client.delete_bucket_policy(Bucket=bucket)
        self._runner.mill.files.write(f"files/late-{waited}", b"x")
        client.put_bucket_policy(Bucket=bucket, Policy=policy)

    def create_queue(self, waited: int) -> None:
        if waited <= 30_000:  # the longest request to the API
            self._runner.cloud.http("PUT", f"/v1/groups/late-{waited}", {})

    def start_execution(self, waited: int) -> None:
        if waited <= 50_000:
            self._runner.mill.machines.start_job("00000000-0000-4000-8000-000000000001", waited)


def test_nothing_is_written_to_the_bucket_after_it_was_emptied(busy: JobRunner) -> None:
    late = Invocation(busy)
    tear_down(deleting(busy.mill), Time(meanwhile=late.write_file))
    late.write_file(0)
    assert late.refused > 2
    assert objects(busy.mill) == 0


def test_a_file_written_before_the_policy_takes_effect_is_deleted(busy: JobRunner) -> None:
    """S3 applies a new bucket policy within seconds, and a large upload may be under way."""

    written = []

    def write(waited: int) -> None:
        if waited <= 100_000:
            Invocation(busy).write_file_earlier(waited)
            written.append(waited)

    time = Time(meanwhile=write)
    tear_down(deleting(busy.mill), time)
    assert objects(busy.mill) == 0
    assert time.waited >= max(written) + deployment.QUIET_MS


def test_a_bucket_that_never_becomes_empty_is_reported_in_time(busy: JobRunner) -> None:
    time = Time(meanwhile=Invocation(busy).write_file_earlier)
    with pytest.raises(deployment.NotRemoved, match=r"objects are in the bucket .* delete the stack again"):
        tear_down(deleting(busy.mill), time)
    assert 0 < time.left <= deployment.RESERVE_MS


def test_queues_and_executions_that_appear_late_are_removed_too(busy: JobRunner) -> None:
    late = Invocation(busy)

    def meanwhile(waited: int) -> None:
        late.create_queue(waited)
        late.start_execution(waited)

    tear_down(busy.mill, Time(meanwhile=meanwhile))
    assert list(busy.mill.queues.of_groups(busy.mill.settings.queue_prefix)) == []
    assert running(busy) == 0


def policy(mill: Mill) -> list[dict[str, Any]]:
    answer = mill.files._client.get_bucket_policy(Bucket=mill.settings.bucket)
    return json.loads(answer["Policy"])["Statement"]  # type: ignore[no-any-return]


def test_other_statements_of_the_policy_are_kept_and_a_repetition_adds_none(busy: JobRunner) -> None:
    mill, bucket = deleting(busy.mill), busy.mill.settings.bucket
    other = {"Sid": "Other", "Effect": "Deny", "Principal": "*", "Action": "s3:PutObjectAcl", "Resource": "*"}
    text = json.dumps({"Version": "2012-10-17", "Statement": [other]})
    mill.files._client.put_bucket_policy(Bucket=bucket, Policy=text)
    for _ in range(2):
        tear_down(mill)
        kept, added = policy(mill)
        assert kept == other
        assert (added["Effect"], added["Principal"], added["Action"]) == ("Deny", "*", "s3:PutObject")
        assert added["Resource"] == f"arn:aws:s3:::{bucket}/*"


def test_a_retained_bucket_can_still_be_written(busy: JobRunner) -> None:
    tear_down(busy.mill)
    busy.mill.files.write("files/x", b"x")
    assert objects(busy.mill) == 4


def test_a_bucket_that_is_already_deleted_does_not_stop_the_deletion(busy: JobRunner) -> None:
    mill = deleting(busy.mill)
    mill.files.remove("")
    mill.files._client.delete_bucket(Bucket=mill.settings.bucket)
    tear_down(mill)
    assert list(mill.queues.of_groups(mill.settings.queue_prefix)) == []


def test_the_role_of_the_function_allows_all_of_its_calls(busy: JobRunner) -> None:
    with running_as("setup"):  # the policies of template.yaml apply
        tear_down(deleting(busy.mill))
    assert objects(busy.mill) == 0


class Refusals:
    """Calls of SSM, the first of a new stack, that are refused until a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: str, seconds: int) -> None:
        self.time = Time()
        self._original = deployment.KeyParameter.create
        self._code, self._milliseconds = code, 1000 * seconds
        monkeypatch.setattr(deployment.KeyParameter, "create", lambda parameter: self._create(parameter))

    def _create(self, parameter: KeyParameter) -> None:
        if self.time.waited < self._milliseconds:
            answer: Any = {"Error": {"Code": self._code, "Message": "not authorized to perform"}}
            raise ClientError(answer, "PutParameter")
        self._original(parameter)


@pytest.mark.parametrize("code", ["AccessDeniedException", "UnrecognizedClientException"])
def test_a_new_stack_waits_until_the_permissions_of_its_role_are_in_effect(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    refusals = Refusals(monkeypatch, code, seconds=30)
    runner.mill.groups.delete("default")
    set_up(runner.mill, refusals.time)
    assert runner.mill.groups.get("default")
    assert 30_000 <= refusals.time.waited < 60_000


def test_a_permanently_missing_permission_is_reported_in_time(
    runner: JobRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = Refusals(monkeypatch, "AccessDeniedException", seconds=1_000)
    with pytest.raises(ClientError, match="not authorized"):
        set_up(runner.mill, refusals.time)
    assert 60_000 <= refusals.time.waited < 120_000


def test_a_permanent_error_is_reported_at_once(runner: JobRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = Refusals(monkeypatch, "ParameterLimitExceeded", seconds=1_000)
    with pytest.raises(ClientError, match="ParameterLimitExceeded"):
        set_up(runner.mill, refusals.time)
    assert refusals.time.waited == 0


def test_an_update_of_the_stack_gives_lambda_groups_its_new_queues(runner: JobRunner) -> None:
    mill = runner.mill
    runner.cloud.http("PUT", "/v1/groups/l2", {"kind": "lambda"})
    renamed = mill.settings._replace(lambda_queue="renamed")
    set_up(dataclasses.replace(mill, settings=renamed))
    for name in ("lambda", "l2"):
        group = mill.groups.get(name)
        assert group
        assert set(group.queues) == {"renamed"}
    default = mill.groups.get("default")
    assert default
    assert default.queues[0].rsplit("/", 1)[1].startswith(mill.settings.queue_prefix)


def test_the_group_lambda_has_order_queues_which_no_alarm_watches(runner: JobRunner) -> None:
    """They have copies of messages that are also in the queue that Lambda polls."""
    mill, sqs = runner.mill, runner.cloud.clients.sqs
    runner.cloud.http("PUT", "/v1/groups/l2", {"kind": "lambda"})
    first, other = mill.groups.get("lambda"), mill.groups.get("l2")
    assert first
    assert other
    assert len(set(first.order_queues)) == MAX_LANES
    assert not other.order_queues
    assert sqs.list_queue_tags(QueueUrl=first.order_queues[0]).get("Tags", {}) == {}
    mill.groups.set_order_queues(first, [])  # as after an update of an earlier release
    set_up(mill)
    again = mill.groups.get("lambda")
    assert again
    assert again.order_queues == first.order_queues
    tear_down(mill)
    assert not set(first.order_queues) & set(mill.queues.of_groups(mill.settings.queue_prefix))
