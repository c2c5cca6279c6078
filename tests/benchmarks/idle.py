"""Cost of an idle worker and of an idle stack, from their calls on moto and from template.yaml."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from threading import Event, Lock, Thread

import httpx

from benchmarks.result import Result
from shardmill.aws.settings import Settings
from shardmill.model.cost.prices import PRICES
from shardmill.worker.run import run_worker
from shardmill.worker.transport.base import Transport
from shardmill.worker.transport.direct import DirectTransport
from shardmill.worker.transport.http import HttpTransport
from support.aws_rules.faults import Faults
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud
from support.moto.presigned_sqs import PresignedSqs

HOURS_A_MONTH = 730
SHORT_CALL_GB_SECONDS = 0.1 * 0.5
"""Of an API request or a tick: 0.1 s with 512 MB."""
AUTHORIZER_GB_SECONDS = 0.02 * 0.25
"""It finds the token in its memory; its row is read once a minute."""
LOG_BYTES = 1_200
"""Of an invocation: its own line, those of the platform, and a share of the access log."""
LOG_USD_PER_GB = 0.50
METRIC_USD = 0.30
POLLS_AN_HOUR = 180
POLLERS = 5
"""Of an event source mapping. Lambda may use two for an idle queue, but not with a maximum concurrency."""
MEASURED_SECONDS = 61


def measure(_: Path) -> Iterator[Result]:
    with moto_cloud() as cloud, Faults(weigh=True, rules=False) as faults:
        calls, units = _idle(DirectTransport(Settings.from_environment()), "idle", faults)
        yield Result("idle direct worker", calls.total, "AWS calls/hour")
        yield Result("idle direct worker", _usd(calls, units), "USD/month", at_most=0.4)
        api = _CountingApi(cloud)
        calls, units = _idle(api.transport, "idle-http", faults, api)
        factor = 3600 / MEASURED_SECONDS
        calls.sqs += factor * api.measured_receives
        requests = factor * api.measured_requests
        yield Result("idle worker over HTTP, requests to SQS", calls.sqs, "calls/hour")
        yield Result("idle worker over HTTP, requests to the API", requests, "calls/hour")
        yield Result(
            "idle worker over HTTP, longest request that holds a Lambda", api.longest, "s", at_most=5
        )
        usd = _usd(calls, units) + HOURS_A_MONTH * (
            _price("HTTP API requests", requests) + _lambda(2 * requests)
        )
        yield Result("idle worker over HTTP", usd, "USD/month", at_most=1)
        yield from _stack(cloud, faults)


class _CountingApi:
    """The HTTP API and SQS for one worker."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._lock = Lock()
        self.sqs = PresignedSqs(cloud, wait=20)
        self.transport = HttpTransport(
            "http://mill.test", cloud.token, client=httpx.Client(transport=httpx.MockTransport(self._answer))
        )
        self.reset()

    def reset(self) -> None:
        self.sqs.requests.clear()
        self.requests, self.longest = 0, 0.0

    def snapshot(self) -> None:
        """Keep the counts, because the calls at the worker's end are not part of its idle time."""
        self.measured_requests, self.measured_receives = self.requests, len(self.sqs.requests)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if request.url.host.startswith("sqs."):
            return self.sqs(str(request.url))
        started = time.monotonic()
        given = self._cloud.http(
            request.method, request.url.path, request.content, headers=dict(request.headers)
        )
        with self._lock:
            self.requests += 1
            self.longest = max(self.longest, time.monotonic() - started)
        return httpx.Response(given.status, json=given.json)


class Hourly:
    """Calls per hour, extrapolated from a shorter time."""

    def __init__(self, calls: Mapping[str, int], factor: float) -> None:
        self.sqs = factor * sum(n for name, n in calls.items() if name.startswith("sqs."))
        self.reads = factor * sum(
            n for name, n in calls.items() if name.split(".")[1] in ("GetItem", "BatchGetItem", "Query")
        )
        self.total = factor * sum(calls.values())


def _idle(
    transport: Transport, name: str, faults: Faults, api: _CountingApi | None = None
) -> tuple[Hourly, float]:
    stop = Event()
    worker = Thread(target=lambda: run_worker(["default"], 4, transport, name=name, stop=stop))
    worker.start()
    time.sleep(2)
    faults.meter.reset()
    if api:
        api.reset()
    time.sleep(MEASURED_SECONDS)
    calls, units = dict(faults.meter.calls), faults.meter.total_write_units
    if api:
        api.snapshot()
    stop.set()
    worker.join()
    factor = 3600 / MEASURED_SECONDS
    return Hourly(calls, factor), units * factor


def _stack(cloud: Cloud, faults: Faults) -> Iterator[Result]:
    """The tick of each minute, and the queues that Lambda polls."""
    cloud.tick()
    faults.meter.reset()
    with redirect_stdout(io.StringIO()) as published:
        cloud.tick()
    metrics = len([line for line in published.getvalue().splitlines() if '"CloudWatchMetrics"' in line])
    calls, units = Hourly(dict(faults.meter.calls), 60), 60 * faults.meter.total_write_units
    mappings = len(cloud.stack.template.resources("AWS::Lambda::EventSourceMapping"))
    polls = _price("SQS requests", mappings * POLLERS * POLLS_AN_HOUR) * HOURS_A_MONTH
    yield Result("idle stack, queues that Lambda polls", mappings, "queues")
    yield Result("idle stack, polling", polls, "USD/month")
    yield Result("idle stack, invocations that publish metrics each minute", metrics, "", at_most=0)
    tick = _usd(calls, units) + _lambda(60) * HOURS_A_MONTH
    yield Result("idle stack, tick", tick, "USD/month")
    yield Result("idle stack", polls + tick + metrics * METRIC_USD, "USD/month", at_most=1)


def _usd(calls: Hourly, write_units: float) -> float:
    hour = _price("SQS requests", calls.sqs) + _price("DynamoDB write units", write_units)
    return (hour + _price("DynamoDB read units", calls.reads)) * HOURS_A_MONTH


def _api(requests: float) -> float:
    return (
        _price("HTTP API requests", requests) + _lambda(requests) + _lambda(requests, AUTHORIZER_GB_SECONDS)
    )


def _lambda(invocations: float, gigabytes: float = SHORT_CALL_GB_SECONDS) -> float:
    """Requests, computing time and log lines of short invocations."""
    computed = _price("Lambda requests", invocations) + _price("Lambda GB-seconds", invocations * gigabytes)
    return computed + invocations * LOG_BYTES / 1e9 * LOG_USD_PER_GB


def _price(item: str, count: float) -> float:
    return count * PRICES[item].usd_per_million / 1e6
