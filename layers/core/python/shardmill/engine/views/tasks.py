"""TODO docstring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from shardmill.engine.errors import TaskNotFound
from shardmill.engine.files import outputs
from shardmill.engine.mill import Mill
from shardmill.engine.task_id import task_id
from shardmill.engine.tasks import attempts
from shardmill.engine.views.jobs import _time, counts, step_view
from shardmill.model.base import from_ms
from shardmill.model.blocks import Shard, block_count, block_of, set_count, set_of
from shardmill.model.definition.fields import Info, StepDefine, pack_of
from shardmill.model.job import Attempt, PackRange, Sharding, Step, Task, TaskProgress
from shardmill.model.states import StepState, TaskState
from shardmill.model.transfers import Stored
from shardmill.store.rows import JobRow, StepRow

MAX_TASK_STATES = 1_000


def full_step_view(mill: Mill, job: JobRow, step: StepRow, nodes: list[StepRow]) -> Step:
    """A step with the state of each of its tasks, if they are not too many."""
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
    """Every task of a step from a rank on, in order, leased or not; None for one in another state.

    `chunk`: how many blocks are read at a time; those of which it is known that they have none are not read.
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
    """The sets of a large step whose tasks have all ended, and none of them in this state."""
    parts = mill.shards.sets(step, range(set_count(step.total)))
    return {number for number, part in parts.items() if not part.open and not part.ends[state]}


def read_task(mill: Mill, job: JobRow, step: StepRow, index: int) -> Task:
    """One task with all its attempts."""
    rank = rank_of(step, index)
    spec = step.define
    shard = _displayed(step, mill.shards.blocks(step, [block_of(rank)])[block_of(rank)][rank])
    view = _task_view(job, step, spec, rank, shard)
    view.attempts = [
        _attempt(kept)
        for run in range(1, step.run + 1)
        for kept in attempts.told(mill, step.of_run(run), rank)
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
    """Add to tasks that run what their workers last told of them."""
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
        data_time=_time(job.data_time),
        create_time=from_ms(step.create_time),
        update_time=_time((started or 0) + shard.span or None),
        checkout_time=_time(started),
        execute_time=_time(started),
        completed_time=_time((started or 0) + shard.span if ended else None),
        compute_time=shard.span / 1000,
    )


def _displayed(step: StepRow, shard: Shard) -> Shard:
    """What never ran in a step that is over was killed with it; what waits in a suspended one is parked."""
    if step.state.ended and not shard.state.ended:
        return shard.evolve(state=TaskState.KILLED)
    if step.state is StepState.SUSPENDED and shard.state is TaskState.READY:
        return shard.evolve(state=TaskState.SUSPENDED)
    return shard


def _attempt(kept: dict[str, Any]) -> Attempt:
    times = {name: from_ms(kept[name]) for name in ("startTime", "endTime") if name in kept}
    return Attempt.model_validate({**kept, **times})


def _is_of(attempt: Attempt, shard: Shard) -> bool:
    """Whether this is the attempt that made a shard what it is."""
    same = attempt.attempt == shard.attempt and attempt.worker == shard.worker_id
    told = attempt.reason == "forced" or (attempt.outcome == "success") == (shard.state is TaskState.SUCCESS)
    return same and told


def _bare_attempt(shard: Shard) -> Attempt:
    """An attempt that had nothing to say of itself."""
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
