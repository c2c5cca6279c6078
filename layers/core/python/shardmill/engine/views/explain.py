"""Explain in sentences why a Job waits or why it ended, and list the transitions of its history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from shardmill.engine.access.visible import Visible
from shardmill.engine.groups import matching
from shardmill.engine.jobs.dependencies import missing_runs
from shardmill.engine.mill import Mill
from shardmill.engine.task_id import parse_task_id, task_id, task_name
from shardmill.engine.tasks import attempts
from shardmill.engine.tasks.retry import Rules
from shardmill.engine.views.jobs import wait_note
from shardmill.model.blocks import Shard
from shardmill.model.history import Change
from shardmill.model.job import Transition, last_lines
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.model.timestamps import from_ms, utc_text
from shardmill.store.rows import JobRow, StepRow, WorkerRow

MAX_STEPS = 20
MAX_BLOCKS = 16
LOG_LINES = 5
MAX_RETRIES = 3
MAX_WORKERS = 5
MAX_PARENTS = 5


def explain(mill: Mill, job: JobRow, now: int, visible: Visible) -> list[str]:
    """Return the reasons why a Job waits, most important first; for a failed Job, the first failure."""
    return [*_sentences(mill, job, now, visible), *_lateness(job)]


def _sentences(mill: Mill, job: JobRow, now: int, visible: Visible) -> Iterator[str]:
    name = f"{job.job_name}/{job.trigger}"
    if job.state is JobState.SUCCESS:
        yield f"{name} succeeded at {utc_text(job.completed_time or job.update_time)}." + _notes(job)
    elif job.state is JobState.SUSPENDED and job.parked:
        yield f"{name} was {job.notes}. It continues when it is resumed."
    elif job.state.ended or job.state is JobState.SUSPENDED:
        yield f"{name} is {job.state}." + _notes(job)
        yield from _first_failure(mill, job)
        if job.state.ended and job.event_pending:
            yield from _being_ended(mill.jobs.steps(job.id, job.run))
        if job.state is JobState.SUSPENDED:
            yield "It is suspended because it failed: fix the cause, then resume it to rerun what failed."
    elif job.planning:
        yield f"{name} will start when the tasks that it keeps of an earlier run have been copied."
    elif job.state is JobState.INIT:
        yield f"{name} was accepted and will be planned."
    elif job.state is JobState.WAITING:
        yield f"{name} {wait_note(job)}."
        if job.unmet and job.expected:
            yield from _absent_parents(mill, job, visible)
        yield from _holders(mill, job, visible)
    else:
        yield from _open_steps(mill, job, now)


def _lateness(job: JobRow) -> Iterator[str]:
    if job.deadline is None:
        return
    if job.late:
        yield f"It is late: it did not end by its deadline, {utc_text(job.deadline)}."
    elif not job.state.ended:
        yield f"Its deadline is {utc_text(job.deadline)}."


def _notes(job: JobRow) -> str:
    return f" {job.notes}." if job.notes else ""


def _absent_parents(mill: Mill, job: JobRow, visible: Visible) -> Iterator[str]:
    """Name the visible parents that will not run by themselves, and the remedy for each."""
    absent = dict.fromkeys(run.parent for run in missing_runs(mill, job) if not run.job)
    first = list(islice(absent, MAX_PARENTS))
    seen = visible.definitions(first)
    for parent in (each for each in first if each in seen):
        saved = mill.definitions.find(parent)
        if saved and saved.suspended:
            yield f"The definition {parent} is suspended ({saved.suspended}): resume it to start its jobs."
        elif not any(row.status == 1 for row in mill.schedules.of_job(parent)):
            cause = "has no schedule that is on" if saved else "is not defined"
            yield (
                f"{parent} {cause}: submit its job, remove the dependency, or run "
                f"`shardmill start {job.job_name} {job.trigger} --without-dependencies`."
            )


def _holders(mill: Mill, job: JobRow, visible: Visible) -> Iterator[str]:
    if job.concurrency and not job.unmet:
        holders = mill.jobs.by_id({holder.job_id for holder in mill.slots.holders(job.job_name)})
        for holder in sorted(filter(visible.job, holders.values()), key=lambda each: each.jid)[:5]:
            yield f"{holder.job_name}/{holder.trigger} is {holder.state} and holds a slot."


def _first_failure(mill: Mill, job: JobRow) -> Iterator[str]:
    place = parse_task_id(job.last_failed) if job.last_failed else None
    step = mill.jobs.step(job.id, job.run, place[1]) if place else None
    if not place or not step:
        return
    tried = attempts.list_attempts(mill, step.home, place[2])
    if not tried:
        return
    last = tried[-1]
    reason = last.get("message") or last.get("reason") or "no reason was reported"
    name = task_name(step, place[2])
    yield f"The first task that failed is {name}, attempt {last['attempt']}: {reason}."
    stream, lines = last_lines(last.get("stderr"), last.get("stdout"), LOG_LINES)
    if lines:
        yield f"Its last lines on {stream}:\n" + "\n".join(lines)


def _open_steps(mill: Mill, job: JobRow, now: int) -> Iterator[str]:
    nodes = mill.jobs.steps(job.id, job.run)
    steps = [node for node in nodes if node.kind == "step" and not node.state.ended]
    yield from _being_ended(nodes)
    if not steps:
        yield f"All steps of {job.job_name}/{job.trigger} have ended; the Job will end next."
    for step in sorted(steps, key=lambda each: not each.in_progress)[:MAX_STEPS]:
        if step.in_progress:
            yield from _open_step(mill, step, now)
        elif step.waiting:
            names = [nodes[int(index)].name for index in sorted(step.waiting, key=int)[:5]]
            yield f"Step {step.name} waits for {', '.join(names)}."
        else:
            yield f"Step {step.name} will start next."
    if len(steps) > MAX_STEPS:
        yield f"{len(steps) - MAX_STEPS} more steps have not ended."


def _being_ended(nodes: Sequence[StepRow]) -> Iterator[str]:
    names = [node.name for node in nodes if node.end_interrupted]
    if names:
        more = f" and {len(names) - MAX_STEPS} more" if len(names) > MAX_STEPS else ""
        yield f"The open tasks of these steps are being ended: {', '.join(names[:MAX_STEPS])}{more}."


def _open_step(mill: Mill, step: StepRow, now: int) -> Iterator[str]:
    if step.state is StepState.SUSPENDED:
        yield f"Step {step.name} is suspended."
        return
    counts = mill.shards.counts([step])[step.index]
    yield (
        f"Step {step.name} is {step.state}: {counts[TaskState.SUCCESS] + counts[TaskState.FAILED]} of "
        f"{step.total} tasks have ended, running: {counts[TaskState.RUNNING]}, "
        f"waiting: {counts[TaskState.READY]}."
    )
    missing = matching.no_worker_reason(mill, step, now)
    if missing:
        yield f"{missing[0].upper()}{missing[1:]}."
    if step.stopping:
        yield f"Step {step.name} is being stopped: {step.notes}."
    touched = [
        (rank, shard)
        for block in islice(mill.shards.open_blocks(step), MAX_BLOCKS)
        for rank, shard in block.items()
        if shard.attempt and not shard.state.ended
    ]
    yield from _retries(step, [each for each in touched if each[1].time > now])
    yield from _due_retries(mill, step, [each for each in touched if each[1].time <= now], now)
    running = [(rank, shard) for rank, shard in touched if shard.state is TaskState.RUNNING]
    if running:
        rank, shard = min(running, key=lambda each: each[1].time)
        worker = mill.workers.get(shard.worker_id)
        yield (
            f"The task that has been running longest is {task_name(step, rank)}, "
            f"since {utc_text(shard.time)}, on worker {worker.name if worker else shard.worker_id}."
        )


def _retries(step: StepRow, later: list[tuple[int, Shard]]) -> Iterator[str]:
    waiting = [each for each in later if each[1].state is TaskState.READY]
    if waiting:
        rank, shard = min(waiting, key=lambda each: each[1].time)
        retries = Rules.of(step).failed_retries
        yield (
            f"Tasks of step {step.name} waiting for a retry: {len(waiting)}; the first is "
            f"{task_name(step, rank)} at {utc_text(shard.time)} "
            f"({shard.failures} of {retries + 1} attempts failed)."
        )


def _due_retries(mill: Mill, step: StepRow, due: list[tuple[int, Shard]], now: int) -> Iterator[str]:
    """Name the tasks that wait for a worker after their retry interval, and the workers that may run them."""
    waiting = sorted(
        (each for each in due if each[1].state is TaskState.READY), key=lambda each: each[1].time
    )
    workers = matching.capable_workers(mill, step, now) if waiting else []
    for rank, shard in waiting[:MAX_RETRIES]:
        task = task_id(step, rank)
        skipping = [worker for worker in workers if task in worker.skip]
        others = [worker for worker in workers if task not in worker.skip]
        if matching.runs_in_lambda(mill, step, now):
            able = "the Lambda function can run it"
        elif others:
            able = f"these workers can run it: {_named(others)}"
        else:
            able = "no other live worker can run it, so that they may take it again"
        skipped = f"; it failed on these workers, which leave it to others: {_named(skipping)}"
        yield (
            f"{task_name(step, rank).capitalize()} has waited for attempt {shard.attempt + 1} "
            f"since {utc_text(shard.time)}{skipped if skipping else ''}; {able}."
        )
    if len(waiting) > MAX_RETRIES:
        yield f"{len(waiting) - MAX_RETRIES} more tasks of step {step.name} wait for another attempt."


def _named(workers: Sequence[WorkerRow]) -> str:
    names = [f"{worker.name} ({'busy' if worker.work else 'idle'})" for worker in workers[:MAX_WORKERS]]
    more = f" and {len(workers) - MAX_WORKERS} more" if len(workers) > MAX_WORKERS else ""
    return ", ".join(names) + more


def history(mill: Mill, job: JobRow) -> list[Transition]:
    """Return every transition of every run by time; at the same time, a Job ends after its steps."""
    return sorted(_transitions(mill, job), key=lambda each: (each.time, _order(each)))


def _order(each: Transition) -> int:
    if each.step_name is not None:
        return 1
    return 2 if JobState(each.state).ended else 0


def _transitions(mill: Mill, job: JobRow) -> Iterator[Transition]:
    yield from _of_row(job.history, None)
    for run in range(1, job.run + 1):
        for step in mill.jobs.steps(job.id, run, consistent=False):
            yield from _of_row(step.history, step.name)


def _of_row(history: Sequence[str], step_name: str | None) -> Iterator[Transition]:
    """Yield transitions in the order they were written; clocks may differ, so times never decrease."""
    latest = 0
    for change in map(Change.decode, history):
        latest = max(latest, change.time)
        yield Transition(
            time=from_ms(latest),
            run=change.run,
            step_name=step_name,
            state=change.state,
            actor=change.actor,
            reason=change.reason,
        )
