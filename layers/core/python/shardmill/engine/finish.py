"""The end of a Job: its state first, then the event."""

from __future__ import annotations

from shardmill.engine import slots
from shardmill.engine.mill import Mill
from shardmill.model.base import from_ms
from shardmill.model.states import JobState, StepState
from shardmill.store.rows import JobRow

EVENT_GRACE_MS = 60_000
JOB_ENDED = "Job Ended"
JOB_SUSPENDED = "Job Suspended"
SCHEMA_VERSION = 1


def end_job(mill: Mill, job: JobRow, now: int) -> None:
    """Judge a Job whose steps have all ended; somebody who judged it before is left in peace."""
    failed = [step for step in mill.jobs.steps(job.id, job.run) if step.state is StepState.FAILED]
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
        completed_time=now if state.ended else None,
        notes="; ".join(f"step {step.name}: {step.notes}" for step in failed[:5])[:2000] or None,
        last_failed=next((step.last_failed for step in failed if step.last_failed), None),
    )
    if ended:
        announce(mill, ended, now)


def announce(mill: Mill, job: JobRow, now: int) -> None:
    """Let the next Job have its slot, tell the bus how this one ended, and note that it was told."""
    slots.give_back(mill, job, now)
    mill.bus.publish(
        JOB_ENDED if job.state.ended else JOB_SUSPENDED,
        {
            "schemaVersion": SCHEMA_VERSION,
            "jobName": job.job_name,
            "trigger": job.trigger,
            "jobId": job.id,
            "jid": job.jid,
            "run": job.run,
            "state": job.state.value,
            "dataTime": from_ms(job.data_time).isoformat() if job.data_time is not None else None,
            "lastFailed": job.last_failed or None,
        },
    )
    mill.jobs.event_sent(job.id, job.run)
