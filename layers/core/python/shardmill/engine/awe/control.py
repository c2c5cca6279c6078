"""Control of jobs by `PUT /job/{id}` and `DELETE /job/{id}`, with the texts of their answers."""

from __future__ import annotations

from collections.abc import Callable

from shardmill.engine.access.visible import check_groups
from shardmill.engine.awe.data_tokens import set_data_token
from shardmill.engine.awe.submit import create_groups
from shardmill.engine.awe.task_names import name_in_ids, submitted_name
from shardmill.engine.awe.wording import job_errors
from shardmill.engine.conflict import Attempts
from shardmill.engine.control.change import change
from shardmill.engine.control.delete import delete
from shardmill.engine.control.rerun import Scope, rerun
from shardmill.engine.control.suspend import resume, suspend
from shardmill.engine.errors import BadRequest
from shardmill.engine.jobs.run_nodes import run_nodes
from shardmill.engine.mill import Mill
from shardmill.engine.running.recover import recover_run
from shardmill.model.access.grants import Work
from shardmill.model.actor import Actor
from shardmill.model.awe.names import ANY_GROUP, plain_name
from shardmill.model.awe.times import parse_span
from shardmill.model.definition.fields import MAX_GROUPS
from shardmill.model.states import JobState
from shardmill.store.rows import JobRow

MAX_PRIORITY = 2**31
MAX_REASON = 500
_SUSPEND_FIRST = "suspend it first"


def suspend_job(mill: Mill, job: JobRow, actor: Actor, now: int) -> str:
    with job_errors(mill, job, "suspended"):
        suspend(mill, job, actor, "", now, let_finish=False)
    return f"job suspended: {job.id}"


def resume_job(mill: Mill, job: JobRow, actor: Actor, now: int) -> str:
    with job_errors(mill, job, "resumed", "use recover, recompute or resubmit"):
        resume(mill, job, actor, "", now)
    return f"job resumed: {job.id}"


def recover_job(mill: Mill, job: JobRow, actor: Actor, now: int) -> str:
    """Continue a job that was suspended, ended by a failure, or interrupted."""
    if job.state is JobState.SUCCESS:
        raise BadRequest(f"the job is completed, there is nothing to recover: {job.id}")
    with job_errors(mill, job, "recovered", "use recompute or resubmit"):
        if job.state is JobState.SUSPENDED:
            resume(mill, job, actor, "recovered", now)
        elif job.state.ended:
            rerun(mill, job, Scope(), actor, "recovered", now)
        else:
            recover_run(mill, job, now)
    return f"job recovered: {job.id}"


def recompute_job(mill: Mill, job: JobRow, actor: Actor, task: str, now: int) -> str:
    """Run a task again, and all that depend on it."""
    wanted = task.removeprefix(f"{job.id}_")
    steps = [step for step in run_nodes(mill, job) if step.kind == "step"]
    known = {step.name: step.name for step in steps}
    known |= {name_in_ids(step): step.name for step in steps}
    known |= {submitted_name(step): step.name for step in steps}
    if wanted not in known:
        raise BadRequest(f"the job has no task {wanted[:64]!r}")
    scope = Scope(steps=(known[wanted],), downstream=True)
    with job_errors(mill, job, "recomputed", _SUSPEND_FIRST):
        rerun(mill, job, scope, actor, f"recompute from task {wanted}"[:MAX_REASON], now)
    return f"job recompute started at task {wanted}: {job.id}"


def resubmit_job(mill: Mill, job: JobRow, actor: Actor, now: int) -> str:
    """Run all tasks again, under the same id."""
    with job_errors(mill, job, "resubmitted", _SUSPEND_FIRST):
        rerun(mill, job, Scope(everything=True), actor, "resubmitted", now)
    return f"job resubmitted: {job.id}"


def set_groups(mill: Mill, job: JobRow, actor: Actor, names: str, now: int) -> str:
    groups = list(dict.fromkeys(plain_name(name) for name in names.split(",") if name.strip()))
    groups = groups or [ANY_GROUP]
    if len(groups) > MAX_GROUPS:
        raise BadRequest(f"a job can have at most {MAX_GROUPS} client groups")
    check_groups(actor, "operate", Work(job.job_name, job.app_name, groups))
    create_groups(mill, groups, now)
    with job_errors(mill, job, "changed"):
        change(mill, job, {"worker_groups": groups}, actor, now)
    named = ",".join(groups) if names.strip(" ,") else None
    _repeat(mill, job, lambda row: mill.awe_jobs.set_info(row, {**row.info, "clientgroups": named}, now=now))
    return f"job group updated: {job.id} to {names}"


def set_priority(mill: Mill, job: JobRow, actor: Actor, priority: int, now: int) -> str:
    with job_errors(mill, job, "changed"):
        change(mill, job, {"priority": priority}, actor, now)
    return f"job priority updated: {job.id} to {priority}"


def set_pipeline(mill: Mill, job: JobRow, pipeline: str, now: int) -> str:
    if not pipeline or len(pipeline) > 256:
        raise BadRequest("pipeline must have 1 to 256 characters")
    _repeat(mill, job, lambda row: mill.awe_jobs.set_info(row, {**row.info, "pipeline": pipeline}, now=now))
    return f"job pipeline updated: {job.id} to {pipeline}"


def set_expiration(mill: Mill, job: JobRow, text: str, now: int) -> str:
    """Delete the job after a time span, if it has ended by then; otherwise when it ends."""
    seconds = parse_span(text)
    if seconds is None:
        raise BadRequest(f"expiration must be a number with M, H or D, such as 12H; not {text[:64]!r}")
    _repeat(mill, job, lambda row: mill.awe_jobs.set_expiration(row, now + seconds * 1000))
    return f"expiration {text} set for job: {job.id}"


def set_token(mill: Mill, job: JobRow, token: str, now: int) -> str:
    """Set the data token of a job. It makes `info.auth` true, because clients ask for it only then."""
    if not token:
        raise BadRequest("send the data token in the header Datatoken")
    set_data_token(mill, job, token, now)
    _repeat(mill, job, lambda row: mill.awe_jobs.set_info(row, {**row.info, "auth": True}, now=now))
    return f"data token set for job: {job.id}"


def delete_job(mill: Mill, job: JobRow, actor: Actor, now: int, *, full: bool) -> str:
    with job_errors(mill, job, "deleted", "retry"):
        delete(mill, job, actor.name, now, full=full)
    return f"job deleted: {job.id}"


def _repeat(mill: Mill, job: JobRow, write: Callable[[JobRow], bool]) -> None:
    """Repeat a write with the present row until no concurrent change interferes."""
    attempts = Attempts(f"the job {job.id}")
    present: JobRow | None = job
    while present:
        attempts.begin()
        if write(present):
            return
        present = mill.jobs.get(job.id)
