"""Submit a Job: check a JobRequest and create at most one Job per (jobName, trigger)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from shardmill.engine.conflict import Attempts
from shardmill.engine.errors import (
    DefinitionNotFound,
    DefinitionSuspended,
    RequestInvalid,
    TriggerTaken,
)
from shardmill.engine.groups.matching import group_rows
from shardmill.engine.jobs import dependencies
from shardmill.engine.jobs.dependencies import START_GRACE_MS, start_job
from shardmill.engine.jobs.effective import BoundGroups, bound_groups_for, effective_steps
from shardmill.engine.mill import Mill
from shardmill.engine.tasks.work_item import check_renders, describe_error
from shardmill.model.actor import Actor
from shardmill.model.base import to_ms
from shardmill.model.definition.fields import JobDefine, StepDefine
from shardmill.model.fault import Fault, fault
from shardmill.model.history import Change
from shardmill.model.job import JobRequest, check_request
from shardmill.model.notify import occasions
from shardmill.model.states import JobState
from shardmill.model.templates.render import TemplateError
from shardmill.model.time.deadline import deadline
from shardmill.store.definitions import Definition
from shardmill.store.rows import JobRow

EVENTBRIDGE = "eventbridge"
MAX_ROW_BYTES = 220_000  # of 400 KB; the rest is for changes, reruns and the history
MAX_STEP_BYTES = 300_000
MAX_JOB_BYTES = 4_000_000
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Submitted:
    """A Job; `steps` are those of a new one, with their effective settings."""

    job: JobRow
    new: bool
    steps: Sequence[StepDefine] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """The schedule or backfill that creates a Job.

    `on_time`: the schedule's time has just come, so the deadline counts from the dataTime.
    """

    schedule_id: str = ""
    timezone: str = ""
    after: str = ""
    replaces: str = ""
    backfill: int = 0
    on_time: bool = False


def submit(
    mill: Mill,
    document: object,
    actor: Actor,
    *,
    now: int,
    new_id: Callable[[], str],
    default_trigger: str | None = None,
    origin: Origin | None = None,
) -> Submitted:
    """Create a Job, or return the existing one if the same request was submitted before.

    Raises TriggerTaken if the trigger was used with other content. `default_trigger`: for callers such as
    EventBridge rules, whose requests need not have a trigger.
    """
    if default_trigger and isinstance(document, dict):
        document = {"trigger": default_trigger, **document}
    request = check(document)
    existing = find_existing(mill, request)
    if existing:
        return Submitted(existing, new=False)
    saved = mill.definitions.find(request.job_name)
    if not saved:
        raise DefinitionNotFound(request.job_name)
    job, steps = build_job(mill, document, saved, actor, now=now, job_id=new_id(), origin=origin or Origin())
    if request.files:
        from shardmill.engine.files import uploads  # few Jobs have files

        uploads.claim(mill, job, request.files, actor)
    job = job.evolve(jid=mill.job_numbers.next(now))
    attempts = Attempts(f"the trigger {request.trigger!r}", _TRIES)
    while True:
        attempts.begin()
        if mill.jobs.create(job, due=now + START_GRACE_MS):
            start_job(mill, job, now)
            return Submitted(job, new=True, steps=steps)
        concurrent = find_existing(mill, request)
        if concurrent:
            if request.files:
                uploads.discard(mill, job)
            return Submitted(concurrent, new=False)


def build_job(
    mill: Mill,
    document: object,
    saved: Definition,
    actor: Actor,
    *,
    now: int,
    job_id: str,
    origin: Origin,
    bound: BoundGroups | None = None,
) -> tuple[JobRow, list[StepDefine]]:
    """Return the Job of a request, and its steps with their effective settings, without writing it.

    Raises RequestInvalid if it could not run.

    `bound`: the groups that step types are bound to, if the caller has read them.
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
    job = _with_deadline(job, define, job.moment if origin.on_time else now)
    if bound is None:
        bound = bound_groups_for(mill, define)
    specs = effective_steps(define, job, bound)
    job = job.evolve(groups={name for spec in specs for name in spec.worker_groups})
    _check_runnable(mill, define, job, specs, now)
    expected = dependencies.expected_runs(mill, define, job)
    if not expected:
        return job, specs
    expires = now + define.expired_seconds * 1000
    return job.evolve(expected=expected, state=JobState.WAITING, unmet=True, expires=expires), specs


def _with_deadline(job: JobRow, define: JobDefine, start: int) -> JobRow:
    """Set the deadline; a time of day applies only to jobs of a schedule, which has a time zone."""
    seconds, time_of_day = define.deadline_seconds, (define.deadline_time or "") if job.schedule_id else ""
    at = deadline(start, seconds, time_of_day, job.timezone)
    return job.evolve(
        deadline_seconds=seconds,
        deadline_time=time_of_day,
        deadline=at,
        on_deadline=define.on_deadline if at is not None else "",
    )


