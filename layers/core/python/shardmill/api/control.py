"""/v1/jobs/…:action: suspend, kill, rerun, force and change Jobs."""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Body

from shardmill.api import pagination
from shardmill.api.pagination import Cursor, Page
from shardmill.api.responses import NO_REASON, DryRun, ReasonBody, actor, job_response, now, visible
from shardmill.aws.clock import new_id
from shardmill.engine.access.visible import check_groups, check_jobs
from shardmill.engine.control import change as change_module
from shardmill.engine.control import dependents, force, rerun, start_waiting, suspend
from shardmill.engine.jobs.run_nodes import planned_step
from shardmill.engine.mill import mill
from shardmill.engine.running import changes, kill
from shardmill.engine.views import effects, explain, jobs, tasks
from shardmill.model.access.grants import Work
from shardmill.model.control.effect import Effect
from shardmill.model.control.requests import (
    Change,
    Force,
    Groups,
    Killing,
    Priority,
    Recompute,
    Rerun,
    Suspension,
)
from shardmill.model.job import Explanation, Job
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.store.rows import JobRow


def _view(job: JobRow) -> Job:
    return job_response(jobs.job_view(mill(), job, now()))


def suspend_job(
    job_name: str, trigger: str, request: Annotated[Suspension | None, Body()] = None, dry_run: DryRun = False
) -> Job | Effect:
    """Suspend a Job: its tasks are no longer leased; running tasks are stopped, or finish (`letFinish`)."""
    request = request or Suspension()
    job = jobs.read_job(mill(), job_name, trigger)
    if dry_run:
        return effects.suspension(mill(), job, let_finish=request.let_finish)
    return _view(suspend.suspend(mill(), job, actor(), request.reason, now(), let_finish=request.let_finish))


def resume_job(
    job_name: str, trigger: str, request: ReasonBody = NO_REASON, dry_run: DryRun = False
) -> Job | Effect:
    """Resume a suspended or failed Job; successful tasks are kept, failed ones run again."""
    job = jobs.read_job(mill(), job_name, trigger)
    if dry_run:
        return effects.resumption(mill(), job, now())
    return _view(suspend.resume(mill(), job, actor(), request.reason, now()))


def start_job(
    job_name: str, trigger: str, request: ReasonBody = NO_REASON, dry_run: DryRun = False
) -> Job | Effect:
    """Start a Job that is WAITING for other Jobs without them; no-op if it does not wait for any."""
    job = jobs.read_job(mill(), job_name, trigger)
    if dry_run:
        return effects.early_start(job)
    return _view(start_waiting.start_without_dependencies(mill(), job, actor(), request.reason, now()))


def kill_job(
    job_name: str, trigger: str, request: Annotated[Killing | None, Body()] = None, dry_run: DryRun = False
) -> Job | Effect:
    """Kill a Job, one of its steps, or one task of a step."""
    request = request or Killing()
    job = jobs.read_job(mill(), job_name, trigger)
    if request.step_name is None:
        if dry_run:
            return effects.killing(mill(), job)
        return _view(kill.kill(mill(), job, actor().name, request.reason, now()))
    step = planned_step(mill(), job, request.step_name, now(), dry_run=dry_run)
    if request.index is None:
        if dry_run:
            return effects.step_killing(mill(), job, step)
        kill.kill_step(mill(), job, step, actor().name, request.reason, now())
    else:
        rank = tasks.rank_of(step, request.index)
        if dry_run:
            return effects.task_killing(mill(), job, step, rank, request.index)
        kill.kill_task(mill(), job, step, rank, actor().name, request.reason, now())
    return _view(jobs.read_job(mill(), job_name, trigger))


def _job_to_rerun(job_name: str, trigger: str, dry_run: bool) -> JobRow:
    """Return a Job whose children have been started, if it succeeded."""
    job = jobs.read_job(mill(), job_name, trigger)
    if dry_run or job.state is not JobState.SUCCESS or not job.heirs_pending:
        return job
    from shardmill.engine.downstream import complete_end  # imported here because few requests need it

    return complete_end(mill(), job, now(), new_id)


