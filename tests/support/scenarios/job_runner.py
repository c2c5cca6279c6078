"""Run Jobs on moto with the real handlers and state machines and a worker that the test drives."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from shardmill.engine.groups import groups
from shardmill.engine.mill import Mill, mill
from shardmill.model.groups.group import GroupRequest
from shardmill.model.worker import Lease
from shardmill.store.rows import JobRow, StepRow
from support.moto.cloud import Cloud
from support.scenarios.manual_worker import ManualWorker
from support.waits import NeverHappened, run_until

ENDS = {"SUCCESS", "FAILED", "KILLED", "SUSPENDED"}
OutcomeOf = Callable[[Lease], str]


def succeed(_: Lease) -> str:
    return "success"


def fail_shards(*indices: int, step: str | None = None, outcome: str = "failed-permanent") -> OutcomeOf:
    """Fail the tasks of these shards, of one step or of any; the others succeed."""

    def outcome_of(lease: Lease) -> str:
        chosen = lease.sharding.index in indices and step in (None, lease.step_name)
        return outcome if chosen else "success"

    return outcome_of


class JobRunner:
    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.mill: Mill = mill()
        self.worker = ManualWorker(self.mill)
        self.leased: list[Lease] = []

    def define(self, *steps: dict[str, Any], name: str = "orders", **job: Any) -> None:
        answer = self.cloud.http("PUT", f"/v1/definitions/{name}", {"steps": list(steps), **job})
        assert answer.status in (200, 201), answer.json

    def submit(self, trigger: str = "t1", name: str = "orders", **request: Any) -> dict[str, Any]:
        answer = self.cloud.http("POST", "/v1/jobs", {"jobName": name, "trigger": trigger, **request})
        assert answer.status in (200, 202), answer.json
        return answer.json

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        """POST, and check the status of the response."""
        answer = self.cloud.http("POST", path, body)
        assert answer.status == status, answer
        return answer.json

    def job(self, trigger: str = "t1", name: str = "orders") -> dict[str, Any]:
        return self.cloud.http("GET", f"/v1/jobs/{name}/{trigger}").json

    def ended(self, trigger: str = "t1", name: str = "orders") -> bool:
        """Whether the Job has ended; reads its row, because this is called often."""
        job = self.mill.jobs.find(name, trigger)
        return job is not None and job.state.value in ENDS

    def step(self, step_name: str, trigger: str = "t1", name: str = "orders") -> dict[str, Any]:
        return self.cloud.http("GET", f"/v1/jobs/{name}/{trigger}/steps/{step_name}").json

    def task(self, step_name: str, index: int, trigger: str = "t1", name: str = "orders") -> dict[str, Any]:
        return self.cloud.http("GET", f"/v1/jobs/{name}/{trigger}/steps/{step_name}/tasks/{index}").json

    def step_tasks(self, step_name: str, trigger: str = "t1", name: str = "orders") -> list[dict[str, Any]]:
        path = f"/v1/jobs/{name}/{trigger}/steps/{step_name}/tasks?limit=1000"
        items: list[dict[str, Any]] = self.cloud.http("GET", path).json["items"]
        return items

    def states(self, trigger: str = "t1", name: str = "orders") -> dict[str, str]:
        return {step["stepName"]: step["state"] for step in self.job(trigger, name)["steps"]}

    def row(self, index: int, trigger: str = "t1", name: str = "orders") -> StepRow:
        """The row of a step, as soon as its Job is planned."""
        job = self._row(trigger, name)
        return run_until(lambda: self.mill.jobs.step(job.id, job.run, index))

    def work(self, outcome_of: OutcomeOf = succeed) -> None:
        leases = self.worker.take()
        self.leased += leases
        for outcome in sorted({outcome_of(lease) for lease in leases}):
            self.worker.report([lease for lease in leases if outcome_of(lease) == outcome], outcome)

    def run(
        self, outcome_of: OutcomeOf = succeed, trigger: str = "t1", name: str = "orders", timeout: float = 30
    ) -> dict[str, Any]:
        """Work until the Job has ended and its event is published; return the Job."""
        self.cloud.run_until(
            lambda: self.ended(trigger, name), timeout, meanwhile=lambda: self.work(outcome_of)
        )
        with suppress(NeverHappened):
            self.cloud.run_until(lambda: not self._row(trigger, name).event_pending, 3)
        return self.job(trigger, name)

    def _row(self, trigger: str, name: str) -> JobRow:
        job = self.mill.jobs.find(name, trigger)
        assert job is not None
        return job

    def take(self, count: int, timeout: float = 10) -> list[Lease]:
        """Lease until this many tasks are held."""
        held: list[Lease] = []

        def more() -> None:
            held.extend(self.worker.take(most=min(10, count - len(held))))

        self.cloud.run_until(lambda: len(held) >= count, timeout, meanwhile=more)
        self.leased += held
        return held

    def quick_group(self) -> None:
        """Work in a group whose leases last a second, shorter than the API allows."""
        request = GroupRequest.model_construct(kind="pull", lease_seconds=1, types=None)
        groups.save(self.mill, "quick", request, self.worker.clock())
        self.worker = ManualWorker(self.mill, "quick", ["quick"])

    def tick(self, minutes: float = 0) -> Any:
        """Run the tick with a clock this many minutes ahead."""
        return self.cloud.tick(datetime.now(UTC) + timedelta(minutes=minutes))

    def later(self, seconds: float) -> None:
        """Set the worker's clock ahead by this many seconds."""
        offset = int(seconds * 1000)
        self.worker.clock = lambda: int(time.time() * 1000) + offset
