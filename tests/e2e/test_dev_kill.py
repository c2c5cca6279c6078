"""What `shardmill dev` has accepted survives a SIGKILL of all its processes right after the answer."""

import os
import signal
from pathlib import Path
from typing import Any

from support.laptop import Laptop, start_laptop
from support.processes import descendants, still_alive
from support.waits import run_until

STEPS = [
    {"stepName": "a", "type": "noop", "sharding": 2},
    {"stepName": "b", "type": "noop", "dependentStep": "a"},
]
SCHEDULE = {"cron": "0 0 3 * *", "timezone": "UTC"}
WORKER = {"name": "w", "groups": ["default"], "host": "h", "port": 1, "cores": 1, "apps": ["*"], "slots": 1}
JOB = "/v1/jobs/killed/t"
ENDS = ("SUCCESS", "FAILED", "KILLED")


def kill_all(laptop: Laptop) -> None:
    """Kill the emulator first, so that it has no time to save, then the rest."""
    processes = descendants(laptop.process.pid)
    emulator = next(pid for pid in processes if b"emulator" in Path(f"/proc/{pid}/cmdline").read_bytes())
    for pid in (emulator, laptop.process.pid, *processes - {emulator}):
        os.kill(pid, signal.SIGKILL)
    assert still_alive(processes | {laptop.process.pid}, 5) == {}


def submit(laptop: Laptop) -> None:
    assert laptop.request("PUT", "/v1/definitions/killed", {"steps": STEPS}).is_success
    answer = laptop.request("POST", "/v1/jobs", {"jobName": "killed", "trigger": "t"})
    assert answer.status_code == 202, answer.text


def lease(laptop: Laptop, *, or_end: bool = False) -> tuple[str, list[Any]]:
    """Register a worker and lease a task; with `or_end`, return without one if the job has ended."""
    me = laptop.request("POST", "/v1/workers", WORKER).json()
    request = {"workerId": me["id"], "session": me["session"], "max": 1, "waitSeconds": 5}
    leases: list[Any] = []

    def leased() -> bool:
        leases.extend(laptop.request("POST", "/v1/work:lease", request).json()["items"])
        return bool(leases) or (or_end and state(laptop) in ENDS)

    run_until(leased, timeout=90)  # what was interrupted may have to wait for the tick of the next minute
    return me["id"], leases


def report(laptop: Laptop, worker: str, leases: list[Any]) -> None:
    results = [
        {key: one[key] for key in ("taskId", "attempt", "receipt")} | {"outcome": "success"} for one in leases
    ]
    answer = laptop.request("POST", "/v1/work:report", {"workerId": worker, "results": results})
    assert answer.is_success, answer.text


def state(laptop: Laptop) -> str:
    return str(laptop.request("GET", JOB).json()["state"])


def run_to_the_end(laptop: Laptop) -> str:
    while state(laptop) not in ENDS:
        worker, leases = lease(laptop, or_end=True)  # the job ends a moment after its last report
        if leases:
            report(laptop, worker, leases)
    return state(laptop)


def test_a_job_a_schedule_and_a_result_survive(tmp_path: Path) -> None:
    with start_laptop(tmp_path, workers=0) as laptop:
        submit(laptop)
        assert laptop.request("PUT", "/v1/schedules/killed/nightly", SCHEDULE).is_success
        kill_all(laptop)
    with start_laptop(tmp_path, workers=0) as laptop:
        assert laptop.request("GET", "/v1/definitions/killed").is_success
        assert laptop.request("GET", "/v1/schedules/killed/nightly").is_success
        worker, leases = lease(laptop)
        report(laptop, worker, leases)
        kill_all(laptop)
    with start_laptop(tmp_path, workers=0) as laptop:
        ended = laptop.request("GET", f"{JOB}/steps/a/tasks?state=SUCCESS").json()["items"]
        assert [task["id"] for task in ended] == [leases[0]["taskId"]]
        assert run_to_the_end(laptop) == "SUCCESS"


def test_a_kill_request_survives(tmp_path: Path) -> None:
    with start_laptop(tmp_path, workers=0) as laptop:
        submit(laptop)
        lease(laptop)
        answer = laptop.request("POST", f"{JOB}:kill")
        assert answer.is_success, answer.text
        kill_all(laptop)
    with start_laptop(tmp_path, workers=0) as laptop:
        assert state(laptop) == "KILLED"
        again = laptop.request("POST", "/v1/jobs", {"jobName": "killed", "trigger": "t2"})
        assert again.status_code == 202
