"""/v1/jobs/…:action: suspend, kill, rerun, force and change Jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from aws_lambda_powertools.event_handler.openapi.params import Body
from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from shardmill.api import pagination
from shardmill.api.pagination import Cursor, Page
from shardmill.api.responses import NO_REASON, Reason, ReasonBody, actor, job_response, now, visible
from shardmill.aws.clock import new_id
from shardmill.engine.access.visible import check_groups, check_jobs
from shardmill.engine.control import change as change_module
from shardmill.engine.control import dependents, force, rerun, start, suspend
from shardmill.engine.jobs.run_nodes import planned_step
from shardmill.engine.mill import mill
from shardmill.engine.running import changes, kill
from shardmill.engine.views import explain, jobs, tasks
from shardmill.model.base import Limit, Name, Params, Retries, Whole
from shardmill.model.blocks import MAX_SHARDS
from shardmill.model.definition.fields import MAX_STEPS
from shardmill.model.job import Explanation, Job
from shardmill.model.json_schema import EMPTY, NULL, both, either, only_with, present, where
from shardmill.model.states import JobState, StepState, TaskState
from shardmill.store.rows import JobRow


def _check_index(request: Any) -> Any:
    if request.index is not None and request.step_name is None:
        raise PydanticCustomError("missing-field", "an index needs a stepName")
    return request


class Suspension(Reason):
    let_finish: bool = Field(default=False, description="let running tasks finish")


class Killing(Reason):
    """What to kill: the Job, a step of it, or one task of a step."""

    model_config = ConfigDict(json_schema_extra=only_with("index", "stepName"))

    step_name: str | None = None
    index: int | None = Field(default=None, ge=0, description="index of the task, counted from startShardId")

    _index_needs_step = model_validator(mode="after")(_check_index)


class Rerun(Reason):
    """What to run again: what failed, everything (`scope` is all), steps, or tasks of one step."""

    model_config = ConfigDict(
        json_schema_extra=both(
            either(where(scope=NULL), where(steps=EMPTY)),
            either(
                where(shards=EMPTY),
                {"required": ["steps"], **where(steps={"minItems": 1, "maxItems": 1})},
            ),
        )
    )

    scope: Literal["failed", "all"] | None = None
    steps: list[str] = Field(default_factory=list, max_length=MAX_STEPS)
    shards: list[int] = Field(
        default_factory=list, max_length=10_000, description="indexes of tasks of the one step in `steps`"
    )

    dependents: bool = Field(
        default=False,
        description="then also the jobs of the same dataTime that depend on this one, each after its parents",
    )

    params: Params = Field(
        default_factory=dict,
        description="new values of parameters, for this run and later ones; needs the scope submit, too",
    )

    @model_validator(mode="after")
    def _one_scope(self) -> Self:
        if self.scope and self.steps:
            raise PydanticCustomError("both-spellings", "has both steps and a scope; give one of them")
        if self.shards and len(self.steps) != 1:
            raise PydanticCustomError("missing-field", "shards need exactly one step")
        return self


class Recompute(Reason):
    step_name: str


class Force(Reason):
    """The final state to force, of a Job, a step of it, or one task of a step."""

    model_config = ConfigDict(json_schema_extra=only_with("index", "stepName"))

    state: Literal["SUCCESS", "FAILED"]
    step_name: str | None = None
    index: int | None = Field(default=None, ge=0, description="index of the task, counted from startShardId")

    _index_needs_step = model_validator(mode="after")(_check_index)


class Priority(Reason):
    priority: Whole


class Groups(Reason):
    """The new worker groups of all steps, or of one."""

    worker_groups: list[Name] = Field(min_length=1, max_length=100)
    step_name: Name | None = None


_CHANGEABLE = ("priority", "workerGroups", "maxTaskCount", "failedRetries", "timeoutSeconds")


class Change(Reason):
    """The new values for all steps or for one; they apply to tasks that are not leased yet."""

    model_config = ConfigDict(json_schema_extra=either(*map(present, _CHANGEABLE)))

    step_name: Name | None = None
    priority: Whole | None = None
    worker_groups: list[Name] | None = Field(default=None, min_length=1, max_length=100)
    max_task_count: int | None = Field(default=None, ge=1, le=MAX_SHARDS)
    failed_retries: Retries | None = None
    timeout_seconds: Limit | None = None

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not self.values:
            raise PydanticCustomError("missing-field", "has nothing to change")
        return self

    @property
    def values(self) -> dict[str, Any]:
        return self.model_dump(exclude={"step_name", "reason"}, exclude_none=True, by_alias=False)


def _view(job: JobRow) -> Job:
    return job_response(jobs.job_view(mill(), job, now()))


def suspend_job(job_name: str, trigger: str, request: Annotated[Suspension | None, Body()] = None) -> Job:
    """Suspend a Job: its tasks are no longer leased; running tasks are stopped, or finish (`letFinish`)."""
    request = request or Suspension()
    job = jobs.read_job(mill(), job_name, trigger)
    return _view(suspend.suspend(mill(), job, actor(), request.reason, now(), let_finish=request.let_finish))


def resume_job(job_name: str, trigger: str, request: ReasonBody = NO_REASON) -> Job:
    """Resume a suspended or failed Job; successful tasks are kept, failed ones run again."""
    job = jobs.read_job(mill(), job_name, trigger)
    return _view(suspend.resume(mill(), job, actor(), request.reason, now()))


def start_job(job_name: str, trigger: str, request: ReasonBody = NO_REASON) -> Job:
    """Start a Job that is WAITING for other Jobs without them; no-op if it does not wait for any."""
    job = jobs.read_job(mill(), job_name, trigger)
    return _view(start.start_without_dependencies(mill(), job, actor(), request.reason, now()))


def kill_job(job_name: str, trigger: str, request: Annotated[Killing | None, Body()] = None) -> Job:
    """Kill a Job, one of its steps, or one task of a step."""
    request = request or Killing()
    job = jobs.read_job(mill(), job_name, trigger)
    if request.step_name is None:
        return _view(kill.kill(mill(), job, actor().name, request.reason, now()))
    step = planned_step(mill(), job, request.step_name, now())
    if request.index is None:
        kill.kill_step(mill(), job, step, actor().name, request.reason, now())
    else:
        rank = tasks.rank_of(step, request.index)
        kill.kill_task(mill(), job, step, rank, actor().name, request.reason, now())
    return _view(jobs.read_job(mill(), job_name, trigger))


def _job_to_rerun(job_name: str, trigger: str) -> JobRow:
    """Return a Job whose children have been started, if it succeeded."""
    job = jobs.read_job(mill(), job_name, trigger)
    if job.state is not JobState.SUCCESS or not job.heirs_pending:
        return job
    from shardmill.engine.downstream import complete_end  # imported here because few requests need it

    return complete_end(mill(), job, now(), new_id)


def rerun_job(job_name: str, trigger: str, request: Annotated[Rerun | None, Body()] = None) -> Job:
    """Rerun a Job that has ended or is suspended: a new run that keeps what is not run again."""
    request = request or Rerun()
    job = _job_to_rerun(job_name, trigger)
    ranks: list[int] = []
    if request.shards:
        step = planned_step(mill(), job, request.steps[0], now())
        ranks = [tasks.rank_of(step, index) for index in request.shards]
    scope = rerun.Scope(request.scope == "all", tuple(request.steps), tuple(ranks))
    if request.dependents and actor().limited("operate"):
        check_jobs(actor(), "operate", dependents.find_dependents(mill(), job))
    if request.params:
        check_jobs(actor(), "submit", [job])
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


def recompute_job(job_name: str, trigger: str, request: Annotated[Recompute, Body()]) -> Job:
    """Rerun a step and everything downstream of it."""
    job = _job_to_rerun(job_name, trigger)
    scope = rerun.Scope(steps=(request.step_name,), downstream=True)
    return _view(rerun.rerun(mill(), job, scope, actor(), request.reason, now()))


def force_end(job_name: str, trigger: str, request: Annotated[Force, Body()]) -> Job:
    """Force a Job, a step or a task to a final state; what depends on it continues."""
    job = jobs.read_job(mill(), job_name, trigger)
    user, reason, at = actor(), request.reason, now()
    if request.step_name is None:
        return _view(force.force_job(mill(), job, JobState(request.state), user, reason, at))
    step = planned_step(mill(), job, request.step_name, now())
    if request.index is None:
        force.force_step(mill(), job, step, StepState(request.state), user, reason, at)
    else:
        rank = tasks.rank_of(step, request.index)
        force.force_task(mill(), job, step, rank, TaskState(request.state), user, reason, at)
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


def set_priority(job_name: str, trigger: str, change: Annotated[Priority, Body()]) -> Job:
    """Change the priority of a Job and its steps; waiting tasks move to the queue of the new priority."""
    return _changed(job_name, trigger, Change(priority=change.priority, reason=change.reason))


def set_groups(job_name: str, trigger: str, change: Annotated[Groups, Body()]) -> Job:
    """Change the worker groups of a Job or a step; waiting tasks move to the new groups."""
    return _changed(job_name, trigger, Change.model_validate(change.model_dump()))


def change_job(job_name: str, trigger: str, change: Annotated[Change, Body()]) -> Job:
    """Change priority, groups, retries or limits of tasks that are not leased yet, also in later runs."""
    return _changed(job_name, trigger, change)


def _changed(job_name: str, trigger: str, change: Change) -> Job:
    job = jobs.read_job(mill(), job_name, trigger)
    check_groups(actor(), "operate", change.worker_groups or ())
    step_name = change.step_name or changes.ALL_STEPS
    return _view(
        change_module.change(
            mill(), job, change.values, actor(), now(), step_name=step_name, reason=change.reason
        )
    )
