"""The deployment under a race: one clock, moto's table and queues, stepped state machines, workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from moto.dynamodb.models import dynamodb_backends
from moto.sqs import models as moto_sqs

from shardmill.aws import clients
from shardmill.aws.bus import Bus
from shardmill.aws.machines import Machines
from shardmill.aws.queues import Ticket
from shardmill.aws.settings import Settings
from shardmill.engine import definitions
from shardmill.engine.groups import groups
from shardmill.engine.jobs.submit import submit
from shardmill.engine.mill import STEP_CACHE_MS, WORKER_CACHE_MS, Mill, TtlCache, recent_groups
from shardmill.engine.orchestrate import act
from shardmill.engine.running.close_step import StepLost, StillOpen
from shardmill.model.actor import Actor
from shardmill.model.groups.group import GroupRequest
from shardmill.model.worker import Lease
from shardmill.store.codec import decode_item
from shardmill.store.rows import JobRow, StepRow
from shardmill.store.tasks import keys as task_keys
from support.aws_rules.call import ProcessKilled
from support.aws_rules.lambda_concurrency import TooManyRequests
from support.moto.cloud import Cloud
from support.moto.stack import ACCOUNT, REGION
from support.moto.step_functions import SteppedStateMachines
from support.paths import PROJECT
from support.scenarios.manual_clock import BEGIN, ManualClock, SkewedClock
from support.scenarios.manual_worker import ManualWorker
from support.scenarios.races.interrupter import Interrupter

LEASE_SECONDS = 60
GROUP = "races"
JOB, TRIGGER = "race", "t1"
ME = Actor("me")
ID = "00000000-0000-7000-8000-000000000001"


class NoBus:
    """An EventBridge client whose calls only reach the interrupter."""

    def __init__(self, through: Callable[[Callable[[], Any]], Any]) -> None:
        self._through = through

    def put_events(self, **_: Any) -> dict[str, Any]:
        return self._through(lambda: {"FailedEntryCount": 0})  # type: ignore[no-any-return]


@dataclass
class RaceWorker:
    """A worker process and the leases that it believes it holds."""

    name: str
    manual: ManualWorker
    held: dict[tuple[str, int], Lease] = field(default_factory=dict)


@dataclass
class RaceEnvironment:
    cloud: Cloud
    clock: ManualClock
    interrupter: Interrupter
    worker_count: int = 2
    workers: list[RaceWorker] = field(default_factory=list)
    all_leases: list[tuple[str, Lease]] = field(default_factory=list)
    leased_attempts: set[tuple[str, int, int]] = field(default_factory=set)
    acknowledged_kills: set[tuple[str, str, int, int]] = field(default_factory=set)
    """By worker, Job, run and step."""
    delivered_failures: set[str] = field(default_factory=set)
    skew_ms: int = 0
    """How far the clock of the first worker is ahead."""
    throttles: int = 0
    """How many of the next Lambda invocations are refused."""

    def __post_init__(self) -> None:
        self.clock.ms = BEGIN
        self._table().items.clear()
        settings = Settings.from_environment()
        self.state_machines = SteppedStateMachines(
            PROJECT / "statemachine",
            self._orchestrate,
            lambda **request: clients.dynamodb().update_item(**request),
            settings.table,
            self.interrupter.through,
        )
        machines = Machines(self.state_machines, settings.job_machine, settings.step_machine)  # type: ignore[arg-type]
        bus = Bus(NoBus(self.interrupter.through), settings.bus)  # type: ignore[arg-type]
        self._mill = replace(Mill.connect(settings), machines=machines, bus=bus)
        self.mill = self.process()
        self.machine_mill = self.process()
        request = GroupRequest(kind="pull", lease_seconds=LEASE_SECONDS)
        self.group, _ = groups.save(self.mill, GROUP, request, self.clock())

    def process(self) -> Mill:
        """Return a mill with caches of its own, as in a separate process."""
        return replace(
            self._mill,
            recent_steps=TtlCache(STEP_CACHE_MS),
            recent_groups=recent_groups(),
            recent_workers=TtlCache(WORKER_CACHE_MS),
        )

    def begin(self, document: dict[str, Any]) -> None:
        define = {"workerGroups": [GROUP], **document}
        definitions.save(self.mill, JOB, define, ME, now=self.clock())
        request = {"jobName": JOB, "trigger": TRIGGER}
        submit(self.mill, request, ME, now=self.clock(), new_id=lambda: ID)
        for number in range(self.worker_count):
            self.workers.append(self._join(f"w{number}"))

    def _join(self, name: str) -> RaceWorker:
        manual = ManualWorker(self.process(), name, [GROUP])
        manual.clock = SkewedClock(self.clock, self.skew_ms if name == "w0" else 0)
        return RaceWorker(name, manual)

    def close(self) -> None:
        self.mill.queues.remove(self.group.queues)

    def _orchestrate(self, event: dict[str, Any]) -> Any:
        if self.throttles:
            self.throttles -= 1
            raise TooManyRequests("ConcurrentInvocationLimitExceeded")
        try:
            return act(self.machine_mill, event, self.clock())
        except (StillOpen, StepLost, ProcessKilled):
            raise
        except Exception as error:
            if not self.job():
                raise
            raise AssertionError(f"the action {event} of a state machine raised {error!r}") from error

    # rows and messages, read from moto's memory because its API is much slower

    def _table(self) -> Any:
        """Look it up each time: moto replaces the table when it cancels a transaction."""
        return dynamodb_backends[ACCOUNT][REGION].get_table(self.cloud.table)

    def rows(self) -> dict[tuple[str, str], dict[str, Any]]:
        return {
            (row["pk"], row["sk"]): row
            for partition in self._table().items.values()
            for item in partition.values()
            for row in [decode_item(item.to_json()["Attributes"])]
        }

    def job(self) -> JobRow | None:
        row = self.rows().get((f"JOB#{ID}", "job"))
        return JobRow.from_item(row) if row else None

    def steps(self) -> dict[tuple[int, int], StepRow]:
        """By run and index, without gates."""
        found = [
            StepRow.from_item(row)
            for (pk, sk), row in self.rows().items()
            if pk == f"JOB#{ID}" and sk not in ("job", "watch")
        ]
        return {(step.run, step.index): step for step in found if step.kind == "step"}

    def current_steps(self) -> list[StepRow]:
        """The steps of the current run."""
        job = self.job()
        return [step for (run, _), step in sorted(self.steps().items()) if job and run == job.run]

    def messages(self) -> list[Ticket]:
        found = []
        for url in self.group.queues:
            queue = moto_sqs.sqs_backends[ACCOUNT][REGION].queues[url.rsplit("/", 1)[1]]
            found += [ticket for each in queue._messages if (ticket := Ticket.decode(each.body))]
        return found


def block_key(step: StepRow, number: int) -> tuple[str, str]:
    key = task_keys.block(step.job_id, step.run, step.index, number)
    return key["pk"], key["sk"]
