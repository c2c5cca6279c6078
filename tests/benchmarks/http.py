"""Throughput of workers over HTTP on the laptop cloud, relative to a plain boto3 loop in the same run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks import plain
from benchmarks.laptop import run_job
from benchmarks.result import Result
from support.laptop import start_laptop

WORKERS = 2
SLOTS = 10
SHARDS = 1_000
ROUNDS = 3


def measure(folder: Path) -> Iterator[Result]:
    with start_laptop(folder) as laptop:
        laptop.request("PUT", "/v1/groups/http", {}).raise_for_status()
        for number in range(WORKERS):
            laptop.worker("--group", "http", "--name", f"http-{number}", "--slots", str(SLOTS))
        while len(laptop.request("GET", "/v1/workers?group=http").json()["items"]) < WORKERS:
            time.sleep(0.2)
        step = {"stepName": "a", "sharding": 200}
        run_job(laptop, "http-warm", [step], workerGroup="http")
        ratios, speeds = [], []
        for number in range(ROUNDS):  # in turns, because other programs also use the machine
            loop = plain.tasks_per_second(laptop.aws_endpoint, SHARDS)
            took = run_job(laptop, f"http-{number}", [{**step, "sharding": SHARDS}], workerGroup="http")
            speeds.append(SHARDS / took)
            ratios.append(SHARDS / took / loop)
        yield Result(
            "throughput, 1,000 no-op shards, two workers over HTTP, median", median(speeds), "tasks/s"
        )
        yield Result("the same, relative to the plain boto3 loop", median(ratios), "x", at_least=0.6)
        yield Result("the same, best of three", max(ratios), "x")
