"""Whole workers in threads, on moto, over HTTP or directly to AWS."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from shardmill.aws.settings import Settings
from shardmill.worker.run import run_worker
from shardmill.worker.transport.base import Transport
from shardmill.worker.transport.direct import DirectTransport
from shardmill.worker.transport.http import HttpTransport
from support.aws_rules.call import running_as
from support.aws_rules.grants import WORKER
from support.moto.cloud import Cloud
from support.moto.presigned_sqs import PresignedSqs
from support.scenarios.job_runner import JobRunner

Answer = Callable[[httpx.Request], httpx.Response]
Around = Callable[[httpx.Request, Answer], httpx.Response]


def over_http(cloud: Cloud, around: Around = lambda request, answer: answer(request)) -> HttpTransport:
    """A transport whose requests are answered in this process; `around` may fail or repeat them."""
    sqs = PresignedSqs(cloud, wait=1)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET" and request.url.host.startswith("sqs."):
            return sqs(str(request.url))
        if request.method == "PUT":
            _, _, bucket_and_key = str(request.url.copy_with(query=None)).partition("amazonaws.com/")
            cloud.clients.s3.put_object(Bucket=cloud.bucket, Key=bucket_and_key, Body=request.content)
            return httpx.Response(200)
        given = cloud.http(request.method, request.url.path, request.content, headers=dict(request.headers))
        return httpx.Response(given.status, json=given.json)

    client = httpx.Client(transport=httpx.MockTransport(lambda request: around(request, answer)))
    return HttpTransport("http://mill.test", cloud.token, client=client)


def connect(cloud: Cloud, form: str) -> Transport:
    """A worker's transport: `http` through the API, `direct` to AWS."""
    if form == "http":
        return over_http(cloud)
    return DirectTransport(Settings.from_environment(cloud.environment))


@contextmanager
def worker_thread(transport: Transport, name: str = "w", **more: Any) -> Iterator[threading.Event]:
    """Run a worker in a thread; stop it and wait for it at the end of the block."""
    stop = threading.Event()
    codes: list[int] = []
    options = {"grace_seconds": 3.0, "wait_seconds": 1, "stop": stop, **more}
    slots, groups = options.pop("slots", 3), options.pop("groups", ["default"])

    def work() -> None:
        with running_as(WORKER if isinstance(transport, DirectTransport) else None):
            codes.append(run_worker(groups, slots, transport, name=name, **options))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join(20)
        if isinstance(transport, DirectTransport):
            transport.join(3)
    assert codes == [0]


def wait_for_end(runner: JobRunner, timeout: float = 20) -> dict[str, Any]:
    runner.cloud.run_until(lambda: runner.job()["state"] in ("SUCCESS", "FAILED"), timeout)
    return runner.job()
