"""Parking the steps of a suspended Job: nothing of them is leased, and nothing is lost."""

from __future__ import annotations

from shardmill.engine.mill import Mill
from shardmill.engine.tasks import completion, messages
from shardmill.model.states import StepState
from shardmill.store.rows import JobRow, StepRow


def park(mill: Mill, job: JobRow, now: int) -> None:
    """Suspend every step of a suspended Job whose tasks may be leased."""
    for step in mill.jobs.steps(job.id, job.run):
        if step.opened:
            park_step(mill, step, now, let_finish=job.let_finish)


def park_step(mill: Mill, step: StepRow, now: int, *, let_finish: bool) -> StepRow:
    """Make the messages of a step void and keep its tasks; one with no open task closes by itself."""
    present: StepRow | None = step
    while present and present.opened and present.open:
        parked = mill.jobs.park_step(present, let_finish=let_finish, now=now)
        if parked:
            return parked
        present = mill.jobs.step(step.job_id, step.run, step.index)
    return present or step


def unpark_step(mill: Mill, step: StepRow, now: int) -> None:
    """Let a suspended step go on with what is open."""
    state = StepState.RUNNING if step.started_time else StepState.READY
    resumed = mill.jobs.unpark_step(step, state, now=now)
    if not resumed:
        return  # somebody else did, or it has ended
    if not resumed.open:
        completion.wake(mill, resumed)
    elif not resumed.stopping:
        messages.send_again(mill, resumed, now)
        messages.send_open(mill, resumed, now, last=False)
