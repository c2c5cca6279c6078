"""Recover a running Job: repeat operations that are missing after a crash, a worker's death or a lost
message."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from botocore.exceptions import ClientError

from shardmill.engine.continuation import Budget, continue_soon
from shardmill.engine.groups.matching import group_rows, has_capable_worker, required_program
from shardmill.engine.mill import Mill
from shardmill.engine.running import changes, close_step, kill, release
from shardmill.engine.running.finish import end_job, fail_job
from shardmill.engine.tasks import completion, delivery, fair_share, park
from shardmill.model.states import JobState, StepState
from shardmill.store.rows import JobRow, StepRow

QUIET_MS = 60_000
LONG_SILENCE_MS = 600_000
"""How long a step must not have changed until its execution is looked up: AWS allows 15 lookups a second."""
_TURNS = 12
"""After a long quiet, the tasks of an open step are read only in every n-th check, to find lost messages."""
_TURN_MS = 3_600_000
_FAILED_EXECUTION = {"FAILED", "TIMED_OUT", "ABORTED"}
_UNLIMITED = 1_000_000
_CALLS_PER_START = 2
"""A slice can start all steps of the largest Job: whether they were started is not in their rows."""


@dataclass
class Lookups:
    """How many executions may still be looked up."""

    left: int = _UNLIMITED

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a check of a run."""

    open: AbstractSet[int]
    """The steps that are ready and have not ended; others change only when one of them ends."""
    changed: int
    """When something in the run changed last."""
    eager: bool
    """Whether it has to be checked more often than a run that only waits for its workers."""
    repaired: bool = False


def recover_run(
    mill: Mill, job: JobRow, now: int, lookups: Lookups | None = None, budget: Budget | None = None
) -> Found:
    """Repeat the missing operations in the current run of a Job; idempotent.

    Other calls continue work that exceeds the budget.
    """
    lookups, budget = lookups or Lookups(), budget or Budget()
    if job.replaces:
        kill.kill_replaced(mill, job, now, budget)
    if job.unapplied:
        changes.apply_changes(mill, job, now, budget)
    nodes = mill.jobs.steps(job.id, job.run)
    if job.state is JobState.QUEUED and any(node.started_time for node in nodes):
        mill.jobs.mark_running(job.id, job.run, now=now)
    repaired: list[bool] = []
    for node in sorted(nodes, key=lambda each: not _is_long_work(each)):
        if budget.spent and (_is_long_work(node) or _is_to_start(node)):
            continue_soon(mill, job.id, now)
            break
        repaired.append(_recover_node(mill, job, nodes, node, now, lookups, budget))
    if all(node.state.ended for node in nodes if node.kind == "step"):
        end_job(mill, job, now)
        repaired.append(True)
    return found_in(job, nodes, repaired=any(repaired))


