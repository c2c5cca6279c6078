"""The life of one step: opened, swept when it must stop, closed, and what its end sets free."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

from shardmill.engine.errors import CannotOpen
from shardmill.engine.mill import Mill
from shardmill.engine.running import open_step as open_step_module
from shardmill.engine.running import release as release_module
from shardmill.engine.running.finish import announce_step, cut_short, end_job
from shardmill.engine.task_id import task_id
from shardmill.engine.tasks import completion, fair_share, messages
from shardmill.engine.tasks.attempts import told
from shardmill.engine.tasks.park import park_step
from shardmill.engine.tasks.retry import too_many_failures
from shardmill.model.blocks import Block, block_count, blocks_of_set, ranges, set_count
from shardmill.model.definition.fields import StepDefine
from shardmill.model.errors import Transient
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.store.rows import JobRow, StepRow
from shardmill.store.shards import BlockChanged

_SWEEP_TRIES = 6
_OPEN_TRIES = 6


class StepLost(Exception):
    """A state machine speaks of a step that has no row."""


class StillOpen(Transient):
    """A step cannot be closed, or a block swept, because it is still being worked on; try again."""


def open_step(mill: Mill, job_id: str, run: int, index: int, now: int) -> dict[str, Any]:
    """Settle how many tasks a step has: which to enqueue and where, and the sets its blocks lie in."""
    job, step = _rows(mill, job_id, run, index)
    if step.state.ended or job.run != run or job.state.ended:
        return _nothing(step)
    try:
        for _ in range(_OPEN_TRIES):
            if step.state is StepState.WAITING:
                step = _settle(mill, step, now)
    except CannotOpen as error:
        fail_step(mill, job_id, run, index, str(error), now)
        return _nothing(step)
    if step.state.ended:
        return _nothing(step)
    if step.state is StepState.WAITING:
        raise StillOpen(f"step {step.name} is being changed by others")
    if job.state is JobState.SUSPENDED or _suspended_since(mill, job, step):
        step = park_step(mill, step, now, let_finish=False)
    elif step.opened and not step.started_time:
        step = fair_share.make_room(mill, step, now)
    return {
        "ranges": ranges(step.window),
        "sets": list(range(set_count(step.total))),
        "queues": messages.queues_of(mill, step, now),
        "gen": step.gen,
    }


def _suspended_since(mill: Mill, job: JobRow, step: StepRow) -> bool:
    """A Job is suspended before its steps are: a step that opens looks at its Job after that."""
    present = mill.jobs.get(job.id) if step.state is StepState.READY and not step.started_time else job
    return present is not None and present.state is JobState.SUSPENDED


def _nothing(step: StepRow) -> dict[str, Any]:
    return {"ranges": [], "sets": [], "queues": [], "gen": step.gen}


def _settle(mill: Mill, step: StepRow, now: int) -> StepRow:
    """Open a step, or skip it if its condition is false; as it is if somebody changed it meanwhile."""
    spec = StepDefine.model_validate(step.spec)
    open_step_module.gather(mill, step)
    if not open_step_module.wanted(step, spec):
        notes = f"its condition is false: {spec.when}"
        changes: dict[str, Any] = {"completed_time": now, "notes": notes, "same_gen": True}
        skipped = mill.jobs.move_step(step, StepState.SKIPPED, now=now, **changes)
        return skipped or _row(mill, step.job_id, step.run, step.index)
    if step.total:  # a rerun settled it, with what is kept
        open_step_module.keep_for_tasks(step)
        context = step.context_text
        opened = mill.jobs.move_step(step, StepState.READY, now=now, same_gen=True, context=context)
        return opened or _row(mill, step.job_id, step.run, step.index)
    step.total = open_step_module.settle_total(mill, step, spec)
    open_step_module.keep_for_tasks(step)
    context = step.context_text
    if step.two_levels:
        mill.shards.make_sets(step)
    members = set_count(step.total) if step.two_levels else block_count(step.total)
    opened = mill.jobs.move_step(
        step,
        StepState.READY,
        now=now,
        same_gen=True,
        total=step.total,
        window=fair_share.natural_window(step),
        open={str(member) for member in range(members)} or None,
        context=context,
    )
    return opened or _row(mill, step.job_id, step.run, step.index)


def close_step(mill: Mill, job_id: str, run: int, index: int, now: int) -> StepState:
    """Judge a step whose tasks have all ended, and go on with what waits for it."""
    job, step = _rows(mill, job_id, run, index)
    if step.begun:
        if step.open:
            raise StillOpen(f"step {step.name} has open blocks")
        state, changes = _judge(mill, step)
        closed = mill.jobs.move_step(step, state, now=now, completed_time=now, token=None, **changes)
        step = closed or _row(mill, job_id, run, index)
    over(mill, job, step, now)
    return step.state


def over(mill: Mill, job: JobRow, step: StepRow, now: int) -> None:
    """What follows from a step's end; all of it may be repeated."""
    fair_share.leave(mill, step)
    if job.run == step.run and not job.state.ended:
        announce_step(mill, job, step)
    release(mill, job, step, now)


def _open_blocks(mill: Mill, step: StepRow, set_number: int) -> list[Block]:
    if step.two_levels:
        members = mill.shards.open_blocks_of_set(step, set_number)
    else:
        members = {int(member) for member in step.open}
    wanted = members.intersection(blocks_of_set(step.total, set_number))
    return list(mill.shards.blocks(step, sorted(wanted)).values())


