"""Carry results over into the next run of a Job: keep steps that do not run again, copy kept tasks."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence

from shardmill.engine.mill import Mill
from shardmill.engine.running import release
from shardmill.engine.tasks.fair_share import natural_window
from shardmill.model.blocks import Block, Shard, block_count, set_of
from shardmill.model.definition.fields import total
from shardmill.model.states import StepState, TaskState
from shardmill.store.rows import ALL_TASKS, JobRow, StepRow

_KEPT = (
    "state",
    "last_failed",
    "spoiled",
    "total",
    "success",
    "failed",
    "killed",
    "compute_ms",
    "started_time",
    "completed_time",
    "notes",
    "attempts_before",
)


def carry_over(mill: Mill, job: JobRow, planned: Sequence[StepRow]) -> list[StepRow]:
    """Return the nodes of a new run with what they keep of the previous one; copy kept tasks, idempotent."""
    before = {node.index: node for node in mill.jobs.steps(job.id, job.run - 1)}
    if not before:
        return _count_attempts_on(mill, job, planned)
    nodes = keep_steps(job, planned, before)
    for node in planned:
        old, wanted = before.get(node.index), job.redo.get(str(node.index))
        if node.kind != "step" or not old or wanted is None:
            continue
        if old.total and not _task_count_may_change(job, node, wanted):
            partial = nodes[node.index].evolve(context=old.context, attempts_before=old.attempts_before)
            nodes[node.index] = _keep_tasks(mill, partial, old, wanted)
        else:
            nodes[node.index] = nodes[node.index].evolve(attempts_before=_highest_attempt(mill, old))
    return nodes


def keep_steps(job: JobRow, planned: Sequence[StepRow], before: Mapping[int, StepRow]) -> list[StepRow]:
    """Return the nodes of a new run with the steps that do not run again as they ended in the previous one.

    `before`: the nodes of the previous run by index.
    """
    nodes = list(planned)
    kept: deque[int] = deque()
    for node in planned:
        old = before.get(node.index)
        if node.kind == "step" and old and str(node.index) not in job.redo:
            nodes[node.index] = _keep(node, old)
            kept.append(node.index)
    _release(nodes, kept)
    _end_waits_for_all(nodes)
    return nodes


def _count_attempts_on(mill: Mill, job: JobRow, planned: Sequence[StepRow]) -> list[StepRow]:
    """Number the attempts after those of the last run with steps: the runs since then were not planned."""
    for run in range(job.run - 2, 0, -1):
        if before := {node.index: node for node in mill.jobs.steps(job.id, run) if node.kind == "step"}:
            return [
                node.evolve(attempts_before=_highest_attempt(mill, before[node.index]))
                if node.index in before
                else node
                for node in planned
            ]
    return list(planned)


def _highest_attempt(mill: Mill, step: StepRow) -> int:
    """Return the highest attempt number of a step's tasks, in its run or before."""
    shards = (shard for block in mill.shards.all_blocks(step.home) for _, shard in block.items())
    return max([step.attempts_before, *(shard.attempt for shard in shards)])


def _task_count_may_change(job: JobRow, node: StepRow, wanted: str | list[int]) -> bool:
    """Return whether a step's tasks depend on the output of a step that runs again."""
    if total(node.define) is not None:
        return False
    sources = node.context.get("refs", {}).values()
    return wanted == ALL_TASKS or any(str(index) in job.redo for index in sources)


def _end_waits_for_all(nodes: list[StepRow]) -> None:
    """Make the end wait for all steps that run: an earlier phase may run again while a later one is kept."""
    end = nodes[-1].index
    unfinished = [node for node in nodes if node.kind == "step" and not node.state.ended]
    nodes[end] = nodes[end].evolve(waiting={*nodes[end].waiting, *(str(node.index) for node in unfinished)})
    for node in unfinished:
        if end not in node.down:
            nodes[node.index] = node.evolve(down=[*node.down, end])


def _keep(node: StepRow, old: StepRow) -> StepRow:
    kept = {name: getattr(old, name) for name in _KEPT}
    return node.evolve(kept_from=old.kept_from or old.run, **kept)


def _release(nodes: list[StepRow], finished: deque[int]) -> None:
    """Release the dependents of kept steps, as running/release does for steps that end."""
    while finished:
        node = nodes[finished.popleft()]
        for index in node.down:
            target = nodes[index] = nodes[index].evolve(
                waiting=nodes[index].waiting - {str(node.index)},
                spoiled=nodes[index].spoiled or node.skips_dependents,
                unwanted=nodes[index].unwanted or node.skipped_by_condition,
            )
            if target.waiting or target.state.ended or target.kind == "end":
                continue
            if target.kind == "gate":
                if release.gate_open(nodes, target):
                    finished.append(index)
            elif target.skipped_by_upstream:
                nodes[index] = target.evolve(state=StepState.SKIPPED)
                finished.append(index)
            else:
                nodes[index] = target.evolve(root=True)


def _keep_tasks(mill: Mill, node: StepRow, old: StepRow, wanted: str | list[int]) -> StepRow:
    """Copy the tasks of a step that runs again in part; tasks that run again keep their attempt number."""
    source = old.home
    node = node.evolve(total=old.total)
    node = node.evolve(window=natural_window(node))
    chosen = None if isinstance(wanted, str) else set(wanted)

    def runs_again(rank: int, shard: Shard) -> bool:
        if chosen is not None:
            return rank in chosen
        return wanted == ALL_TASKS or shard.state is not TaskState.SUCCESS

    still_open: set[int] = set()
    ends: dict[int, Counter[str]] = {}
    for block in mill.shards.all_blocks(source):
        copied = {
            rank: _reset(shard) if runs_again(rank, shard) else shard
            for rank, shard in block.items()
            if shard.attempt or (shard.state.ended and not runs_again(rank, shard))
        }
        copy = Block(block.number, block.size, {rank % 64: shard for rank, shard in copied.items()})
        if copied:
            mill.shards.put_block(node, copy)
        if copy.finished:
            _count(ends.setdefault(set_of(block.number) if node.two_levels else 0, Counter()), copy)
        else:
            still_open.add(block.number)
    if not node.two_levels:
        return _with_counts(node.evolve(open={str(number) for number in still_open}), ends.get(0, Counter()))
    for number in range(set_of(block_count(node.total) - 1) + 1):
        members = {block for block in still_open if set_of(block) == number}
        mill.shards.put_set(node, number, members, ends.get(number, Counter()))
        if members:
            node = node.evolve(open={*node.open, str(number)})
        else:
            node = _with_counts(node, ends.get(number, Counter()))
    return node


def _reset(shard: Shard) -> Shard:
    return Shard(state=TaskState.READY, attempt=shard.attempt, worker=shard.worker)


def _count(counter: Counter[str], block: Block) -> None:
    states = block.counts()
    counter.update(
        success=states[TaskState.SUCCESS],
        failed=states[TaskState.FAILED],
        killed=states[TaskState.KILLED],
        compute_ms=block.compute_ms(),
    )


def _with_counts(node: StepRow, counts: Counter[str]) -> StepRow:
    return node.evolve(**{name: getattr(node, name) + number for name, number in counts.items()})