def recover_open_steps(mill: Mill, steps: Sequence[StepRow], now: int, lookups: Lookups) -> bool:
    """Repeat the missing operations of open steps; return whether there were any."""
    repaired = [
        _recover_open(mill, step, now, lookups, in_turn=turn == now // _TURN_MS % (_TURNS * len(steps)))
        for turn, step in enumerate(steps)
        if _is_quiet(step, now)
    ]
    return any(repaired)


def found_in(job: JobRow, nodes: Sequence[StepRow], *, repaired: bool = False) -> Found:
    """Describe a run by the nodes that may have changed since the last check."""
    steps = [node for node in nodes if is_open(node)]
    return Found(
        open={step.index for step in steps},
        changed=max([job.update_time, *(node.update_time for node in nodes)]),
        eager=any(step.stopping or step.resend or fair_share.is_shrunk(step) for step in steps),
        repaired=repaired,
    )


def is_open(node: StepRow) -> bool:
    """Return whether a node is a step that is ready and has not ended."""
    return node.kind == "step" and not node.state.ended and not node.waiting


def _is_quiet(step: StepRow, now: int) -> bool:
    return now - step.update_time > QUIET_MS


def fail_if_not_planned(mill: Mill, job: JobRow, now: int) -> None:
    """Fail a Job whose execution failed before it was planned; execution names cannot be reused."""
    status = mill.machines.status(job.id, job.run)
    if status in _FAILED_EXECUTION:
        fail_job(mill, job.id, job.run, f"its execution ended as {status}", now)


def _is_long_work(node: StepRow) -> bool:
    """Return whether a node was not resumed yet, or not all tasks of an ended one have been ended."""
    return node.state is StepState.SUSPENDED or node.end_interrupted


def _is_to_start(node: StepRow) -> bool:
    return is_open(node) and not node.in_progress


def _recover_node(
    mill: Mill,
    job: JobRow,
    nodes: list[StepRow],
    node: StepRow,
    now: int,
    lookups: Lookups,
    budget: Budget,
) -> bool:
    """Repeat the missing operations of a node; return whether there were any."""
    if node.state is StepState.SUSPENDED:
        park.unpark_step(mill, node, now, budget)
        return True
    if node.end_interrupted:
        kill.stop_execution(mill, node)
        close_step.finish_ended_step(mill, job, node, now, budget)
        return True
    if node.opened:
        return _is_quiet(node, now) and _recover_open(mill, node, now, lookups)
    if is_open(node):
        budget.spend(_CALLS_PER_START)
        finished = release.advance(mill, job, node, now)
        if finished:
            release.release_dependents(mill, job, finished, now)
            return True
        return _handle_ended_execution(mill, node, now, lookups)
    if node.state.ended or (node.kind == "gate" and not node.waiting and release.gate_open(nodes, node)):
        if any(str(node.index) in nodes[index].waiting for index in node.down):
            release.release_dependents(mill, job, node, now)
            return True
    return False


def _handle_ended_execution(mill: Mill, step: StepRow, now: int, lookups: Lookups) -> bool:
    """End a step whose execution has ended, or start a missing one; execution names cannot be reused."""
    if not lookups.take():
        return False
    try:
        status = mill.machines.status(step.job_id, step.run, step.index)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ThrottlingException":
            raise
        lookups.left = 0
        return False
    if status == "RUNNING" or (status is None and step.state is StepState.WAITING):
        return False
    if status is None:
        mill.start_step(step)  # a crash after the step was opened
    else:
        cause = f"its execution is {status}"
        close_step.end_without_execution(mill, step.job_id, step.run, step.index, cause, now)
    return True


def _recover_open(mill: Mill, step: StepRow, now: int, lookups: Lookups, *, in_turn: bool = True) -> bool:
    """Repeat the missing operations of an open step; `in_turn`: also check its messages after a long
    quiet."""
    # Without a token, its execution may be missing.
    doubtful = not step.token or now - step.update_time > LONG_SILENCE_MS
    if doubtful and _handle_ended_execution(mill, step, now, lookups):
        return True
    if step.stopping:
        from shardmill.engine.tasks.lease import end_dead_leases  # few ticks need it

        end_dead_leases(mill, step, now)
    step = completion.close_empty_sets(mill, step, step.open)
    completion.wake(mill, step)
    if not step.open:
        return True
    if step.stopping:
        return False
    resent = _resend_messages(mill, step, now, in_turn=in_turn)
    fair_share.grow(mill, step, now)
    return resent


def _resend_messages(mill: Mill, step: StepRow, now: int, *, in_turn: bool) -> bool:
    """Send a step's messages again if a group lost its workers, a resend crashed, or they are lost.

    Return whether something was sent or changed.
    """
    if not group_rows(mill, step.groups, now):
        cause = f"its worker groups no longer exist: {', '.join(step.groups)}"
        close_step.fail_step(mill, step.job_id, step.run, step.index, cause, now)
        mill.machines.abort(*step.key)  # its token was lost and will never be returned
        return True
    served_groups = _groups_to_resend_to(mill, step, now)
    if served_groups:
        delivery.resend(mill, mill.jobs.raise_generation(step, sent_to=served_groups), now)
    elif step.resend:
        delivery.resend(mill, step, now)
    else:
        return delivery.check(mill, step, now, in_turn=in_turn)
    return True


def _groups_to_resend_to(mill: Mill, step: StepRow, now: int) -> list[str]:
    """Return the step's groups that have workers, if messages may be in the queue of one that has none."""
    if len(step.groups) < 2:
        return []
    rows = group_rows(mill, step.groups, now).values()
    need = required_program(step)
    alive = [row.name for row in rows if has_capable_worker(mill, row, need, now)]
    sent_to = set(step.sent_to or step.groups)
    return alive if alive and not sent_to <= set(alive) else []
