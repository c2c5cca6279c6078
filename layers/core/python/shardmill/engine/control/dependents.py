"""Rerun a Job together with its dependents: the Jobs of the same dataTime that wait for it, directly or not.

The rerun of the Job stores that its dependents follow. Then each of them begins a new run, in which it waits
for its parents again. So each runs once, after the new success of all its parents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from graphlib import TopologicalSorter
from types import MappingProxyType
from typing import Any

from shardmill.aws.observability import logger
from shardmill.engine.access.errors import LimitReached
from shardmill.engine.access.limits import check_room
from shardmill.engine.control.rerun import RERUNNABLE, Scope, rerun
from shardmill.engine.errors import Conflict, JobNotEnded
from shardmill.engine.jobs.count_existing import counted_tasks
from shardmill.engine.mill import Mill
from shardmill.model.access.limits import Limits
from shardmill.model.actor import Actor
from shardmill.model.history import ENGINE, Change
from shardmill.model.states import JobState
from shardmill.store import keys
from shardmill.store.rows import JobRow

MAX_DEPENDENTS = 100


def find_dependents(mill: Mill, root: JobRow) -> list[JobRow]:
    """Return the dependents of a Job, each after its parents. Raises Conflict if there are too many."""
    parents: dict[str, set[str]] = {root.job_name: set()}
    frontier = [root.job_name]
    for name in frontier:
        for child in mill.definitions.children(name):
            if child == name:
                continue
            if child not in parents:
                frontier.append(child)
            parents.setdefault(child, set()).add(name)
    reached, found = {root.job_name}, []
    for name in TopologicalSorter(parents).static_order():
        ids = [job_id for _, job_id in mill.runs.between(name, root.moment, root.moment + 1)]
        if name == root.job_name or not ids:
            continue
        own = [job for job in mill.jobs.by_id(ids).values() if _waits_for(job, reached, root.moment)]
        found += own
        if own:
            reached.add(name)
        if len(found) > MAX_DEPENDENTS:
            raise Conflict(f"more than {MAX_DEPENDENTS} Jobs depend on {root.job_name}/{root.trigger}")
    return found


def _waits_for(job: JobRow, names: set[str], moment: int) -> bool:
    return any(each["jobName"] in names and each["from"] <= moment < each["to"] for each in job.expected)


def rerun_with_dependents(
    mill: Mill,
    job: JobRow,
    scope: Scope,
    actor: Actor,
    reason: str,
    now: int,
    *,
    params: Mapping[str, Any] = MappingProxyType({}),
) -> JobRow:
    """Rerun a Job, and its dependents after it; of a Job that succeeded everything, unless steps are named.

    Raises JobNotEnded if a dependent runs: it would continue with the old results; LimitReached if there is
    not room for all of them.
    """
    found = check_dependents(mill, job)
    scope = scope_with_dependents(job, scope)
    _check_limits(mill, [job.evolve(params={**job.params, **params}), *found], actor)
    started = rerun(mill, job, scope, actor, reason, now, params=params, with_dependents=True)
    with suppress(LimitReached):  # others took the room meanwhile; the end of the Job tries again
        take_dependents_along(mill, started, now)
    return started


def _check_limits(mill: Mill, jobs: Iterable[JobRow], actor: Actor) -> None:
    """Raise LimitReached if the next runs of Jobs would together exceed a limit of their applications."""
    if not mill.settings.limits.any:
        return
    wanted: dict[str, Limits] = {}
    for job in jobs:
        more = mill.usage.run_claim(job, counted_tasks(mill, job))[1]
        before = wanted.get(job.app_name, Limits())
        wanted[job.app_name] = before._replace(jobs=before.jobs + more.jobs, tasks=before.tasks + more.tasks)
    for application, amounts in wanted.items():
        check_room(mill, application, amounts, actor)


def check_dependents(mill: Mill, job: JobRow) -> list[JobRow]:
    """Return the dependents that run again with a Job. Raises JobNotEnded if one of them runs."""
    found = find_dependents(mill, job)
    running = [each for each in found if each.state not in RERUNNABLE and not each.unmet]
    if running:
        named = ", ".join(f"{each.job_name}/{each.trigger} is {each.state}" for each in running[:5])
        raise JobNotEnded(
            f"dependents of {job.job_name}/{job.trigger} have not ended: {named}; kill them first"
        )
    return found


def scope_with_dependents(job: JobRow, scope: Scope) -> Scope:
    """Return the parts of a Job that run again together with its dependents."""
    return Scope(everything=True) if job.state is JobState.SUCCESS and not scope.steps else scope


def take_dependents_along(mill: Mill, root: JobRow, now: int) -> None:
    """Begin the next run of each dependent of a rerun that has not begun it yet; idempotent.

    Raises LimitReached if a dependent could not begin for a limit, after the others were tried.
    """
    limited: LimitReached | None = None
    origin = keys.run_reference(root.id, root.run)
    actor = _actor_of_run(root)
    for job in find_dependents(mill, root):
        if job.rerun_with == origin or job.state not in RERUNNABLE:
            continue
        reason = f"rerun with {root.job_name}/{root.trigger}"
        try:
            rerun(mill, job, Scope(everything=True), actor, reason, now, rerun_with=origin)
        except JobNotEnded:
            extra = {"action": "rerun-dependent", "jobId": job.id, "rootId": root.id}
            logger.warning("a dependent job started meanwhile; it is not rerun", extra=extra)
        except LimitReached as error:
            extra = {"action": "rerun-dependent", "jobId": job.id, "rootId": root.id}
            logger.warning("a limit keeps a dependent job from its rerun; it is tried again", extra=extra)
            limited = error
    if limited:
        raise limited
    mill.jobs.dependents_taken_along(root)


def _actor_of_run(job: JobRow) -> Actor:
    """Return who requested the present run of a Job."""
    changes = (change for change in map(Change.decode, job.history) if change.run == job.run)
    return Actor(next((change.actor for change in changes if change.actor != ENGINE), job.submit_user))
