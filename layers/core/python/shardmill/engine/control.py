"""Changing a Job that runs."""

from __future__ import annotations

from shardmill.aws.queues import lane_of
from shardmill.engine import enqueue
from shardmill.engine.errors import JobEnded
from shardmill.engine.mill import Mill
from shardmill.store.rows import JobRow, StepRow

_TRIES = 6


def set_priority(mill: Mill, job: JobRow, priority: int, now: int) -> JobRow:
    """Give a Job and all its steps another priority; waiting tasks move to the lane of that."""
    changed = mill.jobs.set_priority(job, priority, now=now)
    if not changed:
        raise JobEnded(f"the Job {job.job_name}/{job.trigger} has ended as {job.state}")
    for step in mill.jobs.steps(job.id, job.run):
        if step.kind == "step" and not step.state.ended:
            _change_lane(mill, step, priority, now)
    return changed


def _change_lane(mill: Mill, step: StepRow, priority: int, now: int) -> None:
    present: StepRow | None = step
    for _ in range(_TRIES):
        if not present or present.state.ended or present.priority == priority:
            return
        if not present.opened or lane_of(present.priority) == lane_of(priority):
            if mill.jobs.set_step_priority(present, priority):
                return
        else:
            renewed = mill.jobs.raise_generation(present, priority=priority)
            if renewed:
                enqueue.send_again(mill, renewed, now)
                enqueue.send_open(mill, renewed, now, last=False)
                return
        present = mill.jobs.step(step.job_id, step.run, step.index)
