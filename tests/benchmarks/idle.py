"""Cost of an idle worker, from its calls on moto."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event, Thread

from benchmarks.result import Result
from shardmill.aws.settings import Settings
from shardmill.local.prices import USD_PER_MILLION
from shardmill.model.worker import MAX_WAIT_SECONDS
from shardmill.worker.run import run_worker
from shardmill.worker.transport.direct import DirectTransport
from support.aws_rules.faults import Faults
from support.moto.cloud import Cloud
from support.moto.moto_cloud import moto_cloud

HOURS_A_MONTH = 730
LEASE_GB = 0.25
SHORT_CALL_GB_SECONDS = 0.1 * 0.5
MEASURED_SECONDS = 61


def measure(_: Path) -> Iterator[Result]:
    with moto_cloud() as cloud, Faults(weigh=True, rules=False) as faults:
        calls, units = _direct(faults)
        yield Result("idle direct worker", calls.total, "AWS calls/hour")
        yield Result("idle direct worker", _usd(calls, units), "USD/month")
        calls, units = _over_http(cloud, faults)
        yield Result("idle worker over HTTP", calls.total, "AWS calls/hour")
        requests = 3600 / MAX_WAIT_SECONDS * 2  # lease calls and heartbeats
        gigabytes = 3600 * LEASE_GB + 2 * requests * SHORT_CALL_GB_SECONDS
        lambdas = _price("HTTP API requests", requests) + _price("Lambda requests", 2 * requests)
        lambdas += _price("Lambda GB-seconds", gigabytes)
        yield Result("idle worker over HTTP", _usd(calls, units) + lambdas * HOURS_A_MONTH, "USD/month")


class Hourly:
    """Calls per hour, extrapolated from a shorter time."""

    def __init__(self, calls: Mapping[str, int], factor: float) -> None:
        self.sqs = factor * sum(n for name, n in calls.items() if name.startswith("sqs."))
        self.reads = factor * sum(
            n for name, n in calls.items() if name.split(".")[1] in ("GetItem", "BatchGetItem", "Query")
        )
        self.total = factor * sum(calls.values())


def _direct(faults: Faults) -> tuple[Hourly, float]:
    stop = Event()
    transport = DirectTransport(Settings.from_environment())
    worker = Thread(target=lambda: run_worker(["default"], 4, transport, name="idle", stop=stop))
    worker.start()
    time.sleep(2)
    faults.meter.reset()
    time.sleep(MEASURED_SECONDS)
    calls, units = dict(faults.meter.calls), faults.meter.total_write_units
    stop.set()
    worker.join()
    factor = 3600 / MEASURED_SECONDS
    return Hourly(calls, factor), units * factor


def _over_http(cloud: Cloud, faults: Faults) -> tuple[Hourly, float]:
    me = cloud.http("POST", "/v1/workers", {"name": "idle-http", "groups": ["default"]}).json
    faults.meter.reset()
    lease = {"workerId": me["id"], "max": 4, "waitSeconds": MAX_WAIT_SECONDS}
    assert cloud.http("POST", "/v1/work:lease", lease).json["items"] == []
    cloud.http("POST", f"/v1/workers/{me['id']}:heartbeat", {"session": me["session"]})
    factor = 3600 / MAX_WAIT_SECONDS
    return Hourly(dict(faults.meter.calls), factor), faults.meter.total_write_units * factor


def _usd(calls: Hourly, write_units: float) -> float:
    hour = _price("SQS requests", calls.sqs) + _price("DynamoDB write units", write_units)
    return (hour + _price("DynamoDB read units", calls.reads)) * HOURS_A_MONTH


def _price(item: str, count: float) -> float:
    return count * USD_PER_MILLION[item] / 1e6
