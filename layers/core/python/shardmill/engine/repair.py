"""What the tick mends: whatever a crash left, found by an index and repeated until it is done."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from shardmill.aws.machines import parse_execution_name
from shardmill.aws.observability import logger
from shardmill.aws.queues import lane_of
from shardmill.engine.control import change, delete
from shardmill.engine.groups.matching import group_rows, need_of, served
from shardmill.engine.jobs import dependencies
from shardmill.engine.mill import LOOK_AGAIN_MS, Mill
from shardmill.engine.running import close_step, concurrency, kill, release
from shardmill.engine.running.finish import announce, end_job
from shardmill.engine.running.start import job_runs
from shardmill.engine.tasks import completion, fair_share, messages, park
from shardmill.model.history import ENGINE
from shardmill.model.states import JobState, StepState
from shardmill.store.rows import JobRow, StepRow

QUIET_MS = 60_000
MOST_A_TICK = 1_000
_DEAD = {"FAILED", "TIMED_OUT", "ABORTED"}


def look_at_jobs(mill: Mill, now: int, new_id: Callable[[], str]) -> dict[str, int]:
    """Look at every Job that is due; how many there were, and how many could not be mended now."""
    looked, failed = 0, 0
    for job_id, seen in list(islice(mill.jobs.due(now, limit=MOST_A_TICK), MOST_A_TICK)):
        if not mill.jobs.look_again(job_id, seen=seen, due=now + LOOK_AGAIN_MS):
            continue
        looked += 1
        try:
            repair(mill, job_id, now, new_id)
        except Exception:
            # One Job that cannot be mended must not keep the others from it; it is due again in a minute.
            logger.exception("could not repair a job", extra={"action": "repair", "jobId": job_id})
            failed += 1
    return {"looked": looked, "failed": failed}


def repair(mill: Mill, job_id: str, now: int, new_id: Callable[[], str]) -> None:
    """Repeat whatever of a Job's life is missing; every part is harmless if it is not."""
    job = mill.jobs.get(job_id)
    if not job:
        return
    if job.event_pending:
        if job.state is JobState.SUSPENDED:
            park.park(mill, job, now)
        else:
            kill.end_steps(mill, job, ENGINE, now)  # a kill may have come no further than the Job
        announce(mill, job, now)
    elif job.state.ended:
        if job.heirs_pending:
            from shardmill.engine import downstream  # few ticks need what makes Jobs

            downstream.told_of_end(mill, job, now, new_id)
        else:
            delete.forget(mill, job, now)
    elif job.state in (JobState.INIT, JobState.WAITING):
        _repair_start(mill, job, now)
    elif job.state in (JobState.QUEUED, JobState.RUNNING):
        repair_run(mill, job, now)


def _repair_start(mill: Mill, job: JobRow, now: int) -> None:
    if job.unmet:
        dependencies.look(mill, job, now)
        return
    if job.replaces:
        kill.replace(mill, job, now)
    if job.state is JobState.WAITING and mill.jobs.step(job.id, job.run, 0):
        concurrency.look_again(mill, job, now)
    else:
        mill.machines.start_job(job.id, job.run)
        _plan_again(mill, job, now)


def repair_run(mill: Mill, job: JobRow, now: int) -> None:
    """Have a Job that runs go on with whatever stands still."""
    if job.replaces:
        kill.replace(mill, job, now)
    if job.unapplied:
        change.carry_out(mill, job, now)
    nodes = mill.jobs.steps(job.id, job.run)
    if job.state is JobState.QUEUED and any(node.started_time for node in nodes):
        job_runs(mill, job.id, job.run, now)
    for node in nodes:
        _repair_node(mill, job, nodes, node, now)
    if all(node.state.ended for node in nodes if node.kind == "step"):
        end_job(mill, job, now)


def _plan_again(mill: Mill, job: JobRow, now: int) -> None:
    """An execution that ended without a plan cannot be started again by its name: fail truthfully."""
    status = mill.machines.status(job.id, job.run)
    if status in _DEAD:
        close_step.fail_job(mill, job.id, job.run, f"its execution ended as {status}", now)


def _repair_node(mill: Mill, job: JobRow, nodes: list[StepRow], node: StepRow, now: int) -> None:
    if node.state is StepState.SUSPENDED:
        park.unpark_step(mill, node, now)
    elif node.opened:
        if now - node.update_time > QUIET_MS:
            _repair_open(mill, node, now)
    elif not node.state.ended and not node.waiting and node.kind == "step":
        over = close_step.advance(mill, job, node, now)
        if over:
            close_step.release(mill, job, over, now)
        else:
            _fail_if_dead(mill, node, now)
    elif node.state.ended or (node.kind == "gate" and not node.waiting and release.is_over(nodes, node)):
        if any(str(node.index) in nodes[index].waiting for index in node.down):
            close_step.release(mill, job, node, now)


def _fail_if_dead(mill: Mill, step: StepRow, now: int) -> bool:
    """An execution that has ended cannot be started again by its name: its step fails, truthfully."""
    status = mill.machines.status(step.job_id, step.run, step.index)
    if status == "RUNNING" or (status is None and step.state is StepState.WAITING):
        return False
    cause = f"its execution is {status or 'missing'}"
    close_step.fail_step(mill, step.job_id, step.run, step.index, cause, now)
    return True


def _repair_open(mill: Mill, step: StepRow, now: int) -> None:
    if _fail_if_dead(mill, step, now):
        return
    if step.stopping:
        from shardmill.engine.tasks.lease import end_dead_leases  # few ticks need what makes leases

        end_dead_leases(mill, step, now)
    completion.wake(mill, step)
    if step.open and not step.stopping:
        _send_again(mill, step, now)
        fair_share.grow(mill, step, now)


def _send_again(mill: Mill, step: StepRow, now: int) -> None:
    """Send a step's messages anew if its lanes are empty, or if somebody began to and did not finish."""
    if not group_rows(mill, step.groups, now):
        cause = f"none of its worker groups exists any more: {', '.join(step.groups)}"
        close_step.fail_step(mill, step.job_id, step.run, step.index, cause, now)
        return
    renewed: StepRow | None = step
    deserted = _deserted(mill, step, now)
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


def _deserted(mill: Mill, step: StepRow, now: int) -> list[str]:
    """The groups of a step that are served, if messages may lie in one that is not."""
    if len(step.groups) < 2:
        return []
    rows = group_rows(mill, step.groups, now).values()
    need = need_of(step)
    alive = [row.name for row in rows if served(mill, row, need, now)]
    sent_to = set(step.sent_to or step.groups)
    return alive if alive and not sent_to <= set(alive) else []


def _queues_empty(mill: Mill, step: StepRow, now: int) -> bool:
    groups = group_rows(mill, step.groups, now).values()
    return all(mill.queues.empty(group.queues[lane_of(step.priority)]) for group in groups)


def settle_execution(mill: Mill, name: str, cause: str, now: int) -> bool:
    """An execution ended without its own Catch: end what it stood for; False if it was none of ours."""
    parsed = parse_execution_name(name)
    if not parsed:
        return False
    job_id, run, index = parsed
    job = mill.jobs.get(job_id)
    if not job or job.run != run or job.state.ended:
        return False
    if index is None:
        close_step.fail_job(mill, job_id, run, cause, now)
    else:
        close_step.fail_step(mill, job_id, run, index, cause, now)
    return True
