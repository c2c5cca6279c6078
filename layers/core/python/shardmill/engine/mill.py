"""Everything a use case works with: the stores, the queues, the machines, the bus."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from shardmill.aws import clients
from shardmill.aws.bus import Bus
from shardmill.aws.files import Files
from shardmill.aws.machines import Machines
from shardmill.aws.queues import Queues
from shardmill.aws.settings import Settings
from shardmill.engine.cache import Recent
from shardmill.store import keys
from shardmill.store.deadlines import Deadlines
from shardmill.store.definitions import Definitions
from shardmill.store.jobs import Jobs
from shardmill.store.rows import GroupRow, StepRow, WorkerRow
from shardmill.store.runs import Runs
from shardmill.store.schedules import Schedules
from shardmill.store.shards import Shards
from shardmill.store.slots import Slots
from shardmill.store.table import Table
from shardmill.store.workers import Groups, Workers

LOOK_AGAIN_MS = 60_000  # how soon the tick looks at a Job again
STEP_CACHE_MS = 2_000
GROUP_CACHE_MS = 5_000
CREW_CACHE_MS = 3_000


@dataclass(frozen=True)
class Mill:
    settings: Settings
    definitions: Definitions
    jobs: Jobs
    deadlines: Deadlines
    shards: Shards
    workers: Workers
    groups: Groups
    slots: Slots
    schedules: Schedules
    runs: Runs
    queues: Queues
    machines: Machines
    bus: Bus
    files: Files
    recent_steps: Recent[tuple[str, int, int], StepRow]
    recent_groups: Recent[str, GroupRow]
    recent_crews: Recent[str, list[WorkerRow]]

    @classmethod
    def connect(cls, settings: Settings) -> Mill:
        table = Table(clients.dynamodb(), settings.table)
        return cls(
            settings=settings,
            definitions=Definitions(table),
            jobs=Jobs(table),
            deadlines=Deadlines(table),
            shards=Shards(table),
            workers=Workers(table),
            groups=Groups(table),
            slots=Slots(table),
            schedules=Schedules(table),
            runs=Runs(table),
            queues=Queues(clients.sqs(), settings.dead_queue),
            machines=Machines(clients.stepfunctions(), settings.job_machine, settings.step_machine),
            bus=Bus(clients.events(), settings.bus),
            files=Files(clients.s3(), settings.bucket),
            recent_steps=Recent(STEP_CACHE_MS),
            recent_groups=Recent(GROUP_CACHE_MS),
            recent_crews=Recent(CREW_CACHE_MS),
        )

    def start_step(self, step: StepRow) -> None:
        self.machines.start_step(
            step.job_id, step.run, step.index, keys.step(step.job_id, step.run, step.index)
        )


@cache
def mill() -> Mill:
    """The deployment that this process belongs to."""
    return Mill.connect(Settings.from_environment())
