"""Park the steps of a suspended Job: their tasks keep their state and are not leased."""

from __future__ import annotations

from shardmill.engine.continuation import Budget
from shardmill.engine.mill import Mill
from shardmill.engine.tasks import completion, messages
from shardmill.model.states import JobState, StepState
from shardmill.store.rows import JobRow, StepRow

_CALLS_PER_UNPARK = 2


def park(mill: Mill, job: JobRow, now: int, budget: Budget) -> bool:
    """Suspend the open steps of a suspended Job; False if the budget is spent before."""
    for step in mill.jobs.steps(job.id, job.run):
        if step.opened and step.open:
            if budget.spent:
                return False
            budget.spend()
            park_step(mill, step, now, let_finish=job.let_finish)
    return True


def park_step(mill: Mill, step: StepRow, now: int, *, let_finish: bool) -> StepRow:
    """Suspend a step and void its messages. A step without open tasks is left to close."""
    present: StepRow | None = step
    while present and present.opened and present.open:
        parked = mill.jobs.park_step(present, let_finish=let_finish, now=now)
        if parked:
            return parked
        present = mill.jobs.step(step.job_id, step.run, step.index)
    return present or step


def unpark_step(mill: Mill, step: StepRow, now: int, budget: Budget) -> None:
    """Resume a suspended step and send its open tasks.

    If its Job was suspended meanwhile, it is suspended again: the suspension may have read it before.
    """
    budget.spend(_CALLS_PER_UNPARK)
    state = StepState.RUNNING if step.started_time else StepState.READY
    resumed = mill.jobs.unpark_step(step, state, now=now)
    if not resumed:
        return  # already resumed, or ended
    if not resumed.open:
        completion.wake(mill, resumed)
    elif not resumed.stopping:
        job = mill.jobs.get(step.job_id)
        if job and job.run == step.run and job.state is JobState.SUSPENDED:
            park_step(mill, resumed, now, let_finish=job.let_finish)
        else:
            messages.send_new_generation(mill, resumed, now, budget)
