"""Find the rows for ids of the AWE protocol, and check that the caller may use them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from shardmill.engine.access.errors import Forbidden
from shardmill.engine.access.visible import Visible
from shardmill.engine.awe.errors import AweJobNotFound, ClientNotFound, UnknownClient, WorkNotFound
from shardmill.engine.awe.task_names import name_in_ids, unit_id
from shardmill.engine.errors import WorkerNotFound
from shardmill.engine.mill import Mill
from shardmill.engine.task_id import parse_task_id
from shardmill.engine.workers.ownership import check_owner
from shardmill.engine.workers.registry import worker_id
from shardmill.model.actor import Actor
from shardmill.model.awe.names import is_uuid, parse_work_id
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow, StepRow, WorkerRow


class Work(NamedTuple):
    """A workunit: the task of a step with this rank."""

    job: JobRow
    step: StepRow
    rank: int


def find_job(
    mill: Mill, job_id: str, actor: Actor, scope: str, *, shown: str = "", deleted: bool = False
) -> JobRow:
    """A job by its id. A job that the actor may not see is reported as missing.

    `shown`: the id of the workunit of the request. `deleted`: also a job that is deleted, but not in full.
    """
    job = mill.jobs.get(job_id) if is_uuid(job_id) else None
    missing = WorkNotFound(shown) if shown else AweJobNotFound(job_id)
    if not job or job.purge or (job.state is JobState.DELETED and not deleted):
        raise missing
    if not Visible(mill, actor, scope).job(job):
        if scope != "read" and actor.has("read") and Visible(mill, actor).job(job):
            raise _forbidden(scope)
        raise missing
    return job


def find_work(mill: Mill, text: str) -> Work:
    """A workunit of the present run of its job."""
    found = parse_work_id(text)
    job = mill.jobs.get(found.job_id) if found else None
    if not found or not job or job.state is JobState.DELETED:
        raise WorkNotFound(text)
    step = _step(mill, job, found.task)
    rank = found.engine_rank
    if not step or rank >= step.total or (found.rank > 0) != (step.total > 1):
        raise WorkNotFound(text)
    return Work(job, step, rank)


def _step(mill: Mill, job: JobRow, task: str) -> StepRow | None:
    """The step of a task. Numbered tasks are in the order of their numbers, so that one read finds them."""
    if task.isdecimal():
        step = mill.jobs.step(job.id, job.run, int(task)) if len(task) < 5 else None
        if step and name_in_ids(step) == task:
            return step.home
    steps = mill.jobs.steps(job.id, job.run)
    return next((step.home for step in steps if step.kind == "step" and name_in_ids(step) == task), None)


def find_client(mill: Mill, client_id: str) -> WorkerRow:
    worker = mill.workers.get(worker_id(client_id))
    if not worker or worker.name != client_id:
        raise ClientNotFound
    return worker


def own_client(mill: Mill, client_id: str, actor: Actor, now: int) -> WorkerRow:
    """A client, for the token that registered it."""
    worker = find_client(mill, client_id)
    try:
        check_owner(mill, actor, worker.id, now)
    except WorkerNotFound:
        raise ClientNotFound from None
    return worker


def visible_client(mill: Mill, client_id: str, actor: Actor, scope: str) -> WorkerRow:
    """A client, or any other worker, by its id. A worker that the actor may not see is reported as
    missing."""
    worker = mill.workers.get(worker_id(client_id)) or mill.workers.get(client_id)
    if not worker or client_id not in (worker.name, worker.id):
        raise UnknownClient
    if not Visible(mill, actor, scope).groups(worker.groups):
        if scope != "read" and actor.has("read") and Visible(mill, actor).groups(worker.groups):
            raise _forbidden(scope)
        raise UnknownClient
    return worker


def _forbidden(scope: str) -> Forbidden:
    return Forbidden(f"the token is valid, but this needs the scope {scope!r} for it")


def work_ids(mill: Mill, tasks: Iterable[str]) -> dict[str, str]:
    """The id of the workunit of each task that exists; reads their jobs and steps in batches."""
    parsed = {task: found for task in tasks if (found := parse_task_id(task))}
    if not parsed:
        return {}
    jobs = mill.jobs.by_id({job_id for job_id, _, _ in parsed.values()})
    wanted = {(job_id, jobs[job_id].run, index) for job_id, index, _ in parsed.values() if job_id in jobs}
    steps = mill.jobs.steps_by_key(wanted)
    ids: dict[str, str] = {}
    for task, (job_id, index, rank) in parsed.items():
        step = steps.get((job_id, jobs[job_id].run, index)) if job_id in jobs else None
        if step and rank < max(1, step.total):
            ids[task] = unit_id(step, rank)
    return ids


def possible_work_ids(task: str) -> list[str]:
    """The ids that the workunit of a task without rows may have had, if its document has numbered tasks."""
    found = parse_task_id(task)
    return [f"{found[0]}_{found[1]}_{rank}" for rank in (0, found[2] + 1)] if found else []
