"""A worker that leases, holds and reports tasks exactly when the test says so, as WorkerPolicy allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from shardmill.aws.queues import Message
from shardmill.engine.groups.matching import WorkerSession
from shardmill.engine.groups.totals import record_totals
from shardmill.engine.mill import Mill
from shardmill.engine.tasks.lease import lease
from shardmill.engine.tasks.report import report
from shardmill.engine.workers import registry
from shardmill.model.worker import HeldTask, Lease, Registration, Reported, Result
from shardmill.store.rows import WorkerRow
from shardmill.store.workers import Tally
from support.aws_rules.call import running_as
from support.aws_rules.grants import WORKER


class ManualWorker:
    @running_as(WORKER)
    def __init__(
        self,
        mill: Mill,
        name: str = "manual",
        groups: Iterable[str] = ("default",),
        apps: Iterable[str] = ("*",),
    ) -> None:
        self.mill = mill
        self.clock = lambda: int(time.time() * 1000)
        self.row: WorkerRow = registry.register(
            mill, Registration(name=name, groups=list(groups), apps=list(apps)), self.clock()
        )

    @running_as(WORKER)
    def receive(self, most: int = 10) -> list[Message]:
        """Receive messages, higher priorities first, as every worker does."""
        found: list[Message] = []
        for name in self.row.groups:
            group = self.mill.groups.get(name)
            assert group is not None
            for _, queue in group.lane_table.order():
                free = most - len(found)
                if free > 0:
                    url, hide = group.queues[queue], group.lease_seconds
                    found += self.mill.queues.receive(url, most=free, wait=0, hide=hide)
        return found

    @running_as(WORKER)
    def take(self, most: int = 10) -> list[Lease]:
        return lease(self.mill, WorkerSession.of(self.row), self.receive(most), self.clock())

    @running_as(WORKER)
    def report(
        self, leases: Iterable[Lease], outcome: str = "success", *, count_now: bool = True, **more: object
    ) -> list[Reported]:
        results = [
            Result.model_validate(
                {
                    "taskId": held.task_id,
                    "attempt": held.attempt,
                    "receipt": held.receipt,
                    "outcome": outcome,
                    **more,
                }
            )
            for held in leases
        ]
        if not results:
            return []
        tally = Tally()
        reported = report(self.mill, self.row.id, results, self.clock(), groups=self.row.groups, tally=tally)
        if count_now:
            self.row = record_totals(self.mill, self.row.id, tally, self.clock()) or self.row
        return reported

    @running_as(WORKER)
    def beat(self, held: Iterable[Lease], *, offline: bool = False) -> list[str]:
        """Send a heartbeat with these tasks; return those to drop."""
        work = [HeldTask(task_id=lease.task_id, attempt=lease.attempt, run=lease.run) for lease in held]
        beat = registry.heartbeat(
            self.mill, self.row.id, self.row.session, work, offline=offline, now=self.clock()
        )
        self.row = beat.worker
        return beat.drop

    def work(self, outcome_of: Callable[[Lease], str] = lambda _: "success") -> int:
        """Lease tasks and report each with its `outcome_of`; return their number."""
        leases = self.take()
        for outcome in sorted({outcome_of(held) for held in leases}):
            self.report([held for held in leases if outcome_of(held) == outcome], outcome)
        return len(leases)