def request_hash(request: JobRequest) -> str:
    """Return a hash of the request that does not depend on the order of its fields."""
    document = request.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def check(document: object, define: JobDefine | None = None) -> JobRequest:
    """Parse a JobRequest. Raises RequestInvalid with all its faults."""
    request, faults = check_request(document, define)
    if not request:
        raise _invalid(faults)
    if request.trigger is None:
        raise _invalid([fault(("trigger",), "missing-field", "is required: it names this run of the job")])
    return request


def _invalid(faults: list[Fault]) -> RequestInvalid:
    return RequestInvalid("the JobRequest is not valid", faults=[each.model_dump() for each in faults])


def find_existing(mill: Mill, request: JobRequest) -> JobRow | None:
    """Return the Job that the same request created; raises TriggerTaken if the request was another one."""
    assert request.trigger is not None
    found = mill.jobs.identity(request.job_name, request.trigger)
    if not found:
        return None
    job_id, known = found
    if known != request_hash(request):
        raise TriggerTaken(request.job_name, request.trigger)
    return mill.jobs.get(job_id)


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
        priority=request.priority if request.priority is not None else define.priority,
        on_failure=define.on_failure,
        concurrency=define.concurrency,
        retention_days=define.retention_days,
        notify=occasions(define.notify),
        app_name=define.app_name or "",
        submit_user=actor.name,
        execute_user=request.execute_user or define.execute_user or "",
        data_time=to_ms(request.data_time) if request.data_time else None,
        history=[Change(now, JobState.INIT.value, 1, actor.name, "submitted").encode()],
    )


def _check_runnable(
    mill: Mill, define: JobDefine, job: JobRow, specs: Sequence[StepDefine], now: int
) -> None:
    """Raise RequestInvalid with everything that would keep the Job from running."""
    faults: list[Fault] = []
    missing = job.groups - set(group_rows(mill, job.groups, now))
    for name in sorted(missing):
        step = next(spec.step_name for spec in specs if name in spec.worker_groups)
        text = f"step {step!r} needs the worker group {name!r}; create it with PUT /v1/groups/{name}"
        faults.append(fault(("jobName",), "unknown-group", text))
    faults += _file_faults(define, job)
    whole, given = 0, len(json.dumps(job.request.get("files", [])))
    for spec in specs:
        try:
            check_renders(spec, job)
        except (TemplateError, ValidationError) as error:
            faults.append(
                fault(("params",), "bad-template", f"step {spec.step_name}: {describe_error(error)}")
            )
        size = len(spec.model_dump_json().encode())
        whole += size
        if size + given > MAX_STEP_BYTES:
            text = (
                f"step {spec.step_name} has {size + given} bytes with its parameters and the list of files; "
                f"the maximum is {MAX_STEP_BYTES}"
            )
            faults.append(fault((), "step-too-large", text))
    if whole > MAX_JOB_BYTES:
        text = f"the steps have {whole} bytes with their parameters; the maximum is {MAX_JOB_BYTES}"
        faults.append(fault(("params",), "job-too-large", text))
    if job.stored_bytes > MAX_ROW_BYTES:
        text = f"the request and its parameters have {job.stored_bytes} bytes; the maximum is {MAX_ROW_BYTES}"
        faults.append(fault(("params",), "job-too-large", text))
    if faults:
        raise _invalid(faults)


def _file_faults(define: JobDefine, job: JobRow) -> Iterator[Fault]:
    """Yield a fault for each input that is missing from the request, and each file that no step reads."""
    read = [(step, file) for step in define.steps for file in (*step.inputs, *step.predata)]
    given = [each["name"] for each in job.request.get("files", [])]
    known = {file.name for _, file in read if not file.origin}
    for step, file in read:
        sourced = file.url or file.s3 or file.origin or file.optional or "{{" in file.name
        if not sourced and file.name not in given:
            text = f"step {step.step_name!r} reads a file {file.name!r} that must come with the Job"
            yield fault(("files",), "missing-file", text)
    for at, name in enumerate(given):
        if name not in known and not any("{{" in each for each in known):
            yield fault(("files", at, "name"), "unknown-file", f"no step reads a file {name[:64]!r}")
        elif name in given[:at]:
            yield fault(("files", at, "name"), "duplicate-file", "duplicate file name")


def request_from_event(event: Any, request_id: str) -> tuple[object, str, str]:
    """Return the JobRequest of an event, a default trigger, and the name of the submitter.

    An EventBridge event has the request in `detail`, and its id, the same in every delivery, is the trigger.
    Any other event is the request itself.
    """
    if isinstance(event, dict) and "detail-type" in event and "detail" in event:
        return event["detail"], str(event.get("id") or request_id), EVENTBRIDGE
    return event, request_id, EVENTBRIDGE
