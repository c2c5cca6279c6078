"""Jobs and Steps as the API shows them, built from their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shardmill.engine.access.visible import Visible
from shardmill.engine.errors import CannotOpen, JobNotFound, RunNotFound
from shardmill.engine.groups import matching
from shardmill.engine.jobs import dependencies as job_dependencies
from shardmill.engine.jobs.run_nodes import find_step, nodes_to_plan, run_nodes
from shardmill.engine.mill import Mill
from shardmill.engine.running.release import passed_over
from shardmill.model.definition.fields import Info, StepDefine
from shardmill.model.definition.task_count import total
from shardmill.model.files import Partition, declared_files
from shardmill.model.job import DependencyStatus, Job, Step
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.model.timestamps import from_ms, optional_from_ms
from shardmill.store.rows import JobRow, StepRow

NOT_ENQUEUED = {StepState.WAITING: TaskState.WAITING, StepState.SUSPENDED: TaskState.SUSPENDED}
"""The states of steps whose tasks cannot be leased, and how tasks that are READY are shown in them."""


def read_job(mill: Mill, job_name: str, trigger: str, run: int | None = None) -> JobRow:
    """Return a Job; with `run`, as the key to the steps and tasks of that run."""
    job = mill.jobs.find(job_name, trigger)
    if not job:
        raise JobNotFound(job_name, trigger)
    if run is not None and run > job.run:
        raise RunNotFound(f"the Job {job_name}/{trigger} has no run {run}; it is in run {job.run}")
    return job if run is None else job.evolve(run=run)


def read_step(mill: Mill, job: JobRow, step_name: str) -> tuple[StepRow, list[StepRow]]:
    nodes = run_nodes(mill, job)
    return find_step(job, nodes, step_name), nodes


def summary(job: JobRow) -> Job:
    """Return a Job without its steps, as in lists."""
    return Job(
        id=job.id,
        jid=job.jid,
        job_name=job.job_name,
        trigger=job.trigger,
        run=job.run,
        state=job.state,
        definition_version=job.version,
        params=job.params,
        info=Info.model_validate(job.info),
        app_name=job.app_name or None,
        priority=job.priority,
        submit_user=job.submit_user,
        execute_user=job.execute_user or None,
        schedule_id=job.schedule_id or None,
        data_time=optional_from_ms(job.data_time),
        create_time=from_ms(job.create_time),
        update_time=from_ms(job.update_time),
        started_time=optional_from_ms(job.started_time),
        completed_time=optional_from_ms(job.completed_time),
        after=optional_from_ms(job.not_before),
        deadline=optional_from_ms(job.deadline),
        late=job.late,
        worker_groups=sorted(job.groups),
        waiting_for=[wait_note(job)] if job.state is JobState.WAITING else [],
        notes=job.notes,
        last_failed=job.last_failed or None,
    )


def dependencies(mill: Mill, job: JobRow, visible: Visible) -> list[DependencyStatus]:
    """Return the runs of parents that a Job waits for, with the state of each that the caller may see."""

    def seen(parent: JobRow | None) -> JobRow | None:
        return parent if parent and visible.job(parent) else None

    return [
        DependencyStatus(
            job_name=job.job_name,
            trigger=job.trigger,
            pre_job=run.parent,
            pre_trigger=parent.trigger if parent else None,
            pre_id=parent.id if parent else None,
            pre_state=parent.state if parent else None,
            pre_status=1 if run.done else 0,
            data_time=optional_from_ms(run.time),
            strategy=run.strategy,
            met=job_dependencies.met(each),
            update_time=from_ms(parent.update_time if parent else job.create_time),
        )
        for each in job_dependencies.runs(mill, job)
        for run in each
        for parent in [seen(run.job)]
    ]


def submitted_view(mill: Mill, job: JobRow, steps: Sequence[StepDefine], now: int) -> Job:
    """Return a Job that was just submitted; `steps` have their effective settings."""
    return _view(mill, job, nodes_to_plan(job, steps), now)


def job_view(mill: Mill, job: JobRow, now: int) -> Job:
    return _view(mill, job, run_nodes(mill, job, consistent=False), now)


def _view(mill: Mill, job: JobRow, nodes: list[StepRow], now: int) -> Job:
    steps = [node for node in nodes if node.kind == "step"]
    view = summary(job)
    found = counts(mill, steps)
    view.steps = [step_view(job, step, nodes, found[step.index]) for step in steps]
    view.remain_tasks = sum(not _done(step) for step in steps)
    view.worker_groups = sorted({group for step in steps for group in step.groups})
    view.waiting_for = view.waiting_for or _without_workers(mill, steps, now)
    return view


def wait_note(job: JobRow) -> str:
    """Describe what a WAITING Job waits for."""
    return job.notes or "waits for its start"


def _without_workers(mill: Mill, steps: list[StepRow], now: int) -> list[str]:
    missing = (matching.no_worker_reason(mill, step, now) for step in steps if step.opened)
    return [sentence for sentence in missing if sentence]


def counts(mill: Mill, steps: list[StepRow]) -> dict[int, dict[TaskState, int]]:
    """Return by step index how many tasks are in each state; ended steps have the counts in their row."""
    found = {
        step.index: Counter(
            {
                TaskState.SUCCESS: step.success,
                TaskState.FAILED: step.failed,
                TaskState.KILLED: _killed(step),
            }
        )
        for step in steps
    }
    found |= mill.shards.counts([step for step in steps if not step.state.ended])
    for step in steps:
        if not step.total:
            found[step.index] = Counter({TaskState.WAITING: task_count(step)})
        elif step.state in NOT_ENQUEUED:
            found[step.index][NOT_ENQUEUED[step.state]] = found[step.index].pop(TaskState.READY, 0)
    return {
        index: {state: number for state, number in counter.items() if number}
        for index, counter in found.items()
    }


def task_count(step: StepRow) -> int:
    """Return the number of a step's tasks, also before it is opened; 0 if it is not known."""
    return as_opened(step).total


