"""Show a job and its steps, explain its failure, and map its state to an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardmill.cli import output
from shardmill.cli.exits import JOB_FAILED
from shardmill.cli.log_text import log_text
from shardmill.model.states import JobState, StepState, TaskState

if TYPE_CHECKING:
    from shardmill.client.client import Client
    from shardmill.model.job import Job, Step

TAIL_LINES = 10


def show_job(job: Job) -> None:
    output.line(f"{output.paint(f'{job.job_name} {job.trigger}', 1)} {output.paint_state(job.state.value)}")
    output.details(
        {
            "id": f"{job.id} (jid {job.jid}, run {job.run}, definition version {job.definition_version})",
            "submitted": f"{output.cell(job.create_time)} by {output.cell(job.submit_user)}",
            "started": job.started_time,
            "ended": job.completed_time,
            "duration": output.elapsed(job.started_time, job.completed_time, running=job.registered),
            "deadline": output.cell(job.deadline) + (" (late)" if job.late else "") if job.deadline else "",
            "params": " ".join(f"{name}={value}" for name, value in job.params.items()),
            "notes": "" if job.notes in job.waiting_for else job.notes,
        }
    )
    for what in waits_for(job):
        output.details({"waits for": what})
    if job.steps:
        output.line()
        output.table(
            ("STEP", "STATE", "TASKS", "DONE", "FAILED", "DURATION", "NOTES"),
            (_row(step) for step in job.steps),
        )


def waits_for(job: Job) -> list[str]:
    """Return what the job waits for, without the prefixes that some of the API's sentences have."""
    return [sentence.removeprefix("waits for ").removeprefix("waits until ") for sentence in job.waiting_for]


def _row(step: Step) -> tuple[object, ...]:
    return (
        step.step_name,
        step.state.value,
        step.total_work,
        step.total_work - step.remain_work,
        step.counts.get(TaskState.FAILED, 0),
        output.elapsed(step.started_time, step.completed_time, running=step.state is StepState.RUNNING),
        step.notes,
    )


def exit_code(client: Client, job: Job) -> int:
    """Return the exit code for an ended job; explain a failure on standard error."""
    if job.state is JobState.SUCCESS:
        return 0
    output.message(f"job {job.job_name}/{job.trigger} is {job.state.value}")
    failed = next((step for step in job.steps if step.state is StepState.FAILED), None)
    if failed:
        _explain_failure(client, job, failed)
    return JOB_FAILED


def _explain_failure(client: Client, job: Job, step: Step) -> None:
    """Show the reason of the step's first failed task, and the end of its output."""
    from shardmill.client.errors import ShardmillError
    from shardmill.model.job import last_lines

    try:
        failed = next(client.tasks(job.job_name, job.trigger, step.step_name, TaskState.FAILED, page=1), None)
        if not failed:
            return
        index = failed.sharding.index
        task = client.task(job.job_name, job.trigger, step.step_name, index)
    except ShardmillError as error:
        output.message(f"cannot read why step {step.step_name} failed: {error.detail}")
        return
    why = task.message or task.reason or "unknown reason"
    output.message(f"task {index} of step {step.step_name} failed: {why}")
    stream, lines = last_lines(task.stderr, task.stdout, TAIL_LINES)
    for text in lines:
        output.message(f"  {log_text(text)}")
    where = f"{job.job_name} {job.trigger} {step.step_name} {index}"
    option = " --stderr" if stream == "stderr" or not lines else ""
    output.message(f"for the full log, run: shardmill logs {where}{option}")
