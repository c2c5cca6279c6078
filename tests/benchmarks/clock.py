"""Schedules due in the same minute: AWS calls per firing, counted on moto, and firings per second."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from benchmarks.result import Result
from shardmill.aws.clock import new_id
from shardmill.engine.schedules.catch_up import Visit
from shardmill.engine.schedules.due import fire_all
from support.aws_rules.faults import Faults
from support.laptop import Laptop, start_laptop
from support.moto.moto_cloud import moto_cloud
from support.scenarios.job_runner import JobRunner
from support.scenarios.schedule_clock import ScheduleClock, ms


def measure(folder: Path) -> Iterator[Result]:
    few, many = _calls(10), _calls(60)
    yield Result("AWS calls per firing, 60 schedules due together", many, "calls")
    yield Result("AWS calls per firing, 60 due together relative to 10", many / few, "x", at_most=1.2)
    with start_laptop(folder, workers=0) as laptop:
        speeds = {count: _speed(laptop, count) for count in (250, 1_000)}
    for count, speed in speeds.items():
        yield Result(f"{count:,} schedules due together, on the laptop cloud", speed, "firings/s")
    yield Result("firings per second, 1,000 due together relative to 250", speeds[1_000] / speeds[250], "x")


class _CountingMachines:
    """Replaces the state machines, whose own calls do not belong to the tick."""

    def __init__(self) -> None:
        self.count = 0

    def start_job(self, job_id: str, run: int) -> None:
        self.count += 1


def _calls(schedules: int) -> float:
    """AWS calls per firing of schedules that are due together."""
    with moto_cloud() as cloud, Faults(rules=False) as faults:
        runner = JobRunner(cloud)
        runner.define({"stepName": "a"})
        for number in range(schedules):
            ScheduleClock(runner).save("2026-01-01 00:00", schedule_id=f"s{number}", cron="0 1 * * *")
        machines = _CountingMachines()
        mill = replace(runner.mill, machines=machines)  # type: ignore[arg-type]
        now = ms("2026-01-01 01:00")
        faults.meter.reset()
        due = [key for _, key in mill.schedules.due(now)]
        assert fire_all(mill, due, Visit.of_tick(now, now), new_id, lambda: now).started == schedules
        return (faults.meter.total_calls + machines.count) / schedules


def _speed(laptop: Laptop, count: int) -> float:
    """Firings per second, from the call of the tick until the last Job exists."""
    when = f"{2040 + count // 250}-01-01T00:00:00Z"  # out of reach of the real tick
    name = f"due-{count}"
    # The Jobs wait for a missing one, so that only the firing is measured.
    waiting = {"steps": [{"stepName": "a"}], "dependencies": ["missing"]}
    laptop.request("PUT", f"/v1/definitions/{name}", waiting).raise_for_status()

    def save(number: int) -> None:
        laptop.request("PUT", f"/v1/schedules/{name}/n{number}", {"at": when}).raise_for_status()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(save, range(count)))
    started = time.perf_counter()
    _tick(laptop, when)
    while not _all_fired(laptop, name):
        time.sleep(0.2)
    return count / (time.perf_counter() - started)


def _tick(laptop: Laptop, when: str) -> None:
    client: Any = boto3.client(
        "lambda",
        endpoint_url=laptop.aws_endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(read_timeout=600),
    )
    names = [each["FunctionName"] for each in client.list_functions()["Functions"]]
    event = {
        "version": "0",
        "id": new_id(),
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": "000000000000",
        "time": when,
        "region": "us-east-1",
        "resources": [],
        "detail": {},
    }
    tick = next(name for name in names if name.endswith("-tick"))
    client.invoke(FunctionName=tick, Payload=json.dumps(event).encode())


def _all_fired(laptop: Laptop, name: str) -> bool:
    """Whether no schedule of a definition has a next time."""
    cursor = ""
    while True:
        page = laptop.request("GET", f"/v1/schedules/{name}?limit=1000{cursor}").json()
        if any(each["nextTime"] for each in page["items"]):
            return False
        if not page["cursor"]:
            return True
        cursor = f"&cursor={page['cursor']}"
