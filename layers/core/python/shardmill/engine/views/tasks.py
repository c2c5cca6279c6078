"""Tasks and their attempts as the API shows them, built from blocks, stored attempts and worker rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from shardmill.engine.errors import TaskNotFound
from shardmill.engine.files import outputs
from shardmill.engine.mill import Mill
from shardmill.engine.task_id import task_id
from shardmill.engine.tasks import attempts
from shardmill.engine.template_context import pack_range
from shardmill.engine.views.jobs import NOT_ENQUEUED, as_opened, counts, step_view, task_count
from shardmill.model.blocks import Shard, block_count, block_of, set_count, set_of
from shardmill.model.definition.fields import Info, StepDefine
from shardmill.model.files import declared_files
from shardmill.model.job import Attempt, PackRange, Sharding, Step, Task, TaskProgress
from shardmill.model.states import TaskState
from shardmill.model.timestamps import from_ms, optional_from_ms
from shardmill.model.transfers import Stored
from shardmill.store.rows import JobRow, StepRow

MAX_TASK_STATES = 1_000
_NOT_LEASED = (TaskState.WAITING, TaskState.READY, TaskState.SUSPENDED)
NOT_MADE = Shard(state=TaskState.WAITING)
"""A task of a step that has not been opened."""


def full_step_view(mill: Mill, job: JobRow, step: StepRow, nodes: list[StepRow]) -> Step:
    """Return a step, with the state of each of its tasks if it has at most MAX_TASK_STATES.

    A step with one task that succeeded shows the files of the task.
    """
    if not 0 < task_count(step) <= MAX_TASK_STATES:
        return step_view(job, step, nodes, counts(mill, [step])[step.index])
    first = first_index(step)
    states = {str(rank + first): state for rank, state in _states(mill, step)}
    view = step_view(job, step, nodes, Counter(states.values()))
    view.task_states = states
    if step.total == 1 and (view.inputs or view.outputs or view.predata):
        _add_sizes(mill, step, read_task(mill, job, step, first), view)
    return view


def _states(mill: Mill, step: StepRow) -> Iterator[tuple[int, TaskState]]:
    if not step.total:
        yield from ((rank, TaskState.WAITING) for rank in range(task_count(step)))
    for block in mill.shards.all_blocks(step) if step.total else ():
        yield from ((rank, displayed_shard(step, shard).state) for rank, shard in block.items())


def list_tasks(
    mill: Mill, job: JobRow, step: StepRow, *, start: int, state: TaskState | None, chunk: int
) -> Iterator[tuple[int, Task | None]]:
    """Yield the tasks of a step from a rank on, in order; None for a task in another state than `state`.

    `chunk`: how many blocks to read at a time. Blocks that cannot have a task in `state` are not read.
    """
    spec = step.define
    if not step.total:
        planned = as_opened(step)
        for rank in range(start, planned.total) if state in (None, TaskState.WAITING) else ():
            yield rank, _task_view(job, planned, spec, rank, NOT_MADE)
        return
    without = _sets_without(mill, step, state) if state and step.two_levels else set()
    wanted = [n for n in range(block_of(start), block_count(step.total)) if set_of(n) not in without]
    for at in range(0, len(wanted), chunk):
        for block in mill.shards.blocks(step, wanted[at : at + chunk]).values():
            for rank, shard in block.items():
                if rank >= start:
                    shard = displayed_shard(step, shard)
                    shown = state is None or shard.state is state
                    yield rank, _task_view(job, step, spec, rank, shard) if shown else None


def _sets_without(mill: Mill, step: StepRow, state: TaskState) -> set[int]:
    """Return the sets of a large step whose tasks have all ended, none of them in this state."""
    parts = mill.shards.sets(step, range(set_count(step.total)))
    return {number for number, part in parts.items() if not part.open and not part.ends[state]}


def read_task_with_files(mill: Mill, job: JobRow, step: StepRow, index: int) -> Task:
    """Return one task with all its attempts and, after a success, the sizes of its files."""
    view = read_task(mill, job, step, index)
    _add_sizes(mill, step, view, view)
    return view


def _add_sizes(mill: Mill, step: StepRow, task: Task, view: Task | Step) -> None:
    if task.state is TaskState.SUCCESS:
        from shardmill.engine.views.files import input_files, output_files  # few requests need it

        spec = step.define
        view.inputs = input_files(mill, step, task.rank, spec.inputs)
        view.predata = input_files(mill, step, task.rank, spec.predata)
        view.outputs = output_files(step, task.rank, spec.outputs, task.files)


def read_task(mill: Mill, job: JobRow, step: StepRow, index: int) -> Task:
    """Return one task with all its attempts."""
    made = step.total > 0
    step = as_opened(step)
    rank = rank_of(step, index)
    spec = step.define
    of_runs = [_shard(mill, step.of_run(run), rank) for run in range(1, step.run + 1)]
    shard = displayed_shard(step, of_runs[-1]) if made else NOT_MADE
    view = _task_view(job, step, spec, rank, shard)
    view.attempts = _attempts(mill, step, rank, of_runs)
    current = next((attempt for attempt in view.attempts if _is_of(attempt, shard)), None)
    if current:
        view.exit_code, view.reason, view.message = current.exit_code, current.reason, current.message
        view.stdout, view.stderr = current.stdout, current.stderr
    if shard.state is TaskState.SUCCESS:
        output = outputs.of_task(mill, step, rank, shard.attempt)
        if output:
            view.output = output.stored.output
            view.files = [Stored.model_validate(each) for each in output.stored.files]
    add_progress(mill, [view])
    return view


def _shard(mill: Mill, step: StepRow, rank: int) -> Shard:
    return mill.shards.blocks(step, [block_of(rank)])[block_of(rank)][rank]


def _attempts(mill: Mill, step: StepRow, rank: int, of_runs: Sequence[Shard]) -> list[Attempt]:
    """Return every attempt that was handed out, in order; `of_runs`: the shard in each run of the Job.

    A success without output is recorded only in its shard. An attempt whose end was not recorded because of a
    crash is shown as lost.
    """
    found: list[Attempt] = []
    for run, shard in enumerate(of_runs, 1):
        found += map(_attempt, attempts.list_attempts(mill, step.of_run(run), rank))
        if shard.state not in _NOT_LEASED and not any(_is_of(attempt, shard) for attempt in found):
            found.append(_bare_attempt(shard))
    numbers = {attempt.attempt for attempt in found}
    for number in range(step.attempts_before + 1, of_runs[-1].attempt + 1):
        if number not in numbers:
            found.append(Attempt(attempt=number, reason=attempts.LOST, message="its end was not recorded"))
    return sorted(found, key=lambda attempt: attempt.attempt)


def add_progress(mill: Mill, views: list[Task]) -> None:
    """Add the progress that workers last reported to the tasks that run."""
    running = [view for view in views if view.state is TaskState.RUNNING and view.worker]
    workers = mill.workers.by_id({view.worker for view in running if view.worker}) if running else {}
    for view in running:
        worker = workers.get(view.worker or "")
        if worker and view.id in worker.work and view.id in worker.progress:
            view.progress = TaskProgress.model_validate(worker.progress[view.id])


def rank_of(step: StepRow, index: int) -> int:
    first = first_index(step)
    if first <= index < first + step.total:
        return index - first
    last = first + step.total - 1
    why = f"its tasks are {first} to {last}" if step.total else "its number of tasks is not known yet"
    raise TaskNotFound(f"step {step.name!r} has no task {index}; {why}")


def _task_view(job: JobRow, step: StepRow, spec: StepDefine, rank: int, shard: Shard) -> Task:
    started, ended = _last_times(shard)
    created = step.queued_time or step.create_time
    first = spec.start_shard_id
    pack = pack_range(step, spec, rank)
    return Task(
        id=task_id(step, rank),
        job_id=job.id,
        job_name=job.job_name,
        trigger=job.trigger,
        step_name=step.name,
        rank=rank,
        sharding=Sharding(total=step.total + first, index=rank + first),
        pack=PackRange(start=pack[0], end=pack[1]) if pack else None,
        state=shard.state,
        attempt=shard.attempt,
        failed=shard.failures,
        params=spec.params,
        command=spec.command,
        inputs=declared_files(spec.inputs),
        outputs=declared_files(spec.outputs),
        predata=declared_files(spec.predata),
        info=Info.model_validate(job.info),
        worker=shard.worker_id or None,
        submit_user=job.submit_user,
        execute_user=spec.execute_user,
        data_time=optional_from_ms(job.data_time),
        create_time=from_ms(created),
        update_time=from_ms(ended or started or created),
        checkout_time=optional_from_ms(started),
        execute_time=optional_from_ms(started),
        completed_time=optional_from_ms(ended if shard.state.ended else None),
        compute_time=(ended - started) / 1000 if started and ended else 0,
    )


def _last_times(shard: Shard) -> tuple[int | None, int | None]:
    """Return the start and the end of the last attempt; None if there was none, or if it runs."""
    if shard.leased:
        return shard.leased, shard.ended
    if shard.state in _NOT_LEASED or not shard.time:
        return None, None
    return shard.time, shard.time + shard.span if shard.state.ended else None


def displayed_shard(step: StepRow, shard: Shard) -> Shard:
    """Return a shard as shown: KILLED if open in an ended step, not READY in one that is not enqueued."""
    if step.state.ended and not shard.state.ended:
        return shard.evolve(state=TaskState.KILLED)
    if shard.state is TaskState.READY and step.state in NOT_ENQUEUED:
        return shard.evolve(state=NOT_ENQUEUED[step.state])
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


def first_index(step: StepRow) -> int:
    return step.settings.start_shard_id
