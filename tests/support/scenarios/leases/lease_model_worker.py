"""Workers and queues for the comparison of the engine with the lease model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shardmill.aws.queues import Message, Queues
from shardmill.engine.groups.totals import record_totals
from shardmill.engine.mill import Mill
from shardmill.engine.tasks.interruption import hand_back
from shardmill.engine.tasks.report import report
from shardmill.engine.workers import registry
from shardmill.engine.workers.poll import pull
from shardmill.model.worker import HandedBack, Lease, LeaseRequest, Registration, Reported, Result
from shardmill.store.workers import Tally
from support.scenarios.manual_clock import ManualClock
from support.scenarios.manual_worker import ManualWorker


class ModelWorker(ManualWorker):
    """A worker on the test's clock that records the leases that it believes it holds."""

    def __init__(self, mill: Mill, clock: ManualClock, name: str, group: str, apps: Iterable[str]) -> None:
        self.mill, self.clock = mill, clock
        registration = Registration(name=name, groups=[group], apps=list(apps))
        self.row = registry.register(mill, registration, clock())
        self.name, self.session = name, self.row.session
        self.held: dict[str, Lease] = {}

    def lease(self, most: int) -> list[Lease]:
        request = LeaseRequest(worker_id=self.row.id, session=self.session, max=most)
        return pull(self.mill, request, self.clock).leases

    def report_results(self, results: Sequence[Result], *, trusted: bool) -> list[Reported]:
        """Report as the API does, or as a direct worker (`trusted`)."""
        tally = Tally()
        reported = report(self.mill, self.row.id, results, self.clock(), tally=tally, trusted=trusted)
        if tally.done or tally.skip:
            row = record_totals(self.mill, self.row.id, tally, self.clock())
            assert row is not None
            if row.session == self.session:
                self.row = row
        return reported

    def hand_back(self, leases: Sequence[Lease]) -> list[str]:
        tasks = [
            HandedBack(task_id=held.task_id, attempt=held.attempt, receipt=held.receipt) for held in leases
        ]
        given = hand_back(self.mill, self.row.id, tasks, self.clock())
        if given:
            record_totals(self.mill, self.row.id, Tally(done=set(given)), self.clock())
        return given


class RecordingQueues(Queues):
    """Records the received messages."""

    received: list[Message]

    def receive(self, url: str, *, most: int, wait: int, hide: int) -> list[Message]:
        found = super().receive(url, most=most, wait=wait, hide=hide)
        self.received += found
        return found
