"""Repair Jobs after crashes: find due Jobs in an index and repeat the missing operations.

The index may lag behind the rows; the call that takes a due row checks that its due time is still the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.aws.machines import parse_execution_name
from shardmill.aws.observability import logger
from shardmill.engine.continuation import Budget, continue_soon, publish_due
from shardmill.engine.control import delete
from shardmill.engine.jobs import dependencies
from shardmill.engine.mill import RECHECK_MS, Mill
from shardmill.engine.running import close_step, concurrency, finish, kill, periodic_check
from shardmill.engine.running.finish import announce
from shardmill.engine.running.recover import Lookups, fail_if_not_planned, recover_run
from shardmill.engine.tasks import park
from shardmill.model.errors import Transient
from shardmill.model.history import ENGINE
from shardmill.model.states import JobState
from shardmill.store.due.watches import Due, WatchRow
from shardmill.store.rows import JobRow

CHUNK = 100
"""Jobs that one invocation repairs; the tick passes on those beyond the first chunk."""
MAX_PER_TICK = 100 * CHUNK
_LEAST_LOOKUPS = 15
_READ_AHEAD = 25
_WATCHED = (JobState.WAITING, *periodic_check.RUNS)


def repair_due_jobs(mill: Mill, now: int, new_id: Callable[[], str]) -> dict[str, int]:
    """Repair the first chunk of the Jobs that are due, and pass on the others to further invocations."""
    due = mill.watches.due(now, limit=MAX_PER_TICK)
    others = [due[at : at + CHUNK] for at in range(CHUNK, len(due), CHUNK)]
    passed_on = sum(map(len, others)) if publish_due(mill, others, now) else 0
    return repair_all(mill, due[:CHUNK], now, new_id) | {"passedOn": passed_on}


def repair_listed(mill: Mill, detail: dict[str, Any], now: int, new_id: Callable[[], str]) -> dict[str, int]:
    """Repair the Jobs that an event passed on, as of its time or their due time, whichever is later."""
    due = [Due(seen, job_id, watched) for seen, job_id, watched in detail["due"]]
    return repair_all(mill, due, max(now, detail["now"]), new_id)


def repair_all(mill: Mill, due: Sequence[Due], now: int, new_id: Callable[[], str]) -> dict[str, int]:
    """Repair Jobs; return how many were checked and how many repairs failed."""
    checked, failed = 0, 0
    lookups = Lookups(max(_LEAST_LOOKUPS, len(due) // 4))
    for at in range(0, len(due), _READ_AHEAD):
        chunk = due[at : at + _READ_AHEAD]
        jobs, watches = mill.watches.rows([each.job_id for each in chunk])
        for each in chunk:
            job, row = jobs.get(each.job_id), watches.get(each.job_id)
            try:
                budget = Budget.of_slice(len(due))
                checked += _look(mill, each, job, row, now, new_id, lookups, budget)
            except Exception:
                # A failing Job must not stop the repair of the others.
                extra = {"action": "repair", "jobId": each.job_id}
                logger.exception("failed to repair a job; the next tick will retry", extra=extra)
                failed += 1
                _retry_soon(mill, each, now)
    return {"looked": checked, "failed": failed}


def _retry_soon(mill: Mill, due: Due, now: int) -> None:
    """Look again soon at a Job whose repair failed after its next look was set."""
    if due.watch:
        with suppress(ClientError, BotoCoreError, Transient):
            mill.watches.look_soon(due.job_id, due=now + RECHECK_MS)


def _look(
    mill: Mill,
    due: Due,
    job: JobRow | None,
    row: WatchRow | None,
    now: int,
    new_id: Callable[[], str],
    lookups: Lookups,
    budget: Budget,
) -> bool:
    """Repair a Job of which a row is due; False if another tick was faster."""
    watched = job is not None and job.state in _WATCHED and not job.event_pending
    if not due.watch:
        take = mill.watches.begin if watched else mill.watches.postpone_job
        if not take(due.job_id, seen=due.seen, due=now + RECHECK_MS):
            return False
        repair(mill, due.job_id, now, new_id, lookups, budget)
        return True
    if not row or row.da != due.seen:
        return False
    if not job or not watched:
        mill.watches.end(due.job_id, seen=due.seen)
        return False
    if job.state in periodic_check.RUNS:
        return periodic_check.look(mill, job, row, now, lookups, budget)
    again = now + periodic_check.interval(job.update_time, now)
    if job.unmet and job.expires is not None:
        again = min(again, max(job.expires, now + 1))
    if job.unmet and job.not_before is not None and job.not_before > now:
        again = min(again, job.not_before)
    if not mill.watches.postpone(job.id, seen=row.da, due=again):
        return False
    repair(mill, job.id, now, new_id, lookups, budget)
    return True


def repair(
    mill: Mill,
    job_id: str,
    now: int,
    new_id: Callable[[], str],
    lookups: Lookups | None = None,
    budget: Budget | None = None,
) -> None:
    """Repeat the operations that a Job's present state lacks, as far as the budget allows; idempotent."""
    job = mill.jobs.get(job_id)
    if not job:
        return
    budget = budget or Budget()
    if job.event_pending:
        # A suspension or a kill is not complete yet.
        suspended = job.state is JobState.SUSPENDED
        if park.park(mill, job, now, budget) if suspended else kill.end_steps(mill, job, ENGINE, now, budget):
            announce(mill, job, now)
        else:
            continue_soon(mill, job.id, now)
    elif job.state.ended:
        if job.heirs_pending:
            from shardmill.engine import downstream  # imports jobs/submit, which few ticks need

            downstream.notify_dependents(mill, job, now, new_id, budget)
        if not job.heirs_pending or job.state is JobState.DELETED:
            delete.continue_deletion(mill, job, now, budget)
    elif job.state in (JobState.INIT, JobState.WAITING):
        _repair_start(mill, job, now, budget)
    elif job.state in periodic_check.RUNS:
        found = recover_run(mill, job, now, lookups, budget)
        periodic_check.settle(mill, job, found, now + RECHECK_MS, now)


def _repair_start(mill: Mill, job: JobRow, now: int, budget: Budget) -> None:
    if job.unmet:
        if job.files_pending:
            from shardmill.engine.jobs.plan import copy_files  # few ticks need it

            if not copy_files(mill, job, now):
                return
        if job.rerun_with:
            mill.runs.add_edges(job)  # a crash after the rerun's write may have left them out
        dependencies.check_dependencies(mill, job, now)
        return
    if job.replaces:
        kill.kill_replaced(mill, job, now, budget)
    if job.planning:
        from shardmill.engine.jobs.plan import plan  # few ticks need it

        plan(mill, job.id, job.run, now, budget)
    elif job.state is JobState.WAITING and mill.jobs.is_planned(job.id, job.run):
        concurrency.recheck(mill, job, now)
    else:
        mill.machines.start_job(job.id, job.run)
        fail_if_not_planned(mill, job, now)


def end_failed_execution(mill: Mill, name: str, cause: str, now: int) -> bool:
    """End the Job or step of an execution that ended without its Catch; False if there is none to end."""
    parsed = parse_execution_name(name)
    if not parsed:
        return False
    job_id, run, index = parsed
    job = mill.jobs.get(job_id)
    if not job or job.run != run or job.state.ended:
        return False
    if index is None:
        finish.fail_job(mill, job_id, run, cause, now)
    else:
        close_step.end_without_execution(mill, job_id, run, index, cause, now)
    return True
