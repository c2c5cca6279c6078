"""Starting a planned Job: the steps that wait for nothing."""

from __future__ import annotations

from collections.abc import Iterable

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws.observability import logger
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow, StepRow


def start_roots(mill: Mill, job: JobRow, now: int, nodes: Iterable[StepRow] | None = None) -> None:
    """Move a Job to QUEUED and start its first steps; harmless if it is repeated."""
    fresh = (JobState.INIT, JobState.WAITING)
    due = now + RECHECK_MS
    if not mill.jobs.move(job.id, job.run, JobState.QUEUED, sources=fresh, now=now, due=due, notes=None):
        present = mill.jobs.get(job.id)
        if not present or present.state not in (JobState.QUEUED, JobState.RUNNING):
            return  # suspended or ended meanwhile
    for node in mill.jobs.steps(job.id, job.run) if nodes is None else nodes:
        if node.root and not node.state.ended:
            _start(mill, node)


def _start(mill: Mill, node: StepRow) -> None:
    """The rows are written: a step that cannot be started now is started by the tick."""
    try:
        mill.start_step(node)
    except (ClientError, BotoCoreError):
        extra = {"action": "start-execution", "jobId": node.job_id, "step": node.name}
        logger.exception("the tick will start this step", extra=extra)
