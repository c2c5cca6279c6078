"""The `concurrency` of a definition: a Job starts when it has a slot, oldest first, and gives it on."""

from __future__ import annotations

from shardmill.engine.mill import LOOK_AGAIN_MS, Mill
from shardmill.engine.start import start_roots
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow

_AT_ONCE = 10


def may_start(mill: Mill, job: JobRow, now: int) -> bool:
    """Whether a planned Job has a slot; if not, it is noted, and starts when its turn comes.

    The note is written before the last look at the slots, and whoever gives one back looks for notes after
    that. A note goes only when its Job has started.
    """
    if not job.concurrency or job.id in mill.slots.holders(job.job_name):
        return True
    if not mill.slots.waiting(job.job_name, limit=1) and _take(mill, job):
        return True
    mill.slots.wait(job.job_name, job.jid, job.id)
    notes = f"waits for one of the {job.concurrency} Jobs of {job.job_name} that run at once to end"
    mill.jobs.move(
        job.id,
        job.run,
        JobState.WAITING,
        sources=(JobState.INIT,),
        now=now,
        due=now + LOOK_AGAIN_MS,
        notes=notes,
    )
    _pass_on(mill, job.job_name, now)
    return False


def give_back(mill: Mill, job: JobRow, now: int) -> None:
    """A Job is over: its slot goes to those that wait longest."""
    if job.concurrency:
        mill.slots.give_back(job.job_name, [job.id])
        _pass_on(mill, job.job_name, now)


def look_again(mill: Mill, job: JobRow, now: int) -> None:
    """What the tick does for a Job that waits: slots of Jobs that are over are taken from them."""
    holders = mill.slots.holders(job.job_name)
    if job.id in holders:
        start_roots(mill, job, now)
        mill.slots.waits_no_longer(job.job_name, job.jid)
    elif mill.slots.waiting(job.job_name, limit=1) in ([], [job.id]):
        over = [id_ for id_ in holders if (holder := mill.jobs.get(id_)) is None or not _runs(holder)]
        if over:
            mill.slots.give_back(job.job_name, over)
        mill.slots.wait(job.job_name, job.jid, job.id)
        _pass_on(mill, job.job_name, now)


def _runs(job: JobRow) -> bool:
    return not job.state.ended and job.state is not JobState.SUSPENDED


def _take(mill: Mill, job: JobRow) -> bool:
    assert job.concurrency
    return mill.slots.take(job.job_name, job.id, most=job.concurrency)


def _pass_on(mill: Mill, job_name: str, now: int) -> None:
    for job_id in mill.slots.waiting(job_name, limit=_AT_ONCE):
        job = mill.jobs.get(job_id)
        if job and job.state in (JobState.INIT, JobState.WAITING):
            if not _take(mill, job):
                return
            start_roots(mill, job, now)
        if job:
            mill.slots.waits_no_longer(job_name, job.jid)
