"""Gates: nodes without tasks, which let a later phase begin when everything before them is over."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from shardmill.engine.mill import Mill
from shardmill.engine.running.finish import announce_step, end_job
from shardmill.model.states import JobState, StepState
from shardmill.store.rows import JobRow, StepRow


def gate_open(nodes: Sequence[StepRow], gate: StepRow) -> bool:
    """Whether every step before a gate has ended.

    A gate waits for the last steps of its phase; those may end by somebody's word before what they wait for.
    """
    before: dict[int, list[StepRow]] = {}
    for node in nodes:
        for index in node.down:
            before.setdefault(index, []).append(node)
    found, new = {gate.index}, [gate.index]
    while new:
        for node in before.get(new.pop(), ()):
            if node.kind == "step" and not node.state.ended:
                return False
            if node.index not in found:
                found.add(node.index)
                new.append(node.index)
    return True


def release_dependents(mill: Mill, job: JobRow, finished: StepRow, now: int) -> None:
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
        return node if gate_open(mill.jobs.steps(job.id, job.run), node) else None
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
