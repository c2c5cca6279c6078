"""/v1/schedules: schedules, their times, firings and backfills."""

from __future__ import annotations

from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Header, Path, Query

from shardmill.api import pagination
from shardmill.api.pagination import Cursor, Limit, Page
from shardmill.api.responses import (
    JSON,
    DryRun,
    actor,
    etag,
    expected_version,
    job_response,
    no_content,
    now,
    visible,
)
from shardmill.aws.clock import new_id
from shardmill.engine.errors import DefinitionNotFound, ScheduleNotFound
from shardmill.engine.mill import mill
from shardmill.engine.schedules import backfill, backfill_times, fire, manage
from shardmill.engine.views import jobs
from shardmill.model.base import Time, is_name
from shardmill.model.job import Job
from shardmill.model.time.backfill import Backfill, BackfillEffect, BackfillRequest
from shardmill.model.time.schedule import FireRequest, SavedSchedule, UpcomingTimes
from shardmill.model.timestamps import to_ms
from shardmill.store.rows import ScheduleRow

MAX_TIMES = 1_000
MAX_SCHEDULES_SCANNED = 2_000
LISTED_HISTORY = 1

Document = Annotated[Any, Body(description="a Schedule")]
IfMatch = Annotated[
    str | None, Header(alias="if-match", description="the ETag that the current version must have")
]
IfNoneMatch = Annotated[
    str | None, Header(alias="if-none-match", description="`*`: only if it does not exist")
]
Number = Annotated[int, Path(ge=1, lt=10**6, description="number of the backfill")]


def _answer(row: ScheduleRow, status: int = 200) -> Response[SavedSchedule]:
    headers = {"etag": etag(row.version), "location": f"/v1/schedules/{row.job_name}/{row.id}"}
    return Response(status_code=status, content_type=JSON, body=manage.view(row), headers=headers)


def save(
    job_name: str,
    schedule_id: str,
    document: Document,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response[SavedSchedule]:
    """Save a schedule. If its times are unchanged it continues where it was, else it starts from now."""
    expected = expected_version(if_match, if_none_match)
    row = manage.save(mill(), job_name, schedule_id, document, actor(), now=now(), expected=expected)
    return _answer(row, 201 if row.version == 1 else 200)


def read(job_name: str, schedule_id: str) -> Response[SavedSchedule]:
    """Get a schedule with its last firings."""
    return _answer(manage.read(mill(), job_name, schedule_id))


def delete(job_name: str, schedule_id: str, if_match: IfMatch = None) -> Response[None]:
    """Delete a schedule; Jobs that it started continue."""
    manage.delete(mill(), job_name, schedule_id, now(), expected=expected_version(if_match, None))
    return no_content()


def list_schedules(limit: Limit = pagination.DEFAULT_LIMIT, cursor: Cursor = None) -> Page[SavedSchedule]:
    """List schedules by job and id, with their last firing."""
    place = pagination.decode_cursor(cursor, list)
    rows = mill().schedules.page(after=(str(place[0]), str(place[-1])) if place else None, limit=limit + 1)
    seen = visible()
    found = (
        (list(row.key), manage.view(row, history=LISTED_HISTORY) if is_seen else None)
        for row, is_seen in seen.of_definitions(rows)
    )
    return pagination.page(found, limit, max_scanned=MAX_SCHEDULES_SCANNED, look_ahead=not seen.all)


def list_of_job(
    job_name: str, limit: Limit = pagination.DEFAULT_LIMIT, cursor: Cursor = None
) -> Page[SavedSchedule]:
    """List the schedules of a definition by id, with their last firing."""
    if not is_name(job_name):
        raise DefinitionNotFound(job_name)
    after = pagination.decode_cursor(cursor, str) or ""
    rows = (row for row in mill().schedules.of_job(job_name) if row.id > after)
    found = ((row.id, manage.view(row, history=LISTED_HISTORY)) for row in rows)
    return pagination.page(found, limit)


def coming(
    job_name: str,
    schedule_id: str,
    count: Annotated[int | None, Query(ge=1, le=MAX_TIMES, description="the older name of limit")] = None,
    from_: Annotated[
        Time | None, Query(alias="from", description="after this time; now unless given")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_TIMES, description="maximum number of times")] = 10,
    cursor: Cursor = None,
) -> UpcomingTimes:
    """The coming times of a schedule, even if it is off, and a description in words."""
    row = manage.read(mill(), job_name, schedule_id)
    first = now() if from_ is None else to_ms(from_)
    after = pagination.decode_cursor(cursor, int)
    found = manage.upcoming_times(row, (count or limit) + 1, first if after is None else after)
    page = pagination.page(((to_ms(when.utc), when) for when in found.items), count or limit)
    return found.model_copy(update={"items": page.items, "cursor": page.cursor})


def fire_now(
    job_name: str, schedule_id: str, request: Annotated[FireRequest | None, Body()] = None
) -> Response[Job]:
    """Start a Job of a schedule now, without changing its times."""
    row = manage.read(mill(), job_name, schedule_id)
    job, new = fire.fire_now(mill(), row, request or FireRequest(), actor(), now(), new_id)
    headers = {"location": f"/v1/jobs/{job.job_name}/{job.trigger}"}
    return Response(202 if new else 200, JSON, job_response(jobs.job_view(mill(), job, now())), headers)


def start_backfill(
    job_name: str, schedule_id: str, request: Annotated[BackfillRequest, Body()], dry_run: DryRun = False
) -> Response[Backfill | BackfillEffect]:
    """Run a range or a list of past times: one Job each, with limited concurrency."""
    row = manage.read(mill(), job_name, schedule_id)
    backfill.check_scope(mill(), row, actor())
    if dry_run:
        return Response(200, JSON, backfill_times.dry_run(row, request, now()))
    begun = backfill.begin(mill(), row, request, actor(), now(), new_id)
    headers = {"location": f"/v1/schedules/{job_name}/{schedule_id}/backfills/{begun.number}"}
    return Response(202, JSON, backfill.view(begun), headers)


def list_backfills(
    job_name: str, schedule_id: str, limit: Limit = pagination.DEFAULT_LIMIT, cursor: Cursor = None
) -> Page[Backfill]:
    """List the backfills of a schedule, newest first."""
    if not (is_name(job_name) and is_name(schedule_id)):
        raise ScheduleNotFound(job_name, schedule_id)
    before = pagination.decode_cursor(cursor, int) or 10**6
    rows = mill().schedules.backfills(job_name, schedule_id, limit=limit + 1)
    found = ((row.number, backfill.view(row)) for row in rows if row.number < before)
    return pagination.page(found, limit)


def read_backfill(job_name: str, schedule_id: str, number: Number) -> Backfill:
    """Get the progress of a backfill."""
    return backfill.view(backfill.read(mill(), (job_name, schedule_id, number)))


def stop_backfill(job_name: str, schedule_id: str, number: Number) -> Backfill:
    """Stop a backfill: it starts no more Jobs; running Jobs continue."""
    return backfill.view(backfill.stop(mill(), (job_name, schedule_id, number), actor(), now()))
