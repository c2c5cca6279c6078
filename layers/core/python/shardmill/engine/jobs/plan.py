"""Plan a run: write the rows of a Job's graph and start it."""

from __future__ import annotations

from shardmill.engine.jobs.effective import bound_groups_for, effective_steps, pinned_definition
from shardmill.engine.jobs.graph import graph
from shardmill.engine.mill import Mill
from shardmill.engine.running import concurrency
from shardmill.engine.running.kill import kill_replaced
from shardmill.engine.running.open_ahead import StepOpener
from shardmill.engine.running.start import start_roots


def plan(mill: Mill, job_id: str, run: int, now: int) -> bool:
    """Write the rows of a run and start its root steps; False if the Job has ended or cannot start yet."""
    job = mill.jobs.get(job_id)
    if not job or job.run != run or job.state.ended or job.unmet:
        return False
    define = pinned_definition(mill, job)
    nodes = graph(effective_steps(define, job, bound_groups_for(mill, define)), job, now)
    if job.run > 1:
        from shardmill.engine.jobs.carry_over import carry_over  # only reruns need it

        nodes = carry_over(mill, job, nodes)
    if not mill.jobs.add_steps(job, nodes):
        present = mill.jobs.get(job_id)
        changed = present is not None and present.changes != job.changes
        return changed and plan(mill, job_id, run, now)
    if job.replaces:
        kill_replaced(mill, job, now)
    if concurrency.may_start(mill, job, now):
        start_roots(mill, job, now, nodes, StepOpener(mill, now).start)
    return True
