"""Release the steps that wait for a finished step: start, skip or end the ready ones.

A gate is a node without tasks: it lets a later phase start when every step before it has ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from shardmill.engine.mill import Mill
from shardmill.engine.running.finish import announce_step, end_job
from shardmill.model.states import JobState, StepState
from shardmill.store.rows import JobRow, StepRow

Start = Callable[[StepRow], None]
"""Starts the execution of a step."""


def release_dependents(
    mill: Mill, job: JobRow, finished: StepRow, now: int, start: Start | None = None
) -> None:
    """Remove a finished step from the `waiting` sets of its dependents, and advance those left with none.

    `start`: starts a step that became ready; by default without opening it.
    """
    if job.run != finished.run or job.state.ended:
        return
    work, seen = deque([finished]), {finished.index}
    while work:
        node = work.popleft()
        for index in node.down:
            target = mill.jobs.release(node, index, **marks(node, index))
            if target.waiting or target.index in seen:
                continue
            seen.add(target.index)
            done = advance(mill, job, target, now, start)
            if done:
                work.append(done)


def marks(node: StepRow, index: int) -> dict[str, bool]:
    """Return how the end of a node marks the node `index` that waits for it."""
    needed = index not in node.loose
    return {
        "spoiled": needed and _skips_dependents(node),
        "unwanted": needed and skipped_by_condition(node),
    }


def _skips_dependents(node: StepRow) -> bool:
    """Return whether the dependents of a node must be skipped because something failed."""
    skipped = node.state is StepState.SKIPPED
    return node.kind == "step" and (node.spoiled if skipped else not node.state.lets_dependents_run)


def passed_over(step: StepRow) -> bool:
    """Return whether a step was skipped by a condition or the request, not because something failed."""
    return step.state is StepState.SKIPPED and not step.spoiled


def skipped_by_condition(step: StepRow) -> bool:
    """Return whether a step was skipped because its condition, or that of an upstream step, was false."""
    return passed_over(step) and (step.unwanted or not step.ignored)


def skipped_by_upstream(step: StepRow) -> bool:
    return step.spoiled or (step.unwanted and not step.settings.run_if_skipped)


def advance(mill: Mill, job: JobRow, node: StepRow, now: int, start: Start | None = None) -> StepRow | None:
    """Start, skip or end a node whose dependencies have ended; return it if that finishes it."""
    if node.kind == "gate":
        return node if gate_open(mill.jobs.steps(job.id, job.run), node) else None
    if node.kind == "end":
        end_job(mill, job, now)
    elif node.state.ended:
        return node  # forced to end before its upstream steps; gates wait for those too
    elif skipped_by_upstream(node):
        skipped = mill.jobs.move_step(node, StepState.SKIPPED, now=now, completed_time=now) or node
        announce_step(mill, job, skipped)
        return skipped
    elif node.in_progress:
        mill.start_step(node)  # a call that crashed may have opened it without starting its execution
    elif not _is_suspended(mill, job):
        (start or mill.start_step)(node)
    return None


def _is_suspended(mill: Mill, job: JobRow) -> bool:
    """Return whether a Job is still suspended: it may have been resumed before the step was released."""
    present = mill.jobs.get(job.id) if job.state is JobState.SUSPENDED else job
    return present is not None and present.state is JobState.SUSPENDED


def gate_open(nodes: Sequence[StepRow], gate: StepRow) -> bool:
    """Return whether every step upstream of a gate has ended.

    A gate's `waiting` set has only the last steps of its phase, which can be forced to end before their
    upstream steps.
    """
    upstream: dict[int, list[StepRow]] = {}
    for node in nodes:
        for index in node.down:
            upstream.setdefault(index, []).append(node)
    visited, pending = {gate.index}, [gate.index]
    while pending:
        for node in upstream.get(pending.pop(), ()):
            if node.kind == "step" and not node.state.ended:
                return False
            if node.index not in visited:
                visited.add(node.index)
                pending.append(node.index)
    return True
