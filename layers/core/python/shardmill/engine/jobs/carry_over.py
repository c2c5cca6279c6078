"""Carry results over into the next run of a Job: keep steps that do not run again, copy kept tasks."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shardmill.engine.continuation import Budget
from shardmill.engine.mill import Mill
from shardmill.engine.running import release
from shardmill.engine.running.kill import end_steps, is_complete
from shardmill.engine.tasks.fair_share import natural_window
from shardmill.model.blocks import Block, Shard, block_count, blocks_of_set, set_count
from shardmill.model.definition.task_count import total
from shardmill.model.history import ENGINE
from shardmill.model.states import StepState, TaskState
from shardmill.store.rows import JobRow, StepRow

ALL_TASKS = "all"
FAILED_TASKS = "failed"
"""Selects the tasks of a step that have not succeeded, in place of ranks."""

_BLOCKS_PER_READ = 100

_KEPT = (
    "state",
    "last_failed",
    "spoiled",
    "total",
    "success",
    "failed",
    "killed",
    "compute_ms",
    "queued_time",
    "started_time",
    "completed_time",
    "notes",
    "attempts_before",
)


def carry_over(mill: Mill, job: JobRow, nodes: list[StepRow], now: int, budget: Budget) -> bool:
    """Set the results that a new run keeps from the last planned run, and copy kept tasks.

    Return False if the budget is spent before. The progress is in rows: a step whose tasks are copied has its
    row in the new run, and so has a set of a large step.
    """
    run, before = last_planned(mill, job.id, job.run - 1)
    if not before:
        return True
    if any(
        step.kind == "step" and (not step.state.ended or step.end_interrupted) for step in before.values()
    ):
        if not end_steps(mill, job.evolve(run=run), ENGINE, now, budget):
            return False
        _, before = last_planned(mill, job.id, run)
    nodes[:] = keep_steps(job, nodes, before)
    copied = {node.index: node for node in mill.jobs.steps(job.id, job.run)}
    for node in [node for node in nodes if str(node.index) in job.redo and node.index in before]:
        carried = copied.get(node.index)
        if not carried and not budget.spent:
            carried = _carry_step(mill, job, node, before[node.index], budget)
        if not carried:
            mill.jobs.add_steps(job, [each for each in nodes[: node.index] if each.index not in copied])
            return False
        nodes[node.index] = carried
    return True


def last_planned(mill: Mill, job_id: str, run: int) -> tuple[int, dict[int, StepRow]]:
    """Return the last run, up to `run`, that was planned completely, and its nodes by index; (0, {}) if none.

    A run that ended before it was planned has no results; then the results of the run before it count.
    """
    for number in range(run, 0, -1):
        nodes = mill.jobs.steps(job_id, number)
        if is_complete(nodes):
            return number, {node.index: node for node in nodes}
    return 0, {}


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


def _carry_step(mill: Mill, job: JobRow, node: StepRow, old: StepRow, budget: Budget) -> StepRow | None:
    """Return a step that runs again with what it keeps; None if the budget is spent before all is copied."""
    wanted = job.redo[str(node.index)]
    if old.total and not _task_count_may_change(job, node, wanted):
        partial = node.evolve(context=old.context, attempts_before=old.attempts_before)
        return _keep_tasks(mill, partial, old, wanted, budget)
    budget.spend(1 + block_count(old.total) // _BLOCKS_PER_READ)
    return node.evolve(attempts_before=_highest_attempt(mill, old))


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
    if pack := old.context.get("pack"):  # its tasks show their ranges
        kept["context"] = {**node.context, "pack": pack}
    return node.evolve(kept_from=old.kept_from or old.run, **kept)


def _release(nodes: list[StepRow], finished: deque[int]) -> None:
    """Release the dependents of kept steps, as running/release does for steps that end."""
    while finished:
        node = nodes[finished.popleft()]
        for index in node.down:
            holding = {name: True for name, holds in release.marks(node, index).items() if holds}
            target = nodes[index] = nodes[index].evolve(
                waiting=nodes[index].waiting - {str(node.index)}, **holding
            )
            if target.waiting or target.state.ended or target.kind == "end":
                continue
            if target.kind == "gate":
                if release.gate_open(nodes, target):
                    finished.append(index)
            elif release.skipped_by_upstream(target):
                nodes[index] = target.evolve(state=StepState.SKIPPED)
                finished.append(index)
            else:
                nodes[index] = target.evolve(root=True)


def _keep_tasks(
    mill: Mill, node: StepRow, old: StepRow, wanted: str | list[int], budget: Budget
) -> StepRow | None:
    """Copy the tasks of a step that runs again in part; tasks that run again keep their attempt number.

    Return None if the budget is spent before all sets of a large step are copied.
    """
    node = node.evolve(total=old.total)
    node = node.evolve(window=natural_window(node))
    copy = _Copy(mill, old.home, node, wanted, budget)
    if not node.two_levels:
        still_open, ends = copy.blocks(range(block_count(node.total)))
        return _with_counts(node.evolve(open={str(number) for number in still_open}), ends)
    numbers = range(set_count(node.total))
    for number in numbers - mill.shards.sets(node, numbers, consistent=True).keys():
        if budget.spent:
            return None
        members, counts = copy.blocks(blocks_of_set(node.total, number))
        mill.shards.put_set(node, number, members, counts)
    for number, part in mill.shards.sets(node, numbers, consistent=True).items():
        node = (
            node.evolve(open={*node.open, str(number)})
            if part.open
            else _with_counts(node, Counter(part.counts))
        )
    return node


@dataclass(frozen=True, slots=True)
class _Copy:
    """Copies blocks of a step into the next run."""

    mill: Mill
    source: StepRow
    target: StepRow
    wanted: str | list[int]
    budget: Budget

    def blocks(self, numbers: range) -> tuple[set[int], Counter[str]]:
        """Copy blocks; return the blocks with open tasks, and how the tasks of the others ended."""
        chosen = None if isinstance(self.wanted, str) else frozenset(self.wanted)
        still_open: set[int] = set()
        ends: Counter[str] = Counter()
        for block in self.mill.shards.blocks(self.source, numbers).values():
            copied = {
                rank: _reset(shard) if self._runs_again(chosen, rank, shard) else shard
                for rank, shard in block.items()
                if shard.attempt or (shard.state.ended and not self._runs_again(chosen, rank, shard))
            }
            copy = Block(block.number, block.size, {rank % 64: shard for rank, shard in copied.items()})
            if copied:
                self.mill.shards.put_block(self.target, copy)
                self.budget.spend()
            if copy.finished:
                _count(ends, copy)
            else:
                still_open.add(block.number)
        self.budget.spend(1 + len(numbers) // _BLOCKS_PER_READ)
        return still_open, ends

    def _runs_again(self, chosen: frozenset[int] | None, rank: int, shard: Shard) -> bool:
        if chosen is not None:
            return rank in chosen
        return self.wanted == ALL_TASKS or shard.state is not TaskState.SUCCESS


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
