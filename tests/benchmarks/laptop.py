"""The laptop cloud: startup, memory, latency, throughput, a chain of steps, and fairness."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks import plain
from benchmarks.result import Result
from support.laptop import Laptop, start_laptop
from support.processes import descendants

ENDS = {"SUCCESS", "FAILED", "KILLED", "SUSPENDED"}


def measure(folder: Path) -> Iterator[Result]:
    started = time.perf_counter()
    with start_laptop(folder) as laptop:
        yield Result("`shardmill dev` from start to ready", time.perf_counter() - started, "s", at_most=3)
        time.sleep(20)
        yield Result(
            "memory of an idle `dev` with one worker, 20 s after ready", _memory(laptop), "MB", at_most=500
        )
        run_job(laptop, "warm", [{"stepName": "a", "sharding": 50}])
        first = [_to_first_task(laptop, n) for n in range(15)]
        yield Result("submit to first task, median", statistics.median(first), "s", at_most=0.1)
        loop = plain.tasks_per_second(laptop.aws_endpoint, 1000)
        yield Result("plain boto3 loop, 1,000 tasks", loop, "tasks/s")
        for shards in (1_000, 10_000):
            took = run_job(laptop, f"noop-{shards}", [{"stepName": "a", "sharding": shards}])
            speed = shards / took
            least = 300 if shards == 1_000 else None
            yield Result(f"throughput, {shards:,} no-op shards", speed, "tasks/s", at_least=least)
            if shards == 1_000:
                yield Result("throughput relative to the plain boto3 loop", speed / loop, "x", at_least=1.0)
        chain: list[dict[str, Any]] = [{"stepName": "s0"}]
        chain += [{"stepName": f"s{n}", "dependentStep": f"s{n - 1}"} for n in range(1, 100)]
        yield Result("chain of 100 one-task steps", run_job(laptop, "chain", chain), "s", at_most=4)
        yield Result("200 one-task jobs submitted at once", _many_jobs(laptop, 200), "s", at_most=8)
        yield Result("a job of 10 tasks beside one of 10,000, relative to alone", _fairness(laptop), "x")
        yield Result("start of a retry after its time, latest of 20", _retries(laptop), "s", at_most=2)


def _memory(laptop: Laptop) -> float:
    """Megabytes of all processes of `dev`, with the pages that several share counted once (PSS)."""
    kilobytes = 0
    for pid in {laptop.process.pid, *descendants(laptop.process.pid)}:
        with suppress(FileNotFoundError, ProcessLookupError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes / 1024


def run_job(laptop: Laptop, name: str, steps: list[dict[str, Any]], **job: Any) -> float:
    """Seconds from submit to SUCCESS, from the times in the Job."""
    laptop.request("PUT", f"/v1/definitions/{name}", {"steps": steps, **job}).raise_for_status()
    laptop.request("POST", "/v1/jobs", {"jobName": name, "trigger": "t"}).raise_for_status()
    while True:
        time.sleep(0.5)
        job = laptop.request("GET", f"/v1/jobs?jobName={name}").json()["items"][0]
        if job["state"] in ENDS:
            assert job["state"] == "SUCCESS", job
            return _seconds(job["createTime"], job["completedTime"])


def _many_jobs(laptop: Laptop, count: int) -> float:
    """Seconds from the first request to the end of the last Job, submitted in batches of a hundred."""
    laptop.request("PUT", "/v1/definitions/many", {"steps": [{"stepName": "a"}]}).raise_for_status()
    started = time.time()
    for first in range(0, count, 100):
        requests = [{"jobName": "many", "trigger": f"t{n}"} for n in range(first, min(first + 100, count))]
        answer = laptop.request("POST", "/v1/jobs:batch", {"requests": requests})
        answer.raise_for_status()
        assert all(item["job"] for item in answer.json()["items"]), answer.json()
    while True:
        time.sleep(0.5)
        jobs = laptop.request("GET", f"/v1/jobs?jobName=many&limit={count}").json()["items"]
        assert len(jobs) == count, "a page contains all"
        if all(job["state"] in ENDS for job in jobs):
            assert {job["state"] for job in jobs} == {"SUCCESS"}
            return max(datetime.fromisoformat(job["completedTime"]).timestamp() for job in jobs) - started


def _fairness(laptop: Laptop) -> float:
    """Time of a small job beside a large one, relative to alone; 20 ms per task keep it running."""
    task = {"stepName": "a", "type": "shell", "content": "sleep 0.02"}
    alone = run_job(laptop, "small-alone", [{**task, "sharding": 10}])
    large = {"steps": [{**task, "sharding": 10_000}]}
    laptop.request("PUT", "/v1/definitions/large", large).raise_for_status()
    laptop.request("POST", "/v1/jobs", {"jobName": "large", "trigger": "t"}).raise_for_status()
    while laptop.request("GET", "/v1/jobs/large/t").json()["state"] != "RUNNING":
        time.sleep(0.2)
    beside = run_job(laptop, "small-beside", [{**task, "sharding": 10}])
    assert laptop.request("GET", "/v1/jobs/large/t").json()["state"] == "RUNNING"
    return beside / alone


def _retries(laptop: Laptop) -> float:
    """The longest time from the end of `failedInterval` to the retry, which another worker must start.

    One worker is connected straight to AWS and one over HTTP; both are idle. Each task fails once.
    """
    laptop.request("PUT", "/v1/groups/retries", {}).raise_for_status()
    for options in (("--aws",), ()):
        laptop.worker("--group", "retries", "--name", f"retries{''.join(options)}", "--slots", "4", *options)
    while len(laptop.request("GET", "/v1/workers?group=retries").json()["items"]) < 2:
        time.sleep(0.2)
    step = {"stepName": "a", "sharding": 20, "type": "shell", "content": 'test "$SHARDMILL_ATTEMPT" -gt 1'}
    rules = {"workerGroup": "retries", "priority": -1, "failedRetries": 3, "failedInterval": 1}
    run_job(laptop, "retries", [{**step}], **rules)
    waits = []
    for index in range(20):
        task = laptop.request("GET", f"/v1/jobs/retries/t/steps/a/tasks/{index}").json()
        first, second = task["attempts"][:2]
        waits.append(_seconds(first["endTime"], second["startTime"]) - 1)
    return max(waits)


def _to_first_task(laptop: Laptop, number: int) -> float:
    trigger = f"first-{number}"
    started = time.time()
    laptop.request("POST", "/v1/jobs", {"jobName": "warm", "trigger": trigger}).raise_for_status()
    while True:
        time.sleep(0.3)
        job = laptop.request("GET", f"/v1/jobs/warm/{trigger}").json()
        if job["state"] in ENDS:
            return datetime.fromisoformat(job["startedTime"]).timestamp() - started


def _seconds(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