def sweep_set(mill: Mill, job_id: str, run: int, index: int, set_number: int) -> int:
    """End every task of a stopping step's set that no worker holds; how many blocks were looked at."""
    step = _row(mill, job_id, run, index)
    blocks = _open_blocks(mill, step, set_number)
    for block in blocks:
        swept = _sweep_block(mill, step, block)
        if swept.finished:
            completion.close_block(mill, step, swept)
    return len(blocks)


def _sweep_block(mill: Mill, step: StepRow, block: Block) -> Block:
    for _ in range(_SWEEP_TRIES):
        waiting = {
            rank: shard
            for rank, shard in block.items()
            if shard.attempt and shard.state in (TaskState.READY, TaskState.SUSPENDED)
        }
        killed = {rank: shard.evolve(state=TaskState.KILLED) for rank, shard in waiting.items()}
        try:
            return mill.shards.sweep(step, block, killed)
        except BlockChanged as changed:
            block = changed.block
    raise StillOpen


def _judge(mill: Mill, step: StepRow) -> tuple[StepState, dict[str, Any]]:
    if not too_many_failures(step.spec["toleratedFailures"], step.failed, step.total) and not step.killed:
        return StepState.SUCCESS, {}
    failed, reason = _first_failure(mill, step)
    notes = f"{step.failed} of {step.total} tasks failed"
    if step.killed:
        notes += f", {step.killed} were stopped"
    if failed:
        notes += f"; the first was {failed}" + (f": {reason}" if reason else "")
    state = StepState.TOLERATED if step.spec.get("canFail") else StepState.FAILED
    if step.kill:
        state, notes = StepState.KILLED, f"{step.notes}; {notes}"
    return state, {"notes": notes, "last_failed": failed or None}


def _first_failure(mill: Mill, step: StepRow) -> tuple[str, str]:
    for block in mill.shards.all_blocks(step):
        for rank, shard in block.items():
            if shard.state is TaskState.FAILED:
                attempts = told(mill, step, rank)
                last = attempts[-1] if attempts else {}
                reason = last.get("message") or last.get("reason", "")
                return task_id(step, rank), reason
    return "", ""


def fail_step(mill: Mill, job_id: str, run: int, index: int, cause: str, now: int) -> None:
    """End a step whose state machine could not go on, truthfully, and go on without it."""
    job, step = _rows(mill, job_id, run, index)
    if not step.state.ended:
        notes = f"the step could not go on: {cause}"[:1000]
        changes: dict[str, Any] = {
            "completed_time": now,
            "token": None,
            "notes": notes,
            "open": None,
            **_final_counts(mill, step),
        }
        state = StepState.TOLERATED if step.spec.get("canFail") else StepState.FAILED
        step = mill.jobs.move_step(step, state, now=now, **changes) or _row(mill, job_id, run, index)
    over(mill, job, step, now)


def _final_counts(mill: Mill, step: StepRow) -> dict[str, int]:
    """How the tasks of a step that is cut off stand: what has not ended is killed with it."""
    found: Counter[TaskState] = Counter()
    for block in mill.shards.all_blocks(step):
        found.update(block.counts())
    success, failed = found[TaskState.SUCCESS], found[TaskState.FAILED]
    return {"success": success, "failed": failed, "killed": found.total() - success - failed}


def release(mill: Mill, job: JobRow, finished: StepRow, now: int) -> None:
    """Strike a finished step off what waits for it, and start, skip or end what waits for nothing more."""
    if job.run != finished.run or job.state.ended:
        return
    work, seen = deque([finished]), {finished.index}
    while work:
        node = work.popleft()
        for index in node.down:
            target = mill.jobs.release(node, index, spoiled=node.spoils, unwanted=node.not_wanted)
            if target.waiting or target.index in seen:
                continue
            seen.add(target.index)
            over = advance(mill, job, target, now)
            if over:
                work.append(over)


def advance(mill: Mill, job: JobRow, node: StepRow, now: int) -> StepRow | None:
    """Go on with a node that waits for nothing more; gives it back if it is over with that."""
    if node.kind == "gate":
        return node if release_module.is_over(mill.jobs.steps(job.id, job.run), node) else None
    if node.kind == "end":
        end_job(mill, job, now)
    elif node.state.ended:
        return node  # by somebody's word, before what it waited for: gates wait for that too
    elif node.skipped_by_others:
        skipped = mill.jobs.move_step(node, StepState.SKIPPED, now=now, completed_time=now) or node
        announce_step(mill, job, skipped)
        return skipped
    elif node.state is StepState.WAITING and job.state is not JobState.SUSPENDED:
        mill.start_step(node)
    return None


def _rows(mill: Mill, job_id: str, run: int, index: int) -> tuple[JobRow, StepRow]:
    rows = mill.jobs.with_step(job_id, run, index)
    if not rows:
        raise StepLost(f"job {job_id}, run {run}, step {index}")
    return rows


def _row(mill: Mill, job_id: str, run: int, index: int) -> StepRow:
    step = mill.jobs.step(job_id, run, index)
    if not step:
        raise StepLost(f"job {job_id}, run {run}, step {index}")
    return step


def fail_job(mill: Mill, job_id: str, run: int, cause: str, now: int) -> None:
    """End a Job that could not be planned."""
    job = mill.jobs.get(job_id)
    if job and job.run == run:
        sources = (JobState.INIT, JobState.WAITING, JobState.QUEUED)
        cut_short(mill, job, JobState.FAILED, sources, f"the job could not be planned: {cause}"[:1000], now)