def as_opened(step: StepRow) -> StepRow:
    """Return a step as it will be when it is opened, as far as its number of tasks is known."""
    if step.total or step.settings.partition:
        return step
    known = total(step.settings)
    if known is not None:
        return step.evolve(total=known)
    from shardmill.engine.running.open_step import count_tasks  # few steps need it

    try:
        return count_tasks(step)
    except CannotOpen:
        return step  # upstream steps determine it


def _count_known(step: StepRow) -> bool:
    return task_count(step) > 0 or total(step.settings) is not None or step.in_progress or _done(step)


def _done(step: StepRow) -> bool:
    return step.state.lets_dependents_run or passed_over(step)


def _killed(step: StepRow) -> int:
    """Return how many tasks were killed; while they are being ended, all that have not ended count."""
    being_ended = step.state is StepState.KILLED or step.end_interrupted
    return step.total - step.success - step.failed if being_ended else step.killed


def step_view(job: JobRow, step: StepRow, nodes: list[StepRow], found: dict[TaskState, int]) -> Step:
    spec = step.define
    size = task_count(step)
    ended = sum(number for state, number in found.items() if state.ended)
    return Step(
        id=f"{step.job_id}_{step.index}",
        step_name=step.name,
        index=step.index,
        state=step.state,
        type=spec.type,
        step_type=spec.step_type,
        phase=spec.phase,
        can_fail=spec.can_fail,
        dependent_steps=spec.dependent_steps,
        done_steps=spec.done_steps,
        counts=found,
        total_work=size,
        tasks_known=_count_known(step),
        remain_work=0 if _done(step) else size - ended,
        params=spec.params,
        command=spec.command,
        inputs=declared_files(spec.inputs),
        outputs=declared_files(spec.outputs),
        predata=declared_files(spec.predata),
        partition=_partition(step, spec),
        info=Info.model_validate(job.info),
        worker_groups=step.groups,
        priority=step.priority,
        create_time=from_ms(step.create_time),
        update_time=from_ms(step.update_time),
        queued_time=optional_from_ms(step.queued_time),
        started_time=optional_from_ms(step.started_time),
        completed_time=optional_from_ms(step.completed_time),
        compute_time=step.compute_ms / 1000,
        notes=step.notes or _waiting_note(step, nodes),
        last_failed=step.last_failed or None,
    )


def _partition(step: StepRow, spec: StepDefine) -> Partition | None:
    """Return the partition of a step, with the number of units of its input where they were counted."""
    units = step.context.get("split", {}).get("units")
    if not spec.partition or units is None:
        return spec.partition
    return spec.partition.model_copy(update={"total_index": units})


def _waiting_note(step: StepRow, nodes: list[StepRow]) -> str:
    if step.state is not StepState.WAITING or not step.waiting:
        return ""
    names = [nodes[int(index)].name for index in sorted(step.waiting, key=int)]
    return "waits for " + ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
