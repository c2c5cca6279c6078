"""Compute the effective settings of a step: from the request, from the step, or from the job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shardmill.engine.errors import DefinitionNotFound
from shardmill.engine.mill import Mill
from shardmill.engine.running.changes import requested_changes
from shardmill.model.definition import step_override
from shardmill.model.definition.fields import JobDefine, StepDefine
from shardmill.model.definition.step_override import StepOverride
from shardmill.model.definition.task_count import total
from shardmill.model.states import JobState
from shardmill.store.definitions import Definition
from shardmill.store.rows import JobRow

DEFAULT_GROUP = "default"
INHERITED = (
    "failed_retries",
    "failed_interval",
    "failed_backoff",
    "reject_retries",
    "reject_interval",
    "lost_retries",
    "timeout_seconds",
    "execute_user",
    "priority",
)

BoundGroups = Mapping[str, list[str]]
"""By step type, the names of the worker groups that run it."""


def read_bound_groups(mill: Mill) -> dict[str, list[str]]:
    """Return the worker groups that each step type is bound to."""
    return mill.groups.bound()


def bound_groups_for(mill: Mill, define: JobDefine) -> BoundGroups:
    """Return the groups bound to step types; reads nothing if every step names its own."""
    return {} if all(step.worker_groups for step in define.steps) else read_bound_groups(mill)


def bound_groups_of(mill: Mill, define: JobDefine, job: JobRow) -> BoundGroups:
    """Return the groups bound to the step types of a Job: those of its submission if it starts at once."""
    if job.state is JobState.INIT and job.run == 1 and job.bound is not None:
        return job.bound
    return bound_groups_for(mill, define)


def effective(
    define: JobDefine, step: StepDefine, job: JobRow, bound: BoundGroups, override: StepOverride | None = None
) -> StepDefine:
    """Return a step with its effective settings: from the request, else its own, else the job's.

    `bound`: the groups that step types are bound to; they take precedence over the groups of the definition.
    """
    changes: dict[str, Any] = {
        name: value if (value := getattr(step, name)) is not None else getattr(define, name)
        for name in INHERITED
    }
    if step.priority is None:
        changes["priority"] = job.priority
    if step.execute_user is None and job.execute_user:
        changes["execute_user"] = job.execute_user
    if define.info.noretry:
        changes["failed_retries"] = 0
    changes["worker_groups"] = (
        step.worker_groups or bound.get(step.type) or define.worker_groups or [DEFAULT_GROUP]
    )
    changes["params"] = {**job.params, **step.params, **(override.params if override else {})}
    if override:
        changes |= step_override.changes(step, override)
    changes |= requested_changes(job, step.step_name)
    return step.model_copy(update=changes)


def overrides_of(job: JobRow) -> dict[str, StepOverride]:
    """Return the changes in the request of a Job, by step name."""
    return {each["stepName"]: StepOverride.model_validate(each) for each in job.request.get("steps", [])}


def ignored_steps(job: JobRow) -> set[str]:
    """Return the names of the steps that the request of a Job skips."""
    return {each["stepName"] for each in job.request.get("steps", []) if each.get("ignore")}


def effective_steps(define: JobDefine, job: JobRow, bound: BoundGroups) -> list[StepDefine]:
    """Return all steps of a Job with their effective settings."""
    overrides = overrides_of(job)
    return [effective(define, step, job, bound, overrides.get(step.step_name)) for step in define.steps]


def tasks_known_before(steps: Iterable[StepDefine]) -> int:
    """Return how many tasks steps have, those whose number is known before they are opened."""
    return sum(total(step) or 0 for step in steps)


def pinned_definition(mill: Mill, job: JobRow) -> JobDefine:
    """The definition in the version that a Job was submitted with."""
    return _parsed(job, mill.definitions.version(job.job_name, job.version))


def recent_definition(mill: Mill, job: JobRow, now: int) -> JobDefine:
    """The same, read once for several Jobs that one process plans soon after each other."""
    key = job.job_name, job.version

    def read(_: object) -> dict[tuple[str, int], Definition]:
        saved = mill.definitions.version(*key)
        return {key: saved} if saved else {}

    return _parsed(job, mill.recent_definitions.get([key], read, now).get(key))


def _parsed(job: JobRow, saved: Definition | None) -> JobDefine:
    if not saved:
        raise DefinitionNotFound(job.job_name, job.version)
    return JobDefine.model_validate(saved.document)
