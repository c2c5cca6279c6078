"""A Job for people to read, and what its end means for the exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardmill.cli import output
from shardmill.cli.exits import JOB_FAILED
from shardmill.model.states import JobState, StepState, TaskState

if TYPE_CHECKING:
    from shardmill.client import Client
    from shardmill.model.job import Job, Step

TAIL_LINES = 10


def show_job(job: Job) -> None:
    output.line(f"{output.paint(f'{job.job_name} {job.trigger}', 1)} {output.paint_state(job.state.value)}")
    output.facts(
        {
            "id": f"{job.id} (jid {job.jid}, run {job.run}, definition version {job.definition_version})",
            "submitted": f"{output.cell(job.create_time)} by {output.cell(job.submit_user)}",
            "started": job.started_time,
            "ended": job.completed_time,
            "took": output.took(job.create_time, job.completed_time),
            "deadline": output.cell(job.deadline) + (" (late)" if job.late else "") if job.deadline else "",
            "params": " ".join(f"{name}={value}" for name, value in job.params.items()),
            "notes": "" if job.notes in job.waiting_for else job.notes,
        }
    )
    for what in waits_for(job):
        output.facts({"waits for": what})
    if job.steps:
        output.line()
        output.table(
            ("STEP", "STATE", "TASKS", "DONE", "FAILED", "TOOK", "NOTES"), (_row(step) for step in job.steps)
        )


def waits_for(job: Job) -> list[str]:
    """What keeps a Job from going on; some of the API's sentences say themselves that it waits."""
    return [sentence.removeprefix("waits for ") for sentence in job.waiting_for]


def _row(step: Step) -> tuple[object, ...]:
    return (
        step.step_name,
        step.state.value,
        step.total_work,
        step.total_work - step.remain_work,
        step.counts.get(TaskState.FAILED, 0),
        output.took(step.started_time, step.completed_time),
        step.notes,
    )


def verdict(client: Client, job: Job) -> int:
    """The exit code for a Job that is over; a failure is explained on standard error."""
    if job.state is JobState.SUCCESS:
        return 0
    output.message(f"the Job {job.job_name}/{job.trigger} is {job.state.value}")
    failed = next((step for step in job.steps if step.state is StepState.FAILED), None)
    if failed:
        explain(client, job, failed)
    return JOB_FAILED


def explain(client: Client, job: Job, step: Step) -> None:
    """Show the first failed task of a step: why, and the last it said."""
    from shardmill.client import ShardmillError

    try:
        failed = next(client.tasks(job.job_name, job.trigger, step.step_name, TaskState.FAILED, page=1), None)
        if not failed:
            return
        index = failed.sharding.index
        task = client.task(job.job_name, job.trigger, step.step_name, index)
    except ShardmillError as error:
        output.message(f"why step {step.step_name} failed cannot be read: {error.detail}")
        return
    why = task.message or task.reason or "no reason is known"
    output.message(f"task {index} of step {step.step_name} failed: {why}")
    for text in (task.stderr or "").splitlines()[-TAIL_LINES:]:
        output.message(f"  {text}")
    where = f"{job.job_name} {job.trigger} {step.step_name} {index}"
    output.message(f"more with: shardmill logs {where} --stderr")
