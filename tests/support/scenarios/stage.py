"""Run a scenario on moto with a worker thread, or on the laptop cloud with real processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import boto3

from support.aws_rules.call import running_as
from support.aws_rules.grants import WORKER
from support.laptop import Laptop
from support.moto.cloud import Cloud

ENDS = {"SUCCESS", "FAILED", "KILLED", "SUSPENDED"}
Call = Callable[[str, str, Any], tuple[int, Any]]


@dataclass
class Stage:
    """A deployment with a worker, and calls to it."""

    call: Call
    sqs: Any
    name: str = field(default_factory=lambda: f"j{uuid4().hex[:12]}")

    def define(self, *steps: dict[str, Any], **job: Any) -> None:
        status, answer = self.call("PUT", f"/v1/definitions/{self.name}", {"steps": list(steps), **job})
        assert status in (200, 201), answer

    def submit(self, trigger: str = "t1", **request: Any) -> dict[str, Any]:
        document = {"jobName": self.name, "trigger": trigger, **request}
        status, answer = self.call("POST", "/v1/jobs", document)
        assert status in (200, 202), answer
        return dict(answer)

    def job(self, trigger: str = "t1") -> dict[str, Any]:
        return dict(self.get(f"/v1/jobs/{self.name}/{trigger}"))

    def get(self, path: str) -> Any:
        status, answer = self.call("GET", path, None)
        assert status == 200, answer
        return answer

    def step(self, step: str, rest: str = "", trigger: str = "t1") -> Any:
        return self.get(f"/v1/jobs/{self.name}/{trigger}/steps/{step}{rest}")

    def finished(self, trigger: str = "t1", seconds: float = 60, every: float = 0.3) -> dict[str, Any]:
        """The Job when it has ended; poll less often if it has many steps."""
        return self.until(lambda: self.job(trigger), lambda job: job["state"] in ENDS, seconds, every)

    def until(
        self,
        read: Callable[[], Any],
        condition: Callable[[Any], bool],
        seconds: float = 60,
        every: float = 0.3,
    ) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            found = read()
            if condition(found):
                return found
            assert time.monotonic() < deadline, f"still {found} after {seconds} s"
            time.sleep(every)

    def lane(self, group: str) -> str:
        """The queue for normal priority of a group."""
        for url in self.sqs.list_queues()["QueueUrls"]:
            tags = self.sqs.list_queue_tags(QueueUrl=url).get("Tags", {})
            if tags.get("shardmill:group") == group and "-normal-" in url:
                return str(url)
        raise AssertionError(f"group {group} has no queue")

    @staticmethod
    def states(job: dict[str, Any]) -> dict[str, str]:
        return {step["stepName"]: step["state"] for step in job["steps"]}


@contextmanager
def moto_stage(cloud: Cloud) -> Iterator[Stage]:
    from shardmill.aws.settings import Settings
    from shardmill.worker.run import run_worker
    from shardmill.worker.transport.direct import DirectTransport

    def call(method: str, path: str, body: Any) -> tuple[int, Any]:
        answer = cloud.http(method, path, body)
        return answer.status, answer.json

    stop = threading.Event()
    transport = DirectTransport(Settings.from_environment())
    worker = threading.Thread(
        target=run_worker,
        args=(["default"], 4, transport),
        kwargs={"name": "stage", "stop": stop, "wait_seconds": 1, "grace_seconds": 1},
    )
    with running_as(WORKER):
        worker.start()
    try:
        yield Stage(call, cloud.clients.sqs)
    finally:
        stop.set()
        worker.join(30)
        assert not worker.is_alive(), "the worker did not stop"


def laptop_stage(laptop: Laptop) -> Stage:
    def call(method: str, path: str, body: Any) -> tuple[int, Any]:
        answer = laptop.request(method, path, body)
        return answer.status_code, answer.json()

    return Stage(call, boto3.client("sqs", endpoint_url=laptop.aws_endpoint, region_name="us-east-1"))
