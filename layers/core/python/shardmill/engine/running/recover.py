"""Recover a running Job: repeat what a crash, a dead worker or an empty queue left undone."""

from __future__ import annotations

from shardmill.aws.observability import logger
from shardmill.aws.queues import lane_of
from shardmill.engine.groups.matching import group_rows, has_capable_worker, required_program
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.running import changes, close_step, kill, release
from shardmill.engine.running.finish import end_job, fail_job
from shardmill.engine.tasks import completion, fair_share, messages, park
from shardmill.model.states import JobState, StepState
from shardmill.store.rows import JobRow, StepRow

QUIET_MS = 60_000
_FAILED_EXECUTION = {"FAILED", "TIMED_OUT", "ABORTED"}


def recover_run(mill: Mill, job: JobRow, now: int) -> None:
    """Repeat what is missing in the current run of a Job; idempotent."""
    if job.replaces:
        kill.kill_replaced(mill, job, now)
    if job.unapplied:
        changes.apply_changes(mill, job, now)
    nodes = mill.jobs.steps(job.id, job.run)
    if job.state is JobState.QUEUED and any(node.started_time for node in nodes):
        mill.jobs.mark_running(job.id, job.run, now=now, due=now + RECHECK_MS)
    for node in nodes:
        _recover_node(mill, job, nodes, node, now)
    if all(node.state.ended for node in nodes if node.kind == "step"):
        end_job(mill, job, now)


def fail_if_not_planned(mill: Mill, job: JobRow, now: int) -> None:
    """Fail a Job whose execution failed before it was planned; execution names cannot be reused."""
    status = mill.machines.status(job.id, job.run)
    if status in _FAILED_EXECUTION:
        fail_job(mill, job.id, job.run, f"its execution ended as {status}", now)


def _recover_node(mill: Mill, job: JobRow, nodes: list[StepRow], node: StepRow, now: int) -> None:
    if node.state is StepState.SUSPENDED:
        park.unpark_step(mill, node, now)
    elif node.opened:
        if now - node.update_time > QUIET_MS:
            _recover_open(mill, node, now)
    elif not node.state.ended and not node.waiting and node.kind == "step":
        finished = release.advance(mill, job, node, now)
        if finished:
            release.release_dependents(mill, job, finished, now)
        else:
            _handle_ended_execution(mill, node, now)
    elif node.state.ended or (node.kind == "gate" and not node.waiting and release.gate_open(nodes, node)):
        if any(str(node.index) in nodes[index].waiting for index in node.down):
            release.release_dependents(mill, job, node, now)


def _handle_ended_execution(mill: Mill, step: StepRow, now: int) -> bool:
    """End a step whose execution has ended, or start a missing one; execution names cannot be reused."""
    status = mill.machines.status(step.job_id, step.run, step.index)
    if status == "RUNNING" or (status is None and step.state is StepState.WAITING):
        return False
    if status is None:
        mill.start_step(step)  # a crash after the step was opened
    else:
        cause = f"its execution is {status}"
        close_step.end_without_execution(mill, step.job_id, step.run, step.index, cause, now)
    return True


def _recover_open(mill: Mill, step: StepRow, now: int) -> None:
    if _handle_ended_execution(mill, step, now):
        return
    if step.stopping:
        from shardmill.engine.tasks.lease import end_dead_leases  # few ticks need it

        end_dead_leases(mill, step, now)
    completion.wake(mill, step)
    if step.open and not step.stopping:
        _resend_messages(mill, step, now)
        fair_share.grow(mill, step, now)


def _resend_messages(mill: Mill, step: StepRow, now: int) -> None:
    """Send a step's messages again if its queues are empty, a group lost its workers, or a resend crashed."""
    if not group_rows(mill, step.groups, now):
        cause = f"its worker groups no longer exist: {', '.join(step.groups)}"
        close_step.fail_step(mill, step.job_id, step.run, step.index, cause, now)
        return
    renewed: StepRow | None = step
    served_groups = _groups_to_resend_to(mill, step, now)
    if served_groups:
        renewed = mill.jobs.raise_generation(step, sent_to=served_groups)
    elif not step.resend:
        if not _queues_empty(mill, step, now):
            return
        for block in mill.shards.open_blocks(step):
            if block.finished:
                completion.after_end(mill, step, block)
        renewed = mill.jobs.raise_generation(step)
    if renewed:
        count = messages.send_open(mill, renewed, now)
        extra = {
            "action": "enqueue",
            "jobId": step.job_id,
            "run": step.run,
            "step": step.name,
            "count": count,
        }
        logger.warning("resent the messages of a step", extra=extra)


def _groups_to_resend_to(mill: Mill, step: StepRow, now: int) -> list[str]:
    """Return the step's groups that have workers, if messages may be in the queue of one that has none."""
    if len(step.groups) < 2:
        return []
    rows = group_rows(mill, step.groups, now).values()
    need = required_program(step)
    alive = [row.name for row in rows if has_capable_worker(mill, row, need, now)]
    sent_to = set(step.sent_to or step.groups)
    return alive if alive and not sent_to <= set(alive) else []


def _queues_empty(mill: Mill, step: StepRow, now: int) -> bool:
    groups = group_rows(mill, step.groups, now).values()
    return all(mill.queues.empty(group.queues[lane_of(step.priority)]) for group in groups)
