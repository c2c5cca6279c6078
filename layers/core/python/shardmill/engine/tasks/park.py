"""Park the steps of a suspended Job: their tasks keep their state and are not leased."""

from __future__ import annotations

from shardmill.engine.continuation import Budget
from shardmill.engine.mill import Mill
from shardmill.engine.tasks import completion, messages
from shardmill.model.states import StepState
from shardmill.store.rows import JobRow, StepRow


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
    """Resume a suspended step and send its open tasks."""
    budget.spend()
    state = StepState.RUNNING if step.started_time else StepState.READY
    resumed = mill.jobs.unpark_step(step, state, now=now)
    if not resumed:
        return  # already resumed, or ended
    if not resumed.open:
        completion.wake(mill, resumed)
    elif not resumed.stopping:
        messages.send_new_generation(mill, resumed, now, budget)
