"""Plan a run: write the rows of a Job's graph and start it."""

from __future__ import annotations

from shardmill.engine.continuation import Budget, continue_soon
from shardmill.engine.jobs.effective import bound_groups_of, effective_steps, recent_definition
from shardmill.engine.jobs.graph import graph
from shardmill.engine.mill import Mill
from shardmill.engine.running import concurrency
from shardmill.engine.running.finish import fail_job
from shardmill.engine.running.kill import kill_replaced
from shardmill.engine.running.open_ahead import StepOpener
from shardmill.engine.running.start import start_roots
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow


def plan(mill: Mill, job_id: str, run: int, now: int, budget: Budget | None = None) -> bool:
    """Write the rows of a run and start its root steps; False if the Job has ended or cannot start yet.

    A rerun copies the tasks that it keeps. Other calls continue work that exceeds the budget, and no step is
    started before all is copied.
    """
    job = mill.jobs.get(job_id)
    if not job or job.run != run or job.state.ended or job.unmet:
        return False
    if job.files_pending and not copy_files(mill, job, now):
        return False
    define = recent_definition(mill, job, now)
    nodes = graph(effective_steps(define, job, bound_groups_of(mill, define, job)), job, now)
    budget = budget or Budget()
    if job.run > 1:
        from shardmill.engine.jobs.carry_over import carry_over  # only reruns need it

        if not carry_over(mill, job, nodes, now, budget):
            _continue_planning(mill, job, now)
            return False
    if not mill.jobs.add_steps(job, nodes):
        present = mill.jobs.get(job_id)
        changed = present is not None and present.changes != job.changes
        return changed and plan(mill, job_id, run, now, budget)
    if job.planning:
        mill.jobs.note_planning(job, unfinished=False)
    if job.replaces:
        kill_replaced(mill, job, now, budget)
    if concurrency.may_start(mill, job, now):
        start_roots(mill, job, now, nodes, StepOpener(mill, now).start, budget)
    return True


def copy_files(mill: Mill, job: JobRow, now: int) -> bool:
    """Copy the files submitted with a Job; False if that is no longer possible and the Job failed."""
    from shardmill.engine.files import uploads  # few Jobs have files

    try:
        uploads.copy_to_job(mill, job)
    except uploads.UploadExpired as expired:
        fail_job(mill, job.id, job.run, str(expired), now)
        return False
    return True


def _continue_planning(mill: Mill, job: JobRow, now: int) -> None:
    """Have another call continue, unless the Job was suspended or has ended; a resume continues it."""
    noted = mill.jobs.note_planning(job, unfinished=True)
    if noted and noted.state in (JobState.INIT, JobState.WAITING):
        continue_soon(mill, job.id, now)
