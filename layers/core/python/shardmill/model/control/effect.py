"""The effect that a control action would have on a Job: the answer of a dry run."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from shardmill.model.base import Answer, Name, Request, Trigger
from shardmill.model.states import JobState

MAX_JOBS = 100

ControlAction = Literal[
    "suspend",
    "resume",
    "start",
    "kill",
    "rerun",
    "recompute",
    "force",
    "priority",
    "group",
    "change",
    "delete",
]


class Effect(Answer):
    """The effect that an action would have now, found by the action's own checks without changing
    anything."""

    job_name: str
    trigger: str
    state: JobState = Field(description="of the Job now")
    changes: bool = Field(description="whether the action changes anything")
    becomes: JobState | None = Field(
        description="the state right after the action; null if it depends on the states of the steps"
    )
    run: int = Field(description="the run of the Job after the action")
    tasks_stopped: int = Field(default=0, description="running tasks that are stopped")
    tasks_cancelled: int = Field(default=0, description="tasks that have not started and will not run")
    tasks_to_run: int = Field(default=0, description="tasks that run, or run again, as far as known")
    tasks_kept: int = Field(default=0, description="tasks that keep their results in a new run")
    steps: list[str] = Field(default_factory=list, description="steps that run, or run again")
    dependents: list[str] = Field(default_factory=list, description="Jobs that run again after this one")
    sentences: list[str] = Field(default_factory=list, description="the effect in sentences")


class JobId(Request):
    """The name and the trigger of a Job."""

    job_name: Name
    trigger: Trigger


class DryRunRequest(Request):
    """An action on Jobs to try without changing anything."""

    action: ControlAction
    jobs: list[JobId] = Field(min_length=1, max_length=MAX_JOBS)
    request: dict[str, Any] = Field(
        default_factory=dict, description="the body of the action; of delete, its query parameters"
    )


class DryRunItem(Answer):
    """The answer for one Job: the effect on it, or the problem that the action would return."""

    job_name: str
    trigger: str
    status: int
    effect: Effect | None = None
    problem: dict[str, Any] | None = Field(default=None, description="the problem+json of this Job")


class DryRunAnswer(Answer):
    """The answers for the Jobs of a dry run, in their order."""

    items: list[DryRunItem]
