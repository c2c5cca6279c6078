"""A worker over HTTP that waits at SQS: each of its requests fails once, before or after it took effect.

In every run, reads are stale, Lambda throttles the API, and queues are unreliable."""

from __future__ import annotations

import gzip
from contextlib import suppress
from typing import Literal

import httpx
import pytest

from support.aws_rules.faults import Faults
from support.aws_rules.lambda_concurrency import TooManyRequests
from support.moto.cloud import Cloud
from support.scenarios.hostile_aws import hostile_aws
from support.scenarios.job_runner import JobRunner
from support.scenarios.worker_threads import Answer, over_http, worker_thread

How = Literal["before", "after"]
SEED = 5


class FailsOnce:
    """Fails the second request of a kind, so that the first one has had its effect."""

    def __init__(self, kind: str, how: How) -> None:
        self.kind = kind
        self.how = how
        self.seen = 0
        self.kinds: list[str] = []

    def __call__(self, request: httpx.Request, answer: Answer) -> httpx.Response:
        kind = _kind(request)
        self.kinds.append(kind)
        self.seen += kind == self.kind
        if kind != self.kind or self.seen != 2:
            return answer(request)
        if self.how == "after":
            answer(request)
        raise httpx.ReadError("the connection broke")


def _kind(request: httpx.Request) -> str:
    if request.url.host.startswith("sqs."):
        return "receive"
    kind = request.url.path.rpartition(":")[2].rpartition("/")[2]
    return "exchange" if kind == "report" and b'"lease"' in _content(request) else kind


def _content(request: httpx.Request) -> bytes:
    return gzip.decompress(request.content) if "content-encoding" in request.headers else request.content


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("kind", ["receive", "lease", "exchange", "report", "heartbeat"])
def test_a_job_succeeds_when_a_request_fails(
    cloud: Cloud, faults: Faults, kind: str, how: How, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardmill.worker.transport.http.WAIT_SECONDS", 1)
    monkeypatch.setattr("shardmill.worker.transport.http.TAKE_ALONG_SECONDS", 0.3)
    runner = JobRunner(cloud)
    runner.quick_group()
    runner.define(
        {"stepName": "a", "sharding": 12}, {"stepName": "b", "dependentStep": "a"}, workerGroup="quick"
    )
    runner.submit()
    fault = FailsOnce(kind, how)

    def tick() -> None:
        with suppress(TooManyRequests):
            runner.tick()

    with (
        hostile_aws(cloud, faults, SEED),
        worker_thread(over_http(cloud, fault), slots=2, groups=["quick"]),
    ):
        cloud.run_until(runner.ended, 60, meanwhile=tick)
    job = runner.job()
    assert job["state"] == "SUCCESS", (job, fault.kinds)
    assert [step["counts"]["SUCCESS"] for step in job["steps"]] == [12, 1]
    assert "receive" in fault.kinds
