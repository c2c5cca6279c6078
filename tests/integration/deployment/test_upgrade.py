"""An upgrade in mid-job: rows, messages and executions of the release before are finished by this one.

The recordings in tests/data were made by tests/support/record_release.py. An execution keeps the definition
that it was started with, as on AWS.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shardmill.engine.groups import deployment
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.paths import PROJECT
from support.scenarios.job_runner import JobRunner

RECORDINGS = sorted((PROJECT / "tests/data").glob("release-*.json"))


def bytes_restored(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"base64"}:
            return base64.b64decode(value["base64"])
        return {name: bytes_restored(each) for name, each in value.items()}
    return [bytes_restored(each) for each in value] if isinstance(value, list) else value


class Upgrade:
    """A stack of the present release with the rows of another one."""

    def __init__(self, cloud: Cloud, recording: dict[str, Any]) -> None:
        self.cloud = cloud
        self.recording = recording
        self._minutes = 0
        for item in bytes_restored(recording["items"]):
            cloud.clients.dynamodb.put_item(TableName=cloud.table, Item=item)
        self._start_executions()
        self.runner = JobRunner(cloud)
        # as CloudFormation's update does
        deployment.set_up(
            self.runner.mill, self.runner.worker.clock(), lambda seconds: pytest.fail("refused")
        )
        self.runner.mill.recent_groups.discard("default")  # new functions start without caches

    def _start_executions(self) -> None:
        for machine, arn in self.cloud.stack.machines.items():
            client = self.cloud.clients.stepfunctions
            present = client.describe_state_machine(stateMachineArn=arn)["definition"]
            before = json.dumps(self.recording["definitions"][machine])
            client.update_state_machine(stateMachineArn=arn, definition=before)
            for each in self.recording["executions"]:
                if each["machine"] == machine:
                    client.start_execution(stateMachineArn=arn, name=each["name"], input=each["input"])
            client.update_state_machine(stateMachineArn=arn, definition=present)

    def deliver_messages(self) -> int:
        """Put the messages of each group's queues into its present ones."""
        bodies = [
            body for name, bodies in self.recording["queues"].items() for body in bodies if "-normal-" in name
        ]
        group = self.runner.mill.groups.get("default")
        assert group
        for body in bodies:
            self.cloud.clients.sqs.send_message(QueueUrl=group.queues[1], MessageBody=body)
        return len(bodies)

    def finish(self, *jobs: tuple[str, str]) -> None:
        """Work on Jobs until they end; each round is ten minutes later than the one before."""

        def act() -> None:
            self._minutes += 10
            self.runner.later(60 * self._minutes)
            self.runner.worker.beat([])
            self.runner.mill.forget_workers(["default"])
            self.runner.tick(self._minutes)
            for _ in range(3):
                self.runner.work()

        self.cloud.run_until(
            lambda: all(self.runner.ended(trigger, name) for name, trigger in jobs), 60, meanwhile=act
        )


@pytest.fixture(params=RECORDINGS, ids=[each.stem for each in RECORDINGS])
def upgrade(request: pytest.FixtureRequest) -> Iterator[Upgrade]:
    recorded: Path = request.param
    with moto_cloud() as cloud:
        yield Upgrade(cloud, json.loads(recorded.read_text()))


@pytest.mark.parametrize("messages", ["delivered", "lost"])
def test_jobs_of_the_release_before_are_finished(upgrade: Upgrade, messages: str) -> None:
    runner = upgrade.runner
    if messages == "delivered":
        assert upgrade.deliver_messages() > 20
    ended = runner.step("wide")["counts"]["SUCCESS"]
    assert (runner.job()["state"], runner.states()["first"], ended) == ("RUNNING", "SUCCESS", 20)
    upgrade.finish(("orders", "t1"), ("single", "one"), ("single", "two"))
    assert runner.states() == {"first": "SUCCESS", "wide": "SUCCESS", "last": "SUCCESS"}
    assert runner.step("wide")["counts"] == {"SUCCESS": 130}
    assert runner.task("wide", 20)["attempts"] is not None
    runner.post("/v1/jobs/orders/parked:resume")
    upgrade.finish(("orders", "parked"), ("child", "waits"))
    ends = {
        runner.job(trigger, name)["state"] for name, trigger in [("orders", "parked"), ("child", "waits")]
    }
    assert ends == {"SUCCESS"}
    taken = [lease.task_id for lease in runner.leased]
    assert len(taken) == len(set(taken))  # nothing ran twice, and nothing that had ended ran again


def test_every_queue_of_a_group_is_one_that_the_stack_may_use(upgrade: Upgrade) -> None:
    """Queue names of an earlier release may lie outside of the permissions of this one."""
    prefix = upgrade.cloud.environment["SHARDMILL_QUEUE_PREFIX"]
    for group in upgrade.runner.mill.groups.page():
        assert [url for url in group.queues if not re.search(rf"/{prefix}-[^/]+$", url)] == []


def test_rows_of_the_release_before_are_shown(upgrade: Upgrade) -> None:
    http = upgrade.cloud.http
    for path in (
        "/v1/jobs",
        "/v1/workers",
        "/v1/groups",
        "/v1/schedules/orders/nightly",
        "/v1/jobs/orders/t1:explain",
        "/v1/jobs/orders/t1/history",
        "/v1/jobs/orders/t1/steps/wide/tasks",
        "/v1/jobs/orders/t1/steps/wide/tasks/20",
        "/v1/jobs/child/waits/dependencies",
        "/v1/now",
    ):
        answer = http("GET", path)
        assert answer.status == 200, (path, answer.json)
