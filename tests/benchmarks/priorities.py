"""Ten priorities at once: order, speed and cost, relative to the same load in one priority."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks.result import Result
from shardmill.aws.settings import Settings
from shardmill.model.worker import Registration
from shardmill.model.worker import Result as TaskResult
from shardmill.worker.transport.direct import DirectTransport
from support.aws_rules.faults import Faults
from support.laptop import Laptop, start_laptop
from support.moto.moto_cloud import moto_cloud
from support.scenarios.job_runner import JobRunner

MIXED = tuple(range(1, 11))
SAME = (1,) * len(MIXED)
SMALL = {"stepName": "a", "sharding": 50}
LARGE = {"stepName": "a", "sharding": 150}
TASKS = len(MIXED) * (50 + 150) // 2
_TASKS_ON_MOTO = 64


class _Start(NamedTuple):
    seconds: float
    priority: int


def measure(folder: Path) -> Iterator[Result]:
    same_calls, same_units = _calls_per_task(SAME)
    calls, units = _calls_per_task(MIXED)
    ten = "ten jobs of 64 no-op tasks, priorities 1 to 10 at once"
    yield Result(f"AWS calls per task, {ten}", calls, "calls")
    yield Result("the same, relative to one priority", calls / same_calls, "x", at_most=1.1)
    yield Result(f"write units per task, {ten}", units, "units")
    yield Result("the same, relative to one priority", units / same_units, "x", at_most=1.05)
    with start_laptop(folder) as laptop:
        _run(laptop, "warm", SAME)
        same, _ = _run(laptop, "same", SAME)
        mixed, starts = _run(laptop, "mixed", MIXED)
    late = _lateness(starts)
    yield Result("throughput, priorities 1 to 10 at once, 1,000 no-op tasks", mixed, "tasks/s")
    yield Result("the same, relative to one priority", mixed / same, "x", at_least=0.8)
    yield Result("tasks that started before one of a higher priority", sum(map(bool, late)), "tasks")
    yield Result("the longest time by which they did", max(late), "s", at_most=5)


def _run(laptop: Laptop, name: str, priorities: Sequence[int]) -> tuple[float, list[_Start]]:
    """Start a job of each priority while the group is suspended; return tasks per second and their starts."""
    for kind, step in (("small", SMALL), ("large", LARGE)):
        laptop.request("PUT", f"/v1/definitions/{name}-{kind}", {"steps": [step]}).raise_for_status()
    laptop.request("POST", "/v1/groups/default:suspend", {"reason": "load"}).raise_for_status()
    time.sleep(6)  # workers read their group every five seconds
    jobs = [
        {"jobName": f"{name}-{'large' if at % 2 else 'small'}", "trigger": f"t{at}", "priority": priority}
        for at, priority in enumerate(priorities)
    ]
    Random(7).shuffle(jobs)
    for job in jobs:
        laptop.request("POST", "/v1/jobs", job).raise_for_status()
    _wait(laptop, jobs, {"READY"})
    laptop.request("POST", "/v1/groups/default:resume").raise_for_status()
    _wait(laptop, jobs, {"SUCCESS"})
    tasks = [(task, job["priority"]) for job in jobs for task in _tasks(laptop, job)]
    assert len(tasks) == TASKS
    starts = sorted(_Start(_seconds(task["checkoutTime"]), priority) for task, priority in tasks)
    last = max(_seconds(task["completedTime"]) for task, _ in tasks)
    return TASKS / (last - starts[0].seconds), starts


def _wait(laptop: Laptop, jobs: Sequence[dict[str, Any]], states: set[str]) -> None:
    for job in jobs:
        while True:
            found = laptop.request("GET", f"/v1/jobs/{job['jobName']}/{job['trigger']}").json()
            if found["steps"] and found["steps"][0]["state"] in states:
                break
            time.sleep(0.2)


def _tasks(laptop: Laptop, job: dict[str, Any]) -> list[dict[str, Any]]:
    path = f"/v1/jobs/{job['jobName']}/{job['trigger']}/steps/a/tasks?limit=1000"
    items: list[dict[str, Any]] = laptop.request("GET", path).json()["items"]
    return items


def _seconds(time_text: str) -> float:
    return datetime.fromisoformat(time_text).timestamp()


def _lateness(starts: Sequence[_Start]) -> list[float]:
    """For each task, how long it started before the last one of a higher priority; all waited by then."""
    last = {priority: max(s.seconds for s in starts if s.priority == priority) for _, priority in starts}
    return [
        max([0.0, *(end - seconds for higher, end in last.items() if higher > priority)])
        for seconds, priority in starts
    ]


def _calls_per_task(priorities: Sequence[int]) -> tuple[float, float]:
    """Calls and write units for each task until all jobs have ended, after their messages were sent."""
    with moto_cloud() as cloud, Faults(weigh=True, rules=False) as faults:
        runner = JobRunner(cloud)
        runner.define({"stepName": "a", "sharding": _TASKS_ON_MOTO})
        for at, priority in enumerate(priorities):
            runner.submit(f"t{at}", priority=priority)
            cloud.run_until(lambda: runner.job(f"t{at}")["steps"] and runner.row(0, f"t{at}").token)  # noqa: B023
        transport = DirectTransport(Settings.from_environment())
        transport.register(Registration(name="direct", groups=["default"]))
        faults.meter.reset()
        tasks = _TASKS_ON_MOTO * len(priorities)
        done = 0
        while done < tasks:
            leases = transport.lease(10, 5)
            held = [
                {"taskId": each.task_id, "attempt": each.attempt, "receipt": each.receipt} for each in leases
            ]
            transport.report([TaskResult.model_validate({**each, "outcome": "success"}) for each in held])
            done += len(leases)
        cloud.run_until(lambda: all(runner.ended(f"t{at}") for at in range(len(priorities))))
        calls, units = faults.meter.total_calls, faults.meter.total_write_units
        transport.close()
        transport.join(10)
        return calls / tasks, units / tasks