def rerun_job(
    job_name: str, trigger: str, request: Annotated[Rerun | None, Body()] = None, dry_run: DryRun = False
) -> Job | Effect:
    """Rerun a Job that has ended or is suspended: a new run that keeps all other results."""
    request = request or Rerun()
    job = _job_to_rerun(job_name, trigger, dry_run)
    ranks: list[int] = []
    if request.shards:
        step = planned_step(mill(), job, request.steps[0], now(), dry_run=dry_run)
        ranks = [tasks.rank_of(step, index) for index in request.shards]
    scope = rerun.Scope(request.scope == "all", tuple(request.steps), tuple(ranks))
    if request.dependents and actor().limited("operate"):
        check_jobs(actor(), "operate", dependents.find_dependents(mill(), job))
    if request.params:
        check_jobs(actor(), "submit", [job])
    if dry_run:
        return effects.new_run(mill(), job, scope, request.params, now(), with_dependents=request.dependents)
    start_run = dependents.rerun_with_dependents if request.dependents else rerun.rerun
    return _view(start_run(mill(), job, scope, actor(), request.reason, now(), params=request.params))


def list_dependents(
    job_name: str, trigger: str, limit: pagination.Limit = pagination.WHOLE_LIST, cursor: Cursor = None
) -> Page[Job]:
    """List the Jobs that a rerun with `dependents` runs again after this one, in their order."""
    job = jobs.read_job(mill(), job_name, trigger)
    seen = visible()
    found = [jobs.summary(each) for each in dependents.find_dependents(mill(), job) if seen.job(each)]
    return pagination.page_of_list(found, limit, cursor)


def recompute_job(
    job_name: str, trigger: str, request: Annotated[Recompute, Body()], dry_run: DryRun = False
) -> Job | Effect:
    """Rerun a step and everything downstream of it."""
    job = _job_to_rerun(job_name, trigger, dry_run)
    scope = rerun.Scope(steps=(request.step_name,), downstream=True)
    if dry_run:
        return effects.new_run(mill(), job, scope, {}, now())
    return _view(rerun.rerun(mill(), job, scope, actor(), request.reason, now()))


def force_end(
    job_name: str, trigger: str, request: Annotated[Force, Body()], dry_run: DryRun = False
) -> Job | Effect:
    """Force a Job, a step or a task to a final state; what depends on it continues."""
    job = jobs.read_job(mill(), job_name, trigger)
    user, reason, at = actor(), request.reason, now()
    if request.step_name is None:
        if dry_run:
            return effects.forcing(mill(), job, JobState(request.state))
        return _view(force.force_job(mill(), job, JobState(request.state), user, reason, at))
    step = planned_step(mill(), job, request.step_name, now(), dry_run=dry_run)
    if request.index is None:
        if dry_run:
            return effects.step_forcing(mill(), job, step, StepState(request.state))
        force.force_step(mill(), job, step, StepState(request.state), user, reason, at)
    else:
        rank, state = tasks.rank_of(step, request.index), TaskState(request.state)
        if dry_run:
            return effects.task_forcing(mill(), job, step, rank, request.index, state)
        force.force_task(mill(), job, step, rank, state, user, reason, at)
    return _view(jobs.read_job(mill(), job_name, trigger))


def explain_job(job_name: str, trigger: str) -> Explanation:
    """Explain why a Job has not finished, or how it ended."""
    job = jobs.read_job(mill(), job_name, trigger)
    return Explanation(
        job_name=job_name,
        trigger=trigger,
        state=job.state,
        sentences=explain.explain(mill(), job, now(), visible()),
    )


def set_priority(
    job_name: str, trigger: str, change: Annotated[Priority, Body()], dry_run: DryRun = False
) -> Job | Effect:
    """Change the priority of a Job and its steps; waiting tasks move to the queue of the new priority."""
    return change_job(job_name, trigger, Change(priority=change.priority, reason=change.reason), dry_run)


def set_groups(
    job_name: str, trigger: str, change: Annotated[Groups, Body()], dry_run: DryRun = False
) -> Job | Effect:
    """Change the worker groups of a Job or a step; waiting tasks move to the new groups."""
    return change_job(job_name, trigger, Change.model_validate(change.model_dump()), dry_run)


def change_job(
    job_name: str, trigger: str, change: Annotated[Change, Body()], dry_run: DryRun = False
) -> Job | Effect:
    """Change priority, groups, retries or limits of tasks that are not leased yet, also in later runs."""
    job = jobs.read_job(mill(), job_name, trigger)
    check_groups(actor(), "operate", Work(job.job_name, job.app_name, change.worker_groups or ()))
    step = change.step_name or changes.ALL_STEPS
    if dry_run:
        return effects.changed(mill(), job, change.values, step, now())
    return _view(
        change_module.change(mill(), job, change.values, actor(), now(), step_name=step, reason=change.reason)
    )
