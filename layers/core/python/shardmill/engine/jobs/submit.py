"""Submit a Job: check a JobRequest and create at most one Job per (jobName, trigger)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardmill.engine.access.limits import create_job
from shardmill.engine.conflict import Attempts
from shardmill.engine.errors import (
    DefinitionNotFound,
    DefinitionSuspended,
    TriggerTaken,
)
from shardmill.engine.jobs import dependencies, unique
from shardmill.engine.jobs.dependencies import start_job
from shardmill.engine.jobs.effective import (
    BoundGroups,
    effective_steps,
    ignored_steps,
    read_bound_groups,
    tasks_known_before,
)
from shardmill.engine.jobs.runnable import check_runnable, invalid_request
from shardmill.engine.jobs.start_times import start_due, waiting, with_deadline
from shardmill.engine.jobs.submit_scope import (
    check_definition_scope,
    check_existing_scope,
    check_job_scope,
)
from shardmill.engine.mill import Mill
from shardmill.engine.private_values import seal_data_token
from shardmill.model.actor import Actor
from shardmill.model.definition.fields import JobDefine, StepDefine
from shardmill.model.fault import fault
from shardmill.model.history import Change
from shardmill.model.notify import occasions
from shardmill.model.request import JobRequest, check_request
from shardmill.model.states import JobState
from shardmill.model.timestamps import to_ms
from shardmill.store.definitions import Definition
from shardmill.store.rows import JobRow
from shardmill.store.update import Item

_TRIES = 20


@dataclass(frozen=True, slots=True)
class Submitted:
    """A Job; `steps` are the steps of a new Job, with their effective settings."""

    job: JobRow
    new: bool
    steps: Sequence[StepDefine] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """The schedule, backfill or parents that create a Job.

    `on_time`: the schedule's time has just come, so the deadline counts from the dataTime.
    `by_parents`: its parents start it; it may wait until the end of its windows, and `expiredSeconds` longer.
    `parents`: the dataTimes of the runs of parents that count, where they differ from the Job's own.
    `done`: the dataTimes of the runs that succeeded and were deleted or run again since.
    """

    schedule_id: str = ""
    timezone: str = ""
    after: str = ""
    replaces: str = ""
    backfill: int = 0
    on_time: bool = False
    by_parents: bool = False
    parents: Mapping[str, int] = field(default_factory=dict)
    done: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class BatchReads:
    """Rows that the requests of a batch read only once: definitions, and the groups bound to step types."""

    definitions: dict[str, Definition | None] = field(default_factory=dict)
    bound: BoundGroups | None = None

    def definition(self, mill: Mill, job_name: str) -> Definition | None:
        if job_name not in self.definitions:
            self.definitions[job_name] = mill.definitions.find(job_name)
        return self.definitions[job_name]

    def bound_groups(self, mill: Mill, define: JobDefine) -> BoundGroups:
        if self.bound is None and not all(step.worker_groups for step in define.steps):
            self.bound = read_bound_groups(mill)
        return self.bound or {}


def submit(
    mill: Mill,
    document: object,
    actor: Actor,
    *,
    now: int,
    new_id: Callable[[], str],
    default_trigger: str | None = None,
    origin: Origin | None = None,
    reads: BatchReads | None = None,
) -> Submitted:
    """Create a Job, or return the existing one if the same request was submitted before.

    Raises TriggerTaken if the trigger was used with other content. `default_trigger`: for callers such as
    EventBridge rules, whose requests need not have a trigger. `reads`: shared by the requests of a batch.
    """
    reads = reads or BatchReads()
    if default_trigger and isinstance(document, dict):
        document = {"trigger": default_trigger, **document}
    request = check(document)
    check_definition_scope(mill, request.job_name, actor)
    existing = find_existing(mill, request, actor)
    if existing:
        return Submitted(existing, new=False)
    saved = reads.definition(mill, request.job_name)
    if not saved:
        raise DefinitionNotFound(request.job_name)
    job, steps = build_job(
        mill, document, saved, actor, now=now, job_id=new_id(), origin=origin or Origin(), reads=reads
    )
    if request.files:
        from shardmill.engine.files import uploads  # few Jobs have files

        uploads.check(mill, request.files, actor)
    job = job.evolve(jid=mill.job_numbers.next(now))
    present = _create(mill, job, request, actor, now)
    if present.id == job.id:
        return Submitted(present, new=True, steps=steps)
    return Submitted(present, new=False)


def _create(mill: Mill, job: JobRow, request: JobRequest, actor: Actor, now: int) -> JobRow:
    """Create a Job and start it; return it, or the one that the same request created concurrently."""
    attempts = Attempts(f"the trigger {request.trigger!r}", _TRIES)
    secrets = _secrets(mill, job, request)
    while True:
        attempts.begin()
        if create_job(mill, job, due=start_due(job, now), also=secrets, actor=actor):
            start_job(mill, job, now)
            return job
        concurrent = find_existing(mill, request, actor)
        if concurrent:
            return concurrent
        if job.unique:
            job = unique.claim(mill, job)


def _secrets(mill: Mill, job: JobRow, request: JobRequest) -> list[Item]:
    if not request.data_token:
        return []
    return [mill.data_tokens.creation(job.id, seal_data_token(mill, job.id, request.data_token))]


def build_job(
    mill: Mill,
    document: object,
    saved: Definition,
    actor: Actor,
    *,
    now: int,
    job_id: str,
    origin: Origin,
    reads: BatchReads,
) -> tuple[JobRow, list[StepDefine]]:
    """Return the Job of a request, and its steps with their effective settings, without writing it.

    Raises RequestInvalid if it could not run, and AliveInstance if it would be a second live one.

    `reads`: shared by the requests of a batch.
    """
    if saved.suspended:
        raise DefinitionSuspended(saved.job_name, saved.suspended)
    define = JobDefine.model_validate(saved.document)
    request = check(document, define)
    job = _job(request, define, saved.version, request_hash(request), actor, now=now, job_id=job_id)
    job = job.evolve(
        schedule_id=origin.schedule_id,
        timezone=origin.timezone,
        backfill=origin.backfill,
        after=origin.after,
        replaces=origin.replaces,
    )
    job = with_deadline(job, define, max(job.moment if origin.on_time else now, job.not_before or 0))
    bound = reads.bound_groups(mill, define)
    types = {step.type for step in define.steps}
    job = job.evolve(bound={kind: names for kind, names in bound.items() if kind in types})
    specs = effective_steps(define, job, bound)
    ignored = ignored_steps(job)
    run = [spec for spec in specs if spec.step_name not in ignored]
    counted = tasks_known_before(run) if mill.settings.limits.any else None
    job = job.evolve(groups={name for spec in run for name in spec.worker_groups}, counted_tasks=counted)
    check_job_scope(job, actor)
    check_runnable(mill, job, run, now)
    if define.unique_alive_instance:
        job = unique.claim(mill, job)
    expected = dependencies.expected_runs(mill, define, job, origin.parents, origin.done)
    windows_end = max([now, *(each["to"] for each in expected)]) if origin.by_parents else now
    return waiting(job, expected, windows_end + define.expired_seconds * 1000, now), specs


def request_hash(request: JobRequest) -> str:
    """Return a hash of the request that does not depend on its spelling or the order of fields and steps."""
    return _hash(request.model_copy(update={"steps": sorted(request.steps, key=lambda each: each.step_name)}))


def _hash(request: JobRequest) -> str:
    document = request.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def check(document: object, define: JobDefine | None = None) -> JobRequest:
    """Parse a JobRequest. Raises RequestInvalid with all its faults."""
    request, faults = check_request(document, define)
    if not request:
        raise invalid_request(faults)
    if request.trigger is None:
        text = "is required: it names this run of the job"
        raise invalid_request([fault(("trigger",), "missing-field", text)])
    return request


def find_existing(mill: Mill, request: JobRequest, actor: Actor) -> JobRow | None:
    """Return the Job that the same request created; raises TriggerTaken if the request was another one.

    Raises it also for a Job that the actor may not see.
    """
    assert request.trigger is not None
    found = mill.jobs.identity(request.job_name, request.trigger)
    if not found:
        return None
    job_id, known = found
    if known not in (request_hash(request), _hash(request)):  # earlier releases kept the order of steps
        raise TriggerTaken(request.job_name, request.trigger)
    job = mill.jobs.get(job_id)
    if job:
        check_existing_scope(job, actor)
    return job


def _job(
    request: JobRequest,
    define: JobDefine,
    version: int,
    digest: str,
    actor: Actor,
    *,
    now: int,
    job_id: str,
) -> JobRow:
    info: dict[str, Any] = define.info.model_dump(mode="json", exclude_defaults=True)
    if request.info:
        info |= request.info.model_dump(mode="json", exclude_unset=True)
    if request.data_token and not info.get("auth"):
        text = "is only for Jobs with info.auth true, in the definition or in the request"
        raise invalid_request([fault(("dataToken",), "bad-value", text)])
    return JobRow(
        id=job_id,
        jid=0,
        job_name=request.job_name,
        trigger=request.trigger or "",
        version=version,
        state=JobState.INIT,
        request_hash=digest,
        create_time=now,
        update_time=now,
        request=request.model_dump(mode="json", exclude_none=True, exclude_unset=True),
        params={**define.params, **request.params},
        info=info,
        has_token=request.data_token is not None,
        priority=request.priority if request.priority is not None else define.priority,
        on_failure=define.on_failure,
        concurrency=define.concurrency,
        retention_days=define.retention_days,
        notify=occasions(define.notify),
        app_name=define.app_name or "",
        submit_user=actor.name,
        execute_user=request.execute_user or define.execute_user or "",
        data_time=to_ms(request.data_time) if request.data_time else None,
        not_before=to_ms(request.after) if request.after else None,
        files_pending=bool(request.files),
        history=[Change(now, JobState.INIT.value, 1, actor.name, "submitted").encode()],
    )
