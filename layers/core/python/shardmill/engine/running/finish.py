"""The end of a Job: its state first, then the event."""

from __future__ import annotations

from typing import Any

from shardmill.engine.mill import Mill
from shardmill.engine.running import concurrency
from shardmill.model.base import from_ms
from shardmill.model.history import ENGINE, Change
from shardmill.model.notify import occasion_of
from shardmill.model.states import JobState, StepState
from shardmill.store.rows import JobRow, StepRow

EVENT_GRACE_MS = 60_000
DEPENDENTS_GRACE_MS = 120_000
JOB_ENDED = "Job Ended"
JOB_SUSPENDED = "Job Suspended"
STEP_ENDED = "Step Ended"
SCHEMA_VERSION = 1


def end_job(mill: Mill, job: JobRow, now: int) -> None:
    """Judge a Job whose steps have all ended; somebody who judged it before is left in peace."""
    steps = [node for node in mill.jobs.steps(job.id, job.run) if node.kind == "step"]
    if not all(step.state.ended for step in steps):
        return  # the last ones ended by somebody's word, before what they waited for
    failed = [step for step in steps if step.state in (StepState.FAILED, StepState.KILLED)]
    state = JobState.SUCCESS
    if failed:
        state = JobState.SUSPENDED if job.on_failure == "suspend" else JobState.FAILED
    ended = mill.jobs.move(
        job.id,
        job.run,
        state,
        sources=(JobState.QUEUED, JobState.RUNNING),
        now=now,
        due=now + EVENT_GRACE_MS,
        event_pending=True,
        heirs_pending=state.ended or None,
        completed_time=now if state.ended else None,
        notes="; ".join(f"step {step.name}: {step.notes}" for step in failed[:5])[:2000] or None,
        last_failed=next((step.last_failed for step in failed if step.last_failed), None),
    )
    if ended:
        announce(mill, ended, now)


def expire(mill: Mill, job: JobRow, notes: str, now: int) -> None:
    """End a Job that waited too long for others."""
    end_early(mill, job, JobState.FAILED, (JobState.WAITING,), notes, now)
    mill.runs.delete_edges(job)


def end_early(
    mill: Mill,
    job: JobRow,
    state: JobState,
    sources: tuple[JobState, ...],
    notes: str,
    now: int,
    *,
    actor: str = ENGINE,
    tell: bool = True,
) -> JobRow | None:
    """End a Job before its steps have; None if it was in none of the states to end it from.

    `tell`: at once; a caller that has more to do before it is told does that itself.
    """
    ended = mill.jobs.move(
        job.id,
        job.run,
        state,
        sources=sources,
        now=now,
        due=now + EVENT_GRACE_MS,
        event_pending=True,
        heirs_pending=True,
        completed_time=now,
        actor=actor,
        notes=notes[:2000],
        parked=None,
        let_finish=None,
    )
    if ended and tell:
        announce(mill, ended, now)
    return ended


def announce(mill: Mill, job: JobRow, now: int) -> None:
    """Let the next Job have its slot, tell the bus how this one ended, and note that it was told.

    Those who wait for it hear of it from the bus; if they do not, the tick tells them.
    """
    concurrency.release_slot(mill, job, now)
    kind = JOB_ENDED if job.state.ended else JOB_SUSPENDED
    mill.bus.publish(kind, detail_of(mill, job, kind, _since(job)))
    mill.jobs.event_published(job.id, job.run, due=now + DEPENDENTS_GRACE_MS)


def detail_of(mill: Mill, job: JobRow, kind: str, time: int) -> dict[str, Any]:
    """What an event says of a Job as a whole; told again, it says the same. `time`: when it came about."""
    detail = {
        **_names(job),
        "stack": mill.settings.stack,
        "definitionVersion": job.version,
        "state": job.state.value,
        "time": from_ms(time).isoformat(timespec="milliseconds"),
        "dataTime": from_ms(job.moment).isoformat(),
        "lastFailed": job.last_failed or None,
        "notes": job.notes,
    }
    return {**detail, "notify": True} if occasion_of(kind, job.state) in job.notify else detail


def _since(job: JobRow) -> int:
    """When a Job came into its present state; its history also has what happened to it there."""
    since = job.update_time
    for change in map(Change.decode, reversed(job.history)):
        if (change.state, change.run) != (job.state.value, job.run):
            break
        since = change.time
    return since


def announce_step(mill: Mill, job: JobRow, step: StepRow) -> None:
    """Tell the bus how a step ended; a repeat says the same again."""
    detail = {
        **_names(job),
        "stepName": step.name,
        "state": step.state.value,
        "total": step.total,
        "failed": step.failed,
        "lastFailed": step.last_failed or None,
        "notes": step.notes,
    }
    mill.bus.publish_best_effort(STEP_ENDED, detail)


def _names(job: JobRow) -> dict[str, Any]:
    return {
        "schemaVersion": SCHEMA_VERSION,
        "jobName": job.job_name,
        "trigger": job.trigger,
        "jobId": job.id,
        "jid": job.jid,
        "run": job.run,
        "scheduleId": job.schedule_id or None,
    }


def fail_job(mill: Mill, job_id: str, run: int, cause: str, now: int) -> None:
    """End a Job that could not be planned."""
    job = mill.jobs.get(job_id)
    if job and job.run == run:
        sources = (JobState.INIT, JobState.WAITING, JobState.QUEUED)
        end_early(mill, job, JobState.FAILED, sources, f"the job could not be planned: {cause}"[:1000], now)
