"""Start a planned Job: queue it and start the steps without dependencies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws.observability import logger
from shardmill.engine.continuation import Budget, continue_soon
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow, StepRow


def start_roots(
    mill: Mill,
    job: JobRow,
    now: int,
    nodes: Iterable[StepRow] | None = None,
    start: Callable[[StepRow], None] | None = None,
    budget: Budget | None = None,
) -> None:
    """Move a Job to QUEUED and start its root steps; idempotent. `start`: by default without opening them.

    Other calls start the steps that exceed the budget.
    """
    not_started = (JobState.INIT, JobState.WAITING)
    # A new Job is still due since its submission; each change of its due time costs two units of an index.
    due: int | Literal["unchanged"] = "unchanged" if job.state is JobState.INIT else now + RECHECK_MS
    if not mill.jobs.move(
        job.id, job.run, JobState.QUEUED, sources=not_started, now=now, due=due, notes=None
    ):
        present = mill.jobs.get(job.id)
        if not present or present.state not in (JobState.QUEUED, JobState.RUNNING):
            return  # suspended or ended meanwhile
    for node in mill.jobs.steps(job.id, job.run) if nodes is None else nodes:
        if node.root and not node.state.ended:
            if budget and budget.spent:
                continue_soon(mill, job.id, now)
                return
            if budget:
                budget.spend()
            _start_step(start or mill.start_step, node)


def _start_step(start: Callable[[StepRow], None], node: StepRow) -> None:
    try:
        start(node)
    except (ClientError, BotoCoreError):
        extra = {"action": "start-execution", "jobId": node.job_id, "run": node.run, "step": node.name}
        logger.exception("StartExecution failed; the next tick will retry", extra=extra)
