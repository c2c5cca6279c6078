"""End a Job: write its final state, then publish the event."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from shardmill.engine.conflict import Attempts
from shardmill.engine.continuation import continue_soon
from shardmill.engine.files.keys import files_of
from shardmill.engine.mill import Mill
from shardmill.engine.running import concurrency
from shardmill.model.errors import Transient
from shardmill.model.history import ENGINE, Change
from shardmill.model.states import JobState, StepState, occasion_of
from shardmill.model.timestamps import from_ms
from shardmill.store.rows import JobRow, StepRow

EVENT_GRACE_MS = 60_000
DEPENDENTS_GRACE_MS = 120_000
JOB_ENDED = "Job Ended"
JOB_SUSPENDED = "Job Suspended"
STEP_ENDED = "Step Ended"
SCHEMA_VERSION = 1


def end_job(mill: Mill, job: JobRow, now: int) -> None:
    """Set the final state of a Job whose steps have all ended; no-op if it is set already."""
    steps = [node for node in mill.jobs.steps(job.id, job.run) if node.kind == "step"]
    if any(not step.state.ended or step.end_interrupted for step in steps):
        return  # the last steps were forced to end before their upstream steps, or their tasks have not ended
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
    """Fail a Job whose dependencies were not met in time."""
    first = job.run == 1
    if end_early(mill, job, JobState.FAILED, (JobState.WAITING,), notes, now, only_unmet=True, publish=first):
        mill.runs.delete_edges(job)
        if not first:
            continue_soon(mill, job.id, now)  # steps of the run before may not have ended


def end_early(
    mill: Mill,
    job: JobRow,
    state: JobState,
    sources: tuple[JobState, ...],
    notes: str,
    now: int,
    *,
    actor: str = ENGINE,
    publish: bool = True,
    only_unmet: bool = False,
) -> JobRow | None:
    """End a Job before its steps end; return None if it is in none of the `sources` states.

    With `publish=False` the caller must call `announce` after it has ended the steps. `only_unmet`: only
    while it waits for other Jobs.
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
        notifying=None,
        completed_time=now,
        actor=actor,
        notes=notes[:2000],
        only_unmet=only_unmet,
        parked=None,
        let_finish=None,
    )
    if ended and publish:
        announce(mill, ended, now)
    return ended


def announce(mill: Mill, job: JobRow, now: int) -> None:
    """Publish how a Job ended or that it is suspended, release its slot, and record that the event was sent.

    The event notifies the dependent Jobs, if there are any; if it is lost, the tick does.
    """
    kind = JOB_ENDED if job.state.ended else JOB_SUSPENDED
    detail = detail_of(mill, job, kind, _state_since(job))
    alone = kind == JOB_ENDED and not _has_dependents(mill, job)
    mill.bus.publish(kind, detail if alone or kind == JOB_SUSPENDED else {**detail, "dependents": True})
    concurrency.release_slot(mill, job, now)
    release_use(mill, job)
    mill.jobs.event_published(job, due=now + DEPENDENTS_GRACE_MS, notified=alone)


def _has_dependents(mill: Mill, job: JobRow) -> bool:
    """Return whether anything may depend on the end of a Job; also if that cannot be read now.

    The end was written before: a Job that begins to wait for it after this sees the end itself.
    """
    if job.with_dependents or job.backfill or job.renews or job.owed:
        return True
    try:
        if mill.runs.may_be_awaited(job.job_name, job.moment):
            return True
        return job.state is JobState.SUCCESS and mill.definitions.has_children(job.job_name)
    except (ClientError, BotoCoreError, Transient):
        return True


def release_use(mill: Mill, job: JobRow) -> None:
    """Stop counting a Job that has ended against the limits of its application; once for each run.

    Its files count from now on, if there is a limit of their bytes.
    """
    attempts = Attempts(f"the use of the Job {job.id}")
    present: JobRow | None = job
    while present and present.run == job.run and present.state.ended and present.counted_tasks is not None:
        attempts.begin()
        stored = mill.files.stored_bytes(files_of(job.id)) if mill.settings.limits.bytes else None
        if mill.usage.release_job(present, stored):
            return
        present = mill.jobs.get(job.id)


def detail_of(mill: Mill, job: JobRow, kind: str, time: int) -> dict[str, Any]:
    """Return the detail of an event about a Job, the same each time it is sent; `time`: when it happened."""
    detail = {
        **_identity(job),
        "stack": mill.settings.stack,
        "definitionVersion": job.version,
        "state": job.state.value,
        "time": from_ms(time).isoformat(timespec="milliseconds"),
        "dataTime": from_ms(job.moment).isoformat(),
        "lastFailed": job.last_failed or None,
        "notes": job.notes,
    }
    return {**detail, "notify": True} if occasion_of(kind, job.state) in job.notify else detail


def _state_since(job: JobRow) -> int:
    """Return when a Job entered its present state; later entries of its history may repeat the state."""
    since = job.update_time
    for change in map(Change.decode, reversed(job.history)):
        if (change.state, change.run) != (job.state.value, job.run):
            break
        since = change.time
    return since


def announce_step(mill: Mill, job: JobRow, step: StepRow) -> None:
    """Publish how a step ended; a repeated event has the same detail."""
    detail = {
        **_identity(job),
        "stepName": step.name,
        "state": step.state.value,
        "total": step.total,
        "failed": step.failed,
        "lastFailed": step.last_failed or None,
        "notes": step.notes,
    }
    mill.bus.publish_best_effort(STEP_ENDED, detail)


def _identity(job: JobRow) -> dict[str, Any]:
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
    """Fail a Job that could not be planned.

    A Job that is QUEUED has all its steps, and some may run: it continues; the tick starts the missing steps.
    """
    job = mill.jobs.get(job_id)
    if job and job.run == run:
        notes = f"the job could not be planned: {cause}"[:1000]
        sources = (JobState.INIT, JobState.WAITING)
        has_steps = job.run > 1 or mill.jobs.step(job_id, run, 0) is not None
        if end_early(mill, job, JobState.FAILED, sources, notes, now, publish=not has_steps) and has_steps:
            continue_soon(mill, job_id, now)  # ends the steps that there are, then publishes the end
