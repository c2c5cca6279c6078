"""/v1/jobs/…:action: what people do to Jobs"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from aws_lambda_powertools.event_handler.openapi.params import Body
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from shardmill.api.responses import NO_REASON, Reason, Why, actor, now
from shardmill.engine.control import change as change_module
from shardmill.engine.control import force, rerun, suspend
from shardmill.engine.mill import mill
from shardmill.engine.running import changes, kill
from shardmill.engine.views import explain, jobs, tasks
from shardmill.model.base import Limit, Name, Retries, Whole
from shardmill.model.blocks import MAX_SHARDS
from shardmill.model.definition.fields import MAX_STEPS
from shardmill.model.job import Explanation, Job
from shardmill.model.states import JobState, StepState, TaskState


def _task_of_a_step(wish: Any) -> Any:
    if wish.index is not None and wish.step_name is None:
        raise PydanticCustomError("missing-field", "an index needs the stepName that it is of")
    return wish


class Suspension(Reason):
    let_finish: bool = Field(default=False, description="running tasks may end by themselves")


class Killing(Reason):
    """All of a Job, unless a step is named; all of a step, unless a task is."""

    step_name: str | None = None
    index: int | None = Field(default=None, ge=0, description="the task's, from startShardId on")

    _of_a_step = model_validator(mode="after")(_task_of_a_step)


class Rerun(Reason):
    """What runs again: what failed, unless `scope` is all, or steps, or tasks of a step, are named."""

    scope: Literal["failed", "all"] | None = None
    steps: list[str] = Field(default_factory=list, max_length=MAX_STEPS)
    shards: list[int] = Field(default_factory=list, max_length=10_000, description="of the one step named")

    @model_validator(mode="after")
    def _one_scope(self) -> Self:
        if self.scope and self.steps:
            raise PydanticCustomError("both-spellings", "names steps and a scope; give one of them")
        if self.shards and len(self.steps) != 1:
            raise PydanticCustomError("missing-field", "shards need the one step that they are of")
        return self


class Recompute(Reason):
    step_name: str


class Force(Reason):
    """Which end: of a Job, of one of its steps, or of one task of a step."""

    state: Literal["SUCCESS", "FAILED"]
    step_name: str | None = None
    index: int | None = Field(default=None, ge=0, description="the task's, from startShardId on")

    _of_a_step = model_validator(mode="after")(_task_of_a_step)


class Priority(Reason):
    priority: Whole


class Groups(Reason):
    """The worker groups of all steps, or of one."""

    worker_groups: list[Name] = Field(min_length=1, max_length=100)
    step_name: Name | None = None


class Change(Reason):
    """What becomes another, of all steps or of one; it holds for tasks that are not leased yet."""

    step_name: Name | None = None
    priority: Whole | None = None
    worker_groups: list[Name] | None = Field(default=None, min_length=1, max_length=100)
    max_task_count: int | None = Field(default=None, ge=1, le=MAX_SHARDS)
    failed_retries: Retries | None = None
    timeout_seconds: Limit | None = None

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.wish:
            raise PydanticCustomError("missing-field", "names nothing to change")
        return self

    @property
    def wish(self) -> dict[str, Any]:
        return self.model_dump(exclude={"step_name", "reason"}, exclude_none=True, by_alias=False)


def suspend_job(job_name: str, trigger: str, wish: Annotated[Suspension | None, Body()] = None) -> Job:
    """Park a Job: nothing of it is leased any more, and its running tasks are told to stop, or may finish."""
    wish = wish or Suspension()
    job = jobs.read_job(mill(), job_name, trigger)
    return jobs.summary(suspend.suspend(mill(), job, actor(), wish.reason, now(), let_finish=wish.let_finish))


def resume_job(job_name: str, trigger: str, why: Why = NO_REASON) -> Job:
    """Let a suspended Job go on; what succeeded is kept, and one that failed runs again where it did."""
    job = jobs.read_job(mill(), job_name, trigger)
    return jobs.summary(suspend.resume(mill(), job, actor(), why.reason, now()))


def kill_job(job_name: str, trigger: str, wish: Annotated[Killing | None, Body()] = None) -> Job:
    """End a Job, or one of its steps, or one task of a step."""
    wish = wish or Killing()
    job = jobs.read_job(mill(), job_name, trigger)
    if wish.step_name is None:
        return jobs.summary(kill.kill(mill(), job, actor().name, wish.reason, now()))
    step, _ = jobs.read_step(mill(), job, wish.step_name)
    if wish.index is None:
        kill.kill_step(mill(), job, step, actor().name, wish.reason, now())
    else:
        rank = tasks.rank_of(step, wish.index)
        kill.kill_task(mill(), job, step, rank, actor().name, wish.reason, now())
    return jobs.job_view(mill(), jobs.read_job(mill(), job_name, trigger), now())


def rerun_job(job_name: str, trigger: str, wish: Annotated[Rerun | None, Body()] = None) -> Job:
    """Run a Job again that has ended or is suspended: a new run of it, in which the rest is kept."""
    wish = wish or Rerun()
    job = jobs.read_job(mill(), job_name, trigger)
    ranks: list[int] = []
    if wish.shards:
        step, _ = jobs.read_step(mill(), job, wish.steps[0])
        ranks = [tasks.rank_of(step, index) for index in wish.shards]
    scope = rerun.Scope(wish.scope == "all", tuple(wish.steps), tuple(ranks))
    return jobs.summary(rerun.rerun(mill(), job, scope, actor(), wish.reason, now()))


def recompute_job(job_name: str, trigger: str, wish: Annotated[Recompute, Body()]) -> Job:
    """Run a step again, and everything downstream of it."""
    job = jobs.read_job(mill(), job_name, trigger)
    scope = rerun.Scope(steps=(wish.step_name,), downstream=True)
    return jobs.summary(rerun.rerun(mill(), job, scope, actor(), wish.reason, now()))


def force_end(job_name: str, trigger: str, wish: Annotated[Force, Body()]) -> Job:
    """Force a Job, a step or a task to an end; what waited for it moves on."""
    job = jobs.read_job(mill(), job_name, trigger)
    who, why, at = actor(), wish.reason, now()
    if wish.step_name is None:
        return jobs.summary(force.force_job(mill(), job, JobState(wish.state), who, why, at))
    step, _ = jobs.read_step(mill(), job, wish.step_name)
    if wish.index is None:
        force.force_step(mill(), job, step, StepState(wish.state), who, why, at)
    else:
        rank = tasks.rank_of(step, wish.index)
        force.force_task(mill(), job, step, rank, TaskState(wish.state), who, why, at)
    return jobs.job_view(mill(), jobs.read_job(mill(), job_name, trigger), at)


def explain_job(job_name: str, trigger: str) -> Explanation:
    """Why a Job is not finished, or how it came to its end, in sentences."""
    job = jobs.read_job(mill(), job_name, trigger)
    return Explanation(
        job_name=job_name, trigger=trigger, state=job.state, sentences=explain.explain(mill(), job, now())
    )


def set_priority(job_name: str, trigger: str, change: Annotated[Priority, Body()]) -> Job:
    """Change the priority of a Job and its steps; tasks that wait move to the lane of that at once."""
    return _changed(job_name, trigger, Change(priority=change.priority, reason=change.reason))


def set_groups(job_name: str, trigger: str, change: Annotated[Groups, Body()]) -> Job:
    """Give a Job, or a step of it, other worker groups; tasks that wait move there at once."""
    return _changed(job_name, trigger, Change.model_validate(change.model_dump()))


def change_job(job_name: str, trigger: str, change: Annotated[Change, Body()]) -> Job:
    """Change priority, groups, retries or limits of what has not been leased yet; a later run keeps it."""
    return _changed(job_name, trigger, change)


def _changed(job_name: str, trigger: str, change: Change) -> Job:
    job = jobs.read_job(mill(), job_name, trigger)
    step_name = change.step_name or changes.ALL_STEPS
    return jobs.summary(
        change_module.change(
            mill(), job, change.wish, actor(), now(), step_name=step_name, reason=change.reason
        )
    )
