"""Tasks and their attempts as the API shows them, built from blocks, stored attempts and worker rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from shardmill.engine.errors import TaskNotFound
from shardmill.engine.files import outputs
from shardmill.engine.mill import Mill
from shardmill.engine.task_id import task_id
from shardmill.engine.tasks import attempts
from shardmill.engine.views.jobs import counts, step_view
from shardmill.model.base import from_ms, optional_from_ms
from shardmill.model.blocks import Shard, block_count, block_of, set_count, set_of
from shardmill.model.definition.fields import Info, StepDefine, pack_of
from shardmill.model.job import Attempt, PackRange, Sharding, Step, Task, TaskProgress
from shardmill.model.states import StepState, TaskState
from shardmill.model.transfers import Stored
from shardmill.store.rows import JobRow, StepRow

MAX_TASK_STATES = 1_000


def full_step_view(mill: Mill, job: JobRow, step: StepRow, nodes: list[StepRow]) -> Step:
    """Return a step, with the state of each of its tasks if it has at most MAX_TASK_STATES."""
    if not 0 < step.total <= MAX_TASK_STATES:
        return step_view(job, step, nodes, counts(mill, [step])[step.index])
    first = _first_index(step)
    states = {
        str(rank + first): _displayed(step, shard).state
        for block in mill.shards.all_blocks(step)
        for rank, shard in block.items()
    }
    view = step_view(job, step, nodes, Counter(states.values()))
    view.task_states = states
    return view


def list_tasks(
    mill: Mill, job: JobRow, step: StepRow, *, start: int, state: TaskState | None, chunk: int
) -> Iterator[tuple[int, Task | None]]:
    """Yield the tasks of a step from a rank on, in order; None for a task in another state than `state`.

    `chunk`: how many blocks to read at a time. Blocks that cannot have a task in `state` are not read.
    """
    spec = step.define
    without = _sets_without(mill, step, state) if state and step.two_levels else set()
    wanted = [n for n in range(block_of(start), block_count(step.total)) if set_of(n) not in without]
    for at in range(0, len(wanted), chunk):
        for block in mill.shards.blocks(step, wanted[at : at + chunk]).values():
            for rank, shard in block.items():
                if rank >= start:
                    shard = _displayed(step, shard)
                    shown = state is None or shard.state is state
                    yield rank, _task_view(job, step, spec, rank, shard) if shown else None


def _sets_without(mill: Mill, step: StepRow, state: TaskState) -> set[int]:
    """Return the sets of a large step whose tasks have all ended, none of them in this state."""
    parts = mill.shards.sets(step, range(set_count(step.total)))
    return {number for number, part in parts.items() if not part.open and not part.ends[state]}


def read_task(mill: Mill, job: JobRow, step: StepRow, index: int) -> Task:
    """Return one task with all its attempts."""
    rank = rank_of(step, index)
    spec = step.define
    shard = _displayed(step, mill.shards.blocks(step, [block_of(rank)])[block_of(rank)][rank])
    view = _task_view(job, step, spec, rank, shard)
    view.attempts = [
        _attempt(stored)
        for run in range(1, step.run + 1)
        for stored in attempts.list_attempts(mill, step.of_run(run), rank)
    ]
    current = next((attempt for attempt in view.attempts if _is_of(attempt, shard)), None)
    if current:
        view.exit_code, view.reason, view.message = current.exit_code, current.reason, current.message
        view.stdout, view.stderr = current.stdout, current.stderr
    elif shard.attempt and shard.state is not TaskState.READY:
        view.attempts.append(_bare_attempt(shard))
    if shard.state is TaskState.SUCCESS:
        output = outputs.of_task(mill, step, rank, shard.attempt)
        if output:
            view.output = output.stored.output
            view.files = [Stored.model_validate(each) for each in output.stored.files]
    add_progress(mill, [view])
    return view


def add_progress(mill: Mill, views: list[Task]) -> None:
    """Add the progress that workers last reported to the tasks that run."""
    running = [view for view in views if view.state is TaskState.RUNNING and view.worker]
    workers = mill.workers.by_id({view.worker for view in running if view.worker}) if running else {}
    for view in running:
        worker = workers.get(view.worker or "")
        if worker and view.id in worker.work and view.id in worker.progress:
            view.progress = TaskProgress.model_validate(worker.progress[view.id])


def rank_of(step: StepRow, index: int) -> int:
    rank = index - _first_index(step)
    if not 0 <= rank < step.total:
        raise TaskNotFound(f"step {step.name!r} has no task {index}; it has {step.total} tasks")
    return rank


def _task_view(job: JobRow, step: StepRow, spec: StepDefine, rank: int, shard: Shard) -> Task:
    started = shard.time if shard.attempt and shard.state is not TaskState.READY else None
    ended = started is not None and shard.state.ended
    pack = pack_of(spec, rank) if spec.step_type == "PACK" else None
    return Task(
        id=task_id(step, rank),
        job_id=job.id,
        job_name=job.job_name,
        trigger=job.trigger,
        step_name=step.name,
        rank=rank,
        sharding=Sharding(total=step.total, index=rank + spec.start_shard_id),
        pack=PackRange(start=pack[0], end=pack[1]) if pack else None,
        state=shard.state,
        attempt=shard.attempt,
        failed=shard.failures,
        params=spec.params,
        command=spec.command,
        inputs=spec.inputs,
        outputs=spec.outputs,
        predata=spec.predata,
        info=Info.model_validate(job.info),
        worker=shard.worker_id or None,
        submit_user=job.submit_user,
        execute_user=spec.execute_user,
        data_time=optional_from_ms(job.data_time),
        create_time=from_ms(step.create_time),
        update_time=optional_from_ms((started or 0) + shard.span or None),
        checkout_time=optional_from_ms(started),
        execute_time=optional_from_ms(started),
        completed_time=optional_from_ms((started or 0) + shard.span if ended else None),
        compute_time=shard.span / 1000,
    )


def _displayed(step: StepRow, shard: Shard) -> Shard:
    """Return a shard as shown: KILLED if open in an ended step, SUSPENDED if READY in a suspended one."""
    if step.state.ended and not shard.state.ended:
        return shard.evolve(state=TaskState.KILLED)
    if step.state is StepState.SUSPENDED and shard.state is TaskState.READY:
        return shard.evolve(state=TaskState.SUSPENDED)
    return shard


def _attempt(stored: dict[str, Any]) -> Attempt:
    times = {name: from_ms(stored[name]) for name in ("startTime", "endTime") if name in stored}
    return Attempt.model_validate({**stored, **times})


def _is_of(attempt: Attempt, shard: Shard) -> bool:
    """Return whether this attempt set the shard's present state."""
    same = attempt.attempt == shard.attempt and attempt.worker == shard.worker_id
    success = shard.state is TaskState.SUCCESS
    return same and (attempt.reason == "forced" or (attempt.outcome == "success") == success)


def _bare_attempt(shard: Shard) -> Attempt:
    """Return an attempt of which only the shard is stored."""
    ended = shard.state.ended
    return Attempt(
        attempt=shard.attempt,
        worker=shard.worker_id or None,
        start_time=from_ms(shard.time),
        end_time=from_ms(shard.time + shard.span) if ended else None,
        exit_code=0 if shard.state is TaskState.SUCCESS else None,
        outcome="success" if shard.state is TaskState.SUCCESS else None,
    )


def _first_index(step: StepRow) -> int:
    return step.settings.start_shard_id
