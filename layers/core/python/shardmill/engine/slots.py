"""Lines that Jobs stand in: the `concurrency` of a definition, and a schedule that queues what overlaps.

A Job starts when it has a slot in each of its lines, oldest first, and gives them on when it ends. All take
their slots in the same order of lines, so nobody waits in a circle.
"""

from __future__ import annotations

from shardmill.engine.mill import LOOK_AGAIN_MS, Mill
from shardmill.engine.park import unpark_step
from shardmill.engine.start import start_roots
from shardmill.model.states import JobState, StepState
from shardmill.store.rows import JobRow

_AT_ONCE = 10


def lines_of(job: JobRow) -> list[tuple[str, int]]:
    """The lines that a Job stands in, and how many slots each has."""
    lines = [(f"{job.job_name}/{job.schedule_id}", 1)] if job.in_line else []
    return [*lines, (job.job_name, job.concurrency)] if job.concurrency else lines


def may_start(mill: Mill, job: JobRow, now: int) -> bool:
    """Whether a planned Job has all its slots; if not, it is noted, and starts when its turn comes.

    The note is written before the last look at the slots, and whoever gives one back looks for notes after
    that. A note goes only when its Job has gone on.
    """
    for line, most in lines_of(job):
        if job.id in mill.slots.holders(line):
            continue
        if not mill.slots.waiting(line, limit=1) and mill.slots.take(line, job.id, most=most):
            continue
        mill.slots.wait(line, job.jid, job.id)
        mill.jobs.move(
            job.id,
            job.run,
            JobState.WAITING,
            sources=(JobState.INIT, JobState.WAITING),
            now=now,
            due=now + LOOK_AGAIN_MS,
            notes=_notes(job, line, most),
        )
        _pass_on(mill, line, now)
        return False
    return True


def _notes(job: JobRow, line: str, most: int) -> str:
    if line == job.job_name:
        return f"waits for one of the {most} Jobs of {job.job_name} that run at once to end"
    return f"waits for the previous Job of the schedule {job.schedule_id} to end"


def give_back(mill: Mill, job: JobRow, now: int) -> None:
    """A Job is over: its slots go to those that wait longest."""
    for line, _ in lines_of(job):
        mill.slots.give_back(line, [job.id])
        _pass_on(mill, line, now)


def look_again(mill: Mill, job: JobRow, now: int) -> None:
    """What the tick does for a Job that waits: slots of Jobs that are over are taken from them."""
    for line, _ in lines_of(job):
        holders = mill.slots.holders(line)
        if job.id in holders:
            mill.slots.waits_no_longer(line, job.jid)
            continue
        if mill.slots.waiting(line, limit=1) in ([], [job.id]):
            over = [id_ for id_ in holders if (holder := mill.jobs.get(id_)) is None or not _runs(holder)]
            if over:
                mill.slots.give_back(line, over)
            mill.slots.wait(line, job.jid, job.id)
            _pass_on(mill, line, now)
        return
    start(mill, job, now)


def start(mill: Mill, job: JobRow, now: int) -> None:
    """A Job has its slots: it begins, or goes on where it was suspended."""
    nodes = mill.jobs.steps(job.id, job.run)
    start_roots(mill, job, now, nodes)
    if any(node.started_time for node in nodes):
        due = now + LOOK_AGAIN_MS
        mill.jobs.move(job.id, job.run, JobState.RUNNING, sources=(JobState.QUEUED,), now=now, due=due)
    for node in nodes:
        if node.state is StepState.SUSPENDED:
            unpark_step(mill, node, now)


def _runs(job: JobRow) -> bool:
    return not job.state.ended and job.state is not JobState.SUSPENDED


def _pass_on(mill: Mill, line: str, now: int) -> None:
    for job_id in mill.slots.waiting(line, limit=_AT_ONCE):
        job = mill.jobs.get(job_id)
        if job and job.state in (JobState.INIT, JobState.WAITING):
            most = dict(lines_of(job)).get(line, 0)
            if not most or not mill.slots.take(line, job.id, most=most):
                return
            if may_start(mill, job, now):
                start(mill, job, now)
        if job:
            mill.slots.waits_no_longer(line, job.jid)
