"""Jobs and Steps as the API shows them, built from their rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shardmill.engine.errors import JobNotFound, RunNotFound
from shardmill.engine.groups import matching
from shardmill.engine.jobs import dependencies as job_dependencies
from shardmill.engine.jobs.run_nodes import find_step, nodes_to_plan, run_nodes
from shardmill.engine.mill import Mill
from shardmill.model.base import from_ms, optional_from_ms
from shardmill.model.definition.fields import Info, StepDefine, total
from shardmill.model.job import DependencyStatus, Job, Step
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.store.rows import JobRow, StepRow


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
        deadline=optional_from_ms(job.deadline),
        late=job.late,
        notes=job.notes,
        last_failed=job.last_failed or None,
    )


def dependencies(mill: Mill, job: JobRow) -> list[DependencyStatus]:
    """Return the runs of parents that a Job waits for, with the state of each."""
    return [
        DependencyStatus(
            job_name=job.job_name,
            trigger=job.trigger,
            pre_job=run.parent,
            pre_trigger=run.job.trigger if run.job else None,
            pre_id=run.job.id if run.job else None,
            pre_state=run.job.state if run.job else None,
            pre_status=1 if run.done else 0,
            data_time=optional_from_ms(run.time),
            strategy=run.strategy,
            met=job_dependencies.met(each),
            update_time=from_ms(run.job.update_time if run.job else job.create_time),
        )
        for each in job_dependencies.runs(mill, job)
        for run in each
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
    view.remain_tasks = sum(not step.state.ended for step in steps)
    view.worker_groups = sorted({group for step in steps for group in step.groups})
    view.waiting_for = _waiting_for(mill, job, steps, now)
    return view


def _waiting_for(mill: Mill, job: JobRow, steps: list[StepRow], now: int) -> list[str]:
    if job.state is JobState.WAITING:
        return [job.notes]
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
        if step.state is StepState.SUSPENDED:
            found[step.index][TaskState.SUSPENDED] = found[step.index].pop(TaskState.READY, 0)
    return {
        index: {state: number for state, number in counter.items() if number}
        for index, counter in found.items()
    }


def _killed(step: StepRow) -> int:
    """Return how many tasks were killed; while a kill is in progress, all that have not ended count."""
    return step.total - step.success - step.failed if step.state is StepState.KILLED else step.killed


def step_view(job: JobRow, step: StepRow, nodes: list[StepRow], found: dict[TaskState, int]) -> Step:
    spec = step.define
    size = step.total or total(spec) or 0
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
        counts=found,
        total_work=size,
        remain_work=0 if step.state.ended else size - ended,
        params=spec.params,
        command=spec.command,
        inputs=spec.inputs,
        outputs=spec.outputs,
        predata=spec.predata,
        partition=spec.partition,
        info=Info.model_validate(job.info),
        worker_groups=step.groups,
        priority=step.priority,
        create_time=from_ms(step.create_time),
        update_time=from_ms(step.update_time),
        started_time=optional_from_ms(step.started_time),
        completed_time=optional_from_ms(step.completed_time),
        compute_time=step.compute_ms / 1000,
        notes=step.notes or _waiting_note(step, nodes),
        last_failed=step.last_failed or None,
    )


def _waiting_note(step: StepRow, nodes: list[StepRow]) -> str:
    if step.state is not StepState.WAITING or not step.waiting:
        return ""
    names = [nodes[int(index)].name for index in sorted(step.waiting, key=int)]
    return "waits for " + ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
