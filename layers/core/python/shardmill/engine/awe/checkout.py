"""Check a workunit out: the lease of one task for a client of the AWE protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shardmill.aws.queues import Message
from shardmill.engine.awe.errors import (
    ClientBusy,
    ClientSuspended,
    NoEligibleWork,
    QueueEmpty,
    QueueSuspended,
)
from shardmill.engine.groups.matching import WorkerSession, all_suspended, group_rows
from shardmill.engine.groups.totals import record_totals
from shardmill.engine.mill import Mill
from shardmill.engine.tasks.lease import lease, lease_behind
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.model.worker import Lease
from shardmill.store.rows import GroupRow, WorkerRow
from shardmill.store.workers import Tally

MAX_JOBS_EXAMINED = 3
MAX_UNITS = 100
"""Workunits that a client holds: its row has the receipt of each, with the handle of its message."""
_RECEIVES = 10
"""Maximum number of outdated messages of one queue before the next queue is polled."""
_ALL_QUEUES = "awe"
"""The key under which the cache of empty queues records that no workunit waits."""


def check_out(mill: Mill, worker: WorkerRow, space: int | None, clock: Callable[[], int]) -> Lease:
    """Lease one task for a client with `space` bytes. Raises the errors whose texts clients compare."""
    now = clock()
    if all_suspended(mill, now):
        raise QueueSuspended
    if not worker.takes_tasks:
        raise ClientSuspended
    if len(worker.work) >= MAX_UNITS:
        raise ClientBusy
    session = WorkerSession.of_client(worker, space)
    found, seen = _lease(mill, worker, session, clock)
    if not found:
        raise NoEligibleWork if seen or _work_waits(mill, now) else QueueEmpty
    mill.empty_queues.discard(_ALL_QUEUES)
    receipts = {task: text for task, text in worker.receipts.items() if task in worker.work}
    record_totals(
        mill,
        worker.id,
        Tally(checkout=1),
        clock(),
        taken=[found.task_id],
        receipts=receipts | {found.task_id: found.receipt},
    )
    return found


def _lease(
    mill: Mill, worker: WorkerRow, session: WorkerSession, clock: Callable[[], int], *, again: bool = False
) -> tuple[Lease | None, bool]:
    """The first task in the queues of a client's groups that it may run, and whether any message was seen.

    Queues that were empty a moment ago are left out: most calls come from idle clients. For the same reason,
    the groups are read again only when there is a message; if the order of their queues has changed, a queue
    of a higher priority may have one, so the queues are checked `again`.
    """
    groups = _active_groups(mill, worker, clock())
    hide = {queue: group.lease_seconds for group in groups for queue in group.queues}
    order = _by_priority(groups)
    empty = mill.empty_queues.get(order, lambda _: {}, clock())
    seen = False
    for queue in order:
        if queue in empty:
            continue
        for _ in range(_RECEIVES):
            messages = mill.queues.receive(queue, most=1, wait=0, hide=hide[queue])
            if not messages:
                mill.empty_queues.put(queue, True, clock())
                break
            if not seen and not again and _by_priority(_read_groups(mill, worker, clock())) != order:
                mill.queues.hide((message, 0) for message in messages)
                return _lease(mill, worker, session, clock, again=True)
            seen = True
            leases, bounced = _lease_messages(mill, session, messages, hide, clock)
            if leases:
                return leases[0], True
            if bounced:
                break
    return None, seen


def _active_groups(mill: Mill, worker: WorkerRow, now: int) -> list[GroupRow]:
    return [row for row in group_rows(mill, worker.groups, now).values() if not row.suspended]


def _read_groups(mill: Mill, worker: WorkerRow, now: int) -> list[GroupRow]:
    """The groups as they are now: another process may have added a priority since they were cached."""
    for name in worker.groups:
        mill.recent_groups.discard(name)
    return _active_groups(mill, worker, now)


def _by_priority(groups: Iterable[GroupRow]) -> list[str]:
    lanes = [
        (priority, group.queues[queue]) for group in groups for priority, queue in group.lane_table.order()
    ]
    return [queue for _, queue in sorted(lanes, key=lambda lane: -lane[0])]


def _lease_messages(
    mill: Mill,
    session: WorkerSession,
    messages: list[Message],
    hide: dict[str, int],
    clock: Callable[[], int],
) -> tuple[list[Lease], bool]:
    """Lease the task of a message, or of a later message if the client may not run that task."""
    bounced: list[Message] = []
    try:
        leases = lease(mill, session, messages, clock(), bounced=bounced)
        if not leases and bounced:
            leases = lease_behind(mill, session, bounced, most=1, hide=hide, clock=clock)
        return leases, bool(bounced)
    finally:
        if bounced:
            mill.queues.hide((message, 0) for message in bounced)


def _work_waits(mill: Mill, now: int) -> bool:
    """Whether workunits wait on this server, for any client; read at most once a second."""
    known = mill.empty_queues.get([_ALL_QUEUES], lambda _: {_ALL_QUEUES: not _any_ready(mill)}, now)
    return not known[_ALL_QUEUES]


def _any_ready(mill: Mill) -> bool:
    """Whether a live job has a task that is ready; many live jobs are not examined and count as such."""
    states = (JobState.QUEUED, JobState.RUNNING)
    jobs = [
        job
        for state in states
        for job, _ in zip(
            mill.jobs.page(job_name=None, state=state.value, before=None, limit=MAX_JOBS_EXAMINED + 1),
            range(MAX_JOBS_EXAMINED + 1),
            strict=False,
        )
    ]
    if len(jobs) > MAX_JOBS_EXAMINED:
        return True
    for job in jobs:
        steps = mill.jobs.steps(job.id, job.run, consistent=False)
        opened = [step for step in steps if step.state in (StepState.READY, StepState.RUNNING)]
        if any(count[TaskState.READY] for count in mill.shards.counts(opened).values()):
            return True
    return False
