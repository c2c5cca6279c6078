"""TODO docstring."""

from __future__ import annotations

from shardmill.aws.observability import logger
from shardmill.aws.queues import lane_of
from shardmill.engine.groups.matching import group_rows, has_capable_worker, required_program
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.running import changes, close_step, kill, release
from shardmill.engine.running.finish import end_job
from shardmill.engine.tasks import completion, fair_share, messages, park
from shardmill.model.states import JobState, StepState
from shardmill.store.rows import JobRow, StepRow

QUIET_MS = 60_000


def recover_run(mill: Mill, job: JobRow, now: int) -> None:
    """Have a Job that runs go on with whatever stands still."""
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


def _recover_node(mill: Mill, job: JobRow, nodes: list[StepRow], node: StepRow, now: int) -> None:
    if node.state is StepState.SUSPENDED:
        park.unpark_step(mill, node, now)
    elif node.opened:
        if now - node.update_time > QUIET_MS:
            _recover_open(mill, node, now)
    elif not node.state.ended and not node.waiting and node.kind == "step":
        over = release.advance(mill, job, node, now)
        if over:
            release.release_dependents(mill, job, over, now)
        else:
            _fail_if_dead(mill, node, now)
    elif node.state.ended or (node.kind == "gate" and not node.waiting and release.gate_open(nodes, node)):
        if any(str(node.index) in nodes[index].waiting for index in node.down):
            release.release_dependents(mill, job, node, now)


def _fail_if_dead(mill: Mill, step: StepRow, now: int) -> bool:
    """An execution that has ended cannot be started again by its name: its step fails, truthfully."""
    status = mill.machines.status(step.job_id, step.run, step.index)
    if status == "RUNNING" or (status is None and step.state is StepState.WAITING):
        return False
    cause = f"its execution is {status or 'missing'}"
    close_step.fail_step(mill, step.job_id, step.run, step.index, cause, now)
    return True


def _recover_open(mill: Mill, step: StepRow, now: int) -> None:
    if _fail_if_dead(mill, step, now):
        return
    if step.stopping:
        from shardmill.engine.tasks.lease import end_dead_leases  # few ticks need what makes leases

        end_dead_leases(mill, step, now)
    completion.wake(mill, step)
    if step.open and not step.stopping:
        _resend_messages(mill, step, now)
        fair_share.grow(mill, step, now)


def _resend_messages(mill: Mill, step: StepRow, now: int) -> None:
    """Send a step's messages anew if its lanes are empty, or if somebody began to and did not finish."""
    if not group_rows(mill, step.groups, now):
        cause = f"none of its worker groups exists any more: {', '.join(step.groups)}"
        close_step.fail_step(mill, step.job_id, step.run, step.index, cause, now)
        return
    renewed: StepRow | None = step
    deserted = _served_groups(mill, step, now)
    if deserted:
        renewed = mill.jobs.raise_generation(step, sent_to=deserted)
    elif not step.resend:
        if not _queues_empty(mill, step, now):
            return
        for block in mill.shards.open_blocks(step):
            if block.finished:
                completion.after_end(mill, step, block)
        renewed = mill.jobs.raise_generation(step)
    if renewed:
        count = messages.send_open(mill, renewed, now)
        extra = {"action": "enqueue", "jobId": step.job_id, "step": step.name, "count": count}
        logger.warning("enqueued a step again", extra=extra)


def _served_groups(mill: Mill, step: StepRow, now: int) -> list[str]:
    """The groups of a step that are served, if messages may lie in one that is not."""
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
